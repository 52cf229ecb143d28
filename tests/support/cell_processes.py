"""Work of a comparison's cell processes in tests, in place of a run: they only leave a result, or die."""

import json
import os
import signal
import time
from pathlib import Path

from ease_lib.config.comparison import Cell
from ease_lib.errors import EXIT_STOPPED
from ease_lib.running.comparison.comparison_store import ComparisonStore


def cells_of(groups, methods=1):
    """The cells of a comparison: so many data sets, and methods on each."""
    return [
        Cell(
            task=f"task {group}",
            noise_ratio=0.0,
            endpoint="e",
            method=f"method {method}",
            repeat=0,
            parameters={"task_name": f"task {group}", "method": f"method {method}"},
        )
        for group in range(groups)
        for method in range(methods)
    ]


def plan_document(place, cells, requests=0):
    documents = [cell.document for cell in cells]
    return {"place": str(place), "started": "2026-01-01T00:00:00+00:00", "requests": requests, "cells": documents}


def begun(place, cells, **more):
    """The store of a comparison of these cells."""
    left = ComparisonStore.at(str(place))
    left.keep_plan(plan_document(place, cells, **more))
    return left


def leave(left, number, cell, folder, **result):
    made = left.new_result(number, Path(folder))
    Path(made.path).parent.mkdir(parents=True, exist_ok=True)
    document = {"failure": "", "test_score": 0.5, "llm_requests": 10, "by": os.getpid(), **result}
    Path(made.path).write_text(json.dumps(document))
    left.finish(number, cell.name, made)


def answer(told):
    """Leave a result, or the failure that is told."""
    leave(ComparisonStore.at(told.place), told.number, told.cell, told.folder, failure=told.failure)


def is_first(told):
    """Whether nobody has tried the cell before."""
    tried = told.folder / f"tried {told.number}"
    told.folder.mkdir(exist_ok=True)
    known = tried.exists()
    tried.touch()
    return not known


def die_once(told):
    """Be killed at the first attempt at a cell."""
    if is_first(told):
        os.kill(os.getpid(), signal.SIGKILL)
    answer(told)


def lose_once(told):
    """Kill the process that this one was forked from, and with it the way to this one's end, at the first attempt."""
    if is_first(told):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    answer(told)


def die_always(told):
    """Be killed whenever the cell is to be run."""
    if not told.failure:
        os.kill(os.getpid(), signal.SIGKILL)
    answer(told)


def fail_for_a_moment(told):
    """Say that another attempt may end better, until it is the last one."""
    if not (told.is_last or told.failure):
        os._exit(EXIT_STOPPED)
    answer(told)


def take_for_ever(told):
    """Never end, but say by a file that it has begun."""
    told.folder.mkdir(exist_ok=True)
    (told.folder / f"{os.getpid()}.pid").touch()
    if not told.failure:
        time.sleep(600)
    answer(told)
