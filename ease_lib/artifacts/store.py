"""Where data lies that KFP does not move for us: local folders and S3 buckets, under one small interface.

S3 settings are boto3's own: `AWS_ENDPOINT_URL_S3`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, or the
role of the pod.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ease_lib.errors import StoreError

S3_ATTEMPTS = 5
Result = TypeVar("Result")


class Store(Protocol):
    """A folder, wherever it is; names are relative to it, with forward slashes."""

    uri: str

    def list_names(self) -> list[str]:
        """Names of the files directly in the folder, sorted."""
        ...

    def fetch(self, name: str, into: Path) -> Path:
        """The local path of a file, downloaded to the folder `into` where it is remote."""
        ...


def open_store(uri: str) -> Store:
    """The store at a path, `file://` or `s3://bucket/prefix`.

    Raises:
        StoreError: on another scheme.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        return FileStore(rest if separator else uri)
    if scheme == "s3":
        return S3Store(rest)
    raise StoreError(f"{uri}: unknown scheme {scheme}://; use a path, file:// or s3://")


class FileStore:
    """A local folder."""

    def __init__(self, path: str) -> None:
        self.uri = path
        self._path = Path(path).expanduser()

    def list_names(self) -> list[str]:
        if not self._path.is_dir():
            raise StoreError(f"{self.uri}: no such folder")
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_file())

    def fetch(self, name: str, into: Path) -> Path:
        path = self._path / name
        if not path.is_file():
            raise StoreError(f"{path}: no such file")
        if not os.access(path, os.R_OK):
            raise StoreError(f"{path}: cannot be read; check its permissions")
        return path


class S3Store:
    """A prefix of a bucket."""

    def __init__(self, address: str) -> None:
        import boto3  # 0.3 s that runs on files need not spend
        from botocore.config import Config

        self._bucket, _, prefix = address.partition("/")
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self.uri = f"s3://{self._bucket}/{self._prefix}"
        if not self._bucket:
            raise StoreError(f"s3://{address}: no bucket; write s3://bucket/key")
        session = boto3.session.Session()  # the default one would keep credentials it once read
        self._client: Any = session.client(
            "s3", config=Config(retries={"max_attempts": S3_ATTEMPTS, "mode": "standard"})
        )

    def list_names(self) -> list[str]:
        pager = self._client.get_paginator("list_objects_v2")
        pages = self._named_errors(
            lambda: list(pager.paginate(Bucket=self._bucket, Prefix=self._prefix, Delimiter="/"))
        )
        names = [item["Key"].removeprefix(self._prefix) for page in pages for item in page.get("Contents", [])]
        if not names:
            raise StoreError(f"{self.uri}: no object there")
        return sorted(name for name in names if name)

    def fetch(self, name: str, into: Path) -> Path:
        target = into / name.replace("/", "_")
        self._named_errors(lambda: self._client.download_file(self._bucket, self._prefix + name, str(target)), name)
        return target

    def _named_errors(self, call: Callable[[], Result], name: str = "") -> Result:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return call()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise StoreError(
                f"{self.uri}{name}: {_REMEDIES.get(code, f'the object store answered {error}')}"
            ) from error
        except (BotoCoreError, Boto3Error) as error:
            raise StoreError(
                f"{self.uri}{name}: {error}; check AWS_ENDPOINT_URL_S3, credentials and network"
            ) from error


_REMEDIES = {
    "NoSuchBucket": "no such bucket",
    "NoSuchKey": "no such object",
    "404": "no such object",
    "403": "access denied; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY and what they may read",
    "AccessDenied": "access denied; check what the credentials may read",
    "InvalidAccessKeyId": "unknown access key; check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "wrong secret key; check AWS_SECRET_ACCESS_KEY",
}
