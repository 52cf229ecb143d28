"""Facts about the run in the environment; set by `pipelines/placement.py` in a cluster, else by `new_run`."""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ease_lib.keys import secret_headers
from ease_lib.lineage.recording import RunContext
from ease_lib.lineage.redaction import secrets_of
from ease_lib.machine import children_have

RUN_ID, RUN_NAME, IMAGE, REVISION = "EASE_RUN_ID", "EASE_RUN_NAME", "EASE_IMAGE", "EASE_REVISION"
OPENLINEAGE_KEY = "OPENLINEAGE_API_KEY"
OPENLINEAGE_CONFIGURED = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__")
"""Prefix of the variables that tell openlineage-python where to send events."""
KILLED = "was killed by "
IN_POD = "KUBERNETES_SERVICE_HOST"
"""Set in every pod."""
POD, RETRY = "KFP_POD_NAME", "KFP_RETRY_INDEX"
"""Kubeflow's own."""
LAST_ATTEMPT = "EASE_LAST_ATTEMPT"
"""Variable of the last child process in a container (`supervision.py`); holds how the earlier ones ended."""
_GIT_SECONDS = 10


def run_context() -> RunContext:
    """The run of this process; a process that was started by hand is a run of its own."""
    retry = os.environ.get(RETRY, "")
    return RunContext(
        run_id=os.environ.get(RUN_ID) or str(uuid.uuid4()),
        run_name=os.environ.get(RUN_NAME, ""),
        image=os.environ.get(IMAGE, ""),
        revision=os.environ.get(REVISION) or _checkout_revision(),
        pod=os.environ.get(POD, ""),
        retry=int(retry) if retry.isdigit() else 0,
        openlineage_key=os.environ.get(OPENLINEAGE_KEY, ""),
        has_openlineage=any(name.startswith(OPENLINEAGE_CONFIGURED) for name in os.environ),
        secrets=secrets(),
    )


def new_run_context() -> RunContext:
    """Context of a new run, whatever run this process belongs to."""
    return replace(run_context(), run_id=str(uuid.uuid4()))


@contextmanager
def new_run(folder: Path) -> Iterator[None]:
    """Start child processes as separate runs while the context is open.

    What libraries leave in TMPDIR goes to a folder below this one, and with the context; no module is taken from the
    working folder.
    """
    tempfile.gettempdir()  # settles where temporary files of this process go, before TMPDIR is another
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="scratch-", ignore_cleanup_errors=True) as scratch,
        children_have(TMPDIR=scratch, **{RUN_ID: str(uuid.uuid4())}),
    ):
        yield


def in_container() -> bool:
    """Whether one of our images runs this process."""
    return bool(os.environ.get(IMAGE))


def in_pod() -> bool:
    """Whether Kubernetes runs this process, whatever the image."""
    return bool(os.environ.get(IN_POD))


def no_attempt_follows(before: str) -> None:
    """Tell this child process that its parent will not start the work again.

    Args:
        before: in which ways the attempts before ended.
    """
    os.environ[LAST_ATTEMPT] = before


def how_earlier_attempts_died() -> str:
    """`was killed by SIGKILL`, if this is the last attempt and no earlier one ended by itself; else empty."""
    before = os.environ.get(LAST_ATTEMPT, "")
    return before if all(way.startswith(KILLED) for way in before.split(" or ")) else ""


def is_last_attempt() -> bool:
    """Whether only a person, or Kubeflow after a lost pod, would start this work again if it fails."""
    return not in_container() or bool(os.environ.get(LAST_ATTEMPT))


def secrets() -> tuple[str, ...]:
    """Values of secret variables, which nothing kept or shown may contain."""
    return secrets_of(os.environ.items(), secret_headers())


def _checkout_revision() -> str:
    """The commit of a source checkout, with `-dirty` if tracked files differ from it; else empty."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS)  # noqa: S603
        return described.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
