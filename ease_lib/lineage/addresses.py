"""Files and objects by the URIs that records name, also when all of them were moved."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from ease_lib.artifacts.store import Store, joined, open_file, open_store
from ease_lib.notes import PACKAGE


def absolute(uri: str) -> str:
    """The address in full: of a relative path from the working folder, without `file://` and a slash at the end."""
    return open_store(uri).uri.rstrip("/") or "/"


def same_place(uri: str) -> str:
    """One form for all addresses of the same file or object, to compare them by."""
    uri = absolute(uri)
    return uri if "://" in uri else os.path.realpath(uri)


class Place:
    """Where to look for what records name: at its own URI, or below the folder that was asked for if that was moved."""

    def __init__(self, uri: str = "") -> None:
        self._uri = uri
        self._store = open_store(uri) if uri else None
        self._below: set[str] | None = None

    @property
    def uri(self) -> str:
        """The folder that was asked for; empty when there was none."""
        return self._uri

    def read(self, uri: str) -> bytes | None:
        """The content of a file or object, or None where there is none.

        Raises:
            StoreError: when the store cannot be asked.
        """
        if uri.startswith(PACKAGE):
            package, _, path = uri.removeprefix(PACKAGE).partition("/")
            return resources.files(package).joinpath(path).read_bytes()
        folder, name = open_file(uri)
        content = folder.read(name)
        moved = self._moved(uri) if content is None else None
        return self._store.read(moved) if moved and self._store else content

    def store_of(self, uri: str) -> Store:
        """The folder of this URI, or the one that it was moved to."""
        if self._store is not None and not self._exists(uri):
            suffix = self._suffix(uri, folder=True)
            if suffix:
                return open_store(joined(self._uri, suffix))
        return open_store(uri)

    def _exists(self, uri: str) -> bool:
        return "://" in uri or Path(uri).exists()

    def path_of(self, uri: str) -> Path:
        """Where a local file lies, if it was moved below the place; else the path itself."""
        if not Path(uri).exists():
            moved = self._moved(uri)
            if moved:
                return Path(self._uri) / moved
        return Path(uri)

    def _moved(self, uri: str) -> str | None:
        return self._suffix(uri, folder=False) if self._store is not None else None

    def _suffix(self, uri: str, *, folder: bool) -> str | None:
        """The longest end of the URI that is there below the place."""
        if self._below is None and self._store is not None:
            self._below = set(self._store.walk_names())
        names = self._below or set()
        parts = uri.split("/")
        for start in range(1, len(parts)):
            end = "/".join(parts[start:])
            if end in names or (folder and end and any(name.startswith(f"{end}/") for name in names)):
                return end
        return None
