"""Kept answers that a run uses, and reasons to ask everything again."""

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import chain, cycle, repeat

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box import retries
from ease_lib.black_box.client import Sampling, estimated_tokens
from ease_lib.black_box.endpoint_notes import FIRST, EndpointNotes
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.black_box.versions import Versions
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import StoreError
from ease_lib.lineage.verification import verify_place
from ease_lib.notes import Notes
from ease_lib.running.graph import modules_between
from ease_lib.running.under_way import ended
from ease_lib.stages import evaluate, optimize
from tests.recorded_run import RecordedRun
from tests.support.faulty_endpoint import MODEL, faulty_endpoint, status
from tests.support.runs import checked

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def notes_identity():
    return LLMIdentity(endpoint="https://host/v1", model="m", api="chat", sampling=Sampling(max_tokens=8, stop="\n"))


@pytest.fixture
def notes(tmp_path):
    return EndpointNotes(open_store(str(tmp_path)), notes_identity(), Notes())


def refreshed(notes, policy, revision="", probe=(), days=0):
    return notes.refreshed(policy, revision, dict(probe), now=NOW + timedelta(days=days)).answers


def test_never_keeps_what_is_current(notes):
    assert refreshed(notes, "never") == refreshed(notes, "never", days=1000) == FIRST
    newer = refreshed(notes, "always")
    assert refreshed(notes, "never", days=1) == newer != FIRST


def test_always_begins_anew_every_time(notes):
    assert refreshed(notes, "always") != refreshed(notes, "always", days=1)


def test_answers_older_than_so_many_days_are_put_aside(notes):
    first = refreshed(notes, "7")
    assert first != FIRST, "how old the first ones are is not known"
    assert refreshed(notes, "7", days=6) == first
    assert refreshed(notes, "7", days=8) != first


def test_a_probe_that_is_answered_otherwise_begins_anew(notes):
    assert refreshed(notes, "probe", probe={"1+1": "2"}) == FIRST
    assert refreshed(notes, "probe", probe={"1+1": "2", "new question": "x"}) == FIRST
    assert refreshed(notes, "probe", probe={"1+1": "3"}) != FIRST


def test_another_revision_of_the_model_is_another_model(notes):
    assert refreshed(notes, "never", revision="m-2026-01-01") == FIRST
    assert refreshed(notes, "never", revision="m-2026-01-01") == FIRST
    assert refreshed(notes, "never", revision="m-2026-09-01") == "m-2026-09-01"
    assert refreshed(notes, "never") == refreshed(notes, "never", revision="m-2026-09-01")


def test_a_revision_that_comes_back_finds_its_answers(notes):
    assert refreshed(notes, "never", revision="old") == FIRST
    newer = refreshed(notes, "never", revision="new")
    assert refreshed(notes, "never", revision="old") == FIRST
    assert refreshed(notes, "never", revision="new") == newer
    assert refreshed(notes, "always", revision="old", days=1) not in (FIRST, newer)
    assert refreshed(notes, "never", revision="new", days=2) == newer


def test_an_endpoint_that_names_no_revision_is_told_by_its_probe_and_may_come_back(notes):
    assert refreshed(notes, "probe", probe={"1+1": "2"}) == FIRST
    other = refreshed(notes, "probe", probe={"1+1": "3"}, days=1)
    assert refreshed(notes, "probe", probe={"1+1": "2"}, days=2) == FIRST
    assert refreshed(notes, "probe", probe={"1+1": "3"}, days=3) == other


def test_a_note_of_an_earlier_version_is_read(notes, tmp_path):
    refreshed(notes, "never", revision="old")
    (path,) = (tmp_path / "endpoints").iterdir()
    said = json.loads(path.read_text())
    former = {name: said[name] for name in said if name not in ("digest", "earlier", "beside")}
    path.write_text(json.dumps({**former, "answers": "2026-01-01T00:00:00 old"}))
    assert notes.read().current.answers == "2026-01-01T00:00:00 old"
    assert refreshed(notes, "never", revision="new") == "new"
    assert refreshed(notes, "never", revision="old") == "2026-01-01T00:00:00 old"


def test_other_notes_survive_a_refresh(notes):
    notes.keep_left_out(frozenset({"temperature"}))
    refreshed(notes, "always")
    assert notes.read().left_out == ("temperature",)


# --- whole runs -------------------------------------------------------------------------------------------------------


class Model:
    """Answers by a rule that can change, as a deployment under the same name does."""

    def __init__(self):
        self.answer = "praise"

    def __call__(self, prompt):
        return self.answer


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def server(model):
    with faulty_endpoint(model) as running:
        yield running


def begun(server, tmp_path, **changes):
    """The parameters of a run behind its first stage."""
    values = {"llm_base_url": server.base_url, "llm_model": MODEL, "store_uri": str(tmp_path / "store"), **changes}
    return checked(parse_parameters(values))


def test_a_run_that_was_killed_goes_on_with_its_ledger_and_its_answers(server, tmp_path):
    first = begun(server, tmp_path, llm_refresh="always", max_llm_requests=1000)
    again = begun(server, tmp_path, llm_refresh="always", max_llm_requests=2000)
    assert again.continuation == first.continuation
    assert first.continuation.ledger
    ended(open_store(str(tmp_path / "store")), first.continuation)
    later = begun(server, tmp_path, llm_refresh="always", max_llm_requests=1000)
    assert later.continuation.ledger != first.continuation.ledger
    assert later.continuation.answers != first.continuation.answers


def test_runs_without_caps_that_refresh_nothing_leave_nothing(server, tmp_path):
    begun(server, tmp_path)
    assert not (tmp_path / "store" / "under_way").exists()


def test_a_cap_needs_a_place_for_its_ledger(server):
    parameters = parse_parameters({"llm_base_url": server.base_url, "llm_model": MODEL, "max_llm_requests": 10})
    with pytest.raises(Exception, match="max_llm_requests=10 needs store_uri"):
        checked(parameters)


def recorded(server, tmp_path, name, **changes):
    run = RecordedRun(
        tmp_path / name,
        llm_base_url=server.base_url,
        llm_model=MODEL,
        store_uri=str(tmp_path / "store"),
        **{"method": "best_of_n", **changes},
    )
    run.parameters = checked(run.parameters)
    return run


def test_a_schedule_sees_that_the_model_behind_the_name_has_changed(server, model, tmp_path):
    def score(name):
        run = recorded(server, tmp_path, name, llm_refresh="probe")()
        return json.loads((run.path("results") / "report.json").read_text())

    monday = score("monday")
    asked = server.script.requests
    tuesday = score("tuesday")
    assert server.script.requests - asked < 20, "the trial, the probe, and no question of the run"
    model.answer = "none of them"
    wednesday = score("wednesday")
    assert tuesday["best"]["test_score"] == monday["best"]["test_score"]
    assert wednesday["best"]["test_score"] != monday["best"]["test_score"]
    assert monday["oldest_answer"] == tuesday["oldest_answer"] < wednesday["oldest_answer"] + "z"


def versions_of(server, names):
    """The endpoint, with a model that calls itself by the next of these names with every answer."""

    class Versioned(server.RequestHandlerClass):
        def completion(self, prompt, text):
            return {**super().completion(prompt, text), "model": next(names)}

    server.RequestHandlerClass = Versioned
    return server


def test_two_versions_behind_one_name_are_paid_once_and_said(server, model, tmp_path, capfd):
    """A balancer: each run began anew by whichever had answered its trial question."""
    versions_of(server, cycle(["m-1", "m-2"]))
    recorded(server, tmp_path, "first")()
    assert "come from two versions, m-" in capfd.readouterr().err
    for name in ("second", "third", "fourth"):
        asked = server.script.requests
        recorded(server, tmp_path, name)()
        assert server.script.requests - asked == 2, "the trial question of both checks"
    assert "come from two versions, m-" in capfd.readouterr().err


def test_three_versions_by_turns_are_beside_the_runs_own(notes):
    versions = Versions(notes, notes_identity())
    for name in ["a", "b", "c"] * 4:
        versions.generation_of(name)
    for revision in ("b", "c"):
        assert FIRST in notes.read().named(revision).beside


def test_an_answer_without_a_name_is_of_the_last_that_was_named(notes):
    """The answer was once taken for the first model's coming back."""
    versions = Versions(notes, notes_identity())
    assert versions.generation_of("a") == FIRST
    assert [versions.generation_of(name) for name in ["b", "m", "b", "m", "b", "m", "b"]] == ["b"] * 7
    assert notes.read().named("b").beside == {}


def test_a_run_whose_model_changes_keeps_its_answers_and_the_next_one_finds_those_of_the_new_model(server, tmp_path):
    names = chain(["m-1"] * 20, repeat("m-2"))
    versions_of(server, names)
    run = recorded(server, tmp_path, "run")()
    asked = server.script.requests
    run = recorded(server, tmp_path, "next")
    assert run.parameters.continuation.answers == "m-2"
    run()
    paid_again = server.script.requests - asked - 2
    assert 0 < paid_again <= 20, "what the former model had answered, and no more"


def test_a_model_that_is_set_back_is_not_paid_again(server, tmp_path, capfd):
    for name, revision, is_new in (("a", "m-1", True), ("b", "m-2", True), ("c", "m-1", False), ("d", "m-2", False)):
        versions_of(server, repeat(revision))
        asked = server.script.requests
        recorded(server, tmp_path, name)()
        assert (server.script.requests - asked > 2) == is_new, "beside the trial question of both checks"
    assert "two versions" not in capfd.readouterr().err


MESSAGES = '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{input}"}]'


@pytest.mark.parametrize("baseline", ["Sort: {input}", MESSAGES], ids=["text", "messages"])
def test_a_baseline_is_all_that_is_paid_for_where_it_is_added_to_a_run(server, tmp_path, baseline):
    """The search is the same: its journal is found, and its answers are."""
    now = tmp_path / ("now.json" if baseline == MESSAGES else "now.txt")
    now.write_text(baseline)
    before = recorded(server, tmp_path, "before")()
    asked = server.script.requests
    after = recorded(server, tmp_path, "after", baseline=str(now))()
    assert server.script.requests - asked == 12 + 2, "12 test rows, and the trial question of both checks"
    one, other = (json.loads(run.path("results").joinpath("report.json").read_text()) for run in (before, after))
    assert other["replayed_evaluations"] == one["evaluations"] == 5
    assert other["best"] == one["best"]


def test_a_higher_cap_continues_a_search_that_the_lower_one_ended_and_a_lower_one_ends_with_a_result(server, tmp_path):
    """The commonest resume of all: the same command, with more to spend."""
    own = {"method": "adaptive", "budget": 0, "order_report": 0, "validation_size": 30, "evaluation_rows": 0}

    def report_of(cap):
        run = recorded(server, tmp_path, f"run{cap}", **own, max_llm_requests=cap)()
        return json.loads(run.path("results").joinpath("report.json").read_text())

    first = report_of(200)
    asked = server.script.requests
    second = report_of(320)
    assert first["answers"] == 200 - 5 * 12
    assert second["answers"] == 320 - 5 * 12
    assert second["replayed_evaluations"] == first["evaluations"]
    assert server.script.requests - asked <= 120 + 5 * 12 + 2, "what was answered is not asked again"
    lower = report_of(150)
    assert (lower["answers"], lower["replayed_evaluations"]) == (150 - 5 * 12, 0)
    assert report_of(200)["best"] == first["best"]


def test_no_prompt_of_a_run_is_longer_than_its_limit_those_of_the_test_set_neither(server, tmp_path):
    prompts = []
    server.script.on_request = prompts.append
    recorded(server, tmp_path, "run", max_prompt_tokens=56, k=3)()
    assert max(map(estimated_tokens, prompts)) <= 56 + 2, "each part of a prompt is rounded"
    shown = [prompt.count("Output: ") for prompt in prompts]
    assert {*shown} == {0, 2, 3}, "some random sequences would have been too long"


def test_a_cap_that_retries_reach_within_the_test_set_leaves_the_last_rows_unasked(server, tmp_path, capfd):
    """5 x 6 requests of the search and 5 x 12 of the test set; 25 of them fail once, and what they take is missing."""
    run = recorded(server, tmp_path, "run", max_llm_requests=30 + 60 + 3)
    run(*modules_between("", "optimize"), optimize)
    asked = server.script.requests
    server.script.faults = [status(429)] * 25
    run(evaluate)
    assert server.script.requests - asked <= 60 + 3
    assert re.search(r"max_llm_requests=93 left \d+ of 60 answers about the test set unasked", capfd.readouterr().err)
    tested = json.loads(run.path("test_scores").read_text())
    assert tested["best"]["rows"] > 0
    assert tested["best"]["failed_rows"] == 0


def test_the_test_set_of_an_endpoint_that_answers_nothing_obeys_the_cap_too(server, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(retries, "LONGEST_BACKOFF_SECONDS", 0.05)
    run = recorded(server, tmp_path, "run", max_llm_requests=30 + 60 + 3)
    run(*modules_between("", "optimize"), optimize)
    asked = server.script.requests
    server.script.faults = [status(503)] * 100
    with pytest.raises(SystemExit):
        run(evaluate)
    assert "max_llm_requests=93 does not allow another request" in capfd.readouterr().err
    assert server.script.requests - asked <= 60 + 3


def test_a_note_of_an_endpoint_that_was_changed_is_found_and_that_of_a_later_run_is_none(server, tmp_path):
    first = recorded(server, tmp_path, "first", llm_refresh="always")()
    (note,) = (tmp_path / "store" / "endpoints").iterdir()
    recorded(server, tmp_path, "later", llm_refresh="always", seed=1)()
    assert verify_place(first.parameters.lineage_root, run=first.run_id).problems == ()
    whole = note.read_bytes()
    said = json.loads(whole)
    note.write_text(json.dumps({**said, "left_out": ["temperature"]}))
    (problem,) = verify_place(first.parameters.lineage_root, run=first.run_id).problems
    assert (problem.what, problem.uri) == ("changed", str(note))
    with pytest.raises(StoreError, match="is damaged or was edited by hand"):
        recorded(server, tmp_path, "after")
