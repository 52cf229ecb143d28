"""How many prompt tokens does the local LLM really compute? `python -m tests.benchmarks.prefix_cache`

Evaluates random sequences of the shipped task with the local LLM, which keeps the prefix of its last prompt: one after
another, and several under way at once as a search has them, whose requests go in the order of the sequences. Tokens are
those that the server says it computed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars
from ease_lib.black_box.transport import Transport
from ease_lib.config.parsing import parse_parameters
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective, answer_sampling
from ease_lib.running.inline import Workspace
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.seeding import rng
from ease_lib.stages import build_dataset
from tests.support.runs import open_black_box, run_stages

ROWS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=8, help="default: 8")
    arguments = parser.parse_args()
    computed: list[int] = []
    post = Transport.post

    async def counted(transport: Transport, path: str, content: dict[str, object]) -> object:
        response = await post(transport, path, content)
        computed.append(response["timings"]["prompt_n"])
        return response

    Transport.post = counted  # type: ignore[method-assign]
    print("| Evaluations | prompt tokens | really computed | share |\n|---|--:|--:|--:|")
    for name, at_once in (("one after another", 1), ("all at once", arguments.evaluations)):
        computed.clear()
        tokens = evaluated(arguments.evaluations, at_once)
        print(f"| {name} | {tokens} | {sum(computed)} | {sum(computed) / tokens:.0%} |", flush=True)
    return 0


def evaluated(count: int, at_once: int) -> int:
    """Prompt tokens of so many evaluations, so many under way at once."""
    parameters = parse_parameters({"task": "customer_feedback", "llm_base_url": "local", "validation_size": ROWS})
    with tempfile.TemporaryDirectory() as folder:
        at = Workspace(Path(folder))
        run_stages(at, parameters, build_dataset)
        pool = read_exemplars(Path(at.pool), contracts.EXEMPLAR_POOL)
        rows = read_exemplars(Path(at.validation), contracts.VALIDATION_SET)
    sequences = SequenceSpace(len(pool), 5).sample(rng(0, "prefix cache"), count)
    with open_black_box(
        parameters.endpoint, sampling=answer_sampling(pool, parameters.endpoint), store_uri=""
    ) as black_box:
        objective = Objective(Evaluator(black_box.client, rows, metric=exact_match), black_box.loop)
        tokens = 0
        for start in range(0, count, at_once):
            for number, sequence in enumerate(sequences[start : start + at_once], start):
                objective.start(
                    number,
                    Question(exemplars=[pool[position] for position in sequence], rows=range(len(rows)), whole=True),
                )
            tokens += sum(objective.wait()[1].usage.prompt_tokens for _ in range(at_once))
    return tokens


if __name__ == "__main__":
    sys.exit(main())
