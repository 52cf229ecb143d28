"""Spreadsheets as people and programs keep them."""

import re
import zipfile
from datetime import date, datetime

import openpyxl
import pytest

from ease_lib.errors import DataError
from ease_lib.tasks.records import RecordFile
from ease_lib.tasks.spreadsheets import with_digits

WANTED = ("text", "label")


def records(path, wanted=WANTED):
    return RecordFile(path, wanted).read(lambda records: [record for _, record in records])


def test_a_spreadsheet_gives_what_people_see(write_xlsx):
    path = write_xlsx(
        [
            [None, None],
            ["text", " label ", None, "when"],
            ["a", 3.0, "note", datetime(2026, 11, 23)],
            [None, None, None, None],
            [4.5, True, None, datetime(2026, 11, 23, 9, 30)],
            ["c", None, None, date(2026, 1, 2)],
            ["", " "],
            ["#N/A", "#REF!", None, None],
            [None, None],
        ]
    )
    file = RecordFile(path, ("text", "label"))
    found = file.read(list)
    assert [place for place, _ in found] == [("sheet 'Sheet 0', row", number, 0) for number in (3, 5, 6, 7, 8)]
    assert [record["when"] for _, record in found[:3]] == ["2026-11-23", "2026-11-23T09:30:00", "2026-01-02"]
    assert [(record["text"], record["label"]) for _, record in found[:3]] == [("a", 3), (4.5, True), ("c", None)]
    assert found[-1][1]["text"] is None, "an error of a formula"
    assert file.notices == []


def test_the_first_of_several_sheets_is_read_and_said(write_xlsx):
    file = RecordFile(write_xlsx([["text"], ["a"]], [["text"], ["b"]]), ("text",))
    assert [record for _, record in file.read(list)] == [{"text": "a"}]
    assert file.notices == ["reading the first of 2 sheets of t.xlsx, 'Sheet 0'; save another sheet as a separate file"]


def test_a_spreadsheet_without_header_names_its_columns_by_number(write_xlsx):
    assert records(write_xlsx([["a", "b"]]), ("1", "2")) == [{"1": "a", "2": "b"}]


@pytest.mark.parametrize("sheets", [([],), ([["text", "label"]],)])
def test_a_spreadsheet_of_nothing_has_no_records(write_xlsx, sheets):
    assert records(write_xlsx(*sheets)) == []


@pytest.fixture
def change(tmp_path):
    """A spreadsheet of rows `text 0, label`, ... whose sheet is changed before it is saved."""

    def change(how, rows=12):
        book = openpyxl.Workbook()
        book.active.append(WANTED)
        for number in range(rows):
            book.active.append((f"text {number}", "abc"[number % 3]))
        how(book.active)
        book.save(tmp_path / "t.xlsx")
        return RecordFile(tmp_path / "t.xlsx", WANTED)

    return change


def labels(file):
    return [record["label"] for record in file.read(lambda records: [record for _, record in records])]


@pytest.mark.parametrize("areas", [["B2:B5", "B6:B13"], ["B6:B13"], ["B2:B13"]])
def test_a_label_that_is_merged_over_rows_is_that_of_each(change, areas):
    def merge(sheet):
        for area in areas:
            sheet.merge_cells(area)

    file = change(merge)
    expected = {"B2:B5": ["a"] * 4, "B6:B13": ["b"] * 8, "B2:B13": ["a"] * 12}
    whole = [label for area in areas for label in expected[area]]
    assert labels(file) == [*["a", "b", "c", "a"], *whole][-12:]
    count = sum(len(expected[area]) - 1 for area in areas)
    assert [notice.partition(" (")[0] for notice in file.notices] == [
        f"{count} cells of column 'label' of t.xlsx are merged with cells above and have their value"
    ]


def test_cells_that_are_empty_and_not_merged_stay_empty(change):
    def some(sheet):
        sheet.merge_cells("B2:B3")
        sheet["B4"] = sheet["B6"] = None
        sheet.merge_cells("B6:B7")
        sheet.merge_cells("A9:B9")

    assert labels(change(some)) == ["a", "a", None, "a", None, None, "a", None, "c", "a", "b", "c"]


@pytest.mark.parametrize("cell", ["B2", "B9", "A13"])
def test_a_formula_that_no_program_calculated_is_refused(change, cell):
    def formula(sheet):
        sheet[cell] = '=LOWER("BUG")'

    column = {"A": "text", "B": "label"}[cell[0]]
    with pytest.raises(DataError) as caught:
        labels(change(formula))
    assert str(caught.value) == (
        f"t.xlsx, sheet 'Sheet', row {cell[1:]}: column {column!r} holds the formula =LOWER(\"BUG\"), and the file "
        "does not hold its value; open it in a spreadsheet program and save it, or paste the values"
    )


def with_formula(path, written):
    """Write the XML of cell B3 as another program does."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    parts["xl/worksheets/sheet1.xml"] = re.sub('<c r="B3".*?</c>', written, sheet).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ('<c r="B3" t="str"><f>IF(A3="","x","")</f><v></v></c>', None),
        ('<c r="B3" t="str"><f>LOWER("B")</f><v>b</v></c>', "b"),
        ('<c r="B3"><f>1+2</f><v>3</v></c>', 3),
        ('<c r="B3" t="e"><f>A1#</f><v>#SPILL!</v></c>', None),
        ('<c r="B3" t="inlineStr"><is><t>b_x000D_</t></is></c>', "b\r"),
        ('<c r="B3" t="e"><f>1/0</f><v>#DIV/0!</v></c>', None),
    ],
)
def test_formulas_that_were_calculated_have_their_values(change, tmp_path, written, label):
    file = change(lambda sheet: None)
    with_formula(tmp_path / "t.xlsx", written)
    assert labels(file)[:3] == ["a", label, "c"]


def test_zero_is_no_value_of_a_formula_in_a_file_that_was_never_calculated(change, tmp_path):
    file = change(lambda sheet: None)
    with_formula(tmp_path / "t.xlsx", '<c r="B3"><f>LOWER("B")</f><v>0</v></c>')
    with pytest.raises(DataError, match=r"row 3: column 'label' holds the formula =LOWER"):
        labels(file)


def test_a_formula_in_a_column_that_is_not_needed_does_no_harm(change):
    def more(sheet):
        sheet["C1"], sheet["C2"] = "note", "=A2"

    assert labels(change(more))[0] == "a"


@pytest.mark.parametrize(
    ("number", "form", "shown"),
    [
        (1, "000", "001"),
        (123456789, "000-00-0000", "123-45-6789"),
        (1234, "00", "1234"),
        (12345, "00-00", "123-45"),
        (7, '"Q"0', "Q7"),
        (7, '"ID-"0000', "ID-0007"),
        (42, r"\#00000", "#00042"),
        (3, "0", "3"),
        (1, "General", 1),
        (1234, "#,##0", 1234),
        (5, "0.00", 5),
        (1, "0%", 1),
        (-1, "000", -1),
        (1, "@", 1),
        (1, "yyyy", 1),
        (7, "000;[Red]-000", "007"),
        (7, "[$-409]000_)", "007"),
        (7, "#,##0_);[Red](#,##0)", 7),
    ],
)
def test_a_number_has_the_digits_that_its_format_shows(number, form, shown):
    assert with_digits(number, form) == shown


def test_identifiers_with_leading_zeros_are_read_as_they_are_shown(change):
    def number(sheet):
        for row in range(2, 14):
            sheet.cell(row, 2).value = row - 2
            sheet.cell(row, 2).number_format = "000"
        sheet["B13"].number_format = "0.00"

    assert labels(change(number)) == [*[f"{number:03}" for number in range(11)], 11]


def test_a_header_that_stands_again_in_a_sheet_is_left_out(change):
    def again(sheet):
        sheet["A7"], sheet["B7"] = WANTED

    file = change(again)
    assert len(labels(file)) == 11
    assert file.notices == ["t.xlsx repeats the header once, which was left out there (first at sheet 'Sheet', row 7)"]


def test_a_hidden_sheet_is_not_the_first_one_and_an_empty_one_is_named(change):
    def more(sheet):
        sheet.sheet_state = "hidden"
        sheet.parent.create_sheet("seen").append(WANTED)
        sheet.parent["seen"].append(("a", "b"))

    assert labels(change(more)) == ["b"]

    def empty(sheet):
        sheet.parent.create_sheet("notes", 0)

    with pytest.raises(DataError, match="its first sheet, 'notes', is empty; save the one with the table as a file"):
        labels(change(empty))


def test_a_workbook_that_its_parser_fails_on_is_refused(change):
    def chart(sheet):
        sheet.parent.create_chartsheet("chart", 0)

    with pytest.raises(DataError, match=r"t\.xlsx cannot be read as xlsx"):
        labels(change(chart))
