"""How long does it take to find the prompts that hold a row? `.venv/bin/python -m tests.benchmarks.find_rows`

Publishes 2 000 versions of five exemplars each, drawn from 500 rows, on a real S3 server in a folder of its own; then
times `find` for a row, the indexing pass over versions that have no marks, and publishing one more, beside reading
every version.
"""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

from ease_lib.artifacts.store import open_store
from ease_lib.lineage.publishing.versions import (
    Version,
    find_row,
    index,
    make_latest,
    read_latest,
    read_version,
    write_version,
)
from ease_lib.notes import Notes
from ease_lib.seeding import rng
from ease_lib.tasks.base import row_hash
from tests.s3_server import S3Server

VERSIONS, ROWS, K = 2_000, 500, 5
URI = "s3://benchmark/prompts"


def main():
    with tempfile.TemporaryDirectory() as name:
        server = S3Server(Path(name))
        server.start()
        try:
            with patch.dict(os.environ, server.environment):
                measure()
        finally:
            server.kill()
    return 0


def measure():
    store = open_store(URI)
    store.write("about", b"the first object makes the bucket")
    with ThreadPoolExecutor(16) as writers:
        digests = list(writers.map(lambda number: publish(store, number), range(VERSIONS)))
    make_latest(store, version_name(VERSIONS - 1), digests[-1], read_latest(store))
    found, taken = timed(lambda: list(find_row(URI, text_of(7))))
    print(f"find: {len(found)} of {VERSIONS} versions in {taken:.2f} s")
    scanned, taken = timed(lambda: scan(store))
    print(f"reading every version one after another: {scanned} in {taken:.2f} s")
    _, taken = timed(lambda: publish(store, VERSIONS))
    print(f"publishing one more, with its marks: {taken:.3f} s")
    for mark in [name for name in store.walk_names() if name.startswith("rows/")][: K * 100]:
        store.delete(mark)
    indexed, taken = timed(lambda: index(URI))
    print(f"an indexing pass over {VERSIONS + 1} versions, of which {indexed} lacked marks: {taken:.1f} s")


def publish(store, number):
    rows = rng(number, "find").choice(ROWS, K, replace=False).tolist()
    facts = {"run": {"id": str(number)}, "task": "t", "llm_model": "m", "validation_score": 0.5, "test_score": 0.5}
    version = Version(
        name=version_name(number),
        files={"prompt.txt": f"prompt {number}".encode()},
        head={"record": "", "record_sha256": ""},
        published_by="",
        rows=[row_hash(text_of(row)) for row in rows],
        validation_rows=[],
        facts=facts,
    )
    return write_version(store, version, previous=None, notes=Notes())


def scan(store):
    """The straightforward way: read every manifest."""
    wanted = row_hash(text_of(7))
    return sum(wanted in read_version(store, version_name(number))[0]["rows"] for number in range(VERSIONS))


def version_name(number):
    return f"20260101T{number:06d}Z-{number:08d}"


def text_of(row):
    return f"the text of row {row}"


def timed(call):
    start = time.perf_counter()
    return call(), time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
