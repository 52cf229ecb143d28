"""A search under fire must end like a quiet one. `python -m tests.chaos --help`

The same search runs twice as a process of its own, as its container does, journal and answers on a real S3 server:

    quiet   nothing fails
    chaos   a share of the requests fails in every way that time can cure (429 with and without Retry-After, 500 to 504,
            timeouts, resets, truncated and empty answers), a few in ways it cannot (401, 403, 404, content filter,
            context length) and end the process; the process is killed (SIGKILL) at random moments; the store is killed
            and comes back later. After each end the same process is begun again, as Kubeflow's retry does.

With `--image` the process of the second run is in a container of that image each time, hardened as in a cluster, and
the kills are `docker kill`.

It prints what happened and what it did to the search, and exits with 1 unless both histories are equal, no observation
was lost, and no request was asked again although its answer was stored.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq

from ease_lib.artifacts.store import S3Store
from ease_lib.black_box.cache import FOLDER, object_name
from ease_lib.black_box.client import Sampling
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.config.parsing import parse_parameters, read_by
from ease_lib.errors import StoreError
from ease_lib.evaluation.objective import SHORT_ANSWER_TOKENS
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from tests.s3_server import S3Server
from tests.simulation.in_context_learner import answer
from tests.support import faulty_endpoint as faults
from tests.support.runs import run_stages

TIMEOUT_SECONDS = 1.0
STAGE = """
import json, sys
from ease_lib.running.component import component
from ease_lib.running.stage import LocalArtifact
from ease_lib.stages import optimize

values, files = map(json.loads, sys.argv[1:])
artifacts = {name: LocalArtifact(path) for name, path in files.items()}
with component("optimize", values, artifacts.pop("lineage")) as do:
    do(optimize, **artifacts)
"""
"""The component that searches, as a program."""
KILLED = (-9, 137)
"""Exit codes of a process and of a container after SIGKILL."""
PASSING_FAULTS = {
    "429": faults.status(429),
    "429, Retry-After in seconds": faults.status(429, retry_after="1"),
    "429, Retry-After as a date": lambda handler, prompt: faults.status(
        429, retry_after=formatdate(time.time() + 1, usegmt=True)
    )(handler, prompt),
    "500": faults.status(500),
    "502": faults.status(502),
    "503": faults.status(503),
    "504": faults.status(504),
    "timeout": faults.hang(1.5 * TIMEOUT_SECONDS),
    "connection reset in the body": faults.reset_mid_body,
    "truncated JSON": faults.body(b'{"choices": [{"mess'),
    "empty content": faults.finish("stop", ""),
}
LASTING_FAULTS = {
    "401": faults.status(401),
    "403": faults.status(403),
    "404": faults.status(404),
    "content filter": faults.finish("content_filter"),
    "context length": faults.status(400, "too long", "context_length_exceeded"),
}
SAME_COLUMNS = (
    *("iteration", "phase", "exemplar_ids", "score", "incumbent_score", "validation_rows", "acquisition"),
    *("llm_requests", "cached_responses"),
)
"""Columns that two runs share. Tokens are not among them: empty answers that were asked for again are paid too."""


@dataclass
class Trouble:
    """Planned failures. Times in seconds."""

    kills: int
    fault_rate: float
    lasting_faults: int
    outage_seconds: float
    seed: int


@dataclass
class Counts:
    """Counts of what happened."""

    attempts: int = 0
    kills: int = 0
    passing_faults: int = 0
    lasting_faults: int = 0
    outages: int = 0
    requests: int = 0
    cut_off: int = 0
    asked_although_stored: int = 0
    evaluated_again: int = 0
    observations: int = 0
    equal_history: bool = False

    def __str__(self) -> str:
        return "\n".join(
            f"  {label:<62}{value:>6}"
            for label, value in (
                ("attempts of the command", self.attempts),
                ("killed (SIGKILL)", self.kills),
                ("requests", self.requests),
                ("  failed temporarily", self.passing_faults),
                ("  failed permanently", self.lasting_faults),
                ("  answered, but cut off by the end of the process", self.cut_off),
                ("outages of the store", self.outages),
                ("observations", self.observations),
                ("observations lost (evaluated again)", self.evaluated_again),
                ("requests asked again although their answer was stored", self.asked_although_stored),
                ("history equals the undisturbed run", "yes" if self.equal_history else "NO"),
            )
        )

    @property
    def unharmed(self) -> bool:
        return self.equal_history and not self.evaluated_again and not self.asked_although_stored


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--fault-rate", type=float, default=0.2, help="share of requests that fail (default: 0.2)")
    parser.add_argument("--lasting-faults", type=int, default=5, help="failures no retry cures (default: 5)")
    parser.add_argument("--outage-seconds", type=float, default=30, help="the store is away for (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the trouble and of the search (default: 0)")
    parser.add_argument(
        "--image", default="", help="run the search in containers of this image, e.g. that of make images"
    )
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="parameters of the search")
    arguments = parser.parse_args()
    trouble = Trouble(
        arguments.kills, arguments.fault_rate, arguments.lasting_faults, arguments.outage_seconds, arguments.seed
    )
    parameters = dict(setting.split("=", 1) for setting in arguments.set)
    with tempfile.TemporaryDirectory() as folder:
        counts = run(
            Path(folder),
            trouble,
            {"task": "lr", "noise_ratio": "0.1", "validation_size": "20", "method": "ease", "seed": "0", **parameters},
            arguments.image,
        )
    print(counts)
    return 0 if counts.unharmed else 1


def run(folder: Path, trouble: Trouble, parameters: dict[str, str], image: str = "") -> Counts:
    """Both searches, in `folder`; the counts are of the second, which runs in containers when an image is given."""
    folder.chmod(0o755)  # a container's user reads it too
    artifacts = Workspace(folder)
    run_stages(artifacts, parse_parameters(parameters), *modules_between("", "optimize"))
    (folder / "store").mkdir()
    store = S3Server(folder / "store")
    store.start()
    store.client().create_bucket(Bucket="chaos")
    try:
        with patch.dict(os.environ, store.environment):
            return _both(folder, trouble, parameters, artifacts, store, image)
    finally:
        store.kill()


def _both(
    folder: Path, trouble: Trouble, parameters: dict[str, str], artifacts: Workspace, store: S3Server, image: str
) -> Counts:
    with faults.faulty_endpoint(answer, latency_seconds=0.02) as endpoint:
        quiet = _Search(folder / "quiet", artifacts, parameters, endpoint.base_url, "s3://chaos/quiet")
        if quiet.attempt() != 0:
            raise RuntimeError(f"the quiet run failed:\n{quiet.log.read_text()[-2000:]}")
        quiet_requests = endpoint.script.requests
        print(f"quiet run: {len(quiet.evaluations())} evaluations, {quiet_requests} requests", flush=True)
    with faults.faulty_endpoint(answer, latency_seconds=0.02) as endpoint:
        search = _Search(folder / "chaos", artifacts, parameters, endpoint.base_url, "s3://chaos/chaos", image)
        counts = _Chaos(trouble, search, endpoint, store, quiet_requests).play()
    history = [pq.read_table(one.folder / "history", columns=list(SAME_COLUMNS)) for one in (quiet, search)]
    counts.equal_history = history[0].equals(history[1])
    counts.observations = history[1].num_rows
    return counts


class _Search:
    """The stage, run as often as need be on the same store."""

    def __init__(
        self,
        folder: Path,
        artifacts: Workspace,
        parameters: dict[str, str],
        base_url: str,
        store_uri: str,
        image: str = "",
    ) -> None:
        folder.mkdir()
        folder.chmod(0o777)  # a container's user writes there too
        self.folder = folder
        self.store_uri = store_uri
        self.log = folder / "log.txt"
        files = {
            **{name: getattr(artifacts, name) for name in ("validation", "summary", "instructions", "embeddings")},
            "pool": artifacts.kept,
            **{name: str(folder / name) for name in ("best_sequence", "history", "search", "lineage")},
        }
        values = {
            **parameters,
            "llm_base_url": base_url,
            "llm_timeout_seconds": TIMEOUT_SECONDS,
            "store_uri": store_uri,
        }
        self._container = f"ease-chaos-{os.getpid()}" if image else ""
        python = in_container(image, self._container, artifacts.folder) if image else [sys.executable]
        config = json.dumps(read_by([optimize.Config], parse_parameters(values)))
        self._command = [*python, "-c", STAGE, config, json.dumps(files)]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("ab") as log, subprocess.Popen(self._command, stdout=log, stderr=log) as process:
            yield process

    def attempt(self) -> int:
        with self.running() as process:
            return process.wait()

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        if self._container:
            subprocess.run(["docker", "kill", self._container], capture_output=True, check=False)
        else:
            process.kill()

    def evaluations(self) -> list[int]:
        """Numbers of the evaluations as the log has them, repetitions included."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        marked = [line.removeprefix("[ease] evaluation ") for line in lines if line.startswith("[ease] evaluation ")]
        return [int(line.partition("/")[0]) for line in marked]


def in_container(image: str, name: str, folder: Path) -> list[str]:
    """How `python` begins in a container that sees `folder`, this machine's network and the store's keys."""
    command = ["docker", "run", "--rm", "--name", name, "--network", "host", "--user", "10001:0", "--read-only"]
    command += ["--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    command += ["--volume", f"{folder}:{folder}"]
    for variable in sorted(os.environ):
        if variable.startswith("AWS_"):
            command += ["--env", variable]
    return [*command, image, "python"]


class _Chaos:
    """The trouble comes at numbers of requests, not at times: it is the same on a slow machine."""

    def __init__(
        self,
        trouble: Trouble,
        search: _Search,
        endpoint: faults.FaultyServer,
        store: S3Server,
        quiet_requests: int,
    ) -> None:
        self._trouble = trouble
        self._search = search
        self._endpoint = endpoint
        self._store = store
        self._stored = S3Store(f"{search.store_uri}/{FOLDER}")
        self._draw = random.Random(trouble.seed)
        self._kills = self._moments(trouble.kills, quiet_requests)
        self._lasting = [
            (moment, self._draw.choice(list(LASTING_FAULTS.values())))
            for moment in self._moments(trouble.lasting_faults, quiet_requests)
        ]
        self._counts = Counts()
        self._lock = threading.Lock()
        endpoint.script.on_request = self._on_request

    def _moments(self, number: int, requests: int) -> list[float]:
        """Numbers of requests, ascending, that a search of so many surely reaches."""
        return sorted(self._draw.uniform(0.05, 0.8) * requests for _ in range(number))

    def play(self) -> Counts:
        """Run, kill and run again until the search is finished."""
        trouble, counts = self._trouble, self._counts
        outage_at = trouble.kills // 2
        code = None
        while code != 0:
            counts.attempts += 1
            with self._search.running() as process:
                if counts.kills == outage_at and not counts.outages:
                    self._lives_until(process, self._endpoint.script.requests + 5)
                    self._outage()
                if counts.kills < trouble.kills and self._lives_until(process, self._kills[counts.kills]):
                    time.sleep(self._draw.uniform(0, 0.2))  # not always at a request
                    self._search.kill(process)
                    counts.kills += 1
                code = process.wait()
            if code not in (0, 2, *KILLED):
                raise RuntimeError(f"the command ended with {code}:\n{self._search.log.read_text()[-3000:]}")
            if counts.attempts > 20 + 10 * (trouble.kills + trouble.lasting_faults):
                raise RuntimeError(f"the search does not end:\n{self._search.log.read_text()[-3000:]}")
        script = self._endpoint.script
        counts.requests = script.requests
        counts.cut_off = sum(script.finished.values()) - len(script.finished)
        unknown = [prompt for prompt in script.finished if not self._is_stored(prompt)]
        if unknown:  # then the check of every request proves nothing
            raise RuntimeError(f"{len(unknown)} of {len(script.finished)} answers are not found in the store")
        evaluations = self._search.evaluations()
        counts.evaluated_again = len(evaluations) - len(set(evaluations))
        return counts

    def _on_request(self, prompt: str) -> None:
        """Check, before a request is answered, whether it was paid for before; then choose its fate."""
        try:
            stored = self._is_stored(prompt)
        except StoreError:
            stored = False  # the store is away: the command cannot know either
        with self._lock:
            self._counts.asked_although_stored += stored
            if self._lasting and self._endpoint.script.requests >= self._lasting[0][0]:
                _, fault = self._lasting.pop(0)
                self._endpoint.script.faults.append(self._counted(fault, "lasting_faults"))
            elif self._draw.random() < self._trouble.fault_rate:
                fault = self._draw.choice(list(PASSING_FAULTS.values()))
                self._endpoint.script.faults.append(self._counted(fault, "passing_faults"))

    def _is_stored(self, prompt: str) -> bool:
        """Return whether the prompt is stored at the address that the client gives an answer."""
        sampling = Sampling(max_tokens=SHORT_ANSWER_TOKENS, stop="\n")
        asked = LLMIdentity(endpoint=self._endpoint.base_url, model=faults.MODEL, api="chat", sampling=sampling)
        return self._stored.read(object_name(asked.answer_key(prompt))) is not None

    def _counted(self, fault: faults.Fault, name: str) -> faults.Fault:
        """The fault, which counts when it strikes."""

        def strike(handler: faults.FaultyHandler, prompt: str) -> None:
            with self._lock:
                setattr(self._counts, name, getattr(self._counts, name) + 1)
            fault(handler, prompt)

        return strike

    def _lives_until(self, process: subprocess.Popen[bytes], requests: float) -> bool:
        while process.poll() is None:
            if self._endpoint.script.requests >= requests:
                return True
            time.sleep(0.02)
        return False

    def _outage(self) -> None:
        self._store.kill()
        time.sleep(self._trouble.outage_seconds)
        self._store.start()
        self._counts.outages += 1


if __name__ == "__main__":
    sys.exit(main())
