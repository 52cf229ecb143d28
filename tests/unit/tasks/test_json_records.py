"""JSON in the forms that programs write tables in: each is read as meant, or refused with its form."""

import json

import pytest

from ease_lib.errors import DataError
from ease_lib.tasks.records import RecordFile

WANTED = ("text", "label")
ROWS = [{"text": f"text {number}", "label": "abc"[number % 3]} for number in range(7)]
ARRAY = json.dumps(ROWS)
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.fixture
def read(tmp_path):
    def read(content, name="t.json", wanted=WANTED):
        (tmp_path / name).write_text(content, encoding="utf-8")
        file = RecordFile(tmp_path / name, wanted)
        return file.read(lambda records: [record for _, record in records]), file.notices

    return read


@pytest.mark.parametrize("characters", [5, 2**20])
@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
@pytest.mark.parametrize(
    ("content", "times"),
    [
        (ARRAY + "\n" + ARRAY, 2),
        (f"{ARRAY}{ARRAY}\n\n", 2),
        (f"{ARRAY}\n[]\n{json.dumps(ROWS, indent=2)}", 2),
        (f"\ufeff{ARRAY}\n\ufeff{ARRAY}", 2),
        ("\n".join(f"[{json.dumps(row)}]" for row in ROWS), 1),
        (ARRAY + LINES, 2),
        ("\n\n" + ARRAY, 1),
        ("\n" + LINES, 1),
        (f"{LINES}\n\ufeff{LINES}", 2),
        ("\n".join(json.dumps(row, indent=2) for row in ROWS), 1),
        (LINES, 1),
    ],
)
def test_what_stands_behind_a_value_is_read(read, monkeypatch, characters, name, content, times):
    monkeypatch.setattr("ease_lib.tasks.json_records.READ_CHARACTERS", characters)
    assert read(content, name) == (ROWS * times, [])


COLUMNS = {column: [row[column] for row in ROWS] for column in WANTED}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "table",
    [
        {column: {str(place): cell for place, cell in enumerate(cells)} for column, cells in COLUMNS.items()},
        COLUMNS,
        {"data": COLUMNS},
        COLUMNS | {"note": {"0": "of another form"}},
        {"columns": [*WANTED, "n"], "index": [*range(7)], "data": [[*row.values(), 1] for row in ROWS]},
        {str(place): row for place, row in enumerate(ROWS)},
    ],
)
def test_a_table_in_one_object_is_read_by_its_form(read, table, indent):
    found, notices = read(json.dumps(table, indent=indent))
    assert [{column: record[column] for column in WANTED} for record in found] == ROWS
    assert notices == []


@pytest.mark.parametrize(
    ("table", "left"),
    [
        ({"data": ROWS}, ""),
        ({"schema": {"fields": []}, "data": ROWS}, "'schema'"),
        ({"rows": ROWS, "errors": [{"code": 1}]}, "'errors'"),
        ({"metadata": {"size": 7}, "examples": {str(place): row for place, row in enumerate(ROWS)}}, "'metadata'"),
    ],
)
def test_a_table_under_a_key_is_read_and_what_lies_beside_it_is_named(read, table, left):
    found, notices = read(json.dumps(table))
    assert found == ROWS
    assert [notice.partition("and not ")[2] for notice in notices] == ([left] if left else [])


@pytest.mark.parametrize(
    "record", [{"text": "a", "label": ["x", "y"]}, {"text": {"a": 1}, "label": {"b": 2}}, {"text": {}, "label": "x"}]
)
def test_one_record_is_a_record(read, record):
    assert read(json.dumps(record)) == ([record], [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ARRAY + "\nthe end", "t.json: 'the end' after item 7 is not JSON; remove it"),
        (ARRAY + ",\n" + ARRAY, "t.json: ',\\n[{"),
        (ARRAY + "]", "t.json: ']' after item 7 is not JSON"),
        (ARRAY + "\n[", "t.json, item 8: not valid JSON"),
        (ARRAY[:-1], "t.json, item 8: not valid JSON"),
        (ARRAY + '\n"done"', "t.json, item 8: expected a JSON object, found str"),
        (LINES + "the end\n", "t.json, line 8: not valid JSON"),
        (LINES.rstrip() + LINES, "t.json, line 7: not valid JSON (Extra data)"),
        (LINES + ARRAY, "t.json, line 8: expected a JSON object, found list"),
        ('["text", "label"]\n["a", "b"]\n', "t.json, item 1: expected a JSON object, found str; give one object"),
        (json.dumps([[*WANTED], ["a", "b"]]), "t.json, item 1: expected a JSON object, found list"),
        (json.dumps({"train": COLUMNS, "test": COLUMNS}), "t.json holds several tables: 'train', 'test'; save each"),
        (json.dumps({"text": {"0": "a", "1": "b"}, "label": {"0": "x"}}), "t.json is by columns, and some of them"),
        (json.dumps({"train": ROWS, "test": ROWS}), "t.json holds several tables: 'train', 'test'; save each"),
        (json.dumps({**COLUMNS, "label": ["a"]}), "t.json is by columns, and they are of several lengths ('text' 7, "),
        (json.dumps({"columns": WANTED, "data": [["a", "b"], ["c"]]}), "t.json, row 2 of data: 1 cells for 2 columns"),
        (json.dumps({"data": [*ROWS, 3]}) + "\n3", "t.json, line 2: expected a JSON object, found int"),
        (json.dumps({"result": {"rows": ROWS}}), "t.json, line 1: no column 'text'; there is one object of 'result', "),
        ("[", "t.json, item 1: not valid JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(read, content, message):
    with pytest.raises(DataError) as caught:
        read(content)
    assert message in str(caught.value)
