"""The earlier run that a new one continues, if any."""

from dataclasses import replace

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.under_way import begun, ended

CAPPED = {"max_llm_requests": 5000}


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def ledger(store, **values):
    parameters = parse_parameters({**CAPPED, "store_uri": store.uri, **values})
    return begun(parameters, store, lambda: "").continuation.ledger


@pytest.mark.parametrize(
    "changed",
    [{"max_llm_requests": 9000}, {"llm_failures": "skip"}, {"llm_concurrency": 2}, {"lineage_uri": "elsewhere"}],
)
def test_a_higher_cap_more_tolerance_another_speed_or_place_continue_a_run_with_its_ledger(store, changed):
    assert ledger(store, **changed) == ledger(store)


@pytest.mark.parametrize("changed", [{"seed": 1}, {"budget": 60}, {"llm_max_tokens": 9}])
def test_another_question_is_another_run(store, changed):
    assert ledger(store, **changed) != ledger(store)


def test_a_run_that_ended_is_not_continued(store):
    parameters = parse_parameters({**CAPPED, "store_uri": store.uri})
    first = begun(parameters, store, lambda: "")
    ended(store, first.continuation)
    assert begun(replace(parameters), store, lambda: "").continuation.ledger != first.continuation.ledger


@pytest.mark.parametrize("content", [b"", b"{}", b'{"answers": "g1"}', b'{"ledger": "", "answers": ""}', b"[]"])
def test_a_damaged_entry_is_begun_anew_with_a_ledger_of_its_own(store, content):
    first = ledger(store)
    store.below("under_way").write(first.partition("-")[0], content)
    assert ledger(store) not in ("", first)
