"""Files of a store that are read in place, from the beginning or in parts, without a local copy."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Literal, Protocol

from ease_lib.tasks.base import Readable

BLOCK_BYTES = 4 * 2**20
"""Read from an object at once."""


class DataFile(Readable, Protocol):
    """A file to read as often as needed; as text it is its address."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        ...

    def sha256(self) -> str:
        """Digest of the content, which is read to its end if nobody has read it yet."""
        ...


class LocalFile:
    """A file of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name, self.suffix = path.name, path.suffix

    def __str__(self) -> str:
        return str(self._path)

    @property
    def size(self) -> int:
        return self._path.stat().st_size

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        return self._path.open(mode)

    def sha256(self) -> str:
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class RemoteFile:
    """An object, of which parts can be read.

    Args:
        read: its bytes from one position to another.
    """

    def __init__(self, uri: str, size: int, read: Callable[[int, int], bytes]) -> None:
        self._uri = uri
        self._read = read
        self._digest, self._digested = hashlib.sha256(), 0
        self.size = size
        self.name, self.suffix = PurePosixPath(uri).name, PurePosixPath(uri).suffix

    def __str__(self) -> str:
        return self._uri

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        return io.BufferedReader(_Ranges(self.size, self._part), BLOCK_BYTES)

    def sha256(self) -> str:
        while self._digested < self.size:
            self._part(self._digested, min(self._digested + BLOCK_BYTES, self.size))
        return self._digest.hexdigest()

    def _part(self, start: int, end: int) -> bytes:
        content = self._read(start, end)
        if start <= self._digested < end:  # reading on to the end gives the digest for free
            self._digest.update(content[self._digested - start :])
            self._digested = end
        return content


class _Ranges(io.RawIOBase):
    """Raw stream for `io` over a source that returns the bytes between two positions."""

    def __init__(self, size: int, part: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._part = part
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        end = min(self._position + len(buffer), self._size)
        if end <= self._position:
            return 0
        content = self._part(self._position, end)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
