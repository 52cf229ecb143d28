"""What of a file is a row, and what is left without it."""

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
from ease_lib.lineage.deletion.occurrences import occurrence, quotes
from ease_lib.lineage.deletion.wanted import Wanted
from ease_lib.lineage.record import encode
from ease_lib.tasks.base import Exemplar, row_hash

TEXT = 'You "lost" my <parcel>, & it\'s für 猫'
PROMPT = f"Instruction: Say what it is.\n\nInput: {TEXT}\nOutput: complaint\n\nInput: {{input}}\nOutput:"


def found_in(name, content, row=TEXT):
    return occurrence(name, content if isinstance(content, bytes) else content.encode(), Wanted(row_hash(row), (row,)))


def csv_of(*rows, **style):
    file = io.StringIO(newline="")
    csv.writer(file, **style).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_csv_file_loses_the_row_and_keeps_every_other_byte(end, bom):
    header, other, last = f"{bom}text,label{end}", f'"a ""quoted""{end}cell, of two lines",x{end}', "local news,  y"
    found = found_in("tickets.csv", header + other + csv_of((TEXT, "z"), lineterminator=end) + last)
    assert (found.kind, found.rows, found.left.decode()) == ("table", 1, header + other + last)


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_a_csv_file_with_another_delimiter_that_tasks_read_loses_the_row_too(delimiter):
    rows = [("text", "label"), ("other, more", "y"), (TEXT, "x")]
    found = found_in("t.csv", csv_of(*rows, delimiter=delimiter))
    assert (found.rows, found.left.decode()) == (1, csv_of(*rows[:-1], delimiter=delimiter))


def test_a_csv_file_without_header_loses_its_first_row_and_one_with_it_no_header():
    assert found_in("t.csv", csv_of((TEXT, "x"), ("other", "y"))).left == b"other,y\r\n"
    assert found_in("t.csv", "text,label\na,b\n", "text") is None


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
    assert found_in(name, content, "local") is None


def test_a_parameter_of_that_value_is_no_row(tmp_path):
    document = {"exemplars": [{"input": "a local shop", "outputs": ["x"]}], "llm_endpoint": "local", "task": "local"}
    rest = {"exemplar_ids": [1], "instruction": "", "validation_score": 1, "k": 1, "metric": "m", "template": "t"}
    asked = {"prompt": {"system": "local"}, "llm_api": "chat", "request": {"model": "local"}}
    known = {"estimate": 0.9, "estimate_interval": [0.8, 1.0], "validation_rows": 20}
    write_document(
        tmp_path / "best", contracts.BEST_SEQUENCE, {**document, **rest, **asked, **known, "llm_model": "local"}
    )
    assert found_in("best", (tmp_path / "best").read_bytes(), "local") is None


def test_json_lines_lose_the_line_and_keep_the_others_to_the_byte():
    other = '{"text":  "other", "n": 1.50}\n'
    for spelling in (json.dumps({"text": TEXT}), json.dumps({"deep": [{"text": TEXT}]}, ensure_ascii=False)):
        found = found_in("tickets.jsonl", f"{other}{spelling}\n\n{other}")
        assert (found.kind, found.rows, found.left.decode()) == ("lines", 1, f"{other}\n{other}")


def test_json_lists_lose_the_element_and_are_written_anew():
    elements = [{"text": "für one", "n": 1.5}, {"text": TEXT}, {"text": "two"}]
    for mark in ("", "\ufeff"):
        found = found_in("rows.json", mark + json.dumps(elements))
        assert (found.kind, found.rows) == ("table", 1)
        assert found.left.decode() == mark + json.dumps([elements[0], elements[2]], ensure_ascii=False, indent=2) + "\n"
    utf_16 = found_in("rows.json", ("\ufeff" + json.dumps(elements)).encode("utf-16-le"))
    assert json.loads(utf_16.left.decode("utf-16")) == [elements[0], elements[2]]
    assert json.loads(found_in("instructions.json", json.dumps(["a", TEXT, "b"])).left) == ["a", "b"]
    assert found_in("rows.json", json.dumps([{"text": TEXT}])).left is None


def test_objects_of_rows_lose_the_smallest_record_that_holds_it():
    source = {"metadata": {"n": 2}, "examples": {"1": {"input": TEXT, "output": "x"}, "2": {"input": "b"}}}
    found = found_in("induce.json", json.dumps(source, indent=2))
    assert json.loads(found.left) == {"metadata": {"n": 2}, "examples": {"2": {"input": "b"}}}
    assert json.loads(found_in("labels.json", json.dumps({TEXT: "x", "b": "y"})).left) == {"b": "y"}
    lists = {"train": ["a", TEXT], "test": ["b"]}
    assert json.loads(found_in("lists.json", json.dumps(lists)).left) == {"train": ["a"], "test": ["b"]}
    assert found_in("single.json", json.dumps({"input": TEXT, "output": "x"})).left is None


def test_a_pool_loses_the_row_and_stays_what_its_contract_says(tmp_path):
    rows = [Exemplar(0, "a", ("x",), None), Exemplar(1, f" {TEXT} ", ("y",), True), Exemplar(2, "b", ("z",), False)]
    write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, rows)
    before = pq.read_table(tmp_path / "pool")
    found = found_in("pool", (tmp_path / "pool").read_bytes())
    left = pq.read_table(io.BytesIO(found.left))
    assert (found.rows, left.schema, left.schema.metadata) == (1, before.schema, before.schema.metadata)
    assert left.equals(before.take([0, 2]))


def test_predictions_and_instructions_lose_what_repeats_it(tmp_path):
    predictions = {
        "sequence": ["best"] * 4,
        "exemplar_id": [0, 1, 2, 3],
        "prompt_sha256": ["0" * 64] * 4,
        "prediction": ["x", TEXT, "x", f"Input: {TEXT}\nOutput: x"],
        "outputs": [["x"], ["x"], ["y", TEXT], ["x"]],
        "score": [1.0, 0.0, 0.0, 0.0],
        "is_kept": [True] * 4,
        "failure": [""] * 4,
    }
    write_table(tmp_path / "predictions", contracts.PREDICTIONS, predictions)
    found = found_in("predictions", (tmp_path / "predictions").read_bytes())
    assert pq.read_table(io.BytesIO(found.left))["exemplar_id"].to_pylist() == [0]
    instructions = {"instruction_id": [0, 1], "text": ["", TEXT]}
    write_table(tmp_path / "instructions", contracts.INSTRUCTIONS, instructions)
    assert found_in("instructions", (tmp_path / "instructions").read_bytes()).rows == 1
    assert found_in("predictions", (tmp_path / "predictions").read_bytes(), "best") is None


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
    left = pq.read_table(io.BytesIO(found_in("t.parquet", file.getvalue()).left))
    assert (left["n"].to_pylist(), left["values"].type) == ([1], values.type)


def test_a_spreadsheet_that_holds_the_row_is_named_with_its_place_and_left():
    book = openpyxl.Workbook()
    book.active.append(["text", "n"])
    book.create_sheet("more").append([f" {TEXT} ", 3.0])
    file = io.BytesIO()
    book.save(file)
    with pytest.raises(
        LineageError, match="it holds the row, in row 1 of 'more': spreadsheets are not rewritten, remove"
    ):
        found_in("t.xlsx", file.getvalue())
    with pytest.raises(LineageError, match="in row 1 of 'more'"):
        found_in("t.xlsx", file.getvalue(), row="3")
    assert found_in("t.xlsx", file.getvalue(), row="other") is None
    with pytest.raises(LineageError, match="no spreadsheet that can be read"):
        found_in("t.xlsx", file.getvalue()[:-40])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("packed", [False, True])
def test_tables_in_other_encodings_and_compressed_lose_the_row_and_keep_the_rest(encoding, packed):
    mark = "\ufeff" if "16" in encoding else ""
    kept = mark + "text,label\nfür dich,x\n\x81,z\n" if encoding == "latin-1" else mark + "text,label\nfür dich,x\n"
    content = f"{kept}für mich,y\n".encode(encoding)
    found = found_in("t.csv.gz" if packed else "t.csv", gzip.compress(content) if packed else content, "für mich")
    left = gzip.decompress(found.left) if packed else found.left
    assert (found.rows, left) == (1, kept.encode(encoding))


def test_a_table_that_cannot_be_read_is_named_not_skipped():
    with pytest.raises(LineageError, match="no Parquet that can be read"):
        found_in("pool", b"PAR1 and nothing more")


def test_prompts_reports_and_answers_go_whole():
    page = f'<!doctype html><meta charset="utf-8"><meta name="ease-rows" content="{"0" * 64} {row_hash(TEXT)}">'
    for name, content, kind in (
        ("prompt.txt", PROMPT, "prompt"),
        ("messages.json", json.dumps([{"role": "user", "content": PROMPT}], indent=2), "prompt"),
        ("chat.json", json.dumps([{"role": "system", "content": "x"}, {"role": "user", "content": TEXT}]), "document"),
        ("report.html", page, "page"),
        ("cells/ab.json", json.dumps({"contract": contracts.COMPARISON_CELL.stamp, "input": ["x", TEXT]}), "document"),
        ("ab/abc", "0" * 64 + "\n" + json.dumps({"text": TEXT}), "answer"),
        ("ab/abc", "0" * 64 + "\n" + json.dumps({"text": f"x\n\nInput: {TEXT}\nOutput: y"}), "answer"),
    ):
        found = found_in(name, content)
        assert (found.kind, found.rows, found.left) == (kind, 0, None), name


def test_an_exemplar_of_several_paragraphs_is_found_in_its_prompt():
    text = "first line\n\nInput: not the end\nOutput: nor this\n\nlast line"
    assert found_in("prompt.txt", f"Input: a\nOutput: b\n\nInput: {text}\nOutput: x\n\n", text).kind == "prompt"


@pytest.mark.parametrize(
    "name",
    [
        "store/lineage/runs/some-run/optimize-3f90e35f-99a1-4969-a471-b66717a43618.json",
        "lineage/attempts/53db9421f037e439bcd2b0c54c075e33/3f90e35f-99a1-4969-a471-b66717a43618",
        f"lineage/tombstones/{'0' * 64}/2026-11-22T071114.332+0000.json",
        f"prompts/rows/{'0' * 64}/20261122T073935Z-bd2bfe70",
        f"prompts/prompts/{'0' * 64}/20261122T073935Z-bd2bfe70",
        "prompts/versions/20261122T073935Z-bd2bfe70/version.json",
        "prompts/versions/20261122T073935Z-bd2bfe70/records/report-1.json",
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
    assert found_in(f"s3://bucket/{name}", json.dumps({"text": "local", "phase": "initial"}), "local") is None


def test_a_record_is_known_by_what_it_says_wherever_it_was_copied():
    assert found_in("copy.json", encode({"parameters": {"llm_base_url": "local"}}), "local") is None


def test_what_quotes_a_text_is_known_in_every_spelling():
    file = io.BytesIO()
    pq.write_table(pa.table({"text": [f"they said: {TEXT}!"]}), file)
    for content in (f"x {TEXT} x", json.dumps(f"x {TEXT} x"), html.escape(f"x {TEXT} x")):
        assert quotes(content.encode(), TEXT)
    assert quotes(file.getvalue(), TEXT)
    assert not quotes(b"something else", TEXT)


def test_of_a_page_that_is_not_ours_it_is_only_said_that_it_quotes_a_row():
    page = f"<html><td>{html.escape(TEXT)}</td><pre>{html.escape(PROMPT)}</pre></html>"
    assert found_in("page.html", page) is None
    assert quotes(page.encode(), TEXT)
