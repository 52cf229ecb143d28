"""Task data of any size, wherever it lies."""

import gzip
import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts import store as store_module
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.store import S3Store, open_store
from ease_lib.artifacts.streams import RemoteFile
from ease_lib.artifacts.tables import read_exemplars
from ease_lib.config.parsing import flat_parameters, parse_parameters, stage_config
from ease_lib.errors import ConfigError, DataError, StoreError
from ease_lib.notes import Notes
from ease_lib.running import task_data
from ease_lib.stages import build_dataset
from ease_lib.tasks import catalog
from tests.benchmarks.large_table import make_table
from tests.simulation.models import SIMULATED
from tests.support.runs import opened_run

TABLE = {"task": "table", "input_columns": "text", "output_column": "label", "llm_base_url": SIMULATED}

SPLITS = {"pool": contracts.EXEMPLAR_POOL, "validation": contracts.VALIDATION_SET, "test": contracts.TEST_SET}


def built(folder, notes=None, **values):
    """The pool's bytes and the data's summary."""
    parameters = parse_parameters({**TABLE, "pool_size": 40, "test_size": 20, **values})
    config = stage_config(build_dataset.Config, flat_parameters(parameters))
    names = ("pool", "validation", "test", "summary")
    outputs = build_dataset.Outputs(**{name: str(folder / name) for name in names})
    with opened_run() as run:
        build_dataset.run(build_dataset.Inputs(), outputs, config, replace(run, notes=notes or Notes()))
    return (folder / "pool").read_bytes(), (folder / "summary").read_text()


MEASURE = """
import sys
from ease_lib.tasks import catalog
from tests.benchmarks.large_table import measured
catalog.LARGEST_SAMPLE = 2000
print(measured(sys.argv[1], 100)["added"])
"""


@pytest.mark.rooms("ease_lib/tasks", "ease_lib/artifacts")
def test_memory_does_not_grow_with_the_file(tmp_path):
    """60 MB; all of its rows as objects take 300 MiB."""
    make_table(tmp_path / "t.csv", 60_000_000)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "t.csv")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert float(done.stdout.splitlines()[-1]) < 30


@pytest.mark.rooms("ease_lib/tasks", "ease_lib/artifacts")
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
    noted = Notes()
    remote = built(tmp_path / "remote", noted, task_uri=f"{s3_prefix}/{path.name}")
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
        pytest.raises(StoreError, match=r"t\.csv changed while it was being read; start again"),
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
    assert (str(file), file.sha256()) == ("s3://b/t.bin", hashlib.sha256(content).hexdigest())


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


def table_of(path, texts, label="label"):
    path.write_text(f"text,{label}\n" + "".join(f"{text},{'xy'[len(text) % 2]}\n" for text in texts))
    return str(path)


def test_validation_and_test_rows_come_from_files_apart_and_are_noted(s3, s3_prefix, tmp_path):
    """The files have the same name in another folder, and on a store."""
    (tmp_path / "apart").mkdir()
    files = {
        "task_uri": table_of(tmp_path / "t.csv", [f"pool {n}" for n in range(50)]),
        "validation_uri": table_of(tmp_path / "apart/t.csv", [f"guide {n}" for n in range(30)]),
        "test_uri": f"{s3_prefix}/t.csv",
    }
    table_of(tmp_path / "test.csv", [f"unseen {n}" for n in range(25)])
    open_store(s3_prefix).write("t.csv", (tmp_path / "test.csv").read_bytes())
    noted = Notes()
    built(tmp_path, noted, **files)
    assert set(noted.files_read) == set(files.values())
    rows = {split: read_exemplars(tmp_path / split, contract) for split, contract in SPLITS.items()}
    assert {split: {row.input.split()[0] for row in there} for split, there in rows.items()} == {
        "pool": {"pool"},
        "validation": {"guide"},
        "test": {"unseen"},
    }


def test_a_validation_file_alone_leaves_the_test_set_to_the_others(tmp_path):
    built(
        tmp_path,
        task_uri=table_of(tmp_path / "t.csv", [f"pool {n}" for n in range(70)]),
        validation_uri=table_of(tmp_path / "v.csv", [f"guide {n}" for n in range(30)]),
    )
    assert {row.input.split()[0] for row in read_exemplars(tmp_path / "test", contracts.TEST_SET)} == {"pool"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label": "kind"}, r"v\.csv, line 2 \(record 1\): no column 'label'; there are \['kind', 'text'\]"),
        ({"uri": "."}, "validation_uri=. is not a table; name one file that ends in .csv"),
        ({"uri": "missing.csv"}, "missing.csv: no such file"),
    ],
)
def test_a_validation_file_that_does_not_fit_is_said_before_a_run(tmp_path, given, message):
    uri = given.get("uri") or table_of(tmp_path / "v.csv", [f"v {n}" for n in range(30)], given["label"])
    rows = table_of(tmp_path / "t.csv", [f"pool {n}" for n in range(200)])
    task = parse_parameters({**TABLE, "task_uri": rows, "validation_uri": uri}).task
    with pytest.raises((DataError, ConfigError, StoreError), match=message):
        task_data.check_data(task, Sources())


def test_a_split_that_is_given_twice_is_refused(tmp_path):
    for name in ("train", "test"):
        table_of(tmp_path / f"{name}.csv", [f"{name} {n}" for n in range(50)])
    apart = table_of(tmp_path / "apart.csv", ["a", "b"])
    with pytest.raises(ConfigError, match=r"test_uri is set, and task_uri=.* holds test\.csv; remove one of them"):
        built(tmp_path, task_uri=str(tmp_path), test_uri=apart)


def test_an_encoding_reaches_the_files(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(("text,label\n" + "".join(f"é{n},ü\n" for n in range(90))).encode("cp1252")))
    built(tmp_path, task_uri=str(path), encoding="cp1252")
    assert {row.output for row in read_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL)} == {"ü"}


def test_what_was_left_out_is_in_the_summary(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + "".join(f"text {n},{'x' * (n > 2)}\n" for n in range(90)))
    _, summary = built(tmp_path, task_uri=str(path))
    assert "3 of 90 rows of t.csv were left out: column 'label' is empty (first at line 2)" in summary


def test_a_spreadsheet_on_a_store_is_read_where_it_is_and_noted_as_whole(s3, s3_prefix, tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["text", "label", "when"])
    for number in range(200):
        book.active.append([f"text {number}", number % 2, datetime(2026, 1, 1) + timedelta(days=number)])
    book.save(tmp_path / "t.xlsx")
    open_store(s3_prefix).write("t.xlsx", (tmp_path / "t.xlsx").read_bytes())
    noted = Notes()
    remote = built(tmp_path, noted, task_uri=f"{s3_prefix}/t.xlsx", time_column="when")
    newest = {int(row.input.split()[1]) for row in read_exemplars(tmp_path / "test", contracts.TEST_SET)}
    assert newest == set(range(180, 200))
    assert remote == built(tmp_path, task_uri=str(tmp_path / "t.xlsx"), time_column="when")
    digest = hashlib.sha256((tmp_path / "t.xlsx").read_bytes()).hexdigest()
    assert noted.files_read == {f"{s3_prefix}/t.xlsx": (digest, (tmp_path / "t.xlsx").stat().st_size)}
