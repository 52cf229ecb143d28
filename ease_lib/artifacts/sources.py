"""Files that parameters name by address (tasks, prompts, metrics), wherever they are stored."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import yaml

from ease_lib.artifacts.store import Store, open_store, read_all
from ease_lib.artifacts.streams import DataFile
from ease_lib.digests import sha256_of
from ease_lib.errors import DataError
from ease_lib.notes import Notes


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Reads such files, and notes each as an input of the stage.

    Args:
        patience_seconds: how long an object store that is away is waited for.
    """

    notes: Notes = field(default_factory=Notes)
    patience_seconds: float = 0.0

    def store(self, uri: str) -> Store:
        """The folder at a path or `s3://bucket/prefix`."""
        return open_store(uri, patience_seconds=self.patience_seconds)

    def read(self, uri: str) -> bytes:
        """The content of a small file or object.

        Raises:
            StoreError: when it cannot be read.
        """
        folder, _, name = uri.rpartition("/")
        store = self.store(folder or ".")
        with tempfile.TemporaryDirectory() as local:
            content = store.fetch(name, Path(local)).read_bytes()
        self.notes.file(store.address(name), sha256_of(content), len(content))
        return content

    def text(self, parameter: str, uri: str) -> str:
        """The text of a small file that this parameter names.

        Raises:
            DataError, StoreError: when it is none, or cannot be read.
        """
        try:
            return self.read(uri).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{parameter}={uri} is not UTF-8 text: {error}") from error

    def document(self, parameter: str, uri: str) -> Any:
        """Content of a small YAML or JSON file; raises as `text`."""
        text = self.text(parameter, uri)
        read: Any = None
        if uri.endswith(".json"):
            with suppress(ValueError):  # read as YAML too, which has JSON in it but for tabs
                read = json.loads(text)
        try:
            read = yaml.safe_load(text) if read is None else read
            json.dumps(read, ensure_ascii=False, default=str).encode()
            return read
        except UnicodeEncodeError as error:
            half = error.object[error.start : error.end]
            raise DataError(
                f"{parameter}={uri} has half a character ({half!a}); correct the text that was cut"
            ) from error
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            raise DataError(f"{parameter}={uri} is not YAML or JSON: {' '.join(str(error).split())}") from error

    def note(self, file: DataFile) -> None:
        """Note this file, or those of a tree, as inputs; an unread file is read to its end for its digest."""
        if not isinstance(file, FileTree):
            self.notes.file(str(file), file.sha256(), file.size)
            return
        for uri, content in file.contents():
            self.notes.file(uri, sha256_of(content), len(content))


class FileTree:
    """JSON files below a folder of a store, one record each, read as one file of JSON lines.

    Args:
        names: of the files, in the order of the lines.
    """

    def __init__(self, store: Store, folder: str, names: Sequence[str]) -> None:
        self._store = store
        self._names = names
        self._address = store.address(folder)
        self.name, self.suffix = f"{folder}.jsonl", ".jsonl"

    def __str__(self) -> str:
        return self._address

    @cached_property
    def _read(self) -> dict[str, bytes]:
        found = read_all(self._store, self._names)
        return {self._store.address(name): content for name, content in found.items() if content is not None}

    def contents(self) -> Iterable[tuple[str, bytes]]:
        """Addresses and bytes of the files."""
        return self._read.items()

    @property
    def size(self) -> int:
        return sum(map(len, self._read.values()))

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        return io.BytesIO(b"\n".join(_on_one_line(uri, content) for uri, content in self.contents()))

    def sha256(self) -> str:
        return sha256_of(self.open("rb").read())


def _on_one_line(uri: str, content: bytes) -> bytes:
    try:
        return json.dumps(json.loads(content)).encode()
    except ValueError as error:
        raise DataError(f"{uri} is not valid JSON: {error}; correct or remove it") from error
