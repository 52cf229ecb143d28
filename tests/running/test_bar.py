"""The bar at the bottom of a terminal."""

import io
import sys
import time

from ease_lib.running import bar as bar_module
from ease_lib.running.bar import Bar, LinesAbove, counting
from ease_lib.search.search_progress import SearchState


class Terminal(io.StringIO):
    def isatty(self):
        return True


def state(answers, **changed):
    values = {"planned": 400, "best": 0.5, "error": 0.04, "requests": 80, "cost_usd": 0.25}
    return SearchState(answers=answers, **{**values, **changed})


def shown(file, draw):
    with Bar(file) as bar:
        bar._bar.mininterval = 0  # every state is drawn
        draw(bar)
    return file.getvalue()


def test_it_says_stage_answers_incumbent_and_cost():
    def draw(bar):
        bar.stage("rank_pool")
        bar.stage("optimize")
        bar.searched(state(100))
        bar.searched(state(200))

    text = shown(Terminal(), draw)
    assert "rank pool ..." in text
    assert "optimize:  50% |" in text
    assert "200 of 400 answers" in text
    assert "best 0.500 ± 0.040, 80 requests, $0.2500" in text


def test_other_stages_say_how_much_of_their_work_is_done():
    def draw(bar):
        bar.stage("optimize")
        bar.searched(state(100))
        bar.stage("evaluate")
        bar.counted(1, 300)
        bar.counted(150, 300)

    last = shown(Terminal(), draw).rpartition("evaluate: ")[2]
    assert last.startswith(" 50% |")
    assert "150 of 300" in last
    assert "requests" not in last, "those are the search's"


def test_a_command_shows_a_bar_where_it_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for delay, draws in ((60.0, False), (0.0, True)):
        monkeypatch.setattr(bar_module, "DELAY_SECONDS", delay)
        with counting("comparing") as told:
            for number in range(1, 4):
                told(number, 3)
                time.sleep(0.11)  # the bar is drawn ten times a second
        assert ("comparing: " in capsys.readouterr().err) is draws


def test_what_is_not_known_is_left_out():
    def draw(bar):
        bar.searched(state(100, best=None, error=None, cost_usd=0.0))

    text = shown(Terminal(), draw)
    assert "left, 80 requests" in text
    assert "best" not in text
    assert "$" not in text


def test_where_there_is_no_terminal_nothing_is_drawn():
    assert not shown(io.StringIO(), lambda bar: bar.searched(state(100)))


def test_lines_stand_above_it():
    terminal = Terminal()

    def draw(bar):
        bar.stage("optimize")
        LinesAbove(terminal).write("embed: done\n")  # in one, as logging does

    lines = [line.split("\r")[-1] for line in shown(terminal, draw).split("\n")]
    assert "embed: done" in lines
