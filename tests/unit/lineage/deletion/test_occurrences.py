"""Files that hold a row, and places where other files show it."""

import csv
import gzip
import html
import io
import json

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import write_document, write_exemplars, write_table
from ease_lib.errors import LineageError
from ease_lib.lineage.chain import MANIFEST_CONTRACT
from ease_lib.lineage.deletion.occurrences import has_digests_only, places_in, rows_shown
from ease_lib.lineage.deletion.row_query import RowQuery
from ease_lib.lineage.deletion.tombstones import CONTRACT as TOMBSTONE_CONTRACT
from ease_lib.lineage.record import CONTRACT, encode
from ease_lib.tasks.base import Exemplar, row_hash

TEXT = 'You "lost" my <parcel>, & it\'s für 猫'
PROMPT = f"Instruction: Say what it is.\n\nInput: {TEXT}\nOutput: complaint\n\nInput: {{input}}\nOutput:"


def held_in(name, content, row=TEXT):
    """Whether a file is ours and holds the row."""
    content = content if isinstance(content, bytes) else content.encode()
    return row_hash(row) in (rows_shown(name, content) or ())


def shown_in(name, content, row=TEXT, known=True):
    """Places where a file shows the row.

    Args:
        known: whether the text is, or its hash alone.
    """
    content = content if isinstance(content, bytes) else content.encode()
    assert not held_in(name, content, row), "it would be deleted"
    return places_in(name, content, RowQuery(row_hash(row), (row,) if known else ()))


def csv_of(*rows, **style):
    file = io.StringIO(newline="")
    csv.writer(file, **style).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_row_of_a_csv_file_is_named_by_its_line(end, bom, known):
    header, other, last = f"{bom}text,label{end}", f'"a ""quoted""{end}cell, of two lines",x{end}', "local news,  y"
    content = header + other + csv_of((TEXT, "z"), lineterminator=end) + last
    assert shown_in("tickets.csv", content, known=known) == ["line 4"]


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_a_csv_file_with_another_delimiter_that_tasks_read_shows_the_row_too(delimiter):
    rows = [("text", "label"), ("other, more", "y"), (TEXT, "x")]
    assert shown_in("t.csv", csv_of(*rows, delimiter=delimiter), known=False) == ["line 3"]


def test_a_csv_file_without_header_shows_its_first_row():
    assert shown_in("t.csv", csv_of((TEXT, "x"), ("other", "y"))) == ["line 1"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tickets.csv", "text,place\nthe local shop is closed,north\nlocally,\n"),
        ("prompt.txt", "Input: the local shop is closed\nOutput: local\n\nInput: {input}\nOutput:"),
        ("notes.txt", "a local shop\nlocals only\n"),
        ("report.html", "<!doctype html><td>local shops</td><tr><td>llm_base_url</td><td>local</td></tr>"),
        ("page.html", f'<!doctype html><meta name="ease-rows" content="{"0" * 64}"><td>local</td>'),
        ("messages.json", json.dumps([{"role": "user", "content": "Input: a local shop\nOutput: x"}])),
        ("events.jsonl", '{"text": "local shops"}\n{"text": "localhost"}\n'),
        ("answer", "0" * 64 + '\n{"text": "a local one", "model": "local"}'),
    ],
)
def test_a_word_of_a_sentence_is_no_row(name, content):
    assert shown_in(name, content, "local") == []


def test_a_parameter_of_that_value_is_no_row(tmp_path):
    document = {"exemplars": [{"input": "a local shop", "outputs": ["x"]}], "llm_endpoint": "local", "task": "local"}
    rest = {"exemplar_ids": [1], "instruction": "", "validation_score": 1, "k": 1, "metric": "m", "template": "t"}
    asked = {"prompt": {"system": "local"}, "llm_api": "chat", "request": {"model": "local"}}
    known = {"estimate": 0.9, "estimate_interval": [0.8, 1.0], "validation_rows": 20}
    write_document(
        tmp_path / "best", contracts.BEST_SEQUENCE, {**document, **rest, **asked, **known, "llm_model": "local"}
    )
    assert shown_in("best", (tmp_path / "best").read_bytes(), "local") == []
    assert held_in("best", (tmp_path / "best").read_bytes(), "a local shop")


@pytest.mark.parametrize("known", [True, False])
def test_a_row_of_json_lines_is_named_by_its_line(known):
    other = '{"text":  "other", "n": 1.50}\n'
    for spelling in (json.dumps({"text": TEXT}), json.dumps({"deep": [{"text": TEXT}]}, ensure_ascii=False)):
        assert shown_in("tickets.jsonl", f"{other}{spelling}\n\n{other}", known=known) == ["line 2"]


def test_rows_of_json_are_named_by_line_or_item():
    elements = [{"text": "für one", "n": 1.5}, {"text": TEXT}, {"text": "two"}]
    for mark in ("", "\ufeff"):
        assert shown_in("rows.json", mark + json.dumps(elements, indent=1)) == ["line 7"]
    assert shown_in("rows.json", json.dumps(elements), known=False) == ["item 2"]
    assert shown_in("rows.json", ("\ufeff" + json.dumps(elements, indent=1)).encode("utf-16-le")) == ["line 7"]
    source = {"metadata": {"n": 2}, "examples": {"1": {"input": TEXT, "output": "x"}, "2": {"input": "b"}}}
    assert shown_in("induce.json", json.dumps(source, indent=2)) == ["line 7"]
    assert shown_in("labels.json", json.dumps({TEXT: "x", "b": "y"})) == ["line 1"]


def test_a_pool_with_the_row_is_ours_to_delete_and_one_without_it_stays(tmp_path):
    rows = [Exemplar(0, "a", ("x",), None), Exemplar(1, f" {TEXT} ", ("y",), True), Exemplar(2, "b", ("z",), False)]
    write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, rows)
    assert held_in("anywhere", (tmp_path / "pool").read_bytes())
    assert shown_in("anywhere", (tmp_path / "pool").read_bytes(), "another one") == []


def test_predictions_and_instructions_hold_what_repeats_it(tmp_path):
    for prediction, outputs in ((TEXT, ["x"]), ("x", ["y", TEXT]), (f"Input: {TEXT}\nOutput: x", ["x"])):
        predictions = {
            **{"sequence": ["best"] * 2, "exemplar_id": [0, 1], "prompt_sha256": ["0" * 64] * 2},
            **{"prediction": ["x", prediction], "outputs": [["x"], outputs]},
            **{"score": [1.0, 0.0], "is_kept": [True] * 2, "failure": [""] * 2},
        }
        write_table(tmp_path / "predictions", contracts.PREDICTIONS, predictions)
        assert held_in("predictions", (tmp_path / "predictions").read_bytes())
        assert shown_in("predictions", (tmp_path / "predictions").read_bytes(), "best") == []
    write_table(tmp_path / "instructions", contracts.INSTRUCTIONS, {"instruction_id": [0, 1], "text": ["", TEXT]})
    assert held_in("instructions", (tmp_path / "instructions").read_bytes())


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", TEXT]),
        pa.array(["a", TEXT], pa.large_string()),
        pa.array(["a", TEXT]).dictionary_encode(),
        pa.array([["a"], ["b", TEXT]]),
        pa.array([[["a"]], [["b"], [TEXT]]]),
        pa.array([{"x": 1, "y": ["a"]}, {"x": 2, "y": [TEXT]}]),
        pa.array([[("a", "b")], [("a", TEXT)]], pa.map_(pa.string(), pa.string())),
        pa.array([None, TEXT]),
    ],
)
def test_of_any_parquet_every_column_of_text_is_read(values):
    file = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2], "values": values}), file)
    for known in (True, False):
        assert shown_in("t.parquet", file.getvalue(), known=known) == ["row 2"]


def test_a_row_of_any_sheet_of_a_spreadsheet_is_named_with_its_place():
    book = openpyxl.Workbook()
    book.active.append(["text", "n"])
    book.create_sheet("more").append([f" {TEXT} ", 3.0])
    file = io.BytesIO()
    book.save(file)
    assert shown_in("t.xlsx", file.getvalue()) == shown_in("t.xlsx", file.getvalue(), "3") == ["sheet 'more', row 1"]
    assert shown_in("t.xlsx", file.getvalue(), "other") == []
    with pytest.raises(LineageError, match="cannot be read as xlsx"):
        shown_in("t.xlsx", file.getvalue()[:-40])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_row_of_a_table_in_another_encoding_or_compressed_is_named_by_its_line(encoding, packed):
    mark = "\ufeff" if "16" in encoding else ""
    other = "\x81,z\n" if encoding == "latin-1" else "andere,z\n"
    content = f"{mark}text,label\nfür dich,x\n{other}für mich und alle,y\n".encode(encoding)
    name, content = ("t.csv.gz", gzip.compress(content)) if packed else ("t.csv", content)
    for known in (True, False):
        assert shown_in(name, content, "für mich und alle", known) == ["line 4"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("pool", b"PAR1 and nothing more", "cannot be read as Parquet"),
        ("t.csv.gz", b"\x1f\x8b and nothing more", "cannot be read as gzip"),
        ("all.zip", b"PK\x03\x04 and more", "a zip archive, which is not searched"),
        ("other.sqlite", b"SQLite format 3\0 and more", "a SQLite database, which is not searched"),
    ],
)
def test_what_cannot_be_searched_is_named_not_skipped(name, content, said):
    with pytest.raises(LineageError, match=said):
        shown_in(name, content)


def test_prompts_reports_and_answers_are_ours_to_delete():
    page = f'<!doctype html><meta charset="utf-8"><meta name="ease-rows" content="{"0" * 64} {row_hash(TEXT)}">'
    for name, content in (
        ("prompt.txt", PROMPT),
        ("messages.json", json.dumps([{"role": "user", "content": PROMPT}], indent=2)),
        ("harmful_exemplars.json", json.dumps([{"exemplar_id": 1, "input": TEXT}])),
        ("report.html", page),
        ("cells/ab.json", json.dumps({"contract": contracts.COMPARISON_CELL.stamp, "input": ["x", TEXT]})),
        ("ab/abc", "0" * 64 + "\n" + json.dumps({"text": TEXT})),
        ("ab/abc", "0" * 64 + "\n" + json.dumps({"text": f"x\n\nInput: {TEXT}\nOutput: y"})),
    ):
        assert held_in(name, content), name


def test_an_exemplar_of_several_paragraphs_is_found_in_its_prompt():
    text = "first line\n\nInput: not the end\nOutput: nor this\n\nlast line"
    assert held_in("prompt.txt", f"Input: a\nOutput: b\n\nInput: {text}\nOutput: x\n\n", text)


@pytest.mark.parametrize(
    "name",
    [
        "lineage/attempts/53db9421f037e439bcd2b0c54c075e33/3f90e35f-99a1-4969-a471-b66717a43618",
        f"prompts/rows/{'0' * 64}/20261122T073935Z-bd2bfe70",
        f"prompts/prompts/{'0' * 64}/20261122T073935Z-bd2bfe70",
        "prompts/versions/20261122T073935Z-bd2bfe70/lineage.openlineage.jsonl",
        "prompts/versions/20261122T073935Z-bd2bfe70/provenance.intoto.json",
        "prompts/latest.json",
        "store/journals/25c9bb62330f4fa8ceba4893178d84f2.jsonl",
        "store/journals/25c9bb62330f4fa8ceba4893178d84f2/000001.json",
        "store/journals/25c9bb62330f4fa8ceba4893178d84f2/25c9bb62330f4fa8ceba4893178d84f2-200.jsonl",
        "store/journals/25c9bb62330f4fa8ceba4893178d84f2/25c9bb62330f4fa8ceba4893178d84f2-200/000001.json",
    ],
)
def test_records_indices_and_journals_are_never_touched(name):
    assert shown_in(f"s3://bucket/{name}", json.dumps({"text": "local", "phase": "initial"}), "local") == []


@pytest.mark.parametrize("contract", [CONTRACT, MANIFEST_CONTRACT, TOMBSTONE_CONTRACT])
def test_a_record_a_manifest_and_a_tombstone_are_known_by_their_contract_wherever_they_were_copied(contract):
    content = encode({"parameters": {"llm_base_url": "local"}}, contract)
    assert shown_in("copy.json", content, "local") == []
    assert has_digests_only("copy.json", content)


def test_what_quotes_a_text_is_known_in_every_spelling():
    file = io.BytesIO()
    pq.write_table(pa.table({"text": [f"they said: {TEXT}!"]}), file)
    for content in (f"x {TEXT} x", json.dumps(f"x {TEXT} x"), html.escape(f"x {TEXT} x")):
        for name in ("notes.txt", "lineage/attempts/0/3f90e35f-99a1-4969-a471-b66717a43618"):
            assert shown_in(name, f"\n{content}") == ["line 2"]
    assert shown_in("t.parquet", file.getvalue()) == ["row 1"]
    assert shown_in("notes.txt", "something else") == []


def test_of_a_page_that_is_not_ours_it_is_only_said_that_it_quotes_a_row():
    page = f"<html><td>{html.escape(TEXT)}</td>\n<pre>{html.escape(PROMPT)}</pre></html>"
    assert shown_in("page.html", page) == ["line 1", "line 4"]
