"""Rows by text, cell, hash or condition, and the texts that show them."""

import io

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.lineage.deletion.row_query import RowName, matching_rows
from ease_lib.tasks.base import row_hash
from ease_lib.tasks.columns import Columns

COLUMNS = Columns.parse("subject,body", "team")
RECORDS = [
    {"id": "1", "subject": "hello", "body": "the parcel is late", "team": "a"},
    {"id": "2", "subject": "hello", "body": "the parcel is lost", "team": "b"},
]
TEXT = "subject: hello\nbody: the parcel is late"


def parquet():
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), file)
    return file.getvalue()


def spreadsheet():
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (RECORDS[0], *map(dict.values, RECORDS)):
        book.active.append(list(row))
    book.save(file)
    return file.getvalue()


TABLES = {
    "t.csv": "\n".join(",".join(row) for row in (RECORDS[0], *map(dict.values, RECORDS))).encode(),
    "t.parquet": parquet(),
    "t.xlsx": spreadsheet(),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "asked",
    [RowName.where("id=1"), RowName.of("the parcel is late"), RowName.of(TEXT), RowName.of(row_hash(TEXT))],
    ids=["column", "cell", "text", "hash"],
)
def test_a_row_is_found_in_any_table_by_whatever_names_it(name, asked):
    (found,) = matching_rows(asked, [(name, TABLES[name])], [], (COLUMNS,))
    assert found.row == row_hash(TEXT)
    assert found.texts == (TEXT, "the parcel is late"), "and not the subject, which another row has too"


def test_a_copy_of_a_table_makes_no_cell_another_rows():
    (found,) = matching_rows(RowName.where("id=1"), list(TABLES.items()), [], (COLUMNS,))
    assert found.texts == (TEXT, "the parcel is late")


def test_a_row_that_no_table_has_is_known_by_what_it_was_named_by():
    (by_text,) = matching_rows(RowName.of("elsewhere"), [], [], ())
    (by_hash,) = matching_rows(RowName.of(row_hash("elsewhere")), [], [], ())
    assert (by_text.row, by_text.texts) == (row_hash("elsewhere"), ("elsewhere",))
    assert (by_hash.row, by_hash.texts) == (row_hash("elsewhere"), ())
    assert matching_rows(RowName.where("id=3"), list(TABLES.items()), [], (COLUMNS,)) == []


WRITTEN = ("Été: the parcel", "E\u0301te\u0301:  the parcel", "Été\u200b: the parcel")


@pytest.mark.parametrize(
    "asked",
    [*WRITTEN, "été: THE parcel", *map(row_hash, WRITTEN)],
    ids=["composed", "decomposed", "unseen", "case", "hash", "hash of decomposed", "hash of unseen"],
)
def test_a_row_is_found_in_whatever_form_of_characters_it_is_written(asked):
    table = "text,team\n" + "\n".join(f'"{text}",a' for text in (*WRITTEN, "another"))
    found = matching_rows(RowName.of(asked), [("t.csv", table.encode())], [], (Columns.parse("text", "team"),))
    assert {each.row for each in found} == {row_hash(text) for text in WRITTEN}
    assert all(each.is_value(text) for text in WRITTEN for each in found)
    assert not found[0].is_value("another")


def test_case_counts_in_a_condition_and_what_nobody_sees_does_not():
    records = "id,subject,body\nC1\u200b,hello,one\nc1,hello,two\nＣ1,hello,three\n"
    columns = Columns.parse("subject,body", "id")
    found = matching_rows(RowName.where("id=C1"), [("t.csv", records.encode())], [], (columns,))
    assert [each.texts[1] for each in found] == ["one", "three"]
