import gzip
import json
from collections import Counter
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.config.sections import TaskConfig
from ease_lib.errors import ConfigError, DataError
from ease_lib.tasks import json_records, table
from ease_lib.tasks.base import Row
from ease_lib.tasks.catalog import load_source
from ease_lib.tasks.columns import Columns, joined_names
from ease_lib.tasks.sample import Limit, Sample
from ease_lib.tasks.table import read_rows, sampled_rows, table_source

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


def test_compressed_tables_are_read_as_they_are(tmp_path):
    content = gzip.compress("text,label\nä,b\n".encode())
    (tmp_path / "train.csv.gz").write_bytes(content)
    assert rows(tmp_path / "train.csv.gz") == [("ä", ("b",))]
    assert table.split_of("Train.csv.gz") == "pool"
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a", "label": "b"}'))
    assert rows(tmp_path / "t.jsonl.gz") == [("a", ("b",))]
    (tmp_path / "cut.csv.gz").write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"cut.csv.gz cannot be read"):
        rows(tmp_path / "cut.csv.gz")
    (tmp_path / "t.parquet.gz").write_bytes(content)
    with pytest.raises(DataError, match="unknown kind of table"):
        rows(tmp_path / "t.parquet.gz")


def test_csv_without_header_names_columns_by_position(write_csv):
    path = write_csv("t.csv", None, [["3", "title", "text"], ["4", "other", "more"]])
    assert rows(path, Columns.parse("2,3", "1")) == [
        ("2: title\n3: text", ("3",)),
        ("2: other\n3: more", ("4",)),
    ]


def test_columns_that_the_prompt_names_are_kept_beside(write_csv):
    path = write_csv("t.csv", ["subject", "body", "label"], [["Hi", " {x}", "a"]])
    assert read_rows(path, Columns.parse("subject,body", "label", fields=("body", "subject"))) == [
        Row("subject: Hi\nbody:  {x}", ("a",), fields=(("body", "{x}"), ("subject", "Hi")), origin="t.csv, line 2")
    ]
    with pytest.raises(DataError, match="no column 'sender'"):
        read_rows(path, Columns.parse("subject", "label", fields=("sender",)))


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


def test_objects_become_json_and_not_python(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"text": [{"a": 1}, "b"], "label": {"team": "ü", "urgent": True, "note": None}}))
    assert rows(path) == [('{"a": 1}\nb', ('{"team": "ü", "urgent": true, "note": null}',))]


def test_blanks_around_a_cell_make_no_label_of_their_own(write_csv):
    path = write_csv("t.csv", ["text", "label"], [["a", "shipping "], ["b ", " shipping"], ["c", "  - x\n  - y\n"]])
    assert rows(path) == [("a", ("shipping",)), ("b", ("shipping",)), ("c", ("  - x\n  - y",))]


def test_a_json_array_is_a_table(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"text": "a", "label": "b"}]')
    assert rows(path) == [("a", ("b",))]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "t.csv has no rows"),
        ("t.csv", "text,label\n", "t.csv has no rows"),
        ("t.csv", "text,kind\na,b\n", "t.csv, line 2 (record 1): no column 'label'; there are ['kind', 'text']"),
        ("t.csv", "text,label\na,b\nc\n", "t.csv, line 3 (record 2): 1 cells for 2 columns; quote cells"),
        ("t.csv", "text,label\n,b\n , c\n", "t.csv: none of its 2 rows can be used: column 'text' is empty (first at"),
        ("t.tsv", "text\tlabel\na\tb\tc\n", "t.tsv, line 2 (record 1): 3 cells for 2 columns"),
        ("t.json", '[{"text": "a", "label": "b"}, {"text"', "t.json, item 2: not valid JSON"),
        ("t.json", '[{"text": "a", "label": "b"}, 3]', "t.json, item 2: expected a JSON object, found int"),
        ("t.jsonl", '{"text": "a", "label": "b"}\n{"text"', "t.jsonl, line 2: not valid JSON"),
        ("t.jsonl", '{"text": "a", "label": null}', "t.jsonl: none of its 1 rows can be used: column 'label'"),
        ("t.jsonl", '{"text": "a", "label": []}', "t.jsonl: none of its 1 rows can be used: column 'label'"),
        ("t.jsonl", '{"text": NaN, "label": "b"}', "t.jsonl: none of its 1 rows can be used: column 'text'"),
        (
            "t.json",
            '{"7": {"text": "a", "label": "b"}, "8": {"text": "c"}}',
            "t.json, row 2: no column 'label'; there are",
        ),
        ("t.jsonl", "[1]", "t.jsonl, item 1: expected a JSON object, found int"),
        ("t.parquet", "not parquet", "t.parquet cannot be read as parquet"),
        ("t.csv", "text,label,text\na,b,c\n", "t.csv: 2 columns are named 'text'; rename the others"),
        ("t.csv", "\n\n", "t.csv has no rows"),
        ("t.xlsx", "", "t.xlsx cannot be read as xlsx: File is not a zip file; save it again as an Excel workbook"),
        ("t.xls", "", "t.xls: unknown kind of table; use one of .csv, .tsv, .jsonl, .json, .parquet, .xlsx"),
    ],
)
def test_broken_tables_name_file_row_column_and_remedy(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        rows(path)
    assert message in str(caught.value)


def test_text_that_is_not_utf8_is_named_by_its_line_with_what_to_do(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text,label\n" + b"a,b\n" * 5000 + "Café,b\n".encode("cp1252"))
    with pytest.raises(
        DataError, match=r"t\.csv, line 5002, is not UTF-8 text; save it as UTF-8 .* set encoding, e.g. cp1252"
    ):
        rows(path)


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ";"), ("csv", "\t"), ("csv", "|"), ("tsv", "\t")])
def test_other_delimiters_than_the_comma_are_found(tmp_path, suffix, delimiter):
    path = tmp_path / f"t.{suffix}"
    lines = [("text", "label", "note"), ('"a, b; c | d\te\nf"', "x", "1,5"), ("g", "y, z", "")]
    path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    assert rows(path) == [("a, b; c | d\te\nf", ("x",)), ("g", ("y, z",))]
    path.write_text("".join(delimiter.join(line) + "\n" for line in lines[1:]))
    assert rows(path, Columns.parse("1", "2")) == [("a, b; c | d\te\nf", ("x",)), ("g", ("y, z",))]


def test_an_array_of_any_length_is_read_item_by_item(tmp_path, monkeypatch):
    monkeypatch.setattr(json_records, "READ_CHARACTERS", 16)
    path = tmp_path / "t.json"
    items = [{"text": f'[{{{number}, "]', "label": "é" * number or "-"} for number in range(50)]
    for indent in (None, 2):
        path.write_text(json.dumps(items, indent=indent, ensure_ascii=False))
        assert rows(path) == [(record["text"], (record["label"],)) for record in items]


def test_a_sample_is_the_same_for_a_seed_and_another_for_another(write_csv):
    path = write_csv("t.csv", ["text", "label"], [[f"text {number}", "x"] for number in range(2000)])
    once, again, other = (
        [row.input for row in sampled_rows(path, COLUMNS, Limit(seed=seed, rows=100)).rows()] for seed in (0, 0, 1)
    )
    assert len(once) == 100
    assert once == again != other
    assert once == sorted(once, key=lambda text: int(text.split()[1])), "in the order of the file"
    larger = {row.input for row in sampled_rows(path, COLUMNS, Limit(seed=0, rows=300)).rows()}
    assert set(once) < larger


def test_every_row_is_as_likely_in_a_sample():
    kept = Counter()
    for seed in range(400):
        sample = Sample(Limit(seed=seed, rows=20), "t")
        for number in range(100):
            if sample.wants_next():
                sample.add(Row(str(number), ("x",)))
        kept.update(int(row.input) // 25 for row in sample.rows())
    assert all(abs(count - 2000) < 150 for count in kept.values())


def test_a_sample_of_long_texts_is_smaller_and_keeps_within_its_memory():
    sample = Sample(Limit(seed=0, rows=1000, memory=100_000), "t")
    for number in range(1000):
        if sample.wants_next():
            sample.add(Row(f"{number}" + "x" * 2000, ("y",)))
    assert 30 < len(sample) < 50
    assert max(int(row.input.rstrip("x")) for row in sample.rows()) > 500, "not the first ones"


def test_all_rows_that_do_not_fit_are_refused_with_limit_and_remedy(write_csv):
    path = write_csv("t.csv", ["text", "label"], [["x" * 500, "y"]] * 2000)
    with pytest.raises(DataError, match=r"t\.csv: pool_size=0 takes all rows, but after \d+ .* GiB .*; set pool_size"):
        sampled_rows(path, COLUMNS, Limit(seed=0, rows=None, memory=500_000))


def test_a_notice_says_how_many_rows_were_kept(write_csv):
    path = write_csv("t.csv", ["text", "label"], [[f"text {number}", "x"] for number in range(2000)])
    source = table_source("t", {"rows": path}, COLUMNS, limits=lambda split: Limit(seed=0, rows=1000))
    assert source.notices == ("1 000 of the 2 000 rows of t.csv were kept to draw from, by seed",)
    assert source.left_out == 1000


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
    with pytest.raises(DataError, match=r"line 2 \(record 1\): no column 'premise'; there are .*: set input_columns"):
        rows(path, Columns.parse("{text} {premise}", "label"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{a[0]}", "is not a column's name"),
        ("{a!r}", "is not a column's name"),
        ("{a:>10}", "is not a column's name"),
        ("{}", "is not a column's name"),
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


def test_rows_with_an_empty_cell_are_left_out_and_counted_by_column(write_csv):
    path = write_csv(
        "t.csv",
        ["text", "label", "note"],
        [["a\n\n", "x", ""], [" ", "y", ""], ["b", "", ""], ["", "", ""], ["c", "z", ""]],
    )
    source = table_source("t", {"rows": path}, COLUMNS)
    assert [row.input for row in source.rows] == ["a", "c"]
    assert source.notices == (
        "2 of 5 rows of t.csv were left out: column 'text' is empty (first at line 5)",
        "1 of 5 rows of t.csv were left out: column 'label' is empty (first at line 6)",
    )
    assert source.left_out == 0, "which counts rows that a sample does without"


def half_empty(write_csv, empty, rows=20):
    cells = [["" if number < empty else f"text {number}", "abcd"[number % 4]] for number in range(rows)]
    return write_csv("t.csv", ["text", "label"], cells)


@pytest.mark.parametrize(("empty", "share"), [(11, 0.5), (1, 0.0), (20, 0.9), (19, 0.9)])
def test_a_table_of_which_more_rows_are_left_out_than_may_be_is_refused(write_csv, empty, share):
    with pytest.raises(DataError) as caught:
        table_source("t", {"rows": half_empty(write_csv, empty)}, COLUMNS, max_left_out=share)
    if empty < 20:
        assert str(caught.value) == (
            f"t.csv: {empty} of 20 rows are left out, more than max_left_out={share:g} of them: {empty} because column "
            "'text' is empty (first at line 2); correct the table, or raise max_left_out (1 continues with whatever "
            "is left)"
        )


@pytest.mark.parametrize(("empty", "share"), [(10, 0.5), (0, 0.0), (19, 1.0)])
def test_a_table_of_which_enough_rows_are_left_is_read(write_csv, empty, share):
    source = table_source("t", {"rows": half_empty(write_csv, empty)}, COLUMNS, max_left_out=share)
    assert len(source.rows) == 20 - empty


@pytest.mark.parametrize(("more", "message"), [({}, "max_left_out=0.5"), ({"max_left_out": 0.6}, "")])
def test_a_task_that_leaves_out_more_than_half_of_its_rows_stops_unless_told_otherwise(write_csv, more, message):
    path = half_empty(write_csv, 11)
    config = TaskConfig(task="table", task_uri=str(path), input_columns="text", output_column="label", **more)
    locate, list_files = (lambda name: path), (lambda folder: [path.name])
    if not message:
        assert len(load_source(config, seed=0, locate=locate, list_files=list_files).rows) == 9
        return
    with pytest.raises(DataError, match=message):
        load_source(config, seed=0, locate=locate, list_files=list_files)


def test_rows_that_a_stray_quote_made_one_cell_count_as_left_out(tmp_path):
    lines = [f"text {number},label {number % 4}\n" for number in range(20)]
    lines[2], lines[18] = '"' + lines[2], lines[18].replace(",", '",')
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(lines))
    assert len(read_rows(tmp_path / "t.csv", COLUMNS)) == 4
    with pytest.raises(DataError, match=r"16 of 20 rows are left out, more than .*lines 4 to 20 became one cell"):
        table_source("t", {"rows": tmp_path / "t.csv"}, COLUMNS, max_left_out=0.5)


def test_names_with_commas_and_points_are_columns(write_csv):
    path = write_csv("t.csv", ["Name, Vorname", "a.b", "label"], [["Ada, L.", "c", "x"]])
    assert rows(path, Columns.parse('"Name, Vorname",a.b', "label")) == [("Name, Vorname: Ada, L.\na.b: c", ("x",))]
    assert rows(path, Columns.parse("{Name, Vorname} {a.b}", "{a.b}.")) == [("Ada, L. c", ("c.",))]
    assert rows(path, Columns.parse(joined_names(["Name, Vorname"]), "a.b")) == [("Ada, L.", ("c",))]
    with pytest.raises(DataError, match=r'no column \'Name\'.*: quote a name that contains a comma: "Name, Vorname"'):
        rows(path, Columns.parse("Name, Vorname", "label"))


def test_nan_and_null_in_parquet_are_empty(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a", "b", None, "d"], "label": [1.0, float("nan"), 2.0, None]}), path)
    source = table_source("t", {"rows": path}, COLUMNS)
    assert [(row.input, row.outputs) for row in source.rows] == [("a", ("1.0",))]
    assert [notice.partition(" of ")[0] for notice in source.notices] == ["2", "1"]


def test_the_head_of_a_table_may_be_empty_where_more_follows(write_csv):
    path = write_csv("t.csv", ["text", "label"], [["", "x"]] * 3 + [["a", "x"]])
    assert table.check_head(path, COLUMNS, 2) is None
    path = write_csv("t.csv", ["text", "label"], [["", "x"]] * 3)
    with pytest.raises(DataError, match="none of its 3 rows can be used"):
        table.check_head(path, COLUMNS, 10)


def of_columns(path, **columns):
    return table_source("t", {"rows": path}, Columns.parse("text", "label", **columns))


def test_a_column_names_the_split_of_each_row(write_csv):
    names = ["Train", "POOL ", "dev", "\uff36alid", "Test", "execute", "induce"]
    path = write_csv("t.csv", ["text", "label", "set"], [[f"row {name}", "x", name] for name in names])
    source = of_columns(path, split="set")
    assert [row.input for row in source.rows] == ["row Train", "row POOL", "row induce"]
    assert [row.input for row in source.validation] == ["row dev", "row \uff36alid"]
    assert [row.input for row in source.test] == ["row Test", "row execute"]
    assert source.rows[0].fields == (), "the column is not shown"


def test_an_unknown_split_is_named_with_its_line_and_those_there_are(write_csv):
    path = write_csv("t.csv", ["text", "label", "set"], [["a", "x", "train"], ["b", "x", "prüfung"]])
    with pytest.raises(
        DataError, match=r"t\.csv, line 3 \(record 2\): split_column 'set' holds 'prüfung', .* train, pool"
    ):
        of_columns(path, split="set")
    with pytest.raises(DataError, match=r"no column 'part'.*: correct split_column"):
        of_columns(path, split="part")


def test_a_split_column_is_for_one_file(write_csv):
    files = {split: write_csv(f"{split}.csv", ["text", "label"], [["a", "b"]]) for split in ("pool", "test")}
    with pytest.raises(
        ConfigError, match="split_column=set is for one table, and these are by split already: pool, test"
    ):
        table_source("t", files, Columns.parse("text", "label", split="set"))


def test_of_a_large_table_each_split_is_sampled_by_itself(write_csv):
    cells = [[f"row {number}", "x", "test" if number % 10 else "train"] for number in range(1000)]
    path = write_csv("t.csv", ["text", "label", "set"], cells)
    limits = {"pool": Limit(seed=0, rows=None), "test": Limit(seed=0, rows=90)}
    source = table_source("t", {"rows": path}, Columns.parse("text", "label", split="set"), limits=limits.get)
    assert (len(source.rows), len(source.test), source.left_out) == (100, 90, 810)
    assert source.notices == ("90 of the 900 test rows of t.csv were kept to draw from, by seed",)


@pytest.mark.parametrize(
    ("cells", "oldest_first"),
    [
        (["2026-02-01", "2025-12-31T23:59", "2026-01-31 08:00:00+02:00"], [1, 2, 0]),
        (["10", "9", "-1.5"], [2, 1, 0]),
        (["123456789012345678901234567890", "5", "1e3"], [1, 2, 0]),
    ],
)
def test_dates_and_numbers_order_rows(write_csv, cells, oldest_first):
    path = write_csv("t.csv", ["text", "label", "when"], [[str(n), "x", cell] for n, cell in enumerate(cells)])
    rows = of_columns(path, time="when").rows
    assert [int(row.input) for row in sorted(rows, key=lambda row: row.moment)] == oldest_first


@pytest.mark.parametrize("cell", ["31.12.2025", "5/6/26", "soon", "10:00", "nan", "inf"])
def test_a_time_that_cannot_be_read_is_named_with_how_to_write_it(write_csv, cell):
    path = write_csv("t.csv", ["text", "label", "when"], [["a", "x", cell]])
    with pytest.raises(DataError, match=r"line 2 .*: time_column 'when' holds .*; write dates as 2026-11-23") as caught:
        of_columns(path, time="when")
    assert repr(cell) in str(caught.value)


def test_dates_and_numbers_in_one_column_are_refused(write_csv):
    path = write_csv("t.csv", ["text", "label", "when"], [["a", "x", "2026-01-01"], ["b", "x", "20260102"]])
    with pytest.raises(DataError, match="holds '20260102', a number, and '2026-01-01' before, a date; write all"):
        of_columns(path, time="when")


def test_moments_of_parquet_are_read_as_they_are(tmp_path):
    moments = [datetime(2026, 1, 2, 3), datetime(2026, 1, 1)]
    pq.write_table(pa.table({"text": ["a", "b"], "label": ["x", "y"], "when": moments}), tmp_path / "t.parquet")
    newer, older = of_columns(tmp_path / "t.parquet", time="when").rows
    assert newer.moment - older.moment == 27 * 3600


def test_groups_are_kept_beside_and_not_shown(write_csv):
    path = write_csv("t.csv", ["text", "label", "customer"], [["a", "x", " 1\u200b7 "], ["b", "x", ""]])
    source = of_columns(path, group="customer")
    assert source.rows == [Row("a", ("x",), group="17", origin="t.csv, line 2")], (
        "what nobody sees makes no other group"
    )
    assert source.notices == ("1 of 2 rows of t.csv were left out: column 'customer' is empty (first at line 3)",)


@pytest.mark.parametrize("name", [" text", "ｔext", "\u200btext", "te\u0301xt"])
def test_a_name_that_only_looks_like_a_column_is_shown_by_its_code_points(tmp_path, name):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({name: "a", "label": "b"}), encoding="utf-8")
    column = "t\u00e9xt" if "\u0301" in name else "text"
    with pytest.raises(DataError) as caught:
        read_rows(path, Columns.parse(column, "label"))
    assert str(caught.value).endswith(f": {name!a} only looks like it; rename that column in the table")


@pytest.mark.parametrize("record", [{"text": "cut \ud83d here", "label": "b"}, {"text": "a", "label": ["b", "\ud83d"]}])
def test_half_a_character_is_named_by_its_row(tmp_path, record):
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"text": "whole \U0001f600", "label": "b"}, record])), encoding="utf-8")
    with pytest.raises(DataError, match=r"t.jsonl, line 2: half a character \('\\ud83d'\)"):
        read_rows(path, COLUMNS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            pa.array([b"caf\xc3\xa9", b"\xff\xd8"]),
            r"t\.parquet, row 2: half a character .* its bytes are not UTF-8",
        ),
        (
            pa.array([[("k", 1), ("k", 2)]] * 2, pa.map_(pa.string(), pa.int8())),
            r"cannot be read as parquet: .*duplicate",
        ),
    ],
)
def test_cells_that_would_lose_something_are_refused(tmp_path, labels, message):
    pq.write_table(pa.table({"text": ["a", "b"], "label": labels}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=message):
        read_rows(tmp_path / "t.parquet", COLUMNS)
