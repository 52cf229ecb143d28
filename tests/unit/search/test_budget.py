"""What one part spends the others see; two at once cannot both take the last of it."""

import threading

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.errors import StoreError
from ease_lib.evaluation.usage import Usage
from ease_lib.search.budget import SEARCH, TEST, Caps, Ledger, Limits, open_ledger


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    return str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3_prefix")


def requests(number):
    return Usage(requests=number)


def test_what_is_booked_is_seen_by_others_and_replaced_by_oneself(store):
    open_ledger(open_store(store), "run").book("proposals", requests(5))
    ledger = open_ledger(open_store(store), "run")
    ledger.book(SEARCH, requests(20))
    ledger.book(SEARCH, requests(30))
    assert ledger.spent().requests == 35
    assert ledger.spent(without=[SEARCH]).requests == 5
    assert open_ledger(open_store(store), "another run").spent() == Usage()


def test_runs_that_share_a_ledger_have_entries_of_their_own(tmp_path):
    first, second = (open_ledger(open_store(str(tmp_path)), f"comparison/{owner}") for owner in ("a", "b"))
    first.book(SEARCH, requests(3))
    second.book(SEARCH, requests(4))
    assert first.spent(without=[SEARCH]).requests == 4
    assert second.spent().requests == 7


def test_without_a_store_it_lasts_as_long_as_its_process():
    ledger = Ledger()
    ledger.book(SEARCH, requests(2))
    assert ledger.spent().requests == 2
    assert open_ledger("", "run").spent() == open_ledger("folder", "").spent() == Usage()


def test_of_many_at_once_no_two_take_the_last(tmp_path):
    """Each wants 10 at a time of 95; the sum of what they were allowed never exceeds it."""
    limits, allowed = Limits(requests=95), []

    def take(owner):
        ledger = open_ledger(open_store(str(tmp_path)), f"comparison/{owner}")
        caps, spent = Caps(limits=limits, evaluation=requests(10), ledger=ledger), Usage()
        while caps.reached(spent, 0.0) is None:
            spent += requests(10)
            allowed.append(10)
        ledger.book(SEARCH, spent)

    threads = [threading.Thread(target=take, args=(str(number),)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(allowed) <= 95
    assert open_ledger(open_store(str(tmp_path)), "comparison").spent().requests <= 95


def test_failed_requests_of_others_count(tmp_path):
    ledger = open_ledger(open_store(str(tmp_path)), "run/other")
    ledger.book(TEST, Usage(requests=10, retries=85))
    caps = Caps(
        limits=Limits(requests=100), evaluation=requests(10), ledger=open_ledger(open_store(str(tmp_path)), "run")
    )
    assert caps.reached(Usage(), 0.0) == "max_llm_requests=100"


def test_a_damaged_entry_is_named(tmp_path):
    open_ledger(open_store(str(tmp_path)), "run").book(SEARCH, requests(1))
    (tmp_path / "ledgers" / "run" / "search.json").write_text("[")
    with pytest.raises(StoreError, match="ledger"):
        open_ledger(open_store(str(tmp_path)), "run").spent()
