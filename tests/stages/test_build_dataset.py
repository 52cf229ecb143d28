"""Task data of any size, wherever it lies."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts import store as store_module
from ease_lib.artifacts.store import S3Store, open_store
from ease_lib.artifacts.streams import RemoteFile
from ease_lib.config.parsing import parse_parameters, parse_stage_config, stage_parameters
from ease_lib.errors import DataError, StoreError
from ease_lib.observations import collecting
from ease_lib.stages import build_dataset
from ease_lib.tasks import catalog
from tests.benchmarks.large_table import make_table

TABLE = {"task": "table", "input_columns": "text", "output_column": "label", "llm_base_url": "simulated"}


def built(folder, **values):
    """The pool's bytes and the data's summary."""
    parameters = parse_parameters({**TABLE, "pool_size": 40, "test_size": 20, **values})
    config = parse_stage_config(build_dataset.Config, stage_parameters(build_dataset.Config, parameters))
    names = ("pool", "validation", "test", "summary")
    outputs = build_dataset.Outputs(**{name: str(folder / name) for name in names})
    build_dataset.run(build_dataset.Inputs(), outputs, config)
    return (folder / "pool").read_bytes(), (folder / "summary").read_text()


MEASURE = """
import sys
from ease_lib.tasks import catalog
from tests.benchmarks.large_table import measured
catalog.LARGEST_SAMPLE = 2000
print(measured(sys.argv[1], 100)["added"])
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """60 MB; all of its rows as objects take 300 MiB."""
    make_table(tmp_path / "t.csv", 60_000_000)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "t.csv")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert float(done.stdout.splitlines()[-1]) < 30


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_an_object_gives_what_the_same_file_gives_without_a_copy_and_is_noted_as_whole(
    s3, s3_prefix, tmp_path, monkeypatch, kind
):
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        rows = range(3000)
        table = pa.table({"text": [f"text {row}" for row in rows], "label": [str(row % 3) for row in rows]})
        pq.write_table(table, path, row_group_size=500)
    else:
        make_table(path, 100_000)
    open_store(s3_prefix).write(path.name, path.read_bytes())
    monkeypatch.setattr(catalog, "LARGEST_SAMPLE", 1000)
    monkeypatch.setattr(S3Store, "fetch", None)
    (tmp_path / "local").mkdir()
    (tmp_path / "remote").mkdir()
    with collecting() as noted:
        remote = built(tmp_path / "remote", task_uri=f"{s3_prefix}/{path.name}")
    assert remote == built(tmp_path / "local", task_uri=str(path))
    assert "were kept to draw from, by seed" in remote[1]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert noted.files_read == {f"{s3_prefix}/{path.name}": (digest, path.stat().st_size)}


def test_an_object_that_changes_while_it_is_read_is_refused(s3, s3_prefix):
    store = open_store(s3_prefix)
    store.write("t.csv", b"text,label\n" + b"a,b\n" * 1000)
    file = store.data_file("t.csv")
    store.write("t.csv", b"text,label\n" + b"c,d\n" * 1000)
    with (
        pytest.raises(StoreError, match=r"t\.csv was changed while it was read; start again"),
        file.open("rb") as content,
    ):
        content.read()


def test_parts_that_are_read_back_and_forth_are_those_of_the_object():
    content = bytes(range(256)) * 40
    file = RemoteFile("s3://b/t.bin", len(content), lambda start, end: content[start:end])
    with file.open("rb") as opened:
        opened.seek(-10, 2)
        assert opened.read() == content[-10:]
        opened.seek(300)
        assert opened.read(7) == content[300:307]
    with collecting() as noted:
        file.note()
    assert noted.files_read == {"s3://b/t.bin": (hashlib.sha256(content).hexdigest(), len(content))}


def test_all_rows_of_too_large_a_table_are_refused_with_limit_and_remedy(tmp_path, monkeypatch):
    make_table(tmp_path / "t.csv", 200_000)
    whole = catalog.Limit
    monkeypatch.setattr(catalog, "Limit", lambda **values: whole(**values, memory=100_000))
    with pytest.raises(
        DataError, match=r"pool_size=0 takes all rows, but .* GiB .*; set pool_size, which draws from all"
    ):
        built(tmp_path, task_uri=str(tmp_path / "t.csv"), pool_size=0)


def test_a_store_that_is_away_for_a_moment_costs_a_part_and_not_the_file(s3, s3_prefix, monkeypatch):
    monkeypatch.setattr(store_module, "FIRST_PAUSE_SECONDS", 0.01)
    store = S3Store(s3_prefix, patience_seconds=5)
    store.write("t.csv", b"text,label\n" + b"a,b\n" * 1000)
    file, asked, whole = store.data_file("t.csv"), [], store._client.get_object

    def failing_once(**place):
        asked.append(place["Range"])
        if len(asked) == 1:
            raise OSError("reset")
        return whole(**place)

    monkeypatch.setattr(store._client, "get_object", failing_once)
    with file.open("rb") as content:
        assert len(content.read()) == 11 + 4000
    assert asked[0] == asked[1]
