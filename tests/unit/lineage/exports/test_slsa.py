import hashlib
import json

import pytest

from ease_lib.lineage.exports.slsa import BUILD_TYPE, provenance_statement
from ease_lib.lineage.record import resource_uri
from tests.unit.lineage.exports.lineage_records import (
    COMMIT,
    LLM,
    PARAMETERS,
    RecordedRun,
    digest,
    recorded_run,
    result_files,
)

HARD_CASES = {
    "whole run in S3": {},
    "whole run in folders": {"artifacts": "/tmp/ärtifacts #1", "root": "/tmp/lineage"},
    "no root": {"root": ""},
    "no check_prerequisites": {"without": ["check_prerequisites"]},
    "no LLM": {"llm": None},
    "no embedder": {"without": ["embed"]},
    "failed check": {"check_prerequisites": {"state": "failed", "error": "ConfigError"}},
    "nothing known of the software": {
        "software": {"ease": "0", "revision": "", "image": "", "python": "3", "packages": {}}
    },
}


@pytest.fixture(params=HARD_CASES.values(), ids=HARD_CASES.keys())
def statement(request):
    return provenance_statement(recorded_run(**request.param).chain(), result_files())


def test_statement_passes_the_parser_of_in_toto(statement):
    json_format = pytest.importorskip("google.protobuf.json_format")
    statement_pb2 = pytest.importorskip("in_toto_attestation.v1.statement_pb2")
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
    from in_toto_attestation.v1.statement import Statement

    parsed = json_format.ParseDict(json.loads(json.dumps(statement)), statement_pb2.Statement())
    Statement.copy_from_pb(parsed).validate()
    provenance = json_format.ParseDict(statement["predicate"], provenance_pb2.Provenance())
    for resource in [*provenance.build_definition.resolved_dependencies, *provenance.run_details.byproducts]:
        ResourceDescriptor.copy_from_pb(resource).validate()


def test_statement_has_what_slsa_requires(statement):
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert definition["buildType"] == BUILD_TYPE
    assert definition["externalParameters"] == PARAMETERS
    assert details["builder"]["id"]


def test_subjects_are_all_result_files_with_the_prompt_and_the_report_first():
    subjects = provenance_statement(recorded_run().chain(), result_files())["subject"]
    assert [each["name"] for each in subjects[:2]] == ["prompt.txt", "report.html"]
    assert {each["name"]: each["digest"]["sha256"] for each in subjects} == {
        name: file["sha256"] for name, file in result_files().items()
    }


def test_equal_records_give_equal_statements_whatever_order_they_were_found_in():
    run, other = recorded_run(), recorded_run()
    for each in (run, other):
        each.add("optimize", beside=True, state="failed", error="EndpointError")
        each.add("optimize", beside=True, state="stopped")
    other.beside.reverse()
    statements = [json.dumps(provenance_statement(each.chain(), result_files())) for each in (run, other)]
    assert statements[0] == statements[1]


@pytest.mark.parametrize("state", ["started", "complete"])
def test_publishing_changes_nothing_about_where_the_files_come_from(state):
    run = recorded_run()
    before = provenance_statement(run.chain(), result_files())
    run.add("publish", beside=state == "started", state=state)
    assert provenance_statement(run.chain(), result_files()) == before


def test_parameters_at_their_default_are_there_and_named():
    run = recorded_run(check_prerequisites={"parameters": {"k": 5, "nu": 1.5}, "defaults": ["k"]})
    definition = _definition(run)
    assert definition["externalParameters"] == {"k": 5, "nu": 1.5}
    assert definition["internalParameters"]["defaults"] == ["k"]


def test_without_the_record_of_the_check_the_stages_parameters_are_put_together():
    run = RecordedRun()
    run.add("build_dataset", parameters={"task": "a", "seed": 3}, defaults=["task"])
    run.add("report", parameters={"k": 2, "seed": 3}, defaults=["k"])
    definition = _definition(run)
    assert definition["externalParameters"] == {"k": 2, "seed": 3, "task": "a"}
    assert definition["internalParameters"]["defaults"] == ["k", "task"]
    assert definition["internalParameters"]["seed"] == 3


def test_attempts_tell_pods_retries_and_earlier_attempts():
    run = recorded_run()
    run.add("optimize", beside=True, state="failed", error="EndpointError")
    attempts = _definition(run)["internalParameters"]["attempts"]
    assert [each["state"] for each in attempts if each["stage"] == "optimize"] == ["complete", "failed"]
    assert attempts[0] == {
        "stage": "check_prerequisites",
        "state": "complete",
        "id": run.beside[0].id,
        "pod": "pod-0",
        "retry": 0,
        "earlier": [],
    }


def test_raw_data_is_a_dependency_with_its_digest():
    (data,) = _dependencies(recorded_run(), "data")
    assert data["uri"] == "s3://bucket/ease run/raw data/tâche.csv"
    assert data["name"] == "tâche.csv"
    assert data["digest"] == {"sha256": digest("raw")}


def test_instructions_files_are_dependencies_too():
    run = recorded_run()
    read = [{"uri": "/data/instructions.txt", "sha256": digest("i"), "bytes": 1}]
    run.steps.insert(0, _step_of(RecordedRun(), "propose_instructions", files_read=read))
    assert [each["name"] for each in _dependencies(run, "data")] == ["instructions.txt", "tâche.csv"]


def test_a_model_is_one_dependency_with_all_that_answered():
    other = {**LLM, "answered_by": [{"model": "modèle-7b-0613", "system_fingerprint": "fp_2", "answers": 2}]}
    (model,) = _dependencies(recorded_run(evaluate={"llm": other}), "model")
    assert model["name"] == "modèle-7b"
    assert model["annotations"]["endpoint"] == "https://llm.test/v1"
    assert model["annotations"]["cached_answers"] == 6
    assert model["annotations"]["answered_by"] == [
        {"model": "modèle-7b-0613", "system_fingerprint": "fp_1", "answers": 12},
        {"model": "modèle-7b-0613", "system_fingerprint": "fp_2", "answers": 2},
    ]


def test_answers_paid_by_a_failed_attempt_count_because_the_next_one_finds_them_in_the_cache():
    run = recorded_run()
    paid = {**LLM, "answered_by": [{"model": "older", "system_fingerprint": "", "answers": 1}]}
    run.add("optimize", beside=True, state="failed", error="EndpointError", llm=paid)
    (model,) = _dependencies(run, "model")
    assert "older" in [each["model"] for each in model["annotations"]["answered_by"]]


def test_the_trial_question_of_the_check_is_no_dependency():
    run = recorded_run(llm=None, check_prerequisites={"llm": LLM})
    assert not _dependencies(run, "model")


def test_embedder_has_the_digest_of_its_weights():
    (embedder,) = _dependencies(recorded_run(), "embedder")
    assert embedder["digest"] == {"sha256": "cd" * 32}
    assert embedder["annotations"] == {"kind": "embedder", "revision": "r1"}


def test_embedder_behind_an_endpoint_has_no_digest():
    remote = {"name": "openai:small", "endpoint": "https://emb.test/v1"}
    (embedder,) = _dependencies(recorded_run(embed={"embedder": remote}), "embedder")
    assert "digest" not in embedder
    assert embedder["annotations"]["endpoint"] == "https://emb.test/v1"


@pytest.mark.parametrize(
    ("image", "expected"), [(f"r.test/ease@sha256:{'ab' * 32}", {"sha256": "ab" * 32}), ("r.test/ease:1.0", None)]
)
def test_image_has_a_digest_when_its_reference_has_one(image, expected):
    (found,) = _dependencies(recorded_run(software=_software(image=image)), "image")
    assert found["name"] == image
    assert found.get("digest") == expected


@pytest.mark.parametrize(
    ("revision", "digest", "dirty"),
    [(COMMIT, {"gitCommit": COMMIT}, None), (f"{COMMIT}-dirty", {"gitCommit": COMMIT}, True), ("v1.2", None, None)],
)
def test_source_is_a_commit_when_it_is_known_and_says_that_files_differed(revision, digest, dirty):
    (source,) = _dependencies(recorded_run(software=_software(revision=revision)), "source")
    assert source.get("digest") == digest
    assert source["annotations"].get("dirty") == dirty
    assert source["annotations"]["revision"] == revision


def test_images_of_several_stages_are_each_there_once():
    run = recorded_run(embed={"software": _software(image="r.test/ease:gpu")})
    assert len(_dependencies(run, "image")) == 2


def test_run_details_are_of_this_run_though_a_stage_came_from_the_cache_of_another():
    run = recorded_run(build_dataset={"run": {"id": "old"}, "started": "2020-01-01T00:00:00.000+00:00"})
    metadata = _details(run)["metadata"]
    assert metadata["invocationId"] == "run-ü 1"
    assert metadata["startedOn"].startswith("2026-11-21T22:00:00")
    assert metadata["finishedOn"] == run.steps[-1].record["ended"]


def test_byproducts_are_tables_summaries_and_records_with_digests():
    run = recorded_run()
    byproducts = {each["name"]: each for each in _details(run)["byproducts"]}
    assert byproducts["optimize/history"]["mediaType"] == "application/vnd.apache.parquet"
    assert byproducts["optimize/history"]["digest"] == {"sha256": digest("s3://bucket/ease run/optimize/history")}
    assert {"evaluate/predictions", "build_dataset/summary", "evaluate/summary"} <= byproducts.keys()
    for step in run.chain().everything:
        record = byproducts[f"records/{step.stage}-{step.id}.json"]
        assert record["uri"] == step.record["attempt"]["record"]
        assert record["digest"] == {"sha256": hashlib.sha256(step.content).hexdigest()}


def test_local_paths_become_uris_and_others_stay():
    assert resource_uri("/tmp/ä b#1") == "file:///tmp/%C3%A4%20b%231"
    assert resource_uri("s3://bucket/a b") == "s3://bucket/a b"
    assert resource_uri("package:ease_lib.tasks/data/x.csv") == "package:ease_lib.tasks/data/x.csv"


def _definition(run):
    return provenance_statement(run.chain(), result_files())["predicate"]["buildDefinition"]


def _details(run):
    return provenance_statement(run.chain(), result_files())["predicate"]["runDetails"]


def _dependencies(run, kind):
    found = _definition(run)["resolvedDependencies"]
    return [each for each in found if each["annotations"]["kind"] == kind]


def _software(**changed):
    return {**RecordedRun().record("report")["software"], **changed}


def _step_of(run, stage, **fields):
    run.add(stage, **fields)
    return run.steps[0]
