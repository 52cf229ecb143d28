"""How long does a component take that has nothing to ask or compute? `python -m tests.benchmarks.stage_seconds`

Runs the production pipeline twice with one `store_uri`: the shipped task, the default method, and an endpoint of the
tests that answers at once. Each component is a process of its own, started by kfp with the command of a container. In
the second run every answer, vector and evaluation is known. The table has the seconds of each process, from its start
to its end. A third run, equal to the second, measures imports: their seconds, and the packages that take most of them.
The store is a folder, or with `--s3` a bucket of the S3 server of the tests, on this machine.
"""

import argparse
import compileall
import contextlib
import io
import os
import re
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from kfp.local import subprocess_task_handler

import ease_lib
from ease_lib.config.parsing import parse_parameters
from pipelines.local_run import run_pipeline
from tests.s3_server import S3Server
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

LABELS = ("complaint", "praise")
IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)")
"""Microseconds that a module takes without those that it imports, and its package."""
LARGEST = 4
"""Packages that a row names."""


class Processes:
    """The processes of a run.

    `seconds`: by component; `imports`: microseconds by component and package, where Python prints them.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.imports: dict[str, Counter[str]] = {}

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        start = subprocess_task_handler.run_local_subprocess

        def timed(full_command: list[str], env_vars: Any = None) -> int:
            name = full_command[full_command.index("--function_to_execute") + 1]
            printed = io.StringIO()
            begun = time.perf_counter()
            with contextlib.redirect_stdout(printed):
                code = start(full_command, env_vars)
            self.seconds[name] = time.perf_counter() - begun
            self.imports[name] = Counter()
            for line in printed.getvalue().splitlines():
                if found := IMPORTED.match(line.strip()):
                    self.imports[name][found[2]] += int(found[1])
                else:
                    print(line)
            return code

        with mock.patch.object(subprocess_task_handler, "run_local_subprocess", timed):
            yield


@contextlib.contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """The address of a place in a bucket, which this process and those that it starts can reach while this is open."""
    folder.mkdir()
    server = S3Server(folder)
    server.start()
    with mock.patch.dict(os.environ, server.environment):
        server.client().create_bucket(Bucket="ease")
        try:
            yield "s3://ease/store"
        finally:
            server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--s3", action="store_true", help="keep the store in a bucket")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(ease_lib.__file__).parent, quiet=1)  # as in the images
    runs = [Processes() for _ in range(3)]
    with (
        tempfile.TemporaryDirectory() as folder,
        faulty_endpoint(lambda prompt: LABELS[zlib.crc32(prompt.encode()) % 2]) as served,
        bucket(Path(folder, "s3")) if options.s3 else contextlib.nullcontext(f"{folder}/store") as store,
    ):
        parameters = parse_parameters({"store_uri": store, "llm_base_url": served.base_url, "llm_model": MODEL})
        for number, processes in enumerate(runs):
            variables = {"PYTHONPROFILEIMPORTTIME": "1"} if number == 2 else {}
            unread = contextlib.redirect_stdout(io.StringIO())
            with mock.patch.dict(os.environ, variables), processes.measured(), unread:
                run_pipeline(parameters, Path(folder, f"run-{number}"))
    first, known, third = runs
    print("| Component | first run | everything known | of it imports | most of them |\n|---|--:|--:|--:|---|")
    for name, seconds in known.seconds.items():
        imports = third.imports[name]
        most = ", ".join(f"{package} {used / 1e6:.1f}" for package, used in imports.most_common(LARGEST))
        print(f"| {name} | {first.seconds[name]:.1f} s | {seconds:.1f} s | {imports.total() / 1e6:.1f} s | {most} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
