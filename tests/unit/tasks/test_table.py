import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.errors import ConfigError, DataError
from ease_lib.tasks.table import Columns, read_rows, table_source

COLUMNS = Columns.parse("text", "label")


def rows(path, columns=COLUMNS):
    return [(row.input, row.outputs) for row in read_rows(path, columns)]


def test_csv_keeps_quotes_commas_line_breaks_and_unicode(write_csv):
    path = write_csv("t.csv", ["text", "label"], [['a "b", c\nd', "x"], ["日本 \U0001f600", "ÿ"]])
    assert rows(path) == [('a "b", c\nd', ("x",)), ("日本 \U0001f600", ("ÿ",))]


def test_csv_with_byte_order_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufefftext,label\na,b\n".encode())
    assert rows(path) == [("a", ("b",))]


def test_csv_without_header_names_columns_by_position(write_csv):
    path = write_csv("t.csv", None, [["3", "title", "text"], ["4", "other", "more"]])
    assert rows(path, Columns.parse("2,3", "1")) == [
        ("2: title\n3: text", ("3",)),
        ("2: other\n3: more", ("4",)),
    ]


def test_jsonl_and_parquet_give_several_accepted_outputs(tmp_path):
    records = [{"text": "a", "label": ["x", "y", "x"]}, {"text": "b", "label": ["z"]}]
    jsonl, parquet = tmp_path / "t.jsonl", tmp_path / "t.parquet"
    jsonl.write_text("\n".join(map(json.dumps, records)) + "\n\n")
    pq.write_table(pa.Table.from_pylist(records), parquet)
    assert rows(jsonl) == rows(parquet) == [("a", ("x", "y")), ("b", ("z",))]


def test_numbers_and_booleans_become_text(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": 3, "label": true}\n{"text": -1.5, "label": 0}\n')
    assert rows(path) == [("3", ("true",)), ("-1.5", ("0",))]


def test_a_json_array_is_a_table(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"text": "a", "label": "b"}]')
    assert rows(path) == [("a", ("b",))]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "t.csv has no rows"),
        ("t.csv", "text,label\n", "t.csv has no rows"),
        ("t.csv", "text,kind\na,b\n", "t.csv, row 1: no column 'label'; there are ['kind', 'text']"),
        ("t.csv", "text,label\na,b\nc\n", "t.csv, row 2: 1 cells for 2 columns; quote cells"),
        ("t.csv", "text,label\na,b\n , c\n", "t.csv, row 2: column 'text' is empty; fill the cell"),
        ("t.jsonl", '{"text": "a", "label": "b"}\n{"text"', "t.jsonl, line 2: not valid JSON"),
        ("t.jsonl", '{"text": "a", "label": null}', "t.jsonl, line 1: column 'label' is empty"),
        ("t.jsonl", '{"text": "a", "label": []}', "t.jsonl, line 1: column 'label' is empty"),
        ("t.jsonl", '{"text": NaN, "label": "b"}', "t.jsonl, line 1: column 'text' is empty"),
        ("t.jsonl", "[1]", "t.jsonl, line 1: a JSON object is needed, found list"),
        ("t.parquet", "not parquet", "t.parquet cannot be read as parquet"),
        ("t.xlsx", "", "t.xlsx: unknown kind of table; use one of .csv"),
    ],
)
def test_broken_tables_name_file_row_column_and_remedy(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        rows(path)
    assert message in str(caught.value)


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text,label\n\xff\xfe,b\n")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        rows(path)


def test_missing_parquet_column(tmp_path):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="no column 'label'; there are"):
        rows(tmp_path / "t.parquet")


def test_files_by_split_become_the_splits(write_csv):
    files = {
        split: write_csv(f"{split}.csv", ["text", "label"], [[split, "x"]]) for split in ("pool", "validation", "test")
    }
    source = table_source("t", files, COLUMNS)
    assert (source.rows[0].input, source.validation[0].input, source.test[0].input) == ("pool", "validation", "test")


def test_without_a_training_file_the_validation_rows_are_dealt(write_csv):
    files = {split: write_csv(f"{split}.csv", ["text", "label"], [[split, "x"]]) for split in ("validation", "test")}
    source = table_source("t", files, COLUMNS)
    assert (source.rows[0].input, source.validation, source.test[0].input) == ("validation", None, "test")


def test_a_test_file_alone_is_no_task(write_csv):
    with pytest.raises(DataError, match="no rows to choose exemplars from"):
        table_source("t", {"test": write_csv("test.csv", ["text", "label"], [["a", "b"]])}, COLUMNS)


def test_templates_make_input_and_output(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"premise": "It {rains}, 100 {0}", "hypothesis": ["wet", "{premise}"], "why": "so", "label": 1}')
    columns = Columns.parse(r"Premise: {premise}\nHypothesis: {hypothesis}", r"{why}\nThe answer is {{{label}}}.")
    assert rows(path, columns) == [
        ("Premise: It {rains}, 100 {0}\nHypothesis: wet\n{premise}", ("so\nThe answer is {1}.",))
    ]


def test_a_template_of_one_column_keeps_its_accepted_outputs(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a", "label": ["x", "y"]}')
    assert rows(path, Columns.parse("{text}?", "{label}")) == [("a?", ("x", "y"))]
    assert rows(path, Columns.parse("{text}?", "{label}!")) == [("a?", ("x\ny!",))]


def test_templates_name_the_columns_of_a_csv_without_header_too(write_csv):
    assert rows(write_csv("t.csv", None, [["3", "title"]]), Columns.parse("{2}, {2}", "1")) == [
        ("title, title", ("3",))
    ]


def test_a_template_with_a_column_that_is_not_there(write_csv):
    path = write_csv("t.csv", ["text", "label"], [["a", "b"]])
    with pytest.raises(DataError, match=r"row 1: no column 'premise'; there are .*: set input_columns"):
        rows(path, Columns.parse("{text} {premise}", "label"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{a.b}", "is more or less than a column's name"),
        ("{a[0]}", "is more or less than a column's name"),
        ("{a!r}", "is more or less than a column's name"),
        ("{a:>10}", "is more or less than a column's name"),
        ("{}", "is more or less than a column's name"),
        ("{{a}}", "has no column; name at least one"),
        ("{a", "write {{ and }} for braces that are text"),
        ("a} {b}", "write {{ and }} for braces that are text"),
    ],
)
def test_broken_templates_are_named(template, message):
    for columns in ((template, "label"), ("text", template)):
        with pytest.raises(ConfigError) as caught:
            Columns.parse(*columns)
        assert f"template {template!r}" in str(caught.value)
        assert message in str(caught.value)


def test_columns_must_be_named():
    with pytest.raises(ConfigError, match="must each name a column"):
        Columns.parse(" , ", "label")
