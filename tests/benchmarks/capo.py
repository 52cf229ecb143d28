"""Does `capo` find what its authors' package finds? `python -m tests.benchmarks.capo`

Both search the same draws of worlds whose scores are known (`tests/worlds`), on the same rows in the same order, with
the same size of population and block, for as many answers. The package needs a folder of its own, which is named here:

    .venv/bin/uv pip install --no-deps --target build/promptolution promptolution==2.3.0 pandas pytz tzdata
    PYTHONPATH=build/promptolution .venv/bin/python -m tests.benchmarks.capo

There are no instructions to rewrite, and exemplars are shown as they are (`create_fs_reasoning=False`). The package
does not end a race that takes more answers than there are: then the best of those evaluated most often is taken.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np

from ease_lib.evaluation.rows import row_order
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.optimizers.capo import BLOCK_ROWS, ENOUGH_ANSWERS, POPULATION
from tests.worlds.named import world
from tests.worlds.search import search
from tests.worlds.summed import KINDS, recorded_names
from tests.worlds.world import World

MOST_STEPS = 1000
EXEMPLAR, ROW = re.compile(r"\bexemplar(\d+)\b"), re.compile(r"\brow(\d+)\b")
Search = tuple[str, int, int]
"""World, answers and seed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*KINDS, *recorded_names()]
    parser.add_argument("--worlds", nargs="+", choices=names, default=names)
    parser.add_argument("--answers", type=int, nargs="+", default=[800, 3300])
    parser.add_argument("--seeds", type=int, default=30, help="draws of each world (default: 30)")
    parser.add_argument("--processes", type=int, default=2, help="at once (default: 2)")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    print(f"| World | {' | '.join(f'{answers} answers' for answers in arguments.answers)} |", flush=True)
    print("|---|" + "--:|" * len(arguments.answers))
    with ProcessPoolExecutor(arguments.processes) as processes:
        for name in arguments.worlds:
            searches = list(product([name], arguments.answers, range(arguments.seeds)))
            found = dict(zip(searches, processes.map(both, searches), strict=True))
            cells = (
                _cell([found[name, answers, seed] for seed in range(arguments.seeds)]) for answers in arguments.answers
            )
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return 0


def _cell(pairs: Sequence[tuple[float, float]]) -> str:
    ours, theirs = np.array(pairs).T
    gains = 100 * (ours - theirs)
    error = gains.std(ddof=1) / len(gains) ** 0.5
    return f"{ours.mean():.3f} against {theirs.mean():.3f}: {gains.mean():+.1f} ± {error:.1f}"


def both(made: Search) -> tuple[float, float]:
    """True scores of the winners of `capo` and of the package."""
    name, answers, seed = made
    drawn = world(name, seed)
    return search(drawn, "capo", answers, seed).score, drawn.score(of_package(drawn, answers, seed))


class _Spent(Exception):
    """All answers are given."""


def of_package(drawn: World, answers: int, seed: int) -> Prompt:
    """The prompt that the package's own optimizer ends with."""
    import pandas
    from promptolution.llms.base_llm import BaseLLM
    from promptolution.optimizers.capo import CAPO
    from promptolution.predictors.base_predictor import BasePredictor
    from promptolution.tasks.classification_tasks import ClassificationTask

    logging.disable(logging.CRITICAL)  # it reports the end of the answers as an error
    warnings.simplefilter("ignore", RuntimeWarning)  # and its t test warns of scores that are all equal

    class Llm(BaseLLM):  # type: ignore[misc]  # the package has no types
        given = 0

        def _get_response(self, prompts: list[str], system_prompts: list[str]) -> list[str]:
            if self.given + len(prompts) > answers:
                raise _Spent
            self.given += len(prompts)
            return [_answer(drawn, prompt) for prompt in prompts]

    class SameInstruction(BaseLLM):  # type: ignore[misc]
        def _get_response(self, prompts: list[str], system_prompts: list[str]) -> list[str]:
            return ["<prompt>Answer.</prompt>"] * len(prompts)

    class Whole(BasePredictor):  # type: ignore[misc]
        def _extract_preds(self, preds: list[str]) -> list[str]:
            return preds

    random.seed(seed)
    np.random.seed(seed)  # the package draws from both
    problem = drawn.problem(seed, answers)
    rows = row_order(problem.validation_outputs, seed)
    is_large = answers >= ENOUGH_ANSWERS
    task = ClassificationTask(
        pandas.DataFrame({"x": [f"row{row}" for row in rows], "y": "right"}),
        n_subsamples=BLOCK_ROWS if is_large else BLOCK_ROWS // 2,
        eval_strategy="sequential_block",
        seed=seed,
    )
    optimizer = CAPO(
        Whole(Llm()),
        task,
        SameInstruction(),
        initial_prompts=["Answer."] * (POPULATION if is_large else POPULATION // 2),
        upper_shots=drawn.k,
        create_fs_reasoning=False,
        df_few_shots=pandas.DataFrame({"x": [f"exemplar{each}" for each in range(drawn.n)], "y": "right"}),
    )
    optimizer.optimize(MOST_STEPS)
    best = str(optimizer.prompts[0]) if optimizer.scores else _most_evaluated(task.eval_cache)
    return 0, tuple(map(int, EXEMPLAR.findall(best)))


def _answer(drawn: World, prompt: str) -> str:
    sequence = tuple(map(int, EXEMPLAR.findall(prompt)))
    row = int(ROW.findall(prompt)[-1])
    return "right" if drawn.answers((0, sequence), [row])[0] else "wrong"


def _most_evaluated(cache: dict[tuple[str, str, str], Any]) -> str:
    scores: dict[str, list[float]] = {}
    for (prompt, _, _), score in cache.items():
        scores.setdefault(prompt, []).append(float(score))
    most = max(map(len, scores.values()))
    return max((each for each in scores if len(scores[each]) == most), key=lambda each: float(np.mean(scores[each])))


if __name__ == "__main__":
    raise SystemExit(main())
