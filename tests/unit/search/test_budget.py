"""What one part spends the others see; two at once cannot both take the last of it."""

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.errors import StoreError
from ease_lib.evaluation.usage import Usage
from ease_lib.search.budget import FRESH_SECONDS, SEARCH, Caps, Ledger, Limits, open_ledger


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


def test_a_slow_store_is_not_asked_before_every_evaluation(tmp_path):
    """30 ms a call took a search of 9 s another 7 s."""
    now, reads = [0.0], []
    slow = open_store(str(tmp_path / "ledger"))
    slow.find_names = lambda: reads.append(now[0]) or ["proposals.json"]
    open_store(str(tmp_path / "ledger")).write("proposals.json", b'{"requests": 5}')
    ledger = Ledger(slow, clock=lambda: now[0])
    for number in range(100):
        ledger.book(SEARCH, requests(number))
        assert ledger.spent().requests == 5 + number
    now[0] += FRESH_SECONDS
    ledger.spent()
    assert reads == [0.0, FRESH_SECONDS]


def test_without_a_store_it_lasts_as_long_as_its_process():
    ledger = Ledger()
    ledger.book(SEARCH, requests(2))
    assert ledger.spent().requests == 2
    assert open_ledger("", "run").spent() == open_ledger("folder", "").spent() == Usage()


def test_failed_requests_of_others_count():
    ledger = Ledger()
    ledger.book("proposals", Usage(requests=10, retries=85))
    caps = Caps(limits=Limits(requests=100), evaluation=requests(10), ledger=ledger)
    assert caps.reached(Usage(), 0.0) == "max_llm_requests=100"


def test_a_damaged_entry_is_named(tmp_path):
    open_ledger(open_store(str(tmp_path)), "run").book(SEARCH, requests(1))
    (tmp_path / "ledgers" / "run" / "search.json").write_text("[")
    with pytest.raises(StoreError, match="ledger"):
        open_ledger(open_store(str(tmp_path)), "run").spent()
