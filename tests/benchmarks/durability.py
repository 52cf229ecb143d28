"""What do journal and cache cost? `python -m tests.benchmarks.durability`

Evaluations of 20 rows through the whole client with an endpoint that answers at once, with and without journal and
cache, alternately in one process; prints the ratio to the evaluation without them.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from os import environ
from pathlib import Path
from unittest.mock import patch

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.cache import CachingClient, open_cache
from ease_lib.black_box.client import OpenAIClient, Sampling
from ease_lib.black_box.concurrency import AdaptiveClient
from ease_lib.evaluation.evaluator import Evaluation, Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective
from ease_lib.notes import Notes
from ease_lib.search.journal import Evaluated, open_journal
from ease_lib.search.optimizers.history import Candidate, Observation
from ease_lib.tasks.base import Exemplar
from tests.s3_server import S3Server
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.optimizer_conformance import ASKED

ROWS = [Exemplar(number, f"query {number}", ("yes",)) for number in range(20)]
ROUNDS = 60


def main() -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        endpoint = stack.enter_context(faulty_endpoint(lambda prompt: "yes"))
        places = {"neither": "", "on files": str(folder / "store")}
        if S3Server.executable():
            (folder / "s3").mkdir()
            server = S3Server(folder / "s3")
            server.start()
            stack.callback(server.kill)
            stack.enter_context(patch.dict(environ, server.environment))
            server.client().create_bucket(Bucket="durability")
            places["on S3 (SeaweedFS on this machine)"] = "s3://durability/store"
        runs = {name: stack.enter_context(_Evaluations(endpoint.base_url, place)) for name, place in places.items()}
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(ROUNDS):
            for name, run in runs.items():
                start = time.perf_counter()
                run.evaluate(number)
                seconds[name].append(time.perf_counter() - start)
    plain = statistics.median(seconds["neither"])
    print("| Journal and cache | an evaluation of 20 rows takes | added |")
    print("|---|--:|--:|")
    for name, measured in seconds.items():
        median = statistics.median(measured)
        print(f"| {name} | {median / plain:.2f} x | {1000 * (median - plain):.1f} ms |")
    return 0


class _Evaluations(ExitStack):
    """Evaluations that are journalled and cached at a place, or nowhere."""

    def __init__(self, base_url: str, place: str) -> None:
        super().__init__()
        runner = self.enter_context(asyncio.Runner())
        client = OpenAIClient(
            base_url=base_url,
            model=MODEL,
            api="completions",
            key="",
            sampling=Sampling(max_tokens=8, stop="\n"),
            timeout_seconds=60,
            notes=Notes(),
        )
        self.callback(lambda: runner.run(client.close()))
        asking = AdaptiveClient(client, maximum=20)
        if place:
            asking = CachingClient(asking, self.enter_context(open_cache(open_store(place))), ASKED, Notes())
        self._objective = Objective(Evaluator(asking, ROWS, metric=exact_match), runner)
        self._journal = self.enter_context(open_journal(open_store(place), "key", Notes())) if place else None

    def evaluate(self, number: int) -> Evaluation:
        candidate = Candidate(sequence=(number,), phase="search")
        if self._journal:
            self._journal.propose({number: candidate})
        evaluation = self._objective.evaluate(
            Question(exemplars=[Exemplar(1000, f"exemplar {number}", ("yes",))], rows=range(len(ROWS)), whole=True)
        )
        if self._journal:
            observation = Observation(candidate=candidate, score=evaluation.score, validation_rows=len(ROWS))
            self._journal.append(
                Evaluated(iteration=number, observation=observation, usage=evaluation.usage, seconds=0)
            )
        return evaluation


if __name__ == "__main__":
    sys.exit(main())
