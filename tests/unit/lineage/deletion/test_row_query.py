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
