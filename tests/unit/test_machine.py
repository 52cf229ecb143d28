"""Resources of a process, and children that take no module from the working folder."""

import gc
import os
import subprocess
import sys

import pytest
import torch
from threadpoolctl import threadpool_info

from ease_lib import machine as processes
from ease_lib.errors import ConfigError
from ease_lib.machine import (
    THREAD_VARIABLES,
    available_cores,
    child_environment,
    children_have,
    computes_in_bfloat16,
    few_collections,
    limit_threads,
    one_thread,
    resolve_device,
)

QUOTA_OF_ONE = """
import builtins, io, os
real_open, real_exists = open, os.path.exists
builtins.open = lambda name, *rest, **more: (
    io.StringIO("100000 100000") if name == "/sys/fs/cgroup/cpu.max" else real_open(name, *rest, **more)
)
os.path.exists = lambda name: name == "/sys/fs/cgroup/cpu.max" or real_exists(name)
os.sched_getaffinity = lambda process: set(range(8))
os.cpu_count = lambda: 8
from ease_lib.machine import available_cores
print(available_cores())
"""


def test_cores_are_those_that_the_quota_of_the_container_pays_for():
    printed = subprocess.run([sys.executable, "-c", QUOTA_OF_ONE], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["1"]


def test_without_a_quota_every_core_that_the_process_may_run_on_counts():
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))


LIMITED = """
import numpy, threadpoolctl, torch
from ease_lib import machine as processes
processes.available_cores = lambda: 1
processes._shown_cores = lambda: 8
processes.limit_threads()
print(torch.get_num_threads(), max(pool["num_threads"] for pool in threadpoolctl.threadpool_info()))
"""


def test_a_quota_of_one_cpu_leaves_one_thread_to_torch_and_to_blas():
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    printed = subprocess.run(
        [sys.executable, "-c", LIMITED], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == ["1", "1"]


@pytest.mark.parametrize(
    ("cores", "given", "wanted"), [(2, {}, "2"), (8, {}, None), (2, {"OMP_NUM_THREADS": "5"}, "5")]
)
def test_threads_are_limited_only_by_a_quota_and_never_against_what_was_asked_for(monkeypatch, cores, given, wanted):
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "0")  # so that what the test leaves is taken back
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes, "available_cores", lambda: cores)
    monkeypatch.setattr(processes, "_shown_cores", lambda: 8)
    monkeypatch.setitem(sys.modules, "torch", None)
    limit_threads()
    assert os.environ.get("OMP_NUM_THREADS") == wanted


def test_a_child_takes_no_module_from_the_working_folder(tmp_path):
    (tmp_path / "html.py").write_text("raise RuntimeError('mine')")
    child = subprocess.run(
        [sys.executable, "-c", "import html"], cwd=tmp_path, env=child_environment(), capture_output=True, check=False
    )
    assert child.returncode == 0, child.stderr


def test_the_environment_of_children_is_ours_again_afterwards(monkeypatch):
    before = dict(os.environ)
    with children_have(EASE_TEST="x"):
        assert os.environ["EASE_TEST"] == "x"
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu sse2 avx512f avx512_bf16 sha", True),
        ("fpu amx_bf16 amx_tile", True),
        ("fpu avx512f avx512_vnni", False),
        ("", False),
    ],
)
def test_bfloat16_instructions_are_found_among_the_flags_of_the_cpu(tmp_path, flags, expected):
    (tmp_path / "cpuinfo").write_text(f"model name\t: avx512_bf16 by name\nflags\t\t: {flags}\nbugs\t\t: none\n")
    assert computes_in_bfloat16(tmp_path / "cpuinfo") is expected


def test_a_machine_that_does_not_show_its_cpu_computes_in_float32(tmp_path):
    assert computes_in_bfloat16(tmp_path / "none") is False


def test_collections_are_rare_inside_and_as_before_afterwards():
    before = gc.get_threshold()
    with few_collections():
        assert gc.get_threshold()[0] > 10 * before[0]
    assert gc.get_threshold() == before


def threads():
    """Threads of BLAS and of torch."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}, torch.get_num_threads()


def test_what_has_to_compute_on_one_thread_does_and_others_get_theirs_back():
    before = threads()
    with one_thread():
        assert threads() == ({1}, 1)
    assert threads() == before


LOADED_LATER = """
from ease_lib.machine import one_thread
import numpy

with one_thread():
    pass
import scipy.linalg, threadpoolctl

with threadpoolctl.threadpool_limits(2), one_thread():
    print(*(pool["num_threads"] for pool in threadpoolctl.threadpool_info()))
"""


def test_a_library_that_is_loaded_later_computes_on_one_thread_too():
    printed = subprocess.run([sys.executable, "-c", LOADED_LATER], capture_output=True, text=True, check=True)
    assert set(printed.stdout.split()) == {"1"}
    assert len(printed.stdout.split()) >= 2, "numpy and scipy have one each"


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(processes, "_has_build_for_gpus", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [resolve_device(name) for name in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [resolve_device(name) for name in ("auto", "cpu")] == ["cpu", "cpu"]


def test_a_build_for_gpus_is_told_without_loading_torch():
    """The file that is read says the same as torch does."""
    built_for_gpus = bool(torch.version.cuda or torch.version.hip)
    code = "import sys; from ease_lib.machine import _has_build_for_gpus as has; print(has(), 'torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == [str(built_for_gpus), "False"]
    assert built_for_gpus or not torch.cuda.is_available()


def test_an_absent_gpu_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"device=cuda, but torch .* sees no GPU here; set device=auto"):
        resolve_device("cuda")
