"""Files that are written whole or not at all."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IN_THE_MAKING = re.compile(r"\.[0-9a-f]{32}\.partial$")
"""Ends the name of a file that a killed writer left half made."""


@contextmanager
def partial_file(path: Path) -> Iterator[Path]:
    """Path next to a file, to be written and then given its name by `os.replace` or `os.link`; removed afterwards.

    Each writer has a path of its own, so two at once do not meet. The folder is made.

    Raises:
        OSError: when it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
    finally:
        with suppress(OSError):  # no file where the folder could not be made
            partial.unlink(missing_ok=True)
