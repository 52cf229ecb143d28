"""Each part sees what the others spend, and two at once cannot both take the rest."""

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.budget_ledger import FRESH_SECONDS, SEARCH, Budget, ledger_below
from ease_lib.black_box.usage import Usage
from ease_lib.errors import StoreError
from ease_lib.search.plan_and_caps import Plan


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    return str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3_prefix")


def requests(number):
    return Usage(requests=number)


def budget_in(store, name="run", **caps):
    return Budget(store=ledger_below(store and open_store(store), name), **caps)


def test_what_is_booked_is_seen_by_others_and_replaced_by_oneself(store):
    budget_in(store).book("proposals", requests(5))
    budget = budget_in(store)
    budget.book(SEARCH, requests(20))
    budget.book(SEARCH, requests(30))
    assert budget.spent().requests == 35
    assert budget.spent(without=[SEARCH]).requests == 5
    assert budget_in(store, "another run").spent() == Usage()


def test_a_slow_store_is_not_asked_before_every_evaluation(tmp_path):
    """30 ms a call took a search of 9 s another 7 s."""
    now, reads = [0.0], []
    slow = open_store(str(tmp_path / "ledger"))
    slow.find_names = lambda: reads.append(now[0]) or ["proposals.json"]
    open_store(str(tmp_path / "ledger")).write("proposals.json", b'{"requests": 5}')
    budget = Budget(store=slow, clock=lambda: now[0])
    for number in range(100):
        budget.book(SEARCH, requests(number))
        assert budget.spent().requests == 5 + number
    now[0] += FRESH_SECONDS
    budget.spent()
    assert reads == [0.0, FRESH_SECONDS]


def test_without_a_store_it_lasts_as_long_as_its_process():
    budget = Budget()
    budget.book(SEARCH, requests(2))
    assert budget.spent().requests == 2
    budget_in("", "run").book(SEARCH, requests(2))
    budget_in("folder", "").book(SEARCH, requests(2))
    assert budget_in("", "run").spent() == budget_in("folder", "").spent() == Usage()


def test_failed_requests_of_others_count():
    budget = Budget(requests=100)
    budget.book("proposals", Usage(requests=10, retries=85))
    plan = Plan(rows=(), evaluations=1, evaluation=requests(10), budget=budget)
    assert plan.reached(Usage(), 0.0) == "max_llm_requests=100"


def test_a_damaged_entry_is_named(tmp_path):
    budget_in(str(tmp_path)).book(SEARCH, requests(1))
    (tmp_path / "ledgers" / "run" / "search.json").write_text("[")
    with pytest.raises(StoreError, match="ledger"):
        budget_in(str(tmp_path)).spent()
