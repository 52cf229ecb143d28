"""Resources that a process may use: torch's device, cores, threads, and the environment of child processes.

In a container the machine shows all of its cores, while the cgroup grants a share of their time. Threads above that
share are stopped together until the next period begins.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import runpy
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ease_lib.errors import ConfigError

CPUS = Path("/proc/cpuinfo")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
COLLECTION_THRESHOLDS = (50_000, 20, 20)
"""Thresholds of the garbage collector; Python's defaults are (700, 10, 10). About 10 MB of garbage may wait."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Keeps Python from taking modules from the working folder: a user's `html.py` is not part of our program."""


def resolve_device(device: str) -> str:
    """`cpu` or `cuda`; `auto` takes a GPU if torch sees one.

    Raises:
        ConfigError: when `cuda` is asked for and there is none.
    """
    if device == "cpu" or (device == "auto" and not _has_build_for_gpus()):
        return "cpu"
    import torch  # a second and more, which stages that compute nothing on it need not spend

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device=cuda, but torch {torch.__version__} sees no GPU here; set device=auto or device=cpu, or use a "
            "machine with a GPU and the CUDA build of torch"
        )
    return device


def _has_build_for_gpus() -> bool:
    """Whether torch was built for GPUs, read from the file that describes its build; nothing is imported."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return True  # the import explains what is missing
    build = runpy.run_path(str(Path(torch.origin).with_name("version.py")))
    return any(build.get(kind) for kind in ("cuda", "hip"))


def available_cores() -> int:
    """Number of cores that this process may use: its CPU affinity, capped by the CPU quota of its cgroup, 1 or more."""
    import joblib  # a tenth of a second, which commands that only print need not spend

    return int(joblib.cpu_count())


def _shown_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def computes_in_bfloat16(cpus: Path = CPUS) -> bool:
    """Whether the CPU has instructions for products of bfloat16 numbers (x86); others compute in it more slowly."""
    try:
        return bool(re.search(r"^flags\s*:.*\b(avx512_bf16|amx_bf16)\b", cpus.read_text(), re.MULTILINE))
    except OSError:
        return False


def limit_threads() -> None:
    """If a CPU quota grants less than the machine shows, keep this process and its children within the quota.

    That is torch, OpenMP and BLAS, loaded or yet to be. A value already set in one of `THREAD_VARIABLES` is kept.
    """
    cores = available_cores()
    if cores >= _shown_cores() or any(name in os.environ for name in THREAD_VARIABLES):
        return
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(cores)))
    import threadpoolctl  # the image of the local LLM has none, and computes nothing here

    threadpoolctl.threadpool_limits(cores)
    if torch := sys.modules.get("torch"):  # loading it takes a second; then it reads the variables
        torch.set_num_threads(cores)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread, for the whole process, while the context is open.

    For thousands of small steps: a second thread makes them slower on an idle machine (a search by `adaptive` took 2.5
    times as long on two cores), costs up to a hundredfold on a busy one, and would make results depend on the cores.
    """
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    with _pools(len(sys.modules)).limit(limits=1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(threads)


@functools.lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """The thread pools of this process; looking for them takes milliseconds.

    Args:
        modules: that are loaded; another one may have brought a pool of its own.
    """
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()


class _Rarely:
    """Number of open contexts: the first sets the thresholds, and the last restores the previous ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._before = gc.get_threshold()

    def enter(self) -> None:
        with self._lock:
            if not self._wanted:
                self._before = gc.get_threshold()
                gc.set_threshold(*COLLECTION_THRESHOLDS)
            self._wanted += 1

    def leave(self) -> None:
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                gc.set_threshold(*self._before)


_rarely = _Rarely()


@contextmanager
def few_collections() -> Iterator[None]:
    """Run Python's garbage collector less often while the context is open.

    With hundreds of requests in flight it would look after every few of them, through all that is imported: a third of
    the time of asking (`tests/benchmarks/client.py`).
    """
    _rarely.enter()
    try:
        yield
    finally:
        _rarely.leave()


def child_environment(**variables: str) -> dict[str, str]:
    """The environment of a Python process that we start: ours, but without modules from the working folder."""
    return {**os.environ, **SAFE_PATH, **variables}


def take_environment(environment: Mapping[str, str]) -> None:
    """Give this forked process its intended environment; its parent was started earlier."""
    os.environ.clear()
    os.environ.update(environment)


@contextmanager
def children_have(**variables: str) -> Iterator[None]:
    """Give processes that libraries start for us `child_environment` while the context is open."""
    before = dict(os.environ)
    os.environ.update(child_environment(**variables))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
