"""A record and the digests in it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.errors import LineageError
from ease_lib.lineage.record import decode, described, encode
from ease_lib.tasks.base import row_hash

TOMBSTONE = {
    "row": "a",
    "when": "now",
    "reason": "Straße “quoted”\n",
    "state": "done",
    "removed": [],
    "more": [1.5, None],
}


def test_a_record_is_read_back_as_it_was_written():
    content = encode(TOMBSTONE, "tombstone/3")
    assert encode(decode(content, "x", "tombstone/3"), "tombstone/3") == content


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"row": 1}, "field row should be a valid string, found 1"),
        ({"removed": [None]}, r"field removed\[0\] should be a valid dictionary, found None"),
        ({"removed": [{"uri": "a"}]}, r"field removed\[0\].sha256 is missing"),
        ({"reason": True}, "field reason should be a valid string, found True"),
    ],
)
def test_a_record_of_another_shape_is_damaged_whatever_its_digest(changes, wrong):
    with pytest.raises(LineageError, match=f"x is damaged: {wrong}"):
        decode(encode({**TOMBSTONE, **changes}, "tombstone/3"), "x", "tombstone/3")


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-3], lambda c: c.replace(b"done", b"gone"), lambda c: b"", lambda c: b"[]"]
)
def test_a_damaged_record_is_refused_by_name(damage):
    with pytest.raises(LineageError, match=r"runs/1\.json"):
        decode(damage(encode(TOMBSTONE, "tombstone/3")), "runs/1.json", "tombstone/3")


def test_every_single_flipped_bit_of_a_record_is_noticed():
    content = encode(TOMBSTONE, "tombstone/3")
    for position in range(len(content)):
        flipped = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
        with pytest.raises(LineageError):
            decode(flipped, "x", "tombstone/3")


def test_files_tables_and_folders_are_described(tmp_path):
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "a").write_bytes(b"1")
    before = described(tmp_path / "folder")
    (tmp_path / "folder" / "sub" / "b").write_bytes(b"22")
    after = described(tmp_path / "folder")
    assert (list(after["files"]), after["bytes"]) == (["a", "sub/b"], 3)
    assert before["sha256"] != after["sha256"]
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "table")
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "other")
    table, other = described(tmp_path / "table"), described(tmp_path / "other")
    assert (table["rows"], table["schema_sha256"] != other["schema_sha256"]) == (2, True)
    (tmp_path / "not-a-table").write_bytes(b"PAR1 and no more")
    assert "rows" not in described(tmp_path / "not-a-table")
    assert described(tmp_path / "absent") == {"sha256": "", "bytes": 0}


def test_a_row_is_named_by_its_text_without_outer_white_space():
    assert row_hash(" a b\n") == row_hash("a b") != row_hash("a  b")
