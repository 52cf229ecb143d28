"""Text in every encoding of Unicode, with a mark and without."""

import io

import pytest

from ease_lib.tasks.encodings import text_encoding, without_marks
from ease_lib.tasks.records import RecordFile

TABLES = ["text,label\nCafé €,b\n", "文本,标签\r\n" + "包裹还没有到,运输\r\n" * 9, 'text,label\n"😀\n",b\n' * 300]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be", "utf-8"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_an_encoding_is_known_with_and_without_its_mark(table, encoding, mark):
    content = io.BytesIO((mark + table).encode(encoding))
    found = text_encoding(content)
    assert content.read().decode(found).removeprefix("\ufeff") == table
    assert found == (encoding if not mark else encoding[: len("utf-32")].removesuffix("-"))


def test_a_mark_counts_more_than_the_encoding_that_is_named_and_zeros_less():
    assert text_encoding(io.BytesIO("a,b".encode("utf-32")), "cp1252") == "utf-32"
    assert text_encoding(io.BytesIO("a,b".encode("utf-16-le")), "cp1252") == "cp1252"


@pytest.mark.parametrize("named", ["utf-16", "UTF16", "utf_32"])
def test_an_encoding_of_either_byte_order_needs_no_mark(named):
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        assert text_encoding(io.BytesIO("text,label\né,b\n".encode(encoding)), named) == encoding


@pytest.mark.parametrize("content", [b"", b"a", b"text,label\n" * 9 + b"\0", b"text,label\na,b\n" + b"\0" * 500])
def test_other_text_is_utf8(content):
    assert text_encoding(io.BytesIO(content)) == "utf-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32", "utf-16"])
def test_json_lines_in_any_encoding(tmp_path, encoding):
    (tmp_path / "t.jsonl").write_bytes('{"text": "é"}\n{"text": "b"}'.encode(encoding))
    file = RecordFile(tmp_path / "t.jsonl", ["text"])
    assert [record for _, record in file.read(list)] == [{"text": "é"}, {"text": "b"}]


def test_marks_are_no_text_wherever_they_stand():
    assert list(without_marks(["\ufeffa\n", "b\ufeff\n", "c"])) == ["a\n", "b\n", "c"]
