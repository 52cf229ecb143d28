"""Spreadsheets as openpyxl writes them."""

import openpyxl
import pytest


@pytest.fixture
def write_xlsx(tmp_path):
    def write(*sheets):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for number, rows in enumerate(sheets):
            sheet = book.create_sheet(f"Sheet {number}")
            for row in rows:
                sheet.append(row)
        book.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    return write
