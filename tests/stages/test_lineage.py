"""Lineage of real runs: all stages in this process, recorded like a pipeline's tasks."""

import copy
import csv
import hashlib
import itertools
import json
import os
import re
import shutil
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from markupsafe import escape

from ease_lib import tasks
from ease_lib.artifacts.store import FileStore, S3Store, open_store
from ease_lib.black_box.cache import kept_entries
from ease_lib.cli import __main__ as cli
from ease_lib.errors import LineageError
from ease_lib.lineage.chain import Place, follow
from ease_lib.lineage.deletion.forgetting import Removal
from ease_lib.lineage.deletion.occurrences import places_in
from ease_lib.lineage.deletion.row_query import RowQuery
from ease_lib.lineage.difference import difference, difference_text
from ease_lib.lineage.explanation import explain
from ease_lib.lineage.publishing import versions as versions_module
from ease_lib.lineage.publishing.versions import find_prompt, find_row, index, make_latest, read_latest
from ease_lib.lineage.record import decode, encode
from ease_lib.lineage.verification import verify_place
from ease_lib.reporting.lineage_tree import difference_page, show_page, show_text
from ease_lib.stages import build_dataset, evaluate, gate, prefilter, publish, report
from ease_lib.tasks.base import row_hash
from ease_lib.tasks.catalog import SHIPPED
from tests.recorded_run import STAGES, RecordedRun
from tests.signing_keys import KeyPair
from tests.support.faulty_endpoint import faulty_endpoint, status
from tests.tamper import TAMPERINGS, Scene, made_table, tamper_all


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A run with noise and a prefilter, published; its folder must not be changed."""
    folder = tmp_path_factory.mktemp("published")
    return RecordedRun(folder / "run", noise_ratio=0.2, publish_uri=str(folder / "prompts")).remembered()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A published run and one on tickets, by name, each with a copy of its folder as it was when it ended."""
    folder = tmp_path_factory.mktemp("made")
    runs = {"plain": published_in(folder / "plain" / "work"), "tickets": tickets(folder / "tickets" / "work")}
    for name in runs:
        shutil.copytree(folder / name / "work", folder / name / "kept")
    return runs


@pytest.fixture
def restored(made):
    """One of the runs by its name, and the folder around it, with all files as they were when it ended."""

    def restore(name):
        work = made[name].folder.parent
        shutil.rmtree(work)
        shutil.copytree(work.parent / "kept", work)
        return made[name], work

    return restore


def published_in(folder):
    return RecordedRun(folder / "run", publish_uri=str(folder / "prompts")).remembered()


class Killed(BaseException):
    """Raised like a kill: nothing catches it."""


def kill(*_):
    raise Killed


def prompts_of(run):
    return run.parameters.publishing.publish_uri


def records(run):
    return [step.record for step in follow(prompts_of(run) or run.parameters.lineage_root).everything]


def test_every_stage_of_a_run_leaves_one_record_that_links_to_those_before_it(published):
    chain = follow(prompts_of(published))
    assert {step.stage for step in chain.everything} == {
        "check_prerequisites",
        *(stage.__name__.rpartition(".")[2] for stage in STAGES),
    }
    assert (chain.head.stage, chain.steps[-1].stage, chain.gaps) == ("report", "build_dataset", [])
    assert all(record["state"] == "complete" for record in records(published))
    assert {record["run"]["id"] for record in records(published)} == {published.run_id}


def test_a_record_says_what_went_in_and_came_out_and_how(published):
    record = next(record for record in records(published) if record["stage"] == "optimize")
    history = next(part for part in record["outputs"] if part["name"] == "history")
    content = published.path("history").read_bytes()
    assert (history["contract"], history["rows"], history["bytes"]) == ("history/3", 5, len(content))
    assert history["sha256"] == hashlib.sha256(content).hexdigest()
    assert record["parameters"]["budget"] == 5
    assert "budget" not in record["defaults"]
    assert "nu" in record["defaults"]
    assert record["llm"]["answered_by"] == [{"model": "in_context_learner", "system_fingerprint": "", "answers": 30}]
    assert record["software"]["packages"]["torch"]
    embed = next(record for record in records(published) if record["stage"] == "embed")
    assert len(embed["embedder"]["files_sha256"]) == 64


def test_the_dashboard_gets_rows_and_record_of_every_artifact(published):
    shown = published.artifact("kept").metadata
    record = decode(Path(shown["record"]).read_bytes(), "")
    assert (shown["rows"], record["stage"], record["outputs"][0]["contract"]) == (15, "prefilter", "exemplar_pool/3")
    page = (published.folder / "evaluate" / "verdict").read_text()
    assert page.index("this prompt, test set") < page.index("## publish: complete"), "what was found comes first"
    assert hashlib.sha256(published.path("publication").read_bytes()).hexdigest()[:12] in page


def test_a_whole_run_verifies_wherever_it_is_asked_for(published):
    for place in (prompts_of(published), published.parameters.lineage_root, f"{published.folder}/evaluate/lineage"):
        verdict = verify_place(place)
        assert verdict.problems == ()
        assert verdict.checked > 100


@pytest.mark.rooms("ease_lib/lineage", "ease_lib/stages", "ease_lib/artifacts", "tests/tamper.py", "tests/forger.py")
def test_of_every_object_each_tampering_is_named_with_its_stage_and_nothing_else(s3_prefix, tmp_path):
    """One kind of tampering on each object here; `python -m tests.tamper` does all on all."""
    raw, task = made_table()
    scene = Scene(tmp_path, s3_prefix, raw, **task, budget=3, initial_design=2, validation_size=3, test_size=3)
    results, count = tamper_all(scene, lambda number: [TAMPERINGS[number % len(TAMPERINGS)]])
    assert [outcome for counts in results.values() for outcome in counts if outcome != "found"] == []
    assert sum(counts.total() for counts in results.values()) > 0.9 * count > 80
    assert verify_place(scene.place).is_whole


def test_a_run_that_was_moved_as_a_whole_still_verifies(tmp_path):
    run = RecordedRun(tmp_path / "old" / "run", publish_uri=str(tmp_path / "old" / "prompts")).remembered()
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert follow(str(tmp_path / "new" / "run" / "store" / "lineage"), run.run_id).head.stage == "publish"
    assert verify_place(str(tmp_path / "new")).problems == ()


def test_a_stage_that_failed_leaves_its_error_and_the_next_attempt_links_to_it(tmp_path):
    run = RecordedRun(tmp_path, publish_uri="")
    run(build_dataset)
    whole = run.path("pool").read_bytes()
    run.path("pool").write_bytes(b"broken")
    with pytest.raises(SystemExit):
        run(*STAGES[1:3])
    run.path("pool").write_bytes(whole)
    run(*STAGES[1:3])
    root = open_store(run.parameters.lineage_root)
    attempts = [json.loads(root.read(name)) for name in root.walk_names() if "/rank_pool-" in name]
    assert sorted(attempt["state"] for attempt in attempts) == ["complete", "failed"]
    failed = next(attempt for attempt in attempts if attempt["state"] == "failed")
    assert "cannot be read" in failed["error"]


def test_attempts_at_equal_work_are_linked_across_runs(tmp_path):
    first = RecordedRun(tmp_path / "first", store_uri=str(tmp_path / "store")).remembered(build_dataset)
    again = RecordedRun(tmp_path / "again", store_uri=str(tmp_path / "store")).remembered(build_dataset)
    root = open_store(again.parameters.lineage_root)
    (name,) = (name for name in root.walk_names() if again.run_id in name)
    (earlier,) = json.loads(root.read(name))["attempt"]["earlier"]
    assert first.run_id in earlier


def test_without_a_root_the_artifacts_carry_the_records(tmp_path):
    run = RecordedRun(tmp_path / "run", store_uri="").remembered()
    chain = follow(str(tmp_path / "run"))
    assert (chain.head.stage, chain.steps[-1].stage) == ("publish", "build_dataset")
    assert verify_place(str(tmp_path / "run")).problems == ()
    run.path("validation").write_bytes(b"other")
    (problem,) = verify_place(str(tmp_path / "run")).problems
    assert (problem.what, problem.stage) == ("changed", "build_dataset")


def test_what_was_never_recorded_is_not_called_whole(tmp_path):
    run = RecordedRun(tmp_path / "run")
    run(*STAGES[:2])
    run.artifact("pool").metadata.clear()
    run(prefilter)
    verdict = verify_place(run.parameters.lineage_root)
    assert not verdict.is_whole
    assert {problem.what for problem in verdict.problems} == {"never recorded"}


def test_a_root_that_cannot_be_written_fails_the_stage(tmp_path, capfd):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SystemExit):
        RecordedRun(tmp_path / "run", lineage_uri=str(tmp_path / "file")).remembered(build_dataset)
    assert "cannot be written: Not a directory; check that the folder exists" in capfd.readouterr().err


def test_events_are_sent_as_stages_start_and_end(tmp_path):
    received = []

    class Catalogue(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Catalogue) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/api/v1/lineage"
        RecordedRun(tmp_path, openlineage_url=url)(build_dataset)
        server.shutdown()
    assert [event["eventType"] for event in received] == ["START", "COMPLETE"]
    assert {event["job"]["name"] for event in received} == {"ease.build_dataset"}


def test_the_chain_is_shown_as_text_and_as_a_page(published):
    chain = follow(prompts_of(published))
    text = show_text(chain)
    assert text.index("report  ") < text.index("optimize  ") < text.index("build_dataset  ")
    assert "customer_feedback.csv" in text
    page = show_page(chain)
    assert "noise_ratio" in page
    assert "<script" not in page


def test_explain_says_which_rows_which_noise_and_which_iteration(published):
    text = explain(follow(prompts_of(published)))
    history = pq.read_table(published.path("history")).to_pylist()
    winner = max(history, key=lambda row: (row["score"], -row["iteration"]))
    assert "The outputs of 4 pool rows were corrupted on purpose (noise_ratio 0.2)" in text
    assert "bm25 kept the 15 of 20 exemplars" in text
    assert f"The winner is evaluation {winner['iteration'] + 1}" in text
    assert "runner-up" in text
    best = json.loads(published.path("best_sequence").read_text())
    for exemplar in best["exemplars"]:
        assert f"row {exemplar['exemplar_id']} ({exemplar['origin']}): " in text


def test_where_a_row_stands_in_its_file_is_known_to_the_end(published):
    """The number in the pool says nothing to who owns the table."""
    best = json.loads(published.path("best_sequence").read_text())
    assert len(best["exemplars"]) == 3
    shipped = (Path(tasks.__file__).parent / "data" / "customer_feedback.csv").read_text().splitlines()
    page = published.path("page").read_text()
    for exemplar in best["exemplars"]:
        file, _, line = exemplar["origin"].partition(", line ")
        assert file == "customer_feedback.csv"
        assert exemplar["input"] in shipped[int(line) - 1].replace('""', '"')
        assert escape(exemplar["origin"]) in page


def test_explain_says_what_is_gone(tmp_path):
    run = RecordedRun(tmp_path / "run").remembered()
    run.path("history").unlink()
    with pytest.raises(LineageError, match="history, which optimize made, is gone"):
        explain(follow(str(tmp_path / "run")))


def test_explain_counts_what_went_on_as_it_was_recorded(tmp_path):
    """A row of the pool was removed on request since then."""
    run = RecordedRun(tmp_path / "run", prefilter="none").remembered()
    kept = pq.read_table(run.path("kept"))
    pq.write_table(kept.slice(0, kept.num_rows - 1).replace_schema_metadata(kept.schema.metadata), run.path("kept"))
    assert f"Prefilter. none: all {kept.num_rows} exemplars went on." in explain(follow(str(tmp_path / "run")))


def test_diff_names_the_cause_of_another_prompt(published, tmp_path):
    other = RecordedRun(tmp_path / "run", noise_ratio=0.2, seed=5).remembered()
    text = difference_text(difference(follow(prompts_of(published)), follow(str(other.folder))))
    assert "seed: 0 → 5" in text
    assert "The first difference is in build_dataset" in text
    assert "because of: seed 0 → 5" in text


def test_diff_shows_both_prompts_and_scores_as_text_and_as_a_page(tmp_path, capsys):
    one, other = (RecordedRun(tmp_path / str(seed), seed=seed).remembered() for seed in (0, 5))
    places = [str(run.folder) for run in (one, other)]
    winners = [json.loads(run.path("best_sequence").read_text()) for run in (one, other)]
    inputs = [[exemplar["input"] for exemplar in winner["exemplars"]] for winner in winners]
    removed, added = (next(text for text in inputs[n] if text not in inputs[1 - n]) for n in (0, 1))
    text = difference_text(difference(*map(follow, places)))
    assert f"  - Input: {removed}\n" in text
    assert f"  + Input: {added}\n" in text
    assert "    Input: {input}" in text
    assert "  this prompt, test set: " in text
    page = tmp_path / "two.html"
    assert cli.main(["lineage", "diff", *places, "--page", str(page)]) == 0
    shown = page.read_text()
    assert all(f"<{mark}>" in shown for mark in ("del", "ins"))
    unmarked = re.sub("</?(del|ins)>", "", shown)
    assert all(f"Input: {escape(text)}" in unmarked for text in (removed, added))
    named = re.search('"ease-rows" content="(.*?)"', shown)[1].split()
    assert {row_hash(text) for text in (removed, added)} <= set(named), "so that `ease forget` finds the page"


def test_diff_says_where_a_run_has_no_prompt_that_can_be_read(tmp_path):
    one, other = (RecordedRun(tmp_path / str(seed), seed=seed).remembered() for seed in (0, 5))
    other.path("best_sequence").unlink()
    found = difference(follow(str(one.folder)), follow(str(other.folder)))
    assert "prompt: one of the runs has one that can be read" in difference_text(found)
    assert found.conclusion == (
        "The second run has no prompt that can be read: there are not two prompts to compare."
    ), "and not that they are the same"
    page = difference_page(follow(str(one.folder)), follow(str(other.folder)), found)
    assert "One of the runs has a prompt that can be read" in page


def test_what_a_row_holds_does_not_steer_the_terminal_and_every_change_is_marked(tmp_path, capsys):
    places = []
    for number, text in enumerate(("red \x1b[31m line", "red \x1b[31m  line")):
        run = RecordedRun(tmp_path / str(number)).remembered()
        best = json.loads(run.path("best_sequence").read_text())
        best["exemplars"][0]["input"] = text
        run.path("best_sequence").write_text(json.dumps(best))
        places.append(str(run.folder))
    assert cli.main(["lineage", "diff", *places]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "  - Input: red " in said
    page = tmp_path / "two.html"
    assert cli.main(["lineage", "diff", *places, "--page", str(page)]) == 0
    assert "<ins>  </ins>" in page.read_text()
    assert cli.main(["lineage", "diff", *places, "--page", str(tmp_path / "there is none" / "two.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_diff_says_in_which_stage_a_run_ended(tmp_path):
    one = RecordedRun(tmp_path / "one").remembered()
    with faulty_endpoint(lambda prompt: "x", *[status(401)] * 9) as server:
        failed = RecordedRun(tmp_path / "failed", llm_base_url=server.base_url)
        with pytest.raises(SystemExit):
            failed(*STAGES)
    found = difference(follow(str(one.folder)), follow(str(failed.folder)))
    assert found.conclusion == "The second run failed in optimize: there are not two prompts to compare."


def test_diff_names_what_reached_the_search_by_way_of_the_summary_and_no_price_that_limited_nothing(tmp_path):
    """The metric, and a baseline that is messages, are read where the data are made, and change no data."""
    one = RecordedRun(tmp_path / "one").remembered()
    other = RecordedRun(tmp_path / "other", metric="edit_similarity", llm_prompt_usd=2.0).remembered()
    text = difference_text(difference(follow(str(one.folder)), follow(str(other.folder))))
    assert "llm_prompt_usd: 0.0 → 2.0" in text
    because = "because of: metric 'auto' → 'edit_similarity'."
    assert text.splitlines()[-1] == f"The first difference is in optimize (best_sequence), {because}"


def test_diff_names_another_speed_for_it_decides_how_far_a_search_gets_in_its_time(tmp_path):
    one, other = (
        RecordedRun(tmp_path / str(limit), llm_requests_per_minute=limit).remembered() for limit in (10**6, 10**7)
    )
    text = difference_text(difference(follow(str(one.folder)), follow(str(other.folder))))
    assert "llm_requests_per_minute: 1000000 → 10000000" in text


def test_equal_inputs_give_equal_bytes_but_for_times_and_ids(tmp_path):
    """Decisive files are equal to the byte; times and costs are in few files, and only in named fields."""
    one, other = (RecordedRun(tmp_path / name).remembered() for name in ("one", "other"))
    equal = ("pool", "validation", "test", "summary", "tops", "kept", "instructions", "embeddings", "best_sequence")
    for name in (*equal, "predictions", "publication"):
        assert one.path(name).read_bytes() == other.path(name).read_bytes(), name
    times = ("seconds", "oldest_answer")
    timed = {"search": (*times, "parameters"), "test_scores": times, "numbers": (*times, "parameters")}
    for name, fields in timed.items():
        first, second = (json.loads(run.path(name).read_text()) for run in (one, other))
        differing = {field for field in first if first[field] != second[field]}
        assert differing <= set(fields), name
    columns = {"seconds", "llm_seconds"}
    first, second = (pq.read_table(run.path("history")).to_pylist() for run in (one, other))
    assert {name for a, b in zip(first, second, strict=True) for name in a if a[name] != b[name]} <= columns
    for record, again in zip(records(one), records(other), strict=True):
        differing = {name for name in record if record[name] != again[name]}
        assert differing <= {
            *("run", "attempt", "started", "ended", "digest", "inputs", "outputs", "parameters", "entries")
        }


CANARIES = {
    "EASE_LLM_API_KEY": "canary-llm-5d41402abc",
    "EASE_EMBEDDER_API_KEY": "canary-embedder-7215ee9c",
    "AWS_SECRET_ACCESS_KEY": "canary-aws-b2f5ff47436",
    "OPENLINEAGE_API_KEY": "canary-openlineage-c9f0f895",
    "HF_TOKEN": "canary-hub-45c48cce2e2d",
}


def test_no_secret_is_written_anywhere(tmp_path, monkeypatch, capfd):
    """Keys in the environment, in URLs and in messages of errors; every byte that is written is searched."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    secrets = [*CANARIES.values(), "canary-user", "canary-signature"]
    url = "http://canary-user:canary-user-password@127.0.0.1:9/api?X-Amz-Signature=canary-signature"
    RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts"), openlineage_url=url)()
    broken = RecordedRun(tmp_path / "broken", task="table", task_uri=f"s4://canary-user:{CANARIES['HF_TOKEN']}@b/a.csv")
    with pytest.raises(SystemExit):
        broken(build_dataset)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 60
    for path in written:
        content = path.read_bytes()
        assert [secret for secret in secrets if secret.encode() in content] == [], path
    shown = "".join(capfd.readouterr())
    assert [secret for secret in secrets if secret in shown] == []


def test_addresses_that_look_like_keys_are_recorded_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "ollama")
    folder = tmp_path / "hf_datasets" / "ollama" / "pk_customer_feedback"
    folder.mkdir(parents=True)
    rows = [f"text number {number},{'good' if number % 2 else 'bad'}" for number in range(60)]
    (folder / "t.csv").write_text("\n".join(["text,label", *rows]))
    table = {"task": "table", "task_uri": str(folder / "t.csv"), "input_columns": "text", "output_column": "label"}
    run = RecordedRun(folder / "run", **table)
    run(*STAGES[:2])
    verdict = verify_place(run.parameters.lineage_root)
    assert (verdict.problems, verdict.checked > 5) == ((), True)


def test_the_first_prompt_is_the_latest_and_a_better_one_has_to_beat_it(tmp_path):
    prompts = str(tmp_path / "prompts")
    common = {"publish_uri": prompts, "publish_if": "better", "test_size": 60, "store_uri": str(tmp_path / "store")}
    noisy = {**common, "noise_ratio": 1.0, "budget": 4, "initial_design": 3}
    first = RecordedRun(tmp_path / "first", **noisy | {"publish_if": "always"}).remembered()
    assert json.loads(first.path("publication").read_text())["state"] == "published"
    same = RecordedRun(tmp_path / "same", **noisy).remembered()
    kept = json.loads(same.path("publication").read_text())
    assert (kept["state"], "is the same prompt" in kept["reason"]) == ("kept", True)
    better = RecordedRun(tmp_path / "better", **common, k=8, budget=30, initial_design=10).remembered()
    said = json.loads(better.path("publication").read_text())
    assert said["gate"]["rows"] <= 60
    assert (said["state"] == "published") == said["gate"]["evidence"]
    latest = read_latest(open_store(prompts))
    assert (latest.version == said["version"]) == (said["state"] == "published")
    assert verify_place(str(prompts), all_versions=True).problems == ()
    page = better.path("page").read_text()
    assert f"Published now is <code>{kept_version(first)}</code>. This prompt scores" in page
    assert f"Published now, on {said['gate']['rows']} of these rows" in page
    compared = json.loads(better.path("gate").read_text())
    assert compared["llm"]["requests"] + compared["llm"]["cached"] == said["gate"]["rows"]
    assert "Not compared" in same.path("page").read_text()


def kept_version(run):
    return json.loads(run.path("publication").read_text())["version"]


@pytest.mark.parametrize("where", ["folder", "s3"])
def test_of_two_that_publish_at_once_one_wins_and_the_other_says_so(where, request, tmp_path):
    uri = str(tmp_path / "prompts") if where == "folder" else request.getfixturevalue("s3_prefix")
    stores = [open_store(uri) for _ in range(6)]
    before = read_latest(stores[0])
    gate = threading.Barrier(len(stores))

    def move(number):
        gate.wait()
        return make_latest(stores[number], f"version-{number}", "0" * 64, before)

    with ThreadPoolExecutor(len(stores)) as writers:
        won = list(writers.map(move, range(len(stores))))
    assert won.count(True) == 1
    assert json.loads(stores[0].read("latest.json"))["version"] == f"version-{won.index(True)}"


def test_a_retry_of_publishing_finds_what_the_first_attempt_wrote(tmp_path):
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    before = {path: path.read_bytes() for path in (tmp_path / "prompts").rglob("*") if path.is_file()}
    run(publish)
    assert {path: path.read_bytes() for path in (tmp_path / "prompts").rglob("*") if path.is_file()} == before
    assert "since an earlier attempt" in json.loads(run.path("publication").read_text())["reason"]


def test_a_publication_that_was_killed_is_checked_as_any_other_and_found_after_the_retry(tmp_path, monkeypatch):
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts"))
    run(*STAGES[:-1])
    monkeypatch.setattr(versions_module, "write_marks", kill)
    with pytest.raises(Killed):
        run(publish)
    monkeypatch.undo()
    text = json.loads(run.path("best_sequence").read_text())["exemplars"][0]["input"]
    assert list(find_row(prompts_of(run), text)) == []
    unmarked = {problem.uri for problem in verify_place(prompts_of(run)).problems if problem.what == "missing"}
    assert f"{prompts_of(run)}/latest.json" in unmarked
    assert any(f"/rows/{row_hash(text)}/" in uri for uri in unmarked)
    run(publish)
    assert len(list(find_row(prompts_of(run), text))) == 1
    assert verify_place(prompts_of(run)).problems == ()
    assert verify_place(run.parameters.lineage_root).problems == ()


def test_a_changed_record_is_called_changed_whatever_the_words_in_its_path(tmp_path):
    run = RecordedRun(tmp_path / "missing, nothing recorded")
    run(*STAGES[:2])
    (record,) = Path(run.parameters.lineage_root).glob("runs/*/build_dataset-*.json")
    record.write_bytes(record.read_bytes().replace(b"20", b"21", 1))
    (problem,) = verify_place(run.parameters.lineage_root).problems
    assert (problem.uri, problem.what) == (str(record), "changed")


def test_a_row_and_a_prompt_are_found_without_reading_other_versions(s3_prefix, tmp_path, monkeypatch):
    RecordedRun(tmp_path / "run", publish_uri=s3_prefix, seed=1)()
    run = RecordedRun(tmp_path / "again", publish_uri=s3_prefix)()
    text = json.loads(run.path("best_sequence").read_text())["exemplars"][0]["input"]
    reads = []
    monkeypatch.setattr(S3Store, "read", lambda self, name, read=S3Store.read: reads.append(name) or read(self, name))
    found = list(find_row(s3_prefix, text))
    assert [each.is_latest for each in found][-1]
    assert len(reads) == 2 + len(found)
    assert [each.version for each in find_row(s3_prefix, row_hash(text))] == [each.version for each in found]
    assert list(find_row(s3_prefix, "a text that no prompt holds")) == []
    prompt = (run.path("results") / "prompt.txt").read_bytes()
    assert found[-1].version in [each.version for each in find_prompt(s3_prefix, hashlib.sha256(prompt).hexdigest())]


def test_indexing_gives_marks_to_versions_that_lack_them_and_leaves_the_others(published, tmp_path):
    shutil.copytree(prompts_of(published), tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "rows")
    assert index(str(tmp_path / "copy")) == 1
    assert index(str(tmp_path / "copy")) == 0
    assert verify_place(str(tmp_path / "copy"), all_versions=True).problems == ()


def test_a_run_again_by_its_recorded_command_asks_nothing_and_has_the_same_history(published, tmp_path):
    values = {"noise_ratio": 0.2, "store_uri": published.parameters.run.store_uri}
    again = RecordedRun(tmp_path / "again", **values)()
    llm = [record["llm"]["new_answers"] for record in records_of(again) if record["llm"]]
    assert llm == [0, 0]
    columns = ["exemplar_ids", "score"]
    first, second = (pq.read_table(run.path("history"), columns=columns) for run in (published, again))
    assert first.equals(second)


def records_of(run):
    root = open_store(run.parameters.lineage_root)
    return [json.loads(root.read(name)) for name in root.walk_names() if name.startswith(f"runs/{run.run_id}/")]


def test_a_row_is_forgotten_everywhere_and_verification_says_so(tmp_path, capsys):
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    text = json.loads(run.path("best_sequence").read_text())["exemplars"][0]["input"]
    arguments = ["forget", "--row", text, "--in", str(run.folder), "--in", prompts_of(run)]
    assert cli.main(arguments) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert verify_place(prompts_of(run)).problems == ()
    assert cli.main([*arguments, "--remove", "--reason", "request 17"]) == 0
    (command,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(".venv/bin/ease run "))
    assert f"--exclude-rows {row_hash(text)}" in command
    assert {problem.what for problem in verify_place(prompts_of(run), all_versions=True).problems} == {
        "removed on request"
    }
    again = {"publish_uri": prompts_of(run), "publish_if": "better", "exclude_rows": row_hash(text)}
    without = RecordedRun(tmp_path / "without", **again).remembered()
    assert text not in pq.read_table(without.path("pool"))["input"].to_pylist()
    said = json.loads(without.path("publication").read_text())
    assert said["gate"] is None, "there is no latest to beat any more"
    assert said["state"] == "published" or said["reason"].startswith("random exemplars are not beaten")
    left = [path for path in tmp_path.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    assert left == []
    assert not run.path("pool").exists()
    assert text not in pq.read_table(run.path("test"))["input"].to_pylist(), "what does not hold it stays"
    with pytest.raises(LineageError, match="is gone: retention or `ease forget` deleted it"):
        explain(follow(run.parameters.lineage_root))
    verdict = verify_place(run.parameters.lineage_root)
    assert verdict.is_whole
    assert {problem.what for problem in verdict.problems} == {"removed on request"}
    run.path("pool").write_bytes(b"changed after the removal")
    (fault,) = (problem for problem in verify_place(run.parameters.lineage_root).problems if problem.is_fault)
    assert (fault.uri, fault.what) == (str(run.path("pool")), "changed")


def texts_of(run):
    """Input texts of all rows of a run, those of its winner first."""
    best = [entry["input"] for entry in json.loads(run.path("best_sequence").read_text())["exemplars"]]
    return best + [
        text for name in ("pool", "validation", "test") for text in pq.read_table(run.path(name))["input"].to_pylist()
    ]


def test_names_that_our_own_files_use_are_no_rows(published, capsys):
    for name in ("initial", "search", "best", "pool", "simulated", "ease", "auto", "optimize", "complete", "table"):
        assert forget(name, published.folder, prompts_of(published), more=()) == 0
        assert "0 files and objects of runs and stores hold row" in capsys.readouterr().out, name


LEFT_ELSEWHERE = 3


def forget(text, *places, more=("--remove",)):
    return cli.main(["forget", "--row", text, *(word for place in places for word in ("--in", str(place))), *more])


def test_a_row_is_removed_from_prompts_that_are_written_in_another_way(tmp_path):
    (tmp_path / "prompt.yaml").write_text(
        "exemplars: turns\nquery: 'A customer said {input}, which is'", encoding="utf-8"
    )
    values = {"prompt": str(tmp_path / "prompt.yaml"), "publish_uri": str(tmp_path / "prompts")}
    run = RecordedRun(tmp_path / "run", **values).remembered()
    text = texts_of(run)[0]
    shown = [path for path in tmp_path.rglob("*") if path.is_file() and text in path.read_text(errors="ignore")]
    assert {"prompt.txt", "messages.json", "request.json", "report.html"} <= {path.name for path in shown}
    assert forget(text, run.folder, tmp_path / "prompts") == LEFT_ELSEWHERE
    assert not [path for path in shown if path.exists() and text in path.read_text(errors="ignore")]


def test_a_removal_by_relative_paths_is_verified_by_any(tmp_path, monkeypatch):
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    shutil.copytree(run.path("results"), run.folder, dirs_exist_ok=True)  # as `ease run` does
    shutil.copyfile(run.folder / "evaluate" / "lineage" / "report.json", run.folder / "lineage.json")
    monkeypatch.chdir(tmp_path)
    assert forget(texts_of(run)[0], "run", "./prompts/../prompts") == 0
    for place in ("run", "prompts", str(tmp_path / "run"), str(tmp_path / "prompts"), "run/../prompts"):
        verdict = verify_place(place)
        assert {problem.what for problem in verdict.problems} == {"removed on request"}, place
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert {problem.what for problem in verify_place("moved").problems} == {"removed on request"}
    assert verify_place(str(tmp_path / "moved"), all_versions=True).is_whole


def test_every_run_that_is_affected_gets_the_tombstone_and_its_own_command(tmp_path, capsys):
    common = {"publish_uri": str(tmp_path / "prompts"), "pool_size": 5, "validation_size": 3, "test_size": 3}
    runs = [
        RecordedRun(tmp_path / str(seed), **common, seed=seed, k=2, prefilter="none").remembered() for seed in (1, 2, 3)
    ]
    tombstones = [Path(run.parameters.lineage_root) / "tombstones" for run in runs]
    text = next(text for text in texts_of(runs[0]) if all(text not in texts_of(run) for run in runs[1:]))
    capsys.readouterr()
    assert forget(text, *(run.folder for run in runs), tmp_path / "prompts") == 0
    said = capsys.readouterr().out
    assert [folder.exists() for folder in tombstones] == [True, False, False]
    assert [line.count("--seed 1 ") for line in said.splitlines() if line.startswith(".venv/bin/ease run ")] == [1]
    assert [runs[number].run_id in said for number in range(3)] == [True, False, False]
    version = json.loads(runs[0].path("publication").read_text())["version"]
    for place in (
        runs[0].parameters.lineage_root,
        runs[2].parameters.lineage_root,
        f"{tmp_path}/prompts/versions/{version}",
    ):
        assert verify_place(place).is_whole
    assert verify_place(runs[0].parameters.lineage_root).problems != ()
    verdict = verify_place(prompts_of(runs[2]), all_versions=True)
    assert {problem.what for problem in verdict.problems} == {"removed on request"}
    assert json.loads((tmp_path / "prompts" / "latest.json").read_text())["version"] != version


def test_a_row_of_the_latest_prompt_gives_way_to_the_one_before_and_the_gate_compares_with_that(tmp_path, capsys):
    prompts = str(tmp_path / "prompts")
    common = {"publish_uri": prompts, "test_size": 60, "store_uri": str(tmp_path / "store")}
    first = RecordedRun(tmp_path / "first", **common, seed=1).remembered()
    second = RecordedRun(tmp_path / "second", **common, seed=2).remembered()
    versions = [json.loads(run.path("publication").read_text())["version"] for run in (first, second)]
    text = next(text for text in texts_of(second)[:3] if text not in texts_of(first)[:3])
    assert forget(text, second.folder, prompts) == LEFT_ELSEWHERE
    assert read_latest(open_store(prompts)).version == versions[0]
    assert verify_place(str(prompts), all_versions=True).is_whole
    third = RecordedRun(
        tmp_path / "third", **common, seed=1, exclude_rows=row_hash(text), publish_if="better"
    ).remembered()
    assert versions[0] in json.loads(third.path("publication").read_text())["reason"]
    capsys.readouterr()
    assert cli.main(["lineage", "find", prompts, "--row", text]) == 0
    said = capsys.readouterr().out
    assert f"{versions[1]}  " in said
    assert "prompt removed" in said
    assert said.splitlines()[-1] == "0 published versions hold it; 1 held it until the prompt was removed"


def test_a_retry_of_publishing_does_not_bring_back_a_prompt_that_was_removed(tmp_path):
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    kept = shutil.copytree(run.folder, tmp_path / "kept")
    assert (
        forget(texts_of(run)[0], prompts_of(run), more=("--remove", "--root", run.parameters.lineage_root))
        == LEFT_ELSEWHERE
    )
    run(publish)
    assert kept.exists()
    assert "was removed since an earlier attempt" in json.loads(run.path("publication").read_text())["reason"]
    assert not (tmp_path / "prompts" / "latest.json").exists()
    assert list((tmp_path / "prompts").rglob("prompt.txt")) == []


@pytest.mark.parametrize("changes", [0, 1, 2, 4, 9])
def test_a_removal_that_was_killed_is_named_and_continued_by_the_same_command(changes, restored, monkeypatch):
    run, folder = restored("plain")
    text = texts_of(run)[0]
    left = iter(range(changes + 1))  # the tombstone is written first

    for name in ("write", "delete"):
        monkeypatch.setattr(FileStore, name, killed_when(left, getattr(FileStore, name)))
    with pytest.raises(Killed):
        forget(text, run.folder, prompts_of(run))
    monkeypatch.undo()
    between = verify_place(run.parameters.lineage_root).problems
    assert {problem.what for problem in between if problem.stage != "forget"} <= {"removed on request"}
    (unfinished,) = (problem for problem in between if problem.stage == "forget")
    assert (unfinished.what, unfinished.is_fault) == ("removal unfinished", True)
    assert forget(text, run.folder, prompts_of(run)) == 0
    for place in (run.parameters.lineage_root, prompts_of(run)):
        assert {problem.what for problem in verify_place(place).problems} == {"removed on request"}
    assert [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()] == []
    assert len(list(folder.rglob("tombstones/*/*"))) == 1


def test_a_continued_removal_ends_what_the_killed_one_meant_in_other_places_too(restored, monkeypatch):
    run, folder = restored("plain")
    text = texts_of(run)[0]
    monkeypatch.setattr(FileStore, "delete", kill)
    with pytest.raises(Killed):
        forget(text, run.folder, prompts_of(run))
    monkeypatch.undo()
    assert forget(text, run.parameters.lineage_root) == LEFT_ELSEWHERE
    assert list((folder / "prompts").rglob("prompt.txt")) == []
    assert not (folder / "prompts" / "latest.json").exists()
    assert verify_place(prompts_of(run)).is_whole


def test_what_was_tampered_with_before_or_after_a_removal_is_not_excused_by_it(tmp_path):
    run = RecordedRun(tmp_path / "run").remembered(*STAGES[:3])
    text = pq.read_table(run.path("pool"))["input"].to_pylist()[0]
    table = pq.read_table(run.path("pool"))
    pq.write_table(table.slice(0, 10), run.path("pool"))
    assert forget(text, run.folder) == 0
    (fault,) = (problem for problem in verify_place(run.parameters.lineage_root).problems if problem.is_fault)
    assert (fault.uri, fault.what) == (str(run.path("pool")), "missing")


def test_two_rows_are_forgotten_one_after_the_other(tmp_path):
    run = RecordedRun(tmp_path / "run").remembered(*STAGES[:3])
    for name in ("pool", "test"):
        assert forget(pq.read_table(run.path(name))["input"].to_pylist()[0], run.folder) == 0
    assert not run.path("pool").exists()
    assert not run.path("test").exists()
    assert {problem.what for problem in verify_place(run.parameters.lineage_root).problems} == {"removed on request"}


def test_a_file_that_somebody_deletes_or_replaces_meanwhile_is_deleted_by_the_next_command(
    tmp_path, monkeypatch, capsys
):
    run = RecordedRun(tmp_path / "run").remembered(*STAGES[:3])
    text = pq.read_table(run.path("kept"))["input"].to_pylist()[0]
    carry_out = Removal.carry_out

    def disturbed(*arguments):
        run.path("pool").unlink()
        pq.write_table(pq.read_table(run.path("kept")).slice(0, 3), run.path("kept"))
        return carry_out(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Removal, "carry_out", disturbed)
        assert forget(text, run.folder) == LEFT_ELSEWHERE
    assert f"still there: {run.path('kept')}, written in the meantime; run this again" in capsys.readouterr().out
    assert forget(text, run.folder) == 0
    assert not run.path("kept").exists()


def test_your_own_table_is_never_changed_and_named_with_its_lines(tmp_path, capsys):
    rows = [f"text number {number},{'good' if number % 2 else 'bad'}" for number in range(60)]
    raw = tmp_path / "raw" / "tickets.csv"
    raw.parent.mkdir()
    raw.write_text("\n".join(["text,label", *rows, "they wrote: text number 7,bad"]))
    before = raw.read_bytes()
    table = {"task": "table", "task_uri": str(raw), "input_columns": "text", "output_column": "label"}
    run = RecordedRun(tmp_path / "run", **table).remembered(*STAGES[:2])
    assert forget("text number 7", run.folder) == LEFT_ELSEWHERE
    assert f"not searched: {raw}; add --in {raw}" in capsys.readouterr().out
    assert forget("text number 7", raw, more=("--remove", "--root", run.parameters.lineage_root)) == LEFT_ELSEWHERE
    said = capsys.readouterr().out.splitlines()
    for line in (9, 62):
        assert f"notice: still there: {raw}, line {line}" in said
    assert "nothing had to be deleted" in said
    assert raw.read_bytes() == before
    assert verify_place(run.parameters.lineage_root).is_whole


@pytest.mark.parametrize("where", ["folder", "s3"])
def test_answers_that_repeat_a_row_are_deleted_for_good_and_asked_again(where, request, tmp_path):
    store = str(tmp_path / "store") if where == "folder" else request.getfixturevalue("s3_prefix")
    run = RecordedRun(tmp_path / "run", store_uri=store)()
    answer, _ = Counter(pq.read_table(run.path("predictions"))["prediction"].to_pylist()).most_common(1)[0]
    assert forget(answer, store) == LEFT_ELSEWHERE
    places = open_store(store)
    kept = [name for name in places.walk_names() if f'"{answer}"'.encode() in (places.read(name) or b"")]
    assert kept == []
    assert {problem.what for problem in verify_place(run.parameters.lineage_root).problems} == {"removed on request"}


@pytest.mark.rooms("ease_lib/lineage", "ease_lib/artifacts/store.py")
def test_a_row_is_forgotten_in_a_bucket_as_in_a_folder(s3_prefix, tmp_path):
    common = {"publish_uri": f"{s3_prefix}/prompts", "store_uri": f"{s3_prefix}/store"}
    first, second = (RecordedRun(tmp_path / str(seed), **common, seed=seed)() for seed in (1, 2))
    text = next(text for text in texts_of(second)[:3] if text not in texts_of(first)[:3])
    assert forget(text, second.folder, s3_prefix) == 0
    version = json.loads(first.path("publication").read_text())["version"]
    assert read_latest(open_store(prompts_of(first))).version == version
    for place in (prompts_of(second), second.parameters.lineage_root):
        verdict = verify_place(place, all_versions=True)
        assert {problem.what for problem in verdict.problems} == {"removed on request"}
    assert forget(texts_of(first)[0], first.folder, s3_prefix) == 0
    assert read_latest(open_store(prompts_of(first))) is None


def tickets(folder):
    """A run on a table whose input is two columns beside a customer's number."""
    folder.mkdir(parents=True)
    with (folder / "tickets.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["customer", "subject", "body", "team"])
        writer.writerows(
            (f"C{number:03}", f"subject of ticket {number}", f"the long body of ticket {number}", "ab"[number % 2])
            for number in range(60)
        )
    where = {"task": "table", "task_uri": str(folder / "tickets.csv"), "publish_uri": str(folder / "prompts")}
    columns = {"input_columns": "subject,body", "output_column": "team", "method": "best_of_n"}
    return RecordedRun(folder / "run", **where, **columns).remembered()


def held_in(folder, *texts):
    """Names of files that hold one of these texts, in their bytes or, of Parquet, in their values."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("responses.sqlite")]
    rows = RowQuery("", texts)
    return {path.name for path in files if places_in(path.name, path.read_bytes(), rows)}


@pytest.mark.parametrize("split", ["exemplar", "validation", "test"])
@pytest.mark.parametrize("named", ["--where", "by a cell", "by the input"])
def test_a_row_of_several_columns_is_forgotten_by_whatever_names_it(split, named, restored, capsys):
    run, folder = restored("tickets")
    best = json.loads(run.path("best_sequence").read_text())
    rows = {
        "exemplar": best["exemplars"],
        **{name: pq.read_table(run.path(name)).to_pylist() for name in ("validation", "test")},
    }
    text = rows[split][0]["input"]
    number = int(text.split()[-1])
    subject, body = f"subject of ticket {number}", f"the long body of ticket {number}"
    assert "tickets.csv" in held_in(folder, body + ",")
    how = {
        "--where": ["--where", f"customer=C{number:03}"],
        "by a cell": ["--row", body],
        "by the input": ["--row", text],
    }
    before = kept_answers(run)
    table = (folder / "tickets.csv").read_bytes()
    assert cli.main(["forget", *how[named], "--in", str(folder), "--remove"]) == LEFT_ELSEWHERE
    out = capsys.readouterr().out
    assert f"--exclude-rows {row_hash(text)}" in out
    assert f"notice: still there: {folder}/tickets.csv, line {number + 2}" in out.splitlines()
    assert out.count("notice: still there") == 1, "nothing else is left"
    assert held_in(folder, f"{subject}\n", f"{body}\n", f"{body},", text) == {"tickets.csv"}
    assert (folder / "tickets.csv").read_bytes() == table
    if split == "exemplar":
        assert list((folder / "prompts").rglob("prompt.txt")) == [], "no prompt with a hole"
    if split == "test":
        ids = {rows["test"][0]["exemplar_id"]}
        assert not run.path("predictions").exists()
        assert not run.path("embeddings").exists()
        assert ids
    if split != "exemplar":
        assert {account.rpartition(" about ")[2] for account in before} - {
            account.rpartition(" about ")[2] for account in kept_answers(run)
        } == {row_hash(text)}
    assert verify_place(prompts_of(run), all_versions=True).is_whole


def test_all_rows_that_a_condition_fits_are_deleted_at_once_each_with_a_tombstone(restored, capsys):
    run, folder = restored("tickets")
    texts = {text for text in texts_of(run) if int(text.split()[-1]) % 2}
    assert cli.main(["forget", "--where", "team=b", "--in", str(folder), "--remove"]) == LEFT_ELSEWHERE
    said = capsys.readouterr().out.splitlines()
    assert all(f"notice: still there: {folder}/tickets.csv, line {number + 2}" in said for number in range(1, 60, 2))
    assert held_in(folder, *texts) == set()
    tombstones = {path.name for path in Path(run.parameters.lineage_root, "tombstones").iterdir()}
    assert tombstones == set(map(row_hash, texts))
    assert verify_place(prompts_of(run), all_versions=True).is_whole


def kept_answers(run):
    """Accounts of the answers in the store."""
    entries = kept_entries(run.folder / "store" / "responses.sqlite")
    return [json.loads(entry.partition(b"\n")[2])["account"] for _, entry in entries]


def test_a_condition_that_no_row_fits_is_said(restored, capsys):
    run, folder = restored("tickets")
    assert cli.main(["forget", "--where", "customer=C999", "--in", str(folder)]) == 2
    assert "no row has customer=C999 in the tables there" in capsys.readouterr().err
    assert cli.main(["forget", "--where", "customer", "--in", str(run.folder)]) == 2
    assert "write COLUMN=VALUE" in capsys.readouterr().err


def test_nothing_is_deleted_without_a_place_for_the_tombstone(published, tmp_path, capsys):
    pool = shutil.copy(published.path("pool"), tmp_path / "pool")
    before, text = Path(pool).read_bytes(), texts_of(published)[0]
    assert forget(text, tmp_path) == 2
    assert "no place for the tombstone\n  name one with --root" in capsys.readouterr().err
    assert Path(pool).read_bytes() == before
    assert forget(text, tmp_path, more=("--remove", "--root", str(tmp_path / "root"))) == 0
    assert not Path(pool).exists()
    assert forget(text, tmp_path / "typo") == 2
    assert "typo: no file or object is there\n  check --in" in capsys.readouterr().err


def test_the_command_line_answers_and_has_exit_codes(published, tmp_path, capsys):
    place = prompts_of(published)
    assert cli.main(["lineage", "verify", place]) == 0
    assert cli.main(["lineage", "show", place, "--page", str(tmp_path / "page.html")]) == 0
    assert "Where this prompt comes from" in (tmp_path / "page.html").read_text()
    assert cli.main(["lineage", "export", place, "--to", str(tmp_path / "exports")]) == 0
    for name in ("provenance.intoto.json", "croissant.json"):  # the events are one stage more by now
        (in_version,) = Path(place).glob(f"versions/*/{name}")
        assert (tmp_path / "exports" / name).read_bytes() == in_version.read_bytes()
    assert cli.main(["lineage", "rerun", place]) == 0
    assert "--noise-ratio 0.2" in capsys.readouterr().out
    shutil.copytree(place, tmp_path / "copy")
    (tmp_path / "copy" / "latest.json").write_text("{}")
    assert cli.main(["lineage", "verify", str(tmp_path / "copy")]) == 3
    assert "latest.json" in capsys.readouterr().out
    assert cli.main(["lineage", "show", str(tmp_path / "nothing")]) == 2
    assert "no lineage record is there" in capsys.readouterr().err


def test_a_restart_of_all_that_concludes_a_run_publishes_no_second_version(tmp_path):
    """The pod of tests, report and publication died behind its last write: its records are made anew."""
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    before = json.loads(run.path("publication").read_text())
    run(evaluate, gate, report, publish)
    after = json.loads(run.path("publication").read_text())
    assert [path.name for path in (tmp_path / "prompts" / "versions").iterdir()] == [before["version"]]
    assert after["version"] == before["version"]
    assert verify_place(prompts_of(run), all_versions=True).problems == ()


def test_what_a_run_left_that_was_killed_for_good_is_no_fault_of_later_ones(published, tmp_path):
    shutil.copytree(prompts_of(published), tmp_path / "prompts")
    (version,) = (tmp_path / "prompts" / "versions").iterdir()
    killed = tmp_path / "prompts" / "versions" / "20260101T000000Z-killed00"
    shutil.copytree(version, killed)
    (killed / "version.json").unlink()
    found = verify_place(str(tmp_path / "prompts"), all_versions=True)
    assert found.is_whole
    assert {(problem.what, Path(problem.uri).parent.name) for problem in found.problems if "killed" in problem.uri} == {
        ("publication unfinished", killed.name)
    }
    (version / "version.json").unlink()
    for mark in (tmp_path / "prompts").glob("*/*/*"):
        if mark.name == version.name and mark.is_file():
            mark.unlink()
    problems = verify_place(str(tmp_path / "prompts"), all_versions=True).problems
    assert "missing" in {problem.what for problem in problems if version.name in problem.uri}, "latest.json names it"


def values_in(value, path=()):
    """Every place in a JSON value, as the keys and numbers that lead there."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in ("parameters", "packages"):
            yield from values_in(inner, (*path, key))


@pytest.mark.rooms("ease_lib/lineage")
def test_no_value_of_a_hostile_record_breaks_the_verification(published, tmp_path):
    """Each in turn is of another type; who wrote it has recomputed its digest and that of the page beside it."""
    record = next(each for each in records(published) if each["stage"] == "evaluate")
    for path in values_in(record):
        for wrong in (None, 7, "x", [], {}, [7], {"a": 7}, True):
            hostile = json.loads(json.dumps(record))
            inside = hostile
            for key in path[:-1]:
                inside = inside[key]
            if path:
                inside[path[-1]] = wrong
            else:
                hostile = wrong if isinstance(wrong, dict) else {}
            (tmp_path / "lineage.json").write_bytes(encode(hostile))
            with suppress(LineageError):
                verify_place(str(tmp_path))


@pytest.mark.parametrize(
    "uri",
    ["package:this/x", "package:ease_lib/../../etc/passwd", "package:antigravity/a", "package:ease_lib.nothing/a"],
)
def test_nothing_that_a_record_names_is_imported_or_read_outside_of_our_own_package(uri, tmp_path):
    before = set(sys.modules)
    assert Place().read(uri) is None
    assert set(sys.modules) == before


def test_a_device_or_a_pipe_that_a_record_names_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert Place().read(str(tmp_path / "pipe")) is None
    assert Place().read("/dev/zero") is None
    assert Place().read(f"package:{SHIPPED}").startswith(b"text,kind")


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.rooms("ease_lib/lineage", "ease_lib/stages", "ease_lib/artifacts", "tests/tamper.py", "tests/forger.py")
def test_killed_at_any_write_the_next_attempt_publishes_one_version_that_holds(signs, tmp_path, monkeypatch):
    if signs:
        monkeypatch.setenv("EASE_SIGNING_KEY", KeyPair(tmp_path).private)
    prompts, folder = tmp_path / "prompts", tmp_path / "run"
    run = RecordedRun(folder, publish_uri=str(prompts)).remembered(*STAGES[:-1])
    shutil.copytree(folder, tmp_path / "before")
    for reached in itertools.count():
        attempt = copy.deepcopy(run)  # with what it knows of its artifacts
        with monkeypatch.context() as patched:
            left = iter(range(reached))
            for name in ("write", "swap"):
                patched.setattr(FileStore, name, killed_when(left, getattr(FileStore, name)))
            with suppress(Killed):
                attempt(publish)
                break
        attempt(evaluate, gate, report, publish)
        assert len(list((prompts / "versions").iterdir())) == 1
        assert verify_place(str(prompts), all_versions=True).problems == ()
        shutil.rmtree(prompts)
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "before", folder)
    assert reached > 20


def killed_when(left, real):
    """Act like the real function until nothing is left."""
    return lambda *arguments: kill() if next(left, None) is None else real(*arguments)
