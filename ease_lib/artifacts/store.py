"""Storage of data that KFP does not move for us: local folders and S3 buckets, under one small interface.

S3 settings are boto3's own: `AWS_ENDPOINT_URL_S3`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, or the
role of the pod.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import functools
import hashlib
import io
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ease_lib.artifacts.partial import IN_THE_MAKING, partial_file
from ease_lib.artifacts.streams import DataFile, LocalFile, RemoteFile
from ease_lib.config.sections import S3_SCHEMES
from ease_lib.errors import StoreError, StoreUnavailable

S3_ATTEMPTS = 3
"""Tries that boto3 makes within a second or two; `PATIENCE_SECONDS` is for outages."""
S3_CONNECTIONS = 32
PART_BYTES = 16 * 2**20
"""Larger objects are uploaded in parts of this size."""
CONNECT_TIMEOUT_SECONDS = 10
READ_TIMEOUT_SECONDS = 60
PATIENCE_SECONDS = 300.0
"""How long a running stage keeps retrying an unreachable store."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0
Item = TypeVar("Item")
Result = TypeVar("Result")
logger = logging.getLogger("ease")


class Store(Protocol):
    """A folder, wherever it is; names are relative to it, with forward slashes."""

    uri: str

    @property
    def folder(self) -> Path | None:
        """The local folder; None for a remote store."""
        ...

    def below(self, *names: str) -> Store:
        """Subfolder of the store, by the names of its path."""
        ...

    def address(self, name: str) -> str:
        """Address of a file in the store."""
        ...

    def find_names(self, folder: str = "") -> list[str]:
        """Sorted names of the files directly in a folder, relative to it; a missing folder is empty."""
        ...

    def walk_names(self) -> list[str]:
        """Sorted names of all files, in subfolders too; a missing folder is empty."""
        ...

    def fetch(self, name: str, into: Path) -> Path:
        """The local path of a file, downloaded to the folder `into` where it is remote."""
        ...

    def data_file(self, name: str) -> DataFile:
        """A file to be read where it is, however large."""
        ...

    def read(self, name: str) -> bytes | None:
        """A file's content, or None when there is none."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file, whole or not at all."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists; of several writers at once, one succeeds.

        Returns:
            whether the file now holds this content; False when it holds another.
        """
        ...

    def swap(self, name: str, content: bytes, expected: bytes | None) -> bool:
        """Replace a file only where it still holds the expected content; None expects none to be there.

        Returns:
            whether it was replaced; of several writers that expect the same, one succeeds.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""
        ...

    def drop_earlier(self, name: str) -> None:
        """Delete the older versions of an object in a versioned bucket."""
        ...


def open_store(uri: str, *, patience_seconds: float = 0.0) -> Store:
    """The store at a path, `file://` or `s3://bucket/prefix`; Kubeflow's `minio://` is S3 too.

    Args:
        patience_seconds: how long a call waits for an object store that cannot be reached before it fails.

    Raises:
        StoreError: on another scheme.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        return FileStore(rest if separator else uri)
    if scheme in S3_SCHEMES:
        return S3Store(f"s3://{rest}", patience_seconds=patience_seconds)
    raise StoreError(f"{uri}: unknown scheme {scheme}://; use a path, file:// or s3://")


def open_file(uri: str) -> tuple[Store, str]:
    """The store of the folder that a file or object lies in, and its name there."""
    folder, _, name = uri.rstrip("/").rpartition("/")
    return open_store(folder or ("/" if uri.startswith("/") else ".")), name


def joined(uri: str, *names: str) -> str:
    """The address of something below a folder, by the names on the way to it."""
    return "/".join([uri.rstrip("/"), *names])


def side_by_side(call: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of a store call for each item, in order; as many calls run at once as the store has connections."""
    with ThreadPoolExecutor(S3_CONNECTIONS) as threads:
        yield from threads.map(call, items)


def read_all(store: Store, names: Iterable[str]) -> dict[str, bytes | None]:
    """Contents by name, None for missing files; read in parallel."""
    listed = list(names)
    return dict(zip(listed, side_by_side(store.read, listed), strict=True))


def is_s3(uri: str) -> bool:
    return uri.startswith("s3://")


class FileStore:
    """A local folder, on a file system with hard links and locks.

    Nobody sees half a file: content is written next to it and then gets its name.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser().absolute()
        self.uri = str(self._path)

    @property
    def folder(self) -> Path:
        return self._path

    def below(self, *names: str) -> FileStore:
        return FileStore(str(self._path.joinpath(*names)))

    def address(self, name: str) -> str:
        return str(self._path / name)

    def find_names(self, folder: str = "") -> list[str]:
        with named_os_errors(self._path / folder, "cannot be listed"):
            if not (self._path / folder).is_dir():
                return []
            with os.scandir(self._path / folder) as entries:
                return sorted(each.name for each in entries if each.is_file() and not IN_THE_MAKING.search(each.name))

    def walk_names(self) -> list[str]:
        """List the names, as every store does, and the half-written files of a killed writer."""
        with named_os_errors(self._path, "cannot be listed"):
            return sorted(str(path.relative_to(self._path)) for path in self._path.rglob("*") if path.is_file())

    def fetch(self, name: str, into: Path) -> Path:
        return self._readable(name)

    def data_file(self, name: str) -> DataFile:
        return LocalFile(self._readable(name))

    def _readable(self, name: str) -> Path:
        path = self._path / name
        with named_os_errors(path, "cannot be read"):
            if not path.is_file():
                raise StoreError(f"{path}: no such file; check the path")
            if not os.access(path, os.R_OK):
                raise StoreError(f"{path}: cannot be read; check its permissions")
        return path

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        with named_os_errors(path, "cannot be read"):
            return path.read_bytes() if path.is_file() else None

    def write(self, name: str, content: bytes) -> None:
        with self._partial(name, content) as partial:
            os.replace(partial, self._path / name)

    @contextmanager
    def _partial(self, name: str, content: bytes) -> Iterator[Path]:
        """The content in a separate file next to the one that it will become; afterwards it is gone."""
        path = self._path / name
        with named_os_errors(path, "cannot be written"), partial_file(path) as partial:
            partial.write_bytes(content)
            yield partial

    def create(self, name: str, content: bytes) -> bool:
        path = self._path / name
        with self._partial(name, content) as partial:
            try:
                os.link(partial, path)  # fails where there is a file, and shows it whole where there is none
            except FileExistsError:
                return path.read_bytes() == content
        return True

    def swap(self, name: str, content: bytes, expected: bytes | None) -> bool:
        path = self._path / name
        with named_os_errors(path, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(path):
                if self.read(name) != expected:
                    return False
                self.write(name, content)
        return True

    def delete(self, name: str) -> None:
        path = self._path / name
        with named_os_errors(path, "cannot be removed"):
            path.unlink(missing_ok=True)

    def drop_earlier(self, name: str) -> None:
        """Do nothing: a folder keeps no older versions."""


@contextmanager
def named_os_errors(path: Path, what: str) -> Iterator[None]:
    """Convert errors of the file system to messages with the path, the cause and a remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{path} {what}: {reason}; {_OS_REMEDIES.get(error.errno or 0, _OS_REMEDY)}") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the right to change a file, by a lock on its folder that ends with the process."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


class S3Store:
    """A prefix of a bucket.

    Args:
        uri: `s3://bucket/prefix`.
        patience_seconds: as of `open_store`.
    """

    def __init__(self, uri: str, *, patience_seconds: float = 0.0) -> None:
        self._bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self.uri = f"s3://{self._bucket}/{self._prefix}"
        if not self._bucket:
            raise StoreError(f"{uri}: no bucket; write s3://bucket/key")
        self._patience_seconds = patience_seconds
        self.folder = None
        self._client = _client(tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))))

    def below(self, *names: str) -> S3Store:
        return S3Store(joined(self.uri, *names), patience_seconds=self._patience_seconds)

    def address(self, name: str) -> str:
        return self.uri + name

    def find_names(self, folder: str = "") -> list[str]:
        return self._list(self._prefix + (folder.strip("/") + "/" if folder else ""), Delimiter="/")

    def walk_names(self) -> list[str]:
        return self._list(self._prefix)

    def _list(self, prefix: str, **delimiter: str) -> list[str]:
        """Names below a prefix. Strongly consistent on S3; an outage repeats a page, not the list."""
        names: list[str] = []
        place = {"Bucket": self._bucket, "Prefix": prefix, **delimiter}
        more = True
        while more:
            page = self._ask(lambda: self._client.list_objects_v2(**place))
            names += [item["Key"].removeprefix(prefix) for item in page.get("Contents", [])]
            more = page.get("IsTruncated", False)
            place["ContinuationToken"] = page.get("NextContinuationToken", "")
        return sorted(name for name in names if name)

    def fetch(self, name: str, into: Path) -> Path:
        target = into / name.replace("/", "_")
        self._ask(lambda: self._client.download_file(self._bucket, self._prefix + name, str(target)), name)
        return target

    def data_file(self, name: str) -> DataFile:
        key = {"Bucket": self._bucket, "Key": self._prefix + name}
        head = self._ask(lambda: self._client.head_object(**key), name)

        def part(start: int, end: int) -> bytes:
            answer = self._client.get_object(**key, Range=f"bytes={start}-{end - 1}", IfMatch=head["ETag"])
            content: bytes = answer["Body"].read()
            return content

        def read(start: int, end: int) -> bytes:
            try:
                return self._ask(lambda: part(start, end), name)
            except ObjectExists as error:
                raise StoreError(f"{self.uri}{name} changed while it was being read; start again") from error

        return RemoteFile(self.uri + name, head["ContentLength"], read)

    def read(self, name: str) -> bytes | None:
        """An object's content, or None when there is none."""

        def get() -> bytes:
            content: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)["Body"].read()
            return content

        try:
            return self._ask(get, name)
        except NoSuchObject:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Create or replace an object, a large one in parts; the store checks the SHA-256 of what it gets."""
        put = self._put if len(content) <= PART_BYTES else self._put_in_parts
        self._ask(lambda: put(name, content), name)

    def create(self, name: str, content: bytes) -> bool:
        """Create the object, as every store does; a retry after a lost answer recognises its own content."""
        try:
            self._ask(lambda: self._put(name, content, IfNoneMatch="*"), name)
        except ObjectExists:
            return self.read(name) == content
        return True

    def swap(self, name: str, content: bytes, expected: bytes | None) -> bool:
        """Swap the object, as every store does; a retry after a lost answer recognises its own content."""
        if expected is None:
            return self.create(name, content)

        def get() -> tuple[bytes, str]:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            return answer["Body"].read(), answer["ETag"]

        try:
            found, tag = self._ask(get, name)
            if found != expected:
                return False
            self._ask(lambda: self._put(name, content, IfMatch=tag), name)
        except NoSuchObject:
            return False
        except ObjectExists:
            return self.read(name) == content
        return True

    def delete(self, name: str) -> None:
        self._ask(lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name), name)

    def drop_earlier(self, name: str) -> None:
        """
        Raises:
            StoreError: when the bucket keeps versions, and does not let them be removed.
        """
        for version in self._earlier(name) if self._keeps_versions else ():
            key = {"Bucket": self._bucket, "Key": self._prefix + name, "VersionId": version}
            self._ask(functools.partial(self._client.delete_object, **key), f"{name} (version {version})")

    @functools.cached_property
    def _keeps_versions(self) -> bool:
        asked = self._ask(lambda: self._client.get_bucket_versioning(Bucket=self._bucket), "")
        return asked.get("Status", "") in ("Enabled", "Suspended")

    def _earlier(self, name: str) -> list[str]:
        key = self._prefix + name
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key)
        kept = self._ask(lambda: [each for page in pages for each in page.get("Versions", ())], name)
        return [each["VersionId"] for each in kept if each["Key"] == key and not each["IsLatest"]]

    def check(self) -> None:
        """Try on a probe object the operations that a run needs: write, read, list, delete, and create if absent.

        Raises:
            StoreError: when the store cannot do one of them, or overwrites what a condition protects.
        """
        probe = f".probe-{uuid.uuid4().hex}"
        self.create(probe, b"first")
        try:
            if self.create(probe, b"second"):
                raise StoreError(
                    f"{self.uri}: this store ignores If-None-Match and overwrites objects, so two runs could destroy "
                    "each other's journal; use a store with conditional writes, or a folder"
                )
            if self.read(probe) != b"first" or probe not in self.find_names():
                raise StoreError(f"{self.uri}: what was just written cannot be read or listed yet; use another store")
        finally:
            self.delete(probe)

    def check_swap(self) -> None:
        """Try on a probe object whether conditional writes work, which publishing needs.

        Raises:
            StoreError: when the store cannot, or overwrites all the same.
        """
        probe = f".probe-{uuid.uuid4().hex}"
        self.create(probe, b"first")
        try:
            found = self._ask(lambda: self._client.head_object(Bucket=self._bucket, Key=self._prefix + probe), probe)
            self.write(probe, b"second")
            with suppress(ObjectExists):
                self._ask(lambda: self._put(probe, b"third", IfMatch=found["ETag"]), probe)
                raise StoreError(
                    f"{self.uri}: this store ignores If-Match, so two runs that publish at once could overwrite each "
                    "other's latest.json; publish to a store with conditional writes, or to a folder"
                )
        finally:
            self.delete(probe)

    def _put(self, name: str, content: bytes, **condition: str) -> None:
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._prefix + name,
            Body=content,
            ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
            **condition,
        )

    def _put_in_parts(self, name: str, content: bytes) -> None:
        """Upload several parts at once; a failure repeats one part, and the object appears when all are complete."""
        from boto3.s3.transfer import TransferConfig

        self._client.upload_fileobj(
            io.BytesIO(content),
            self._bucket,
            self._prefix + name,
            ExtraArgs={"ChecksumAlgorithm": "SHA256"},
            Config=TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES),
        )

    def _ask(self, call: Callable[[], Result], name: str = "") -> Result:
        """Call, with errors converted to ours; wait for an unreachable store."""
        end = time.monotonic() + self._patience_seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._named_errors(call, name)
            except StoreUnavailable as error:
                if time.monotonic() + pause > end:
                    raise
                logger.info("notice: %s; trying again for %.0f s", error, end - time.monotonic())
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _named_errors(self, call: Callable[[], Result], name: str) -> Result:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        where = f"{self.uri}{name}"
        try:
            return call()
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in ("NoSuchKey", "404"):
                raise NoSuchObject(f"{where}: no such object") from error
            if status == 412 or code == "PreconditionFailed":
                raise ObjectExists(f"{where} exists already") from error
            if status in (409, 429) or status >= 500:  # 409: two conditional writes met; the next try finds out
                raise StoreUnavailable(f"{where}: the object store answered {status} {code}") from error
            raise StoreError(f"{where}: {_REMEDIES.get(code, f'the object store answered {error}')}") from error
        except NoCredentialsError as error:
            raise StoreError(f"{where}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") from error
        except (BotoCoreError, Boto3Error, OSError) as error:
            raise StoreUnavailable(f"{where}: {error}; check AWS_ENDPOINT_URL_S3, credentials and network") from error


@functools.lru_cache(maxsize=8)
def _client(settings: tuple[tuple[str, str], ...]) -> Any:
    """Client shared by all stores with these environment settings and by threads; creating one is slow."""
    import boto3  # 0.3 s that runs on files need not spend
    from botocore.config import Config

    session = boto3.session.Session()  # the default one would keep credentials it once read
    return session.client(
        "s3",
        config=Config(
            retries={"total_max_attempts": S3_ATTEMPTS, "mode": "standard"},
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            max_pool_connections=S3_CONNECTIONS,
        ),
    )


class NoSuchObject(StoreError):
    """There is no object of this name."""


class ObjectExists(StoreError):
    """A conditional create found an object."""


_OS_REMEDY = "check that the folder exists and is accessible, or choose another"
_OS_NEEDS = "choose a folder on a file system with hard links and locks, or s3://"
_OS_REMEDIES = {
    errno.ENOSPC: "free space on that disk, or choose another folder",
    errno.EACCES: "check its permissions, or choose another folder",
    errno.EPERM: "check its permissions, or choose another folder",
    errno.EROFS: "it is mounted read-only; choose another folder",
    errno.ENOLCK: _OS_NEEDS,
    errno.ENOSYS: _OS_NEEDS,
    errno.EOPNOTSUPP: _OS_NEEDS,
}
_REMEDIES = {
    "NoSuchBucket": "no such bucket",
    "403": "access denied; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY and their permissions",
    "AccessDenied": "access denied; check the permissions of the credentials",
    "InvalidAccessKeyId": "unknown access key; check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "wrong secret key; check AWS_SECRET_ACCESS_KEY",
}
