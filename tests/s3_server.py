"""A real S3 server (SeaweedFS) in a child process, which can be killed and started again on the same data."""

import os
import shutil
import socket
import subprocess
import sysconfig
import time
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

ACCESS_KEY, SECRET_KEY, REGION = "ease", "ease-secret", "us-east-1"
IDENTITIES = (
    f'{{"identities": [{{"name": "ease", "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],'
    ' "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}'
)


class S3Server:
    """The server on free loopback ports, with its data in `folder`.

    Args:
        certificate, key: PEM files, for a server that speaks TLS.
    """

    def __init__(self, folder: Path, certificate: Path | None = None, key: Path | None = None) -> None:
        self._folder = folder
        self._certificate = certificate
        self._tls = [f"-s3.cert.file={certificate}", f"-s3.key.file={key}"] if certificate else []
        self._ports = dict(zip(("master", "volume", "filer", "s3"), free_ports(8)[::2], strict=True))
        self._grpc_ports = dict(zip(self._ports, free_ports(4), strict=True))
        self._process = None
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._ports['s3']}"

    @staticmethod
    def executable() -> str | None:
        return shutil.which("weed", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]))

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which boto3 finds the server, and nothing of the developer's."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            **({"AWS_CA_BUNDLE": str(self._certificate)} if self._certificate else {}),
        }

    def start(self) -> None:
        config = self._folder / "s3.json"
        config.write_text(IDENTITIES)
        command = [
            *(self.executable(), "server", f"-dir={self._folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
            *("-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *(
                "-master.telemetry=false",
                "-master.volumePreallocate=false",
                "-master.volumeSizeLimitMB=64",
                "-volume.max=200",
            ),
            *self._tls,
            *(f"-{name}.port={port}" for name, port in self._ports.items()),
            *(f"-{name}.port.grpc={port}" for name, port in self._grpc_ports.items()),
        ]
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})
        self._wait_for_round_trip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end_with(self, pid: int) -> None:
        """Stop the server within a second of that process's end, however it ended."""
        watch = f"while kill -0 {pid}; do sleep 0.5; done; kill -9 {self._process.pid}"
        subprocess.Popen(["sh", "-c", watch], stderr=subprocess.DEVNULL, start_new_session=True)

    def __getstate__(self):
        """State for other processes, which are not the server's parent."""
        return {**vars(self), "_process": None}

    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            verify=str(self._certificate) if self._certificate else None,
        )

    def _wait_for_round_trip(self, seconds: float = 60) -> None:
        """`/status` answers before volumes are registered: only a PUT and GET shows that the server works."""
        client = self.client()
        deadline = time.monotonic() + seconds
        while True:
            try:
                if "probe-bucket" not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                    client.create_bucket(Bucket="probe-bucket")
                client.put_object(Bucket="probe-bucket", Key="probe", Body=b"probe")
                client.get_object(Bucket="probe-bucket", Key="probe")["Body"].read()
                return
            except (BotoCoreError, ClientError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self._folder / "log.txt").read_text()[-2000:]
                    raise RuntimeError(f"the S3 server did not start:\n{log}") from None
                time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
