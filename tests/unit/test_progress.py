"""Nothing that takes long is silent."""

from ease_lib import progress
from ease_lib.progress import Counted


def test_a_line_is_logged_while_there_is_more_to_come_and_each_part_is_told(monkeypatch, caplog):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    told = []
    counted = Counted("texts embedded", 2500, lambda done, total: told.append((done, total)))
    with caplog.at_level("INFO", logger="ease"):
        for _ in range(3):
            counted.add(1000)
    assert caplog.messages == ["texts embedded: 1 000 of 2 500", "texts embedded: 2 000 of 2 500"]
    assert [done for done, _ in told] == [1000, 2000, 3000]


def test_no_line_is_logged_of_what_is_done_soon(caplog):
    with caplog.at_level("INFO", logger="ease"):
        assert list(Counted("rows", 3).over("abc")) == ["a", "b", "c"]
    assert not caplog.messages


def test_an_item_counts_once_it_was_worked_on():
    told = []
    counted = Counted("rows", 2, lambda done, total: told.append(done))
    for item in counted.over("ab"):
        assert len(told) == "ab".index(item)
    assert told == [1, 2]
