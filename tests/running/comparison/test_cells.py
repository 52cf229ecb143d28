"""Cells of a comparison: run once, kept for ever, rerun when their data or parameters change."""

import fcntl
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ease_lib.cli import __main__ as cli
from ease_lib.config.comparison import plan
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import Overloaded
from ease_lib.lineage.deletion.occurrences import rows_shown
from ease_lib.running.comparison import cells
from ease_lib.running.inline import Workspace
from ease_lib.running.run import open_host
from ease_lib.tasks.base import row_hash
from tests.support import embedding_endpoint
from tests.support.embedding_endpoint import embedding_server
from tests.support.faulty_endpoint import MODEL, faulty_endpoint, status
from tests.support.runs import opened_run

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
    """An endpoint of answers and one of embeddings, for the processes of `ease compare`."""
    with (
        faulty_endpoint(lambda prompt: "yes" if len(prompt) % 2 else "no") as running,
        embedding_server() as running.embedding,
    ):
        yield running


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "task.csv"
    path.write_text("input,output\n" + "\n".join(f"question {n},{'yes' if n % 2 else 'no'}" for n in range(30)))
    return path


def finished(cell, at):
    """The result of a cell, and whether it was there already."""
    with opened_run(parse_parameters(cell.parameters)) as run:
        return cells.run_cell(cell, at, run)


def attempted(cell, folder, **more):
    with open_host() as host:
        return cells.attempted(cell, Workspace(folder), host, **more)


def planned(server, table, tmp_path, **changes):
    values = {"task": "table", "task_uri": str(table), "llm_base_url": server.base_url, "llm_model": MODEL}
    return plan(
        {**SMALL, **values, "store_uri": str(tmp_path / "store"), "methods": "best_of_n", "repeats": 1, **changes}
    )


def run(cell, tmp_path, number=0):
    return finished(cell, Workspace(tmp_path / f"artifacts {number}"))


def test_a_finished_cell_is_read_and_not_run(server, table, tmp_path):
    (cell,) = planned(server, table, tmp_path)
    first, kept = run(cell, tmp_path)
    asked = server.script.requests
    assert (kept, first["evaluations"]) == (False, 4)
    assert first["llm_requests"] >= 16
    (renamed,) = planned(server, table, tmp_path, methods="{method: best_of_n, label: chance}", llm_concurrency=3)
    again, kept = run(renamed, tmp_path, 1)
    assert kept
    assert server.script.requests == asked
    assert again["method"] == "chance"
    assert {**again, "method": first["method"], "parameters": first["parameters"]} == first


def test_a_finished_cell_keeps_the_winning_prompt_and_goes_whole_when_a_row_of_it_is_removed(server, table, tmp_path):
    result, _ = run(*planned(server, table, tmp_path), tmp_path)
    row = result["input"][0]
    assert f"Input: {row}\nOutput: {result['outputs'][0]}" in result["prompt"]
    assert result["prompt"].endswith("Input: {input}\nOutput:")
    (kept,) = (tmp_path / "store" / cells.FOLDER).iterdir()
    name, content = f"{cells.FOLDER}/{kept.name}", kept.read_bytes()
    assert row_hash(row) in rows_shown(name, content)


@pytest.mark.parametrize(
    "changed", [{"llm_requests_per_minute": 10**6}, {"llm_concurrency": 3}, {"lineage_uri": "other"}]
)
def test_what_changes_speed_or_places_alone_runs_no_cell_again(server, table, tmp_path, changed):
    changed = {name: str(tmp_path / value) if name.endswith("uri") else value for name, value in changed.items()}
    (cell,), (again,) = planned(server, table, tmp_path), planned(server, table, tmp_path, **changed)
    finished(cell, Workspace(tmp_path / "first"))
    assert finished(again, Workspace(tmp_path / "second"))[1]


def test_changed_data_or_parameters_run_it_again(server, table, tmp_path):
    (cell,) = planned(server, table, tmp_path)
    run(cell, tmp_path)
    table.write_text(table.read_text().replace("question", "query"))
    assert not run(cell, tmp_path, 1)[1]
    (other,) = planned(server, table, tmp_path, methods="{method: best_of_n, k: 3}")
    assert not run(other, tmp_path, 2)[1]


def test_methods_on_the_same_data_make_it_once(server, table, tmp_path):
    at = Workspace(tmp_path / "artifacts")
    first, second = planned(server, table, tmp_path, methods="best_of_n, dpp")
    finished(first, at)
    written = Path(at.embeddings).stat().st_mtime_ns
    finished(second, at)
    assert Path(at.embeddings).stat().st_mtime_ns == written
    (other,) = planned(server, table, tmp_path, seed=1)
    finished(other, at)
    assert Path(at.embeddings).stat().st_mtime_ns > written


def compare(server, table, tmp_path, *options):
    parameters = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    endpoint = ["--llm-base-url", server.base_url, "--llm-model", MODEL, "--task", "table", "--task-uri", str(table)]
    given = [*parameters, *endpoint, *embedding_endpoint.options(server.embedding), "--workers", "2", *options]
    return cli.main(["compare", *given, "--output-dir", str(tmp_path / "out")])


def test_ease_compare_runs_only_what_is_new(server, table, tmp_path, capsys):
    assert compare(server, table, tmp_path, "--methods", "best_of_n, zero_shot", "--repeats", "2") == 0
    shown = capsys.readouterr().out
    assert "4 runs, 2 at a time, at most 120 LLM requests" in shown
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
    assert cli.main(["list", str(tmp_path / "out")]) == 0
    head, line = capsys.readouterr().out.splitlines()  # it is one, of all its runs
    assert head.startswith("started")
    assert "best_of_n, zero_shot, dpp" in line
    assert line.endswith("out/comparison.html")


def test_ease_compare_leaves_nothing_behind_and_runs_no_module_of_the_working_folder(
    server, table, tmp_path, monkeypatch
):
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    (work / "html.py").write_text("raise RuntimeError('a module of the working folder was run')")
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert compare(server, table, tmp_path, "--methods", "zero_shot", "--repeats", "1", "--workers", "1") == 0
    assert list(temporary.iterdir()) == []


def test_a_cell_that_fails_is_named_and_stops_no_others(server, table, tmp_path, capsys):
    """The pool has no 40 exemplars, which only the search can tell."""
    methods = "zero_shot, {method: ease, k: 40, pool_size: 0, label: too many}"
    assert compare(server, table, tmp_path, "--methods", methods, "--repeats", "1", "--workers", "1") == 2
    shown = capsys.readouterr()
    assert ", too many, repeat 1: FAILED: k=40 exceeds the pool's 22 exemplars" in shown.out
    assert "1 of 2 runs failed; run the same command to try them again" in shown.err
    page = (tmp_path / "out" / "comparison.html").read_text()
    assert "1 run failed" in page
    assert "zero_shot" in page


def test_a_comparison_that_cannot_work_is_refused_before_anything_runs(server, table, tmp_path, capsys):
    assert compare(server, table, tmp_path, "--methods", "ease, greedy") == 2
    assert "method=greedy is not one of" in capsys.readouterr().err
    assert compare(server, table, tmp_path, "--tasks", "{task: table, task_uri: missing.csv}") == 2
    assert "missing.csv: no such file" in capsys.readouterr().err
    assert server.script.requests <= 2


def test_other_instructions_under_the_same_address_are_another_cell(server, table, tmp_path):
    (tmp_path / "mine.txt").write_text("Answer yes or no.")
    (cell,) = planned(server, table, tmp_path, instructions_uri=str(tmp_path / "mine.txt"))
    assert not run(cell, tmp_path)[1]
    assert run(cell, tmp_path, 1)[1]
    (tmp_path / "mine.txt").write_text("Say yes.")
    assert not run(cell, tmp_path, 2)[1]


def test_other_code_is_another_cell(server, table, tmp_path, monkeypatch):
    (cell,) = planned(server, table, tmp_path)
    run(cell, tmp_path)
    monkeypatch.setattr(cells, "_code_sha256", lambda: "another commit of the same version")
    assert not run(cell, tmp_path, 1)[1]


def test_a_cap_is_one_of_the_whole_comparison(server, table, tmp_path, capsys):
    """Each of the three runs would ask 16 + 20 alone; with equal shares all end, and each asks no more than its own."""
    methods = ["--methods", "best_of_n", "--repeats", "3", "--workers", "2"]
    assert compare(server, table, tmp_path, *methods, "--max-llm-requests", "71") == 2
    refused = capsys.readouterr().err
    assert "max_llm_requests=71 is 23 for each of 3 runs, and table, best_of_n, repeat 1 takes at least 24" in refused
    assert "set at least 72" in refused
    assert server.script.requests == 0
    assert compare(server, table, tmp_path, *methods, "--max-llm-requests", "90") == 0
    assert "at most 90 LLM requests" in capsys.readouterr().out
    assert server.script.requests <= 90 + 1, "the trial question is asked beforehand"
    table = pq.read_table(tmp_path / "out/comparison.parquet").to_pylist()
    assert [row["evaluations"] for row in table] == [2, 2, 2]


def test_what_is_asked_beside_the_search_counts_too(server, table, tmp_path, capsys):
    methods = ["--methods", "{method: best_of_n, order_report: 3}", "--repeats", "1"]
    assert compare(server, table, tmp_path, *methods, "--max-llm-requests", "24") == 2
    refused = capsys.readouterr().err
    assert "one evaluation takes 4 requests or more, and the test set with other requests 36" in refused
    assert compare(server, table, tmp_path, *methods) == 0
    assert "at most 52 LLM requests" in capsys.readouterr().out


def test_runs_with_the_same_search_do_not_lose_each_other(server, table, tmp_path, capsys):
    methods = "best_of_n, {method: best_of_n, label: again}, {method: best_of_n, order_report: 2, label: orders}"
    assert compare(server, table, tmp_path, "--methods", methods, "--repeats", "2", "--workers", "3") == 0
    assert "FAILED" not in capsys.readouterr().out


def test_a_search_that_another_process_has_is_waited_for(server, table, tmp_path, monkeypatch):
    (cell,) = planned(server, table, tmp_path)
    first, _ = run(cell, tmp_path)
    (journal,) = (tmp_path / "store" / "journals").rglob("*.jsonl")
    next((tmp_path / "store" / cells.FOLDER).iterdir()).unlink()
    held = journal.open()
    fcntl.flock(held, fcntl.LOCK_EX)
    monkeypatch.setattr(cells, "IN_USE_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(cells.time, "sleep", lambda seconds: held.close())
    result, kept = attempted(cell, tmp_path / "second")
    assert (result["failure"], kept) == ("", False)
    assert result["test_score"] == first["test_score"]


def test_a_search_whose_other_process_does_not_get_on_is_a_failure_that_names_its_journal(
    server, table, tmp_path, monkeypatch
):
    (cell,) = planned(server, table, tmp_path)
    run(cell, tmp_path)
    (journal,) = (tmp_path / "store" / "journals").rglob("*.jsonl")
    next((tmp_path / "store" / cells.FOLDER).iterdir()).unlink()
    monkeypatch.setattr(cells, "IN_USE_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(cells, "STILL_SECONDS", 0.1)
    with journal.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result, _ = attempted(cell, tmp_path / "second")
    assert f"{journal} is in use by another run; wait for it" in result["failure"]


def test_a_finished_cell_that_was_damaged_is_run_again(server, table, tmp_path):
    (cell,) = planned(server, table, tmp_path)
    first, _ = run(cell, tmp_path)
    (kept,) = (tmp_path / "store" / cells.FOLDER).iterdir()
    kept.write_text(kept.read_text()[:100])
    again, was_kept = run(cell, tmp_path, 1)
    assert (again["test_score"], was_kept) == (first["test_score"], False)


def test_what_time_may_cure_is_left_to_the_retries_of_the_cluster(server, table, tmp_path):
    (cell,) = planned(server, table, tmp_path, llm_deadline_seconds=0)
    server.script.faults = [status(503)] * 40
    with pytest.raises(Overloaded):
        attempted(cell, tmp_path / "first", is_last=False)
    failed, kept = attempted(cell, tmp_path / "last")
    assert (kept, "503" in failed["failure"]) == (False, True)
