"""Workers share the cells of a comparison; what one of them or a cell's process meets loses no other cell."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ease_lib.running.comparison import comparison_store, workers
from ease_lib.running.comparison.comparison_store import ComparisonPlan, ComparisonStore, Finished
from ease_lib.running.comparison.workers import progress_line, work
from ease_lib.running.supervision import RESTARTS
from tests.support import cell_processes as does
from tests.support.cell_processes import begun, cells_of, leave


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "comparison")
    return f"{request.getfixturevalue('s3_prefix')}/comparison"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(workers, "WAITS_SECONDS", (0.01,) * RESTARTS)
    monkeypatch.setattr(workers, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(workers, "LONGEST_WAIT_SECONDS", 0.5)


def finish_all(place, folder, *, workers=1, run=does.answer, **more):
    """Let so many workers run the comparison to its end; what each has said."""
    said = [[] for _ in range(workers)]

    def begin(number):
        at = Path(folder) / str(number)
        at.mkdir(exist_ok=True)
        work(ComparisonStore.at(str(place)), str(number), run, folder=at, say=said[number].append, **more)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(begin, range(workers)))
    return said


def test_workers_share_the_cells_and_each_cell_is_run_once(place, tmp_path):
    cells = cells_of(5, methods=2)
    left = begun(place, cells)
    finish_all(place, tmp_path, workers=3)
    assert sorted(left.finished()) == list(range(10))
    assert all(count == 1 for count in left.claims().values())


def test_a_worker_takes_all_methods_on_its_data_before_other_data(tmp_path):
    begun(tmp_path / "c", cells_of(3, methods=3))
    (said,) = finish_all(tmp_path / "c", tmp_path)
    order = [line.split(",")[0] for line in said if "method" in line]
    assert order == ["task 0"] * 3 + ["task 1"] * 3 + ["task 2"] * 3


def test_workers_begin_with_different_data(tmp_path):
    cells = cells_of(4, methods=2)
    left = begun(tmp_path / "c", cells)
    first = [
        next(iter(workers._Queue(left, cells, str(number), threading.Event(), lambda: None)))[0] for number in range(4)
    ]
    assert len({cells[number].task for number in first}) == 4


def test_a_comparison_of_4000_cells_is_shared_by_twelve(tmp_path):
    cells = cells_of(1000, methods=4)
    begun(tmp_path / "c", cells)

    def begin(worker):
        left, taken = ComparisonStore.at(str(tmp_path / "c")), []
        for number, failure in workers._Queue(left, cells, str(worker), threading.Event(), lambda: None):
            assert not failure
            leave(left, number, cells[number], tmp_path / str(worker))
            taken.append(number)
        return taken

    with ThreadPoolExecutor(12) as pool:
        shares = list(pool.map(begin, range(12)))
    assert sorted(number for share in shares for number in share) == list(range(4000))
    assert min(map(len, shares)) > 0


def test_no_cell_or_one_for_many_workers(place, tmp_path):
    begun(place, cells_of(1))
    finish_all(place, tmp_path, workers=4)
    assert len(ComparisonStore.at(place).finished()) == 1
    begun(tmp_path / "empty", [])
    assert finish_all(str(tmp_path / "empty"), tmp_path) == [[]]


def test_each_cell_has_a_process_of_its_own(tmp_path):
    left = begun(tmp_path / "c", cells_of(3))
    finish_all(tmp_path / "c", tmp_path)
    by = {json.loads(left.store.read(cell.result))["by"] for cell in left.finished().values()}
    assert len(by) == 3
    assert os.getpid() not in by


def test_a_cell_whose_process_is_killed_is_begun_again(tmp_path):
    left = begun(tmp_path / "c", cells_of(2))
    finish_all(tmp_path / "c", tmp_path, run=does.die_once)
    assert [cell.failure for cell in left.finished().values()] == ["", ""]


def test_a_cell_is_begun_again_where_the_process_that_forks_all_others_is_killed(tmp_path):
    left = begun(tmp_path / "c", cells_of(2))
    finish_all(tmp_path / "c", tmp_path, run=does.lose_once)
    assert [cell.failure for cell in left.finished().values()] == ["", ""]


def test_cells_of_one_search_are_not_run_side_by_side(tmp_path):
    """They would share its journal, which one process has at a time."""
    one, other = cells_of(1, methods=2)
    cells = [one, replace(one, method="again"), replace(one, parameters=one.parameters | {"order_report": 5}), other]
    left = begun(tmp_path / "c", cells)
    queues = [iter(workers._Queue(left, cells, str(number), threading.Event(), lambda: None)) for number in range(2)]
    assert [next(queue)[0] for queue in queues] == [0, 3]
    leave(left, 3, other, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, queues[1])
        time.sleep(1)
        assert not waiting.done()
        leave(left, 0, one, tmp_path)
        assert waiting.result(10)[0] in (1, 2)


def test_a_cell_whose_process_is_killed_each_time_is_a_failure_and_others_go_on(tmp_path):
    cells = cells_of(2)
    left = begun(tmp_path / "c", cells)
    leave(left, 1, cells[1], tmp_path / "earlier")
    (said,) = finish_all(tmp_path / "c", tmp_path, run=does.die_always)
    assert left.finished()[0].failure.startswith(
        "its process was killed by SIGKILL each time, perhaps for lack of memory: use fewer --workers"
    )
    assert said[0].startswith("task 0, method 0, repeat 1: FAILED: its process was killed")


def test_in_a_pod_what_may_pass_is_tried_again_and_the_last_attempt_knows_that_it_is(tmp_path, monkeypatch):
    left = begun(tmp_path / "c", cells_of(1))
    monkeypatch.setattr(workers, "in_container", lambda: True)
    finish_all(tmp_path / "c", tmp_path, run=does.fail_for_a_moment)
    assert left.finished()[0].failure == ""


def test_a_cell_that_takes_too_long_is_a_failure(tmp_path, monkeypatch):
    left = begun(tmp_path / "c", cells_of(1))
    monkeypatch.setattr(workers, "CELL_SECONDS", 0.5)
    finish_all(tmp_path / "c", tmp_path, run=does.take_for_ever)
    assert left.finished()[0].failure == "its process took more than 0 h"


def test_a_worker_that_begins_again_goes_on_with_its_cell(place, tmp_path):
    cells = cells_of(3)
    left = begun(place, cells)
    assert left.claim(2, "0")
    assert left.claim(1, "1")
    leave(left, 1, cells[1], tmp_path / "earlier")
    (said,) = finish_all(place, tmp_path)
    assert said[0].startswith("task 2")
    assert left.claims() == {0: 1, 1: 1, 2: 1}


def test_a_cell_of_a_dead_worker_is_taken_over(place, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison_store, "STILL_SECONDS", 1.0)
    cells = cells_of(2)
    left = begun(place, cells)
    left.live("7")
    assert left.claim(0, "7")
    finish_all(place, tmp_path)
    assert left.finished()[0].failure == ""
    assert left.claims() == {0: 2, 1: 1}


def test_a_worker_that_is_alive_keeps_its_cell_however_long_it_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison_store, "STILL_SECONDS", 1.0)
    cells = cells_of(1)
    left = begun(tmp_path / "c", cells)
    assert left.claim(0, "7")
    waiting = threading.Thread(target=finish_all, args=(str(tmp_path / "c"), tmp_path))
    waiting.start()
    for _ in range(25):
        left.live("7")
        time.sleep(0.1)
    assert waiting.is_alive()
    leave(left, 0, cells[0], tmp_path / "7")
    waiting.join(10)
    assert left.claims() == {0: 1}


def test_who_was_stopped_with_a_worker_does_not_take_it_for_dead(tmp_path):
    now = [0.0]
    left = begun(tmp_path / "c", cells_of(1))
    left.live("7")
    looking = ComparisonStore(left.store, clock=lambda: now[0])
    assert not looking.seems_dead("7")
    now[0] += 10 * comparison_store.STILL_SECONDS
    assert not looking.seems_dead("7"), "it did not look in between"
    for _ in range(20):
        now[0] += comparison_store.STILL_SECONDS / 19
        dead = looking.seems_dead("7")
    assert dead


def test_a_cell_that_cost_two_workers_costs_no_third(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison_store, "STILL_SECONDS", 0.5)
    left = begun(tmp_path / "c", cells_of(1))
    assert left.claim(0, "7")
    assert left.claim(0, "8", earlier=1)
    finish_all(tmp_path / "c", tmp_path)
    assert left.finished()[0].failure.startswith("2 workers were lost while they ran it, perhaps for lack of")


def test_of_two_workers_at_one_cell_a_result_counts_and_no_failure_replaces_it(place, tmp_path):
    (cell,) = cells_of(1)
    left = begun(place, [cell])
    leave(left, 0, cell, tmp_path, failure="its journal is in use by another run")
    leave(left, 0, cell, tmp_path, test_score=0.75)
    leave(left, 0, cell, tmp_path, test_score=0.25)
    leave(left, 0, cell, tmp_path, failure="too late")
    found = ComparisonStore.at(place).finished()[0]
    assert (found.failure, found.score) == ("", 0.75)
    (file,) = left.fetched([found], tmp_path)
    assert json.loads(Path(file.path).read_text())["test_score"] == 0.75


def test_a_second_plan_of_the_same_run_changes_nothing(place):
    begun(place, cells_of(2))
    assert len(begun(place, cells_of(3)).plan().cells) == 2


def test_a_worker_that_is_told_to_stop_stops_its_cell(tmp_path):
    begun(tmp_path / "c", cells_of(1))
    stop = threading.Event()
    more = {"run": does.take_for_ever, "stop": stop}
    working = threading.Thread(target=finish_all, args=(str(tmp_path / "c"), tmp_path), kwargs=more)
    working.start()
    (pid,) = wait_for(lambda: list((tmp_path / "0").glob("*/*.pid")))
    stop.set()
    working.join(10)
    assert not working.is_alive()
    assert not Path(f"/proc/{pid.stem}").exists()


ALONE = """
import sys
from pathlib import Path
from ease_lib.running.comparison.comparison_store import ComparisonStore
from ease_lib.running.comparison.workers import work
from tests.support.cell_processes import take_for_ever
work(ComparisonStore.at(sys.argv[1]), "0", take_for_ever, folder=Path(sys.argv[2]), say=print)
"""


def test_the_process_of_a_cell_does_not_outlive_a_worker_that_is_killed(tmp_path):
    begun(tmp_path / "c", cells_of(1))
    worker = subprocess.Popen([sys.executable, "-c", ALONE, str(tmp_path / "c"), str(tmp_path)], cwd=Path.cwd())
    (pid,) = wait_for(lambda: list(tmp_path.glob("*/*.pid")))
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    wait_for(lambda: not Path(f"/proc/{pid.stem}").exists())


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def test_progress_is_one_line():
    cell = Finished(name="a", score=0.5, failure="", kept=False, requests=4000, result="")
    failed = Finished(name="b", score=None, failure="no", kept=False, requests=500, result="")
    done = {**dict.fromkeys(range(10), cell), 10: failed, 11: failed}
    started = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=1)
    plan = ComparisonPlan(cells=cells_of(30), started=started, requests=96_000)
    shown = f"{started.astimezone():%H:%M %Z}"
    line = progress_line(plan, done, before=2, seconds=600)
    assert line == f"12 of 30 cells, 2 failed; 41 000 of 96 000 requests; since {shown}; to go about 18 min"
    assert progress_line(plan, {}, before=0, seconds=600) == f"0 of 30 cells; 0 of 96 000 requests; since {shown}"
    assert "to go about 3.0 h" in progress_line(plan, done, before=2, seconds=6000)
    days = ComparisonPlan(cells=cells_of(30), started=started - timedelta(days=2), requests=96_000)
    assert f"since {days.started.astimezone():%d %b %H:%M}" in progress_line(days, done, before=2, seconds=60)
