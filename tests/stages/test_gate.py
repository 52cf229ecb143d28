"""The published prompt is evaluated before the report, and nothing that is wrong with it costs that report."""

import json
from dataclasses import replace

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.errors import EXIT_STOPPED, ContentRefused, StoreUnavailable
from ease_lib.evaluation.objective import Objective
from ease_lib.lineage.publishing.versions import read_latest
from ease_lib.lineage.verification import verify_place
from ease_lib.stages import evaluate, gate, publish, report
from tests.recorded_run import STAGES, RecordedRun

BEFORE = STAGES[: STAGES.index(gate)]


def document(run, name):
    return json.loads(run.path(name).read_text())


def version_of(run):
    return document(run, "publication")["version"]


@pytest.fixture
def started(tmp_path):
    """Makes a run that is evaluated, with a prompt published before it (`first`: parameters of that one)."""

    def start(*, first=(), **values):
        prompts = {"publish_uri": str(tmp_path / "prompts"), "test_size": 40, "store_uri": str(tmp_path / "store")}
        RecordedRun(tmp_path / "first", **prompts | dict(first)).remembered()
        return RecordedRun(tmp_path / "run", **prompts | {"publish_if": "better", "seed": 1} | values).remembered(
            *BEFORE
        )

    return start


def latest_of(run):
    return read_latest(open_store(run.parameters.publishing.publish_uri)).version


def changed(run, change):
    """The published prompt is another."""
    store, name = open_store(run.parameters.publishing.publish_uri), f"versions/{latest_of(run)}/best_sequence.json"
    store.write(name, change(store.read(name)))


def with_query(query):
    def change(content):
        best = json.loads(content)
        return json.dumps({**best, "template": "", "prompt": {**best["prompt"], "query": query}}).encode()

    return change


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:50], lambda content: b"[]", lambda content: b"\xff", with_query("{subject}?")],
    ids=["cut", "a list", "no UTF-8", "a column since renamed"],
)
def test_a_published_prompt_that_cannot_be_used_keeps_the_new_one_back_with_its_report(started, damage):
    run = started()
    changed(run, damage)
    run(gate, report, publish)
    said = document(run, "publication")
    assert said["state"] == "kept"
    assert f"{latest_of(run)} cannot be evaluated on these rows" in said["reason"]
    assert f"Not compared: {latest_of(run)} cannot be" in run.path("page").read_text()


def test_a_latest_that_cannot_be_read_costs_no_report(started):
    run = started()
    store = open_store(run.parameters.publishing.publish_uri)
    latest = store.read("latest.json")
    store.write("latest.json", b"{")
    run(gate, report)
    assert "Not compared: what is published could not be read" in run.path("page").read_text()
    with pytest.raises(SystemExit):
        run(publish)
    store.write("latest.json", latest)
    run(publish)
    assert "could not be read" in document(run, "publication")["reason"]


def test_a_store_that_is_away_for_a_moment_is_tried_again(started, monkeypatch):
    run = started()

    def away(*given):
        raise StoreUnavailable("503 SlowDown")

    with monkeypatch.context() as patched:
        patched.setattr("ease_lib.lineage.publishing.improvement.read_latest", away)
        with pytest.raises(SystemExit) as ended:
            run(gate)
    assert ended.value.code == EXIT_STOPPED
    run(gate, report, publish)
    assert document(run, "gate")["measured"]


def test_what_an_endpoint_quotes_of_the_published_prompt_stands_in_no_result(started, monkeypatch):
    run = started()
    real = Objective.evaluate

    def refuses(self, question):
        if question.account == "gate":
            real(self, replace(question, rows=range(10)))
            raise ContentRefused("row 26: answered 400: a row of the published prompt")
        return real(self, question)

    monkeypatch.setattr(Objective, "evaluate", refuses)
    run(gate, report, publish)
    said = document(run, "publication")
    assert (said["state"], "(ContentRefused, see the log)" in said["reason"]) == ("kept", True)
    for path in (run.folder.parent / "prompts").rglob("*"):
        assert not path.is_file() or b"a row of the published prompt" not in path.read_bytes()
    assert "a row of the published" not in run.path("page").read_text()


@pytest.mark.parametrize(("left", "compared"), [(5, False), (30, True)])
def test_a_cap_holds_and_what_it_allows_is_compared(started, tmp_path, left, compared):
    asked = 30 + 5 * 40
    run = started(max_llm_requests=asked + left, store_uri=str(tmp_path / "own"), ledger="capped")
    run(gate, report, publish)
    found = document(run, "gate")
    assert found["llm"]["requests"] <= left
    assert bool(found["measured"]) == compared
    if compared:
        assert found["measured"]["rows"] == found["llm"]["requests"]
    else:
        assert "leaves too few requests to compare it with" in document(run, "publication")["reason"]


def test_a_restart_after_publishing_compares_with_what_it_replaced(started):
    run = started(first={"method": "zero_shot"})
    before = latest_of(run)
    run(gate, report, publish)
    first, page = document(run, "gate"), run.path("page").read_text()
    assert document(run, "publication")["state"] == "published"
    run(evaluate, gate, report, publish)
    again = document(run, "gate")
    assert (again["latest"], again["measured"]) == (before, first["measured"])
    assert f"Published now is <code>{before}</code>" in page
    assert f"Published now is <code>{before}</code>" in run.path("page").read_text()
    assert document(run, "publication")["state"] == "published"
    assert verify_place(run.parameters.publishing.publish_uri, all_versions=True).problems == ()


def test_a_prompt_that_became_the_latest_meanwhile_is_named_and_not_replaced(started, tmp_path):
    run = started()
    run(gate, report)
    refused = document(run, "gate")
    other = RecordedRun(tmp_path / "other", publish_uri=run.parameters.publishing.publish_uri, seed=2).remembered()
    run(publish)
    said = document(run, "publication")
    assert refused["latest"] != version_of(other) == latest_of(run)
    assert (said["state"], said["reason"].split(" ")[0]) == ("kept", version_of(other))


def test_a_first_prompt_that_another_run_publishes_meanwhile_is_not_replaced(tmp_path):
    prompts = str(tmp_path / "prompts")
    run = RecordedRun(tmp_path / "run", publish_uri=prompts, publish_if="better", seed=1).remembered(*STAGES[:-1])
    other = RecordedRun(tmp_path / "other", publish_uri=prompts).remembered()
    run(publish)
    assert document(run, "publication")["state"] == "kept"
    assert version_of(other) in document(run, "publication")["reason"]


def test_a_version_that_an_earlier_attempt_wrote_is_judged_by_its_own_report(started, monkeypatch):
    """The page of a version never says the opposite of why it is the latest."""
    run = started()
    run(gate, report)
    with monkeypatch.context() as patched:
        patched.setattr("ease_lib.stages.publish.make_latest", lambda *given: pytest.fail("it is not better"))
        run(publish)
    refused = document(run, "publication")
    monkeypatch.setattr(gate.improvement, "compared", lambda *given: ("", {**document(run, "gate")["measured"]}))
    run(gate, report, publish)
    assert document(run, "gate")["refusal"] == ""
    assert document(run, "publication")["reason"] == refused["reason"]
