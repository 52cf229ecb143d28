"""Cells of a comparison: run once, kept for ever, rerun when their data or parameters change."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ease_lib import cli
from ease_lib.comparison import plan
from ease_lib.stages import run_cell
from ease_lib.stages.one_process import Artifacts
from ease_lib.testing.faulty_endpoint import MODEL, faulty_endpoint

SMALL = {
    "pool_size": 12,
    "validation_size": 4,
    "test_size": 4,
    "budget": 4,
    "initial_design": 3,
    "sampled_candidates": 50,
    "shortlist_size": 20,
    "k": 2,
}


@pytest.fixture
def server():
    with faulty_endpoint(lambda prompt: "yes" if len(prompt) % 2 else "no") as running:
        yield running


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "task.csv"
    path.write_text("input,output\n" + "\n".join(f"question {n},{'yes' if n % 2 else 'no'}" for n in range(30)))
    return path


def cells(server, table, tmp_path, **changes):
    values = {"task": "table", "task_uri": str(table), "llm_base_url": server.base_url, "llm_model": MODEL}
    return plan(
        {**SMALL, **values, "store_uri": str(tmp_path / "store"), "methods": "best_of_n", "repeats": 1, **changes}
    )


def run(cell, tmp_path, number=0):
    return run_cell.run(cell, Artifacts(tmp_path / f"artifacts {number}"))


def test_a_finished_cell_is_read_and_not_run(server, table, tmp_path):
    (cell,) = cells(server, table, tmp_path)
    first, kept = run(cell, tmp_path)
    asked = server.script.requests
    assert (kept, first["evaluations"]) == (False, 4)
    assert first["llm_requests"] >= 16
    (renamed,) = cells(server, table, tmp_path, methods="{method: best_of_n, label: chance}", llm_concurrency=3)
    again, kept = run(renamed, tmp_path, 1)
    assert kept
    assert server.script.requests == asked
    assert again["method"] == "chance"
    assert {**again, "method": first["method"], "parameters": first["parameters"]} == first


def test_changed_data_or_parameters_run_it_again(server, table, tmp_path):
    (cell,) = cells(server, table, tmp_path)
    run(cell, tmp_path)
    table.write_text(table.read_text().replace("question", "query"))
    assert not run(cell, tmp_path, 1)[1]
    (other,) = cells(server, table, tmp_path, methods="{method: best_of_n, k: 3}")
    assert not run(other, tmp_path, 2)[1]


def test_methods_on_the_same_data_make_it_once(server, table, tmp_path):
    at = Artifacts(tmp_path / "artifacts")
    first, second = cells(server, table, tmp_path, methods="best_of_n, dpp")
    run_cell.run(first, at)
    written = Path(at.embeddings).stat().st_mtime_ns
    run_cell.run(second, at)
    assert Path(at.embeddings).stat().st_mtime_ns == written
    (other,) = cells(server, table, tmp_path, seed=1)
    run_cell.run(other, at)
    assert Path(at.embeddings).stat().st_mtime_ns > written


def compare(server, table, tmp_path, *options):
    parameters = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    endpoint = ["--llm-base-url", server.base_url, "--llm-model", MODEL, "--task", "table", "--task-uri", str(table)]
    return cli.main(["compare", *parameters, *endpoint, "--jobs", "2", "--output-dir", str(tmp_path / "out"), *options])


def test_ease_compare_runs_only_what_is_new(server, table, tmp_path, capsys):
    assert compare(server, table, tmp_path, "--methods", "best_of_n, zero_shot", "--repeats", "2") == 0
    shown = capsys.readouterr().out
    assert "4 runs, 2 at a time, at most 104 LLM requests" in shown
    assert "(finished before)" not in shown
    assert "**Test score**" in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "comparison.html", "comparison.md", "comparison.parquet", "store"
    }  # fmt: skip
    assert compare(server, table, tmp_path, "--methods", "best_of_n, zero_shot, dpp", "--repeats", "3") == 0
    assert capsys.readouterr().out.count("(finished before)") == 4
    rows = pq.read_table(tmp_path / "out" / "comparison.parquet").to_pylist()
    assert len(rows) == 9
    assert {(row["repeat"], row["seed"]) for row in rows} == {(0, 0), (1, 1), (2, 2)}


def test_a_cell_that_fails_is_named_and_the_finished_ones_are_kept(server, table, tmp_path, capsys):
    """The pool has no 40 exemplars, which only the search can tell."""
    methods = "zero_shot, {method: ease, k: 40, pool_size: 0, label: too many}"
    assert compare(server, table, tmp_path, "--methods", methods, "--repeats", "1", "--jobs", "1") == 2
    assert ", too many, repeat 1: k=40 exceeds the pool's 22 exemplars" in capsys.readouterr().err
    assert compare(server, table, tmp_path, "--methods", "zero_shot", "--repeats", "1") == 0
    assert "(finished before)" in capsys.readouterr().out


def test_a_comparison_that_cannot_work_is_refused_before_anything_runs(server, table, tmp_path, capsys):
    assert compare(server, table, tmp_path, "--methods", "ease, greedy") == 2
    assert "method=greedy is not one of" in capsys.readouterr().err
    assert compare(server, table, tmp_path, "--tasks", "{task: table, task_uri: missing.csv}") == 2
    assert "missing.csv: no such file" in capsys.readouterr().err
    assert server.script.requests <= 2
