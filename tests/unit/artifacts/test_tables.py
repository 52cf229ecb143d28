import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import (
    read_document,
    read_exemplars,
    read_table,
    table_of,
    write_document,
    write_exemplars,
    write_table,
)
from ease_lib.errors import ContractError
from ease_lib.tasks.base import Exemplar

POOL = [Exemplar(0, "a\nb", ("x", "y"), True), Exemplar(5, "日本", ("z",), None)]


def test_exemplars_come_back_as_they_were_written(tmp_path):
    write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, POOL)
    assert read_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL) == POOL


def test_equal_content_gives_equal_bytes(tmp_path):
    for name in "ab":
        write_exemplars(tmp_path / name, contracts.EXEMPLAR_POOL, POOL)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_another_contract_is_refused(tmp_path):
    write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, POOL)
    with pytest.raises(ContractError, match="expected contract test_set/3, found exemplar_pool/3"):
        read_table(tmp_path / "pool", contracts.TEST_SET)


def test_a_parquet_file_of_somebody_else_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "pool")
    with pytest.raises(ContractError, match="expected contract exemplar_pool/3, found none"):
        read_table(tmp_path / "pool", contracts.EXEMPLAR_POOL)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([], "has no rows"),
        ([POOL[0], POOL[0]], "column exemplar_id has repeated values"),
        ([Exemplar(0, "a", ())], "column outputs is empty in row 1"),
        ([Exemplar(0, None, ("x",))], "column input"),
    ],
)
def test_invariants_are_checked_before_anything_is_written(tmp_path, rows, problem):
    with pytest.raises(ContractError, match=problem):
        write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, rows)
    assert list(tmp_path.iterdir()) == []


def test_wrong_column_type_is_named(tmp_path):
    with pytest.raises(ContractError, match="wrong columns"):
        write_table(tmp_path / "t", contracts.TEST_SET, {"exemplar_id": ["x"], "input": ["a"], "outputs": [["b"]]})


def test_a_truncated_file_is_refused(tmp_path):
    write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, POOL)
    content = (tmp_path / "pool").read_bytes()
    (tmp_path / "pool").write_bytes(content[: len(content) // 2])
    with pytest.raises(ContractError, match="cannot be read"):
        read_table(tmp_path / "pool", contracts.EXEMPLAR_POOL)


SUMMARY = {
    "task": "t",
    "metric": "m",
    "metric_sha256": "",
    "pool": 1,
    "validation": 1,
    "test": 1,
    "noisy": None,
    "unused": 0,
    "classes": {},
    "notices": [],
    "template": {},
    "baseline": {},
    "rubric": {},
    "requirement": {},
}


def test_documents_are_checked_when_written_and_when_read(tmp_path):
    path = tmp_path / "summary"
    write_document(path, contracts.DATASET_SUMMARY, SUMMARY)
    assert read_document(path, contracts.DATASET_SUMMARY)["task"] == "t"
    with pytest.raises(ContractError, match="field pool should be"):
        write_document(path, contracts.DATASET_SUMMARY, {**SUMMARY, "pool": "one"})
    path.write_text(json.dumps({"contract": "dataset_summary/5", "task": "t"}))
    with pytest.raises(ContractError, match="field metric is missing"):
        read_document(path, contracts.DATASET_SUMMARY)
    path.write_text("{")
    with pytest.raises(ContractError, match="cannot be read"):
        read_document(path, contracts.DATASET_SUMMARY)


def test_threads_of_arrow_hold_nothing_of_python_while_bytes_are_read(monkeypatch):
    """One that lets go of a Python object while the interpreter ends aborts the process."""
    content = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), content)
    held, read = [], pq.read_table

    def watched(source):
        held.append(sys.getrefcount(content))
        return read(source)

    monkeypatch.setattr(pq, "read_table", watched)
    content = content.getvalue()
    alone = sys.getrefcount(content)
    assert table_of(content).to_pylist() == [{"a": 1}, {"a": 2}]
    assert held == [alone + 1], "the parameter of `table_of` alone"


ENDS = """
import collections, io, os, sys
import pyarrow as pa, pyarrow.parquet as pq
from ease_lib.artifacts.tables import table_of

content = io.BytesIO()
pq.write_table(pa.table({"a": list(range(1000)), "b": ["text"] * 1000}), content)
content, codes = content.getvalue(), collections.Counter()
for number in range(520):
    if number >= 20:
        codes[os.waitstatus_to_exitcode(os.wait()[1])] += 1
    if number < 500 and not os.fork():
        table_of(content)
        sys.exit()
print(dict(codes))
"""


@pytest.mark.rooms("ease_lib/artifacts")
def test_500_processes_under_load_end_after_a_table_was_read():
    """Twenty at once; with a file object of Python in place of Arrow's memory, about one in a hundred is aborted."""
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("{0: 500}\n", "")
