"""CSV and TSV as programs write them, well and badly: read as meant, or refused with the line."""

import csv

import pytest

from ease_lib.errors import DataError
from ease_lib.tasks.records import RecordFile

WORDS = ["parcel late", "refund please", "app crash", "lost password"]
TEAMS = ["shipping", "billing", "bug", "account"]
ROWS = [(f"{WORDS[number % 4]} {number}", TEAMS[number % 4]) for number in range(40)]
HEADER = ("text", "team")
BACKSLASH = "is read as a file where a backslash precedes quotes that are text (known by line 2)"
UNQUOTED = "is read as a file where nothing is quoted (known by line"


@pytest.fixture
def read(tmp_path):
    """Cells of a file with this content, and its notices."""

    def read(content, name="t.csv", wanted=HEADER):
        (tmp_path / name).write_text(content, encoding="utf-8", newline="")
        file = RecordFile(tmp_path / name, wanted)
        records = file.read(list)
        return [tuple(record[column] for column in wanted) for _, record in records], file.notices

    return read


def written(rows, header=HEADER, **form):
    lines = []
    writer = csv.writer(type("Lines", (), {"write": lambda _, line: lines.append(line)})(), **form)
    writer.writerows([header, *rows] if header else rows)
    return "".join(lines)


def plain(rows, delimiter=",", header=HEADER):
    return "".join(delimiter.join(row) + "\n" for row in [header, *rows])


def with_stray(rows, first, last, opening='"{}', closing='{}"'):
    """Rows of which the text of one begins, and that of a later one ends, with a quote."""
    stray = list(rows)
    stray[first] = (opening.format(rows[first][0]), rows[first][1])
    stray[last] = (closing.format(rows[last][0]), rows[last][1])
    return stray


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            plain([*ROWS[:9], ('"' + ROWS[9][0], "billing"), *ROWS[10:]]),
            "t.csv, line 11 (record 10): a quote opens a cell here but is never closed, so lines 11 to 41 became one "
            "cell; close the cell",
        ),
        (
            plain(with_stray(ROWS, 9, 29, closing='a 15" screen {}')),
            "t.csv, line 11 (record 10): a quote opens a cell here, the next one is in line 31, and text follows",
        ),
        (
            'text,team\n"big" parcel,shipping\n',
            "t.csv, line 2 (record 1): text follows the quote that closes a cell; "
            'write a quote that is text twice ("")',
        ),
        ('"text","team"\n"a 15" screen","bug"\n', "t.csv, line 2 (record 1): text follows"),
        ('"text","team"\n"a","bug\n"b","bug"\n', "t.csv, line 2 (record 1): a quote opens a cell here, the next"),
        ('text,team\na,"bug', "t.csv, line 2 (record 1): a quote opens a cell here but is never closed"),
        ('text;team\n"a" b;bug\n', "t.csv, line 2 (record 1): text follows"),
        ('"text,team\na,b\n', "t.csv, line 1: a quote opens a cell here but is never closed"),
        ("text,team\na,bugtext,team\nb,bug\n", "t.csv, line 2 (record 1): 3 cells for 2 columns"),
        ('text,team\n"a\nb",bug,c\n', "t.csv, lines 2 to 3 (record 1): 3 cells for 2 columns"),
        (
            plain(ROWS[:4]) + plain([(b, a) for a, b in ROWS[4:]], header=("team", "text")),
            "t.csv, line 6 (record 5): the header is repeated here with its columns in another order",
        ),
        ('"text"\t"team"\n"a" b\t"bug"\n"c"\t"bug"\n', "t.csv, line 2 (record 1): text follows"),
        ('text\tteam\n"a ""b"""\tbug\n"c" d\tbug\n', "t.csv, line 3 (record 2): text follows"),
        ('text\tteam\n"a" b\tbug\n"c\nd"\tbug\n', "t.csv, line 2 (record 1): text follows"),
        (r'text,team' + '\n' + r'"a \"b\" c,bug' + '\n', "t.csv, line 2 (record 1): text follows"),
    ],
)  # fmt: skip
def test_quotes_that_do_not_hold_together_are_named_by_their_lines(read, content, message):
    with pytest.raises(DataError) as caught:
        read(content)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "lines", "record"),
    [
        (with_stray(ROWS, 9, 29), (11, 31), 10),
        (with_stray(ROWS, 9, 10), (11, 12), 10),
        (with_stray(ROWS, 0, 39), (2, 41), 1),
        (with_stray([(f"{text}, please", team) for text, team in ROWS], 9, 29), None, 0),
        ([(f"line one of {number}\nline two, and so on", team) for number, (_, team) in enumerate(ROWS)], None, 0),
        ([*ROWS, *[(f"{word}\n" * 40, "bug") for word in WORDS]], None, 0),
    ],
)
def test_rows_that_a_stray_quote_made_one_cell_are_counted(read, rows, lines, record):
    is_broken = lines is not None
    content = plain(rows) if is_broken else written(rows, lineterminator="\n")
    found, notices = read(content)
    if not is_broken:
        assert (found, notices) == (rows, [])
        return
    count = len(rows) - (lines[1] - lines[0])
    assert len(found) == count
    assert notices == [
        f"41 lines of t.csv are {count} records: lines {lines[0]} to {lines[1]} became one cell (record {record}), "
        'though each looks like a row; if a quote in the first of them is text, write it twice ("")'
    ]


def test_one_long_cell_among_short_ones_is_a_notice_and_is_read(read):
    rows = [*ROWS[:5], ("Dear Sir,\n" + "it is late, again\n" * 12, "shipping"), *ROWS[5:]]
    found, notices = read(written(rows, lineterminator="\n"))
    assert found == rows
    assert notices == [
        "55 lines of t.csv are 41 records: lines 7 to 20 became one cell (record 6), where nearly all others have one "
        'line; if a quote in the first of them is text, write it twice ("")'
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "cells",
    [
        ["Dear Sir,\nmy parcel is late", "Dear Madam,\nthanks,\nBob"],
        ["Hello, I have a problem.\nPlease help", "a, b\nc, d\ne"],
        ["- one\n- two\n\n- three", 'he said "x"\nand left', "1,5\n2,5"],
    ],
)
def test_a_table_of_letters_gives_no_notice(read, cells, line_end):
    rows = [(cells[number % len(cells)] + f" {number}", "shipping") for number in range(60)]
    found, notices = read(written(rows, lineterminator=line_end))
    assert (found, notices) == (rows, [])


@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
@pytest.mark.parametrize(
    "rows",
    [
        with_stray(ROWS, 9, 29),
        with_stray(ROWS, 9, 29, closing='15" {}'),
        with_stray(ROWS, 9, 10, closing="{}"),
        [*ROWS[:7], ('"big" parcel, "small" price', "shipping"), *ROWS[7:]],
        [*ROWS[:7], ('"quoted"', "shipping"), ('"open', "shipping"), *ROWS[7:]],
    ],
)
def test_quotes_in_a_file_of_tabs_that_quotes_nothing_are_text(read, rows, name):
    found, notices = read(plain(rows, "\t"), name)
    assert found == rows
    assert [notice.startswith(f"{name} {UNQUOTED}") for notice in notices] == [True]


def test_quoted_cells_of_tabs_and_lines_are_read_as_excel_writes_them(read):
    rows = [("a\tb\nc\td", "x"), ('say "x"', "y"), ("plain", "z")]
    assert read(written(rows, delimiter="\t"), "t.tsv") == (rows, [])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (r'"he said \"late\" twice","shipping"', ('he said "late" twice', "shipping")),
        (r'"\"late\", he said","shipping"', ('"late", he said', "shipping")),
        (r'"a 15\"","bug"', ('a 15"', "bug")),
        (r'"in C:\\temp\new \"x\"","bug"', (r'in C:\temp\new "x"', "bug")),
        ('"two \\"x\\"\\\nlines","bug"', ('two "x"\nlines', "bug")),
        (r'"\"x\" \\","bug"', ('"x" \\', "bug")),
    ],
)
def test_quotes_that_a_backslash_escapes_are_read_as_meant(read, cells, expected):
    found, notices = read(f'"text","team"\n{cells}\n"plain","bug"\n')
    assert found == [expected, ("plain", "bug")]
    assert notices == [f"t.csv {BACKSLASH}"]


def test_a_backslash_is_text_where_quotes_are_doubled(read):
    rows = [("C:\\dir\\", "x"), (r"a\"b", "y"), (r"\new", "z")]
    assert read(written(rows, quoting=csv.QUOTE_ALL)) == (rows, [])


def test_how_quotes_are_written_late_in_a_file_holds_from_its_beginning(read):
    rows = [*[(r"C:\\temp", "bug")] * 3000, (r"\"x\" y", "bug")]
    found, _ = read("text,team\n" + "".join(f'"{text}",{team}\n' for text, team in rows))
    assert found == [*[(r"C:\temp", "bug")] * 3000, ('"x" y', "bug")]


def test_null_of_a_database_is_an_empty_cell(read):
    assert read("text\tteam\na\t\\N\n\\N\tb\n", "t.tsv")[0] == [("a", ""), ("", "b")]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_header_that_stands_again_is_left_out_with_a_notice(read, mark):
    rows = ROWS[:5]
    part = mark + plain(rows)
    assert read(part) == (rows, [])
    assert read(part * 2) == (
        rows * 2,
        ["t.csv repeats the header once, which was left out there (first at line 7)"],
    )
    assert read(part * 4)[1] == ["t.csv repeats the header 3 times, which was left out there (first at line 7)"]


@pytest.mark.parametrize("again", ["Text,Team", "text, team ", "TEXT,TEAM", '"text","team"'])
def test_a_header_that_stands_again_may_be_written_otherwise(read, again):
    found, notices = read(f"text,team\na,bug\n{again}\nb,bug\ntext,bug\nTeam,team\n")
    assert found == [("a", "bug"), ("b", "bug"), ("text", "bug"), ("Team", "team")]
    assert len(notices) == 1


def test_a_byte_order_mark_inside_is_no_text(read):
    content = '\ufefftext,team\na,bug\n\ufeff"b, c",bug\nd,\ufeffbug\n'
    assert read(content)[0] == [("a", "bug"), ("b, c", "bug"), ("d", "bug")]


@pytest.mark.parametrize("first", ["sep=;\n", "SEP=;\r\n", '"sep=;"\n'])
def test_the_line_that_tells_excel_the_delimiter_is_no_row(read, first):
    content = f"{first}text;team\na,b,c;x\nd;y\n"
    assert read(content) == ([("a,b,c", "x"), ("d", "y")], [])
    with pytest.raises(DataError, match=r"t\.csv, line 4 \(record 2\): 3 cells"):
        read(f"{first}text;team\na;b\nc;d;e\n")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("\n  \ntext,label\na,x\n", ("line", 4, 1)),
        (",,\n\u200b,,\ntext,label,\na,x,\n", ("line", 4, 1)),  # a sheet whose table begins further down
        ("text,label\n\n \t\na,x\n\x1a", ("line", 4, 3)),
        ("text,label\na,x\n" + "\0" * 99, ("line", 2, 1)),
        ("text,label\na,x,\n", ("line", 2, 1)),
        ("text,label,\na,x,, ,\n,,,\n", ("line", 2, 1)),
        (" text ,label \na,x\n", ("line", 2, 1)),
        ('"te\nxt",label\na,x\n', ("line", 3, 1)),
        ("\u200btext\u00a0,ｌabel\na,x\n", ("line", 2, 1)),
    ],
)
def test_what_nobody_sees_is_no_record_no_cell_and_no_part_of_a_name(tmp_path, content, place):
    wanted = ("te xt" if '"' in content else "text", "label")
    (tmp_path / "t.csv").write_text(content, encoding="utf-8", newline="")
    ((found, record),) = RecordFile(tmp_path / "t.csv", wanted).read(list)
    assert [record[column] for column in wanted] == ["a", "x"]
    assert found == place


SPACED = "is read as a file where a blank precedes quotes (known by line 2)"


@pytest.mark.parametrize(
    ("content", "rows", "notices"),
    [
        ('text, label\n"a, b", "x"\n"c", "y, z"\n', [("a, b", "x"), ("c", "y, z")], [SPACED]),
        ('text; label\na; "x"\nb; "y"\n', [("a", "x"), ("b", "y")], [SPACED]),
        ('text, label\na, "x" or "y"\nb, "z"\n', [("a", ' "x" or "y"'), ("b", ' "z"')], []),
        ('text,label\nhe said "no", x\nb,"y"\n', [('he said "no"', " x"), ("b", "y")], []),
        ('text,label\n"he said, ""no""",x\n', [('he said, "no"', "x")], []),
    ],
)
def test_a_blank_before_a_quote_is_no_text_where_the_whole_file_is_so(read, content, rows, notices):
    found, said = read(content, wanted=("text", "label"))
    assert (found, said) == (rows, [f"t.csv {notice}" for notice in notices])


def test_a_delimiter_that_is_declared_counts_though_another_fits(read):
    assert read("sep=^\ntext^team\na,b^x\n")[0] == [("a,b", "x")]
