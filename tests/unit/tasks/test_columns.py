import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.errors import ConfigError
from ease_lib.tasks.columns import Columns
from ease_lib.tasks.table import read_rows, table_source


def outputs(path, columns):
    return [row.outputs for row in read_rows(path, columns)]


def test_several_output_columns_are_one_json_object_in_the_order_named(tmp_path):
    path = tmp_path / "t.jsonl"
    records = [{"text": "a", "urgent": True, "team": "Büro", "tags": ["x", "y"], "n": 1.5, "more": {"k": None}}]
    path.write_text("\n".join(map(json.dumps, records)))
    columns = Columns.parse("text", "team, urgent,tags,n,more")
    expected = '{"team": "Büro", "urgent": true, "tags": ["x", "y"], "n": 1.5, "more": {"k": null}}'
    assert outputs(path, columns) == [(expected,)]
    assert table_source("t", {"rows": path}, columns).metric == "json_fields"


def test_an_object_of_csv_cells_holds_texts(write_csv):
    path = write_csv("t.csv", ["text", "a", "b"], [["q", "1", 'say "x"']])
    assert outputs(path, Columns.parse("text", "a,b")) == [('{"a": "1", "b": "say \\"x\\""}',)]


def test_numbers_of_parquet_in_an_object_stay_numbers_and_nan_is_null(tmp_path):
    rows = {"text": ["q"], "n": [3], "m": [{"x": float("nan")}]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    assert outputs(tmp_path / "t.parquet", Columns.parse("text", "n,m")) == [('{"n": 3, "m": {"x": null}}',)]


def test_a_list_is_alternatives_unless_it_is_asked_for_as_a_set(tmp_path):
    path = tmp_path / "t.jsonl"
    records = [{"text": "a", "label": ["x", "é"]}, {"text": "b", "label": "y"}, {"text": "c", "label": []}]
    path.write_text("\n".join(map(json.dumps, records)))
    assert outputs(path, Columns.parse("text", "label")) == [("x", "é"), ("y",)]
    columns = Columns.parse("text", "label", keeps_lists=True)
    assert outputs(path, columns) == [('["x", "é"]',), ('["y"]',), ("[]",)], "an empty set is an answer too"
    assert table_source("t", {"rows": path}, columns).metric == "json_set"


def test_json_lists_in_cells_of_csv_are_sets_too(write_csv):
    path = write_csv("t.csv", ["text", "label"], [["a", '["x","y"]'], ["b", "x, y"], ["c", "7"]])
    columns = Columns.parse("text", "label", keeps_lists=True)
    assert outputs(path, columns) == [('["x", "y"]',), ('["x, y"]',), ('["7"]',)]


@pytest.mark.parametrize("output", ["a,b", "{a} {b}", "It is {a}"])
def test_a_set_is_one_column(output):
    with pytest.raises(ConfigError, match="output_lists=set needs output_column to be one column"):
        Columns.parse("text", output, keeps_lists=True)


def test_helper_columns_are_shown_where_they_are_named(write_csv):
    path = write_csv("t.csv", ["text", "label", "when"], [["a", "x", "2026-01-01"]])
    (row,) = read_rows(path, Columns.parse("text,when", "label", fields=("when",), time="when", group="when"))
    assert row.input == "text: a\nwhen: 2026-01-01"
    assert row.fields == (("when", "2026-01-01"),)
    assert row.group == "2026-01-01"
