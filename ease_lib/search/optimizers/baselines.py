"""The baselines of the paper that train no model: random, evolution, influence, retrieval, sets, the LLM's choice.

Differences from the authors' code, besides those said at each class: no sequence is evaluated twice, the incumbent is
the best of all evaluations and never changed in place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ease_lib.black_box.budget_ledger import SELECTION, Budget
from ease_lib.black_box.client import complete_all
from ease_lib.black_box.layers import BlackBox
from ease_lib.black_box.usage import Usage, usage_of
from ease_lib.search.candidates.optimal_transport import shortlist
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem, ask_random
from ease_lib.seeding import rng

MUTATION_TRIES = 1_000
RELEVANCE_SCALE = 0.05
"""CEIL's weight of relevance against diversity."""
LEAST_DETERMINANT = 1e-10
"""Added to the determinant, so that repeated exemplars are bad and not impossible (the authors' code)."""
BLOCK = 4096

Choice = Callable[[NDArray[np.integer], Problem], int]
"""The position of the best of (q, k) sequences."""


class BestOfN:
    """Random sequences without repetition; the best one wins."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._history = History()

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        return ask_random(self._problem, self._history, iteration, pending)

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False


class Evolution(BestOfN):
    """Replaces one random position of the incumbent by a random exemplar, after `initial_design` random sequences.

    It draws at random where all neighbours are known. Where instructions are searched too, the instruction is one more
    position. An equal score takes the incumbent's place, as in the authors' code, so that it drifts over plateaus.
    Different from that code: a replacement is never an exemplar that the sequence already has.
    """

    def __init__(self, problem: Problem, *, initial_design: int) -> None:
        super().__init__(problem)
        self._history.latest_of_equals = True
        self._initial_design = initial_design

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        space, incumbent = self._problem.space, self._history.incumbent
        if iteration < self._initial_design or incumbent is None:
            return super().ask(iteration, pending)
        generator = rng(self._problem.seed, "mutation", iteration)
        for _ in range(MUTATION_TRIES if space.n > space.k else 0):
            mutant = _mutate(incumbent.candidate, self._problem, generator)
            if mutant.sequence not in self._history.proposed(pending, mutant.instruction):
                return mutant
        return ask_random(self._problem, self._history, iteration, pending, phase="search")

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return iteration >= self._initial_design


class Influence(BestOfN):
    """Influence: how much better sequences score with an exemplar than without it (Nguyen & Wong, 2023).

        I(e) = mean score of the sequences with e - mean score of those without,   0 if one of the two is empty

    All evaluations but the last are random sequences; the last one is the k most influential exemplars, in ascending
    order, so that the best is next to the query. The authors' code evaluates that one beyond the budget, and
    reports it even when a random one was better. From Nguyen & Wong: no label balance within a sequence, which
    open-ended tasks do not have.

    Args:
        evaluations: of the whole search (T); the last is the chosen sequence.
    """

    def __init__(self, problem: Problem, *, evaluations: int) -> None:
        super().__init__(problem)
        self._evaluations = evaluations

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        if iteration == self._evaluations - 1 and len(self._history):
            space = self._problem.space
            values = influences(self._history.sequences, self._history.scores, space.n)
            best = np.argsort(-values, kind="stable")[: space.k][::-1]
            chosen = tuple(int(position) for position in best)
            if chosen not in self._history.proposed(pending):
                return Candidate(sequence=chosen, phase="search")
        return super().ask(iteration, pending)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return iteration == self._evaluations - 1


class Retrieval(BestOfN):
    """Random sequences of the `nearest` exemplars: the most similar to the validation set, by cosine or by BM25.

    The authors' code leaves the last n mod 100 exemplars of the pool out; here every one is scored. Its BM25 reads
    punctuation and cased words (nltk); ours reads words in lower case, so of the ten nearest four to ten agree.

    Args:
        nearest: R, at least k.
        similarity: (n,) mean of each exemplar to the validation set; equal ones are taken in the order of the pool.
    """

    def __init__(self, problem: Problem, similarity: NDArray[np.floating], *, nearest: int) -> None:
        super().__init__(problem)
        kept = np.argsort(-similarity, kind="stable")[:nearest]
        self._kept = [int(position) for position in kept]
        self._place = {position: place for place, position in enumerate(self._kept)}
        self._space = SequenceSpace(len(self._kept), problem.space.k)

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        proposed = self._history.proposed(pending)
        places = {tuple(self._place[position] for position in sequence) for sequence in proposed}
        drawn = self._space.draw(self._problem.seed, iteration, places)
        if drawn is None:
            return None
        return Candidate(sequence=tuple(self._kept[place] for place in drawn), phase="search")


class OneProposal:
    """Evaluates one sequence, so that there is nothing to learn.

    Args:
        propose: gives its choice.
    """

    def __init__(self, propose: Callable[[], Candidate | None]) -> None:
        self._propose = propose

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        return None if iteration else self._propose()

    def tell(self, observation: Observation) -> None:
        """Ignore the score: there is no second proposal."""

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False


def zero_shot() -> OneProposal:
    """No exemplars at all: the floor that every comparison shows."""
    return OneProposal(lambda: Candidate(sequence=(), phase="search"))


def best_set(problem: Problem, choose: Choice, *, sampled_candidates: int) -> OneProposal:
    """DPP, MMD, OT: the best set of q = `sampled_candidates` sampled sequences S by embeddings alone.

    With unit-length embeddings e of the exemplars and v of the validation set V:

        dpp   largest    mean_v sum_i cos(e_i, v) / 0.05 + log det K_S,  K_S = cosines within S    relevant and diverse
        mmd   smallest   || mean_i e_i - mean_v v ||^2                                              Gretton et al., 2012
        ot    smallest   optimal-transport cost of S to V (`candidates/optimal_transport.py`)

    DPP: Ye et al., 2023 ("Compositional exemplars", CEIL), with the mean over V in the place of one query's cosine.
    CEIL halves cosine + 1 and searches greedily; the paper takes cosines and random sets, and so do we. None of the
    three knows the order of a sequence: it is that of the sample. The paper's text takes the "maximum values" of MMD
    and OT too (App. B.2), which are the sets least like V; the authors' code takes the smallest, as we do. It keeps the
    set with the *smallest* DPP value, the worst by its own measure, and samples q sets 165 times over to evaluate one.
    """

    def propose() -> Candidate:
        sampled = problem.space.sample(rng(problem.seed, "ask", 0), sampled_candidates)
        return Candidate(sequence=tuple(sampled[choose(sampled, problem)].tolist()), phase="search")

    return OneProposal(propose)


def llm_select(problem: Problem) -> OneProposal:
    """The exemplars that the black-box itself selects ("GPT Select"); the problem must have `ask_llm`.

    The pool is shown as a numbered list, and the model answers with k numbers; that sequence is evaluated once. The
    request follows the paper's (App. C.11), which says nothing of order or noise: the order is that of the answer.
    Numbers that do not exist or come twice are passed over, and an answer with fewer than k good ones is filled up at
    random, so a model that cannot select is as good as chance. The one request for the selection is not an evaluation;
    a search that continues makes it again, answered by the cache.
    """
    if problem.ask_llm is None:
        return OneProposal(lambda: None)
    space = problem.space
    answer = problem.ask_llm(selection_prompt(problem.exemplars, space.k))
    random = space.sample(rng(problem.seed, "selection"), 1)[0].tolist()
    filled = dict.fromkeys((*parse_selection(answer, space.n), *random))
    return OneProposal(lambda: Candidate(sequence=tuple(filled)[: space.k], phase="search"))


class Selection:
    """Asks the black-box the one question of `llm_select`, paid for by the run; `usage` is what it cost."""

    def __init__(self, black_box: BlackBox, account: str, budget: Budget) -> None:
        self._black_box = black_box
        self._account = account
        self._budget = budget
        self.usage = Usage()

    def ask(self, prompt: str) -> str:
        start = time.perf_counter()
        answers = self._black_box.loop.run(complete_all(self._black_box.client, [prompt], self._account))
        self.usage += usage_of([prompt], answers, time.perf_counter() - start)
        self._budget.book(SELECTION, self.usage)
        return answers[0].text


def _mutate(parent: Candidate, problem: Problem, generator: np.random.Generator) -> Candidate:
    sequence, several = parent.sequence, problem.instructions > 1
    position = int(generator.integers(len(sequence) + several))
    if position == len(sequence):
        instruction = int(generator.integers(problem.instructions))
        return Candidate(sequence=sequence, phase="search", instruction=instruction)
    replacement = int(generator.integers(problem.space.n))
    while replacement in sequence:
        replacement = int(generator.integers(problem.space.n))
    mutant = (*sequence[:position], replacement, *sequence[position + 1 :])
    return Candidate(sequence=mutant, phase="search", instruction=parent.instruction)


def influences(sequences: NDArray[np.integer], scores: NDArray[np.floating], n: int) -> NDArray[np.float64]:
    """(n,) influence of each exemplar.

    Args:
        sequences: (t, k) positions in a pool of n; scores: (t,).
    """
    member = np.zeros((len(sequences), n), dtype=bool)
    np.put_along_axis(member, sequences, True, axis=1)
    times = member.sum(axis=0)
    total = scores @ member
    with_it = np.divide(total, times, out=np.zeros(n), where=times > 0)
    rest = len(sequences) - times
    without = np.divide(scores.sum() - total, rest, out=np.zeros(n), where=rest > 0)
    return np.where((times > 0) & (rest > 0), with_it - without, 0.0)


def choose_by_dpp(sequences: NDArray[np.integer], problem: Problem) -> int:
    return int(np.argmax(dpp_values(sequences, problem)))


def choose_by_mmd(sequences: NDArray[np.integer], problem: Problem) -> int:
    return int(np.argmin(squared_mmd(sequences, problem)))


def choose_by_ot(sequences: NDArray[np.integer], problem: Problem) -> int:
    return int(shortlist(sequences, problem.cost, 1).positions[0])


def dpp_values(sequences: NDArray[np.integer], problem: Problem) -> NDArray[np.float64]:
    """(q,) relevance and diversity of each sequence; larger is better."""
    relevance = problem.relevance
    values = np.empty(len(sequences))
    for start in range(0, len(sequences), BLOCK):
        block = sequences[start : start + BLOCK]
        chosen = problem.pool[block].astype(np.float64)
        determinants = np.linalg.det(chosen @ chosen.transpose(0, 2, 1))
        diversity = np.log(np.maximum(determinants, 0.0) + LEAST_DETERMINANT)
        values[start : start + BLOCK] = relevance[block].sum(axis=1) / RELEVANCE_SCALE + diversity
    return values


def squared_mmd(sequences: NDArray[np.integer], problem: Problem) -> NDArray[np.float64]:
    """(q,) squared maximum mean discrepancy, linear kernel, of each sequence to the validation set."""
    centre = problem.evaluated_rows.astype(np.float64).mean(axis=0)
    values = np.empty(len(sequences))
    for start in range(0, len(sequences), BLOCK):
        means = problem.pool[sequences[start : start + BLOCK]].astype(np.float64).mean(axis=1)
        values[start : start + BLOCK] = np.square(means - centre).sum(axis=1)
    return values


def selection_prompt(exemplars: Sequence[str], k: int) -> str:
    """Request to the model, modelled on the paper's; it ends so that a raw completion continues with a number."""
    listed = "\n\n".join(f"{number}.\n{text}" for number, text in enumerate(exemplars, 1))
    return (
        "You are asked to perform a task that is described by the examples below. Given the numbered list of examples "
        f"below, pick {k} of them that best describe the task. Only output the list of numbers.\n\n{listed}\n\nNumbers:"
    )


_AND = r"and|then|plus|or|und|et|y|e|en|och|или|и"
_NUMBER = re.compile(rf"(?<!\d)\d{{1,9}}(?!\d)(?!\s+(?!(?:{_AND})\b)[^\W\d_])", re.IGNORECASE)
"""A number that no noun follows."""


def parse_selection(answer: str, n: int) -> list[int]:
    """Positions in a pool of n that the answer names, each once, in its order.

    A number before a noun is a count and none of them ("the 5 best are 3, 17 and 22", "it has 2 labels"), and so is one
    that says how many follow it ("these 3: ..."). Where numbers only count the lines, what follows them is the list.
    """
    counted = re.findall(r"^\W*(\d{1,9})[.):]\s+(?:example\s+)?\W*(\d{1,9})\b", answer, re.MULTILINE | re.IGNORECASE)
    if len(counted) > 1 and [int(number) for number, _ in counted] == list(range(1, len(counted) + 1)):
        numbers = [number for _, number in counted]
    else:
        found = list(_NUMBER.finditer(answer))
        numbers = [
            match.group()
            for place, match in enumerate(found, 1)
            if not (answer[match.end() : match.end() + 1] == ":" and int(match.group()) == len(found) - place)
        ]
    positions = dict.fromkeys(int(number) - 1 for number in numbers)
    return [position for position in positions if 0 <= position < n]
