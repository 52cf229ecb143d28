"""LLM select: ask the black-box itself which exemplars to take ("GPT Select", baseline of the paper).

The pool is shown as a numbered list, and the model answers with k numbers; that sequence is evaluated once. The paper
gives no wording; ours stands below. Numbers that do not exist or come twice are passed over, and an answer with fewer
than k good ones is filled up at random, so a model that cannot select is as good as chance. The one request for the
selection is not an evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ease_lib.search.optimizers.history import Candidate, Observation
from ease_lib.search.optimizers.problem import Problem
from ease_lib.seeding import rng


class LlmSelect:
    """Proposes what the model selects, and nothing more; the problem must have `ask_llm`.

    The model is asked here, and by a search that continues too, where the answer comes from the cache: so its cost is
    always known.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._selected = self._asked()

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        return None if iteration else self._selected

    def _asked(self) -> Candidate | None:
        if self._problem.ask_llm is None:
            return None
        space = self._problem.space
        answer = self._problem.ask_llm(selection_prompt(self._problem.exemplars, space.k))
        random = space.sample(rng(self._problem.seed, "selection"), 1)[0].tolist()
        filled = dict.fromkeys((*parse_selection(answer, space.n), *random))
        return Candidate(sequence=tuple(filled)[: space.k], phase="search")

    def tell(self, observation: Observation) -> None:
        """There is nothing to learn for a second proposal."""

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False


def selection_prompt(exemplars: Sequence[str], k: int) -> str:
    """What the model is asked; it ends so that a raw completion continues with the first number."""
    listed = "\n\n".join(f"Example {number}\n{text}" for number, text in enumerate(exemplars, 1))
    return (
        f"Here are {len(exemplars)} examples of a task.\n\n{listed}\n\n"
        f"Which {k} of them, shown in a prompt in which order, would help a language model most to solve the task for "
        f"new inputs? Some outputs may be wrong. Answer with the {k} numbers only, separated by commas.\nNumbers:"
    )


def parse_selection(answer: str, n: int) -> list[int]:
    """Positions in a pool of n that the answer names, each once, in its order."""
    numbers = [int(number) for number in re.findall(r"\d{1,9}", answer)]
    return list(dict.fromkeys(number - 1 for number in numbers if 1 <= number <= n))
