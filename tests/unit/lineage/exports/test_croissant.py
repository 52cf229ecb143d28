import pytest

from ease_lib.artifacts import contracts
from ease_lib.lineage.exports.croissant import croissant
from tests.unit.lineage.exports.lineage_records import PARAMETERS, digest, recorded_run


@pytest.fixture
def described():
    return croissant(recorded_run().chain())


def test_no_description_without_the_record_of_the_data_set():
    assert croissant(recorded_run(without=["build_dataset"]).chain()) is None


def test_no_description_when_only_a_failed_attempt_is_known():
    run = recorded_run(without=["build_dataset"])
    run.add("build_dataset", beside=True, state="failed", error="DataError", outputs=[])
    assert croissant(run.chain()) is None


def test_it_conforms_to_version_1_1_and_has_what_that_requires(described):
    assert described["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert described["@type"] == "sc:Dataset"
    required = {"@context", "name", "description", "license", "url", "creator", "datePublished", "distribution"}
    assert required <= described.keys()
    assert described["name"] == PARAMETERS["task"]


@pytest.mark.parametrize("artifacts", ["s3://bucket/ease run", "/tmp/ärtifacts #1"])
def test_files_have_address_and_digest(artifacts):
    files = croissant(recorded_run(artifacts=artifacts).chain())["distribution"]
    assert [file["@id"] for file in files] == ["pool.parquet", "validation.parquet", "test.parquet"]
    for file, name in zip(files, ("pool", "validation", "test"), strict=True):
        assert file["contentUrl"] == f"{artifacts}/build_dataset/{name}"
        assert file["sha256"] == digest(file["contentUrl"])


def test_record_sets_have_the_columns_of_the_contracts(described):
    tables = {"pool": contracts.EXEMPLAR_POOL, "validation": contracts.VALIDATION_SET, "test": contracts.TEST_SET}
    for records in described["recordSet"]:
        columns = [field["source"]["extract"]["column"] for field in records["field"]]
        assert columns == tables[records["@id"]].schema.names


def test_fields_have_types_and_read_the_file_of_their_record_set(described):
    pool = {field["name"]: field for field in described["recordSet"][0]["field"]}
    assert {name: field["dataType"] for name, field in pool.items()} == {
        "exemplar_id": "sc:Integer",
        "input": "sc:Text",
        "outputs": "sc:Text",
        "fields": "sc:Text",
        "origin": "sc:Text",
        "is_noisy": "sc:Boolean",
    }
    assert [name for name, field in pool.items() if field.get("isArray")] == ["outputs"]
    assert {field["source"]["fileObject"]["@id"] for field in pool.values()} == {"pool.parquet"}


def test_every_reference_names_something_that_is_described(described):
    fields = [field["@id"] for records in described["recordSet"] for field in records["field"]]
    files = {file["@id"] for file in described["distribution"]}
    names = [*fields, *files, *(records["@id"] for records in described["recordSet"])]
    assert len(names) == len(set(names))
    assert {records["key"]["@id"] for records in described["recordSet"]} <= set(fields)


def test_it_says_which_files_the_data_was_made_from(described):
    (source,) = described["prov:wasDerivedFrom"]
    assert (source["url"], source["sha256"]) == ("s3://bucket/ease run/raw data/tâche.csv", digest("raw"))


def test_every_term_is_in_the_context(described):
    context, prefixes = described["@context"], ("sc", "cr", "dct", "prov")
    assert all(context[prefix].startswith("http") for prefix in prefixes)
    assert {"conformsTo", "recordSet", "field", "source", "extract", "column", "isArray", "key"} <= context.keys()
