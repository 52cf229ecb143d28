"""Files as spreadsheets and databases write them."""

import codecs
import gzip
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.errors import DataError
from ease_lib.tasks.records import RecordFile


def records(path, wanted=("text", "label"), encoding=""):
    return [record for _, record in RecordFile(path, wanted, encoding).read(list)]


LINES = "text,label\nCafé €,b\n"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (codecs.BOM_UTF8 + LINES.encode(), ""),
        (codecs.BOM_UTF8 + LINES.encode(), "cp1252"),
        (LINES.encode("utf-16"), ""),
        (codecs.BOM_UTF16_BE + LINES.encode("utf-16-be"), ""),
        (LINES.encode("utf-16-le"), "utf-16-le"),
        (LINES.encode("cp1252"), "cp1252"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_text_in_any_encoding_is_read(tmp_path, content, encoding, suffix):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert records(path, encoding=encoding) == [{"text": "Café €", "label": "b"}]


def test_utf16_json_lines(tmp_path):
    (tmp_path / "t.jsonl").write_bytes('{"text": "é"}\n{"text": "b"}'.encode("utf-16"))
    assert records(tmp_path / "t.jsonl") == [{"text": "é"}, {"text": "b"}]


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (
            b"text,label\na,b\n\xe9,b\n",
            "",
            "t.csv, line 3, is not UTF-8 text; save it as UTF-8 .* encoding, e.g. cp1252",
        ),
        ("text\n\ufffd\n".encode() + b"\xe9\n", "", "t.csv, line 3, is not UTF-8 text"),
        (b"text,label\na,b\n\x81,b\n", "cp1252", "t.csv, line 3, is not CP1252 text; set encoding to the right one"),
        (codecs.BOM_UTF16_LE + b"a\x00b", "", "t.csv is not UTF-16 text; set encoding"),
    ],
)
def test_text_that_cannot_be_decoded_is_named_by_its_line(tmp_path, content, encoding, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        records(tmp_path / "t.csv", ("text",), encoding)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", gzip.compress(LINES.encode(), mtime=0), "it is compressed by gzip; rename it to end in .gz"),
        ("t.jsonl", gzip.compress(b"{}", mtime=0), "it is compressed by gzip"),
        ("t.csv", b"PK\x03\x04\x14\0\0\0\x08\0", "it is an Excel workbook or another archive; rename the"),
        ("t.tsv", b"PAR1\x15\x04\x15", "it is Parquet; rename it to end in .parquet"),
        ("t.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1", "it is an old or encrypted Excel workbook; save it as .xlsx"),
        ("t.parquet", b"version https://git-lfs.github.com/spec/v1\n", "it is a Git LFS pointer, not the file"),
        ("t.csv", b"<!DOCTYPE html>\n<html>", "it is a web page; download the file itself"),
    ],
)
def test_a_file_of_another_kind_than_its_name_says_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        records(tmp_path / name)
    assert f"{name}: its first bytes show that {message}" in str(caught.value)


def test_a_column_that_is_needed_stands_in_the_header_once(write_xlsx):
    path = write_xlsx([["text", "label", "text", "note", "note"], ["a", "b", "c", "d", "e"]])
    with pytest.raises(DataError, match=r"t\.xlsx: 2 columns are named 'text'; rename the others"):
        records(path)
    assert records(path, ("label",))[0]["label"] == "b"
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, path.with_suffix(".parquet"))
    with pytest.raises(DataError, match=r"t\.parquet: 2 columns are named 'text'"):
        records(path.with_suffix(".parquet"), ("text",))


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_json_on_long_lines(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("ease_lib.tasks.json_records.READ_CHARACTERS", 7)
    rows = [{"text": f"row {number} ]é", "label": "ab" * number} for number in range(20)]
    text = json.dumps(rows, ensure_ascii=False) if suffix == ".json" else "\n".join(map(json.dumps, rows))
    (tmp_path / f"t{suffix}").write_text(text, encoding="utf-8")
    assert records(tmp_path / f"t{suffix}") == rows


def test_an_array_on_one_line_is_read_in_time_that_goes_with_its_length(tmp_path):
    row = json.dumps({"text": "a" * 80, "label": "b"})

    def seconds(count):
        (tmp_path / "t.json").write_text(f"[{', '.join([row] * count)}]", encoding="utf-8")
        start = time.perf_counter()
        assert RecordFile(tmp_path / "t.json", ["text"]).read(lambda records: sum(1 for _ in records)) == count
        return time.perf_counter() - start

    assert seconds(80_000) < 20 * seconds(8_000) + 0.1, "ten times as much"


@pytest.mark.parametrize(
    ("value", "message"),
    [("[" * 100_000, "brackets nested too deep"), ("9" * 5000, "a number of thousands of digits")],
)
def test_json_that_cannot_be_held_is_named_by_its_place(tmp_path, value, message):
    (tmp_path / "t.jsonl").write_text(f'{{"text": "a"}}\n{{"text": {value}}}', encoding="utf-8")
    with pytest.raises(DataError, match=f"line 2: {message}"):
        records(tmp_path / "t.jsonl")
    (tmp_path / "t.json").write_text(f'[{{"text": "a"}}, {{"text": {value}}}]', encoding="utf-8")
    with pytest.raises(DataError, match=f"item 2: {message}"):
        records(tmp_path / "t.json")
