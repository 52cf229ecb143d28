"""Files and a real S3 server behind one interface."""

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.errors import StoreError


def test_file_store_lists_and_finds(tmp_path):
    (tmp_path / "b.csv").write_text("b")
    (tmp_path / "a.csv").write_text("a")
    (tmp_path / "folder").mkdir()
    for uri in (str(tmp_path), f"file://{tmp_path}"):
        store = open_store(uri)
        assert store.list_names() == ["a.csv", "b.csv"]
        assert store.fetch("b.csv", tmp_path / "unused").read_text() == "b"


def test_missing_files_and_schemes_are_named(tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        open_store(str(tmp_path)).fetch("x.csv", tmp_path)
    with pytest.raises(StoreError, match="no such folder"):
        open_store(str(tmp_path / "none")).list_names()
    with pytest.raises(StoreError, match="unknown scheme ftp://"):
        open_store("ftp://host/x")


def test_s3_store_lists_and_fetches(s3, tmp_path):
    s3.create_bucket(Bucket="task-data")
    for key in ("data/train.csv", "data/test.csv", "data/deep/other.csv", "database.csv"):
        s3.put_object(Bucket="task-data", Key=key, Body=key.encode())
    store = open_store("s3://task-data/data/")
    assert store.list_names() == ["test.csv", "train.csv"]
    assert store.fetch("deep/other.csv", tmp_path).read_text() == "data/deep/other.csv"
    assert open_store("s3://task-data").list_names() == ["database.csv"]


def test_s3_problems_are_named(s3, tmp_path, monkeypatch):
    s3.create_bucket(Bucket="some-bucket")
    with pytest.raises(StoreError, match=r"s3://some-bucket/data/x\.csv: no such object"):
        open_store("s3://some-bucket/data").fetch("x.csv", tmp_path)
    with pytest.raises(StoreError, match="s3://no-such-bucket/: no such bucket"):
        open_store("s3://no-such-bucket").list_names()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreError, match=r"check AWS_SECRET_ACCESS_KEY|access denied"):
        open_store("s3://some-bucket").list_names()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match="check AWS_ENDPOINT_URL_S3"):
        open_store("s3://some-bucket").list_names()
