"""Successive halving over single answers: `adaptive` (the default) and `halving`.

Every sequence is first evaluated on a few validation rows, and on more of them only while it looks like one of the
best, so most requests go to the last contenders. Let B be the number of requests and R the number of validation rows,
both without those for confirmation (see below), and n0 the number of rows in a first look. Then c = B / (1 + ln(R /
n0)) requests go to first looks at random sequences. After that, once t more requests are spent,

    n(t) = n0 exp(t / c)            is the number of rows that a contender should have
    A(t) = c / n(t)                 is the number of contenders: the A best by posterior mean

and the contender with the widest posterior is asked rows that are new to it, a quarter of the rows it has. This is
successive halving (Karnin, Koren & Somekh, 2013) with a halving after every request, in which untried sequences compete
by their predictions. All estimates are posteriors of one model (`surrogate/answer_model.py`). The two methods differ in
the components that the model uses, and in their challengers:

    adaptive   uses all components. Every second proposal is a challenger: by turns a local maximum of the posterior
               mean, climbed from the best sequence, and one of a draw from the posterior (Thompson sampling), climbed
               from the draw's best. If the components explain nothing, their variances are estimated as almost zero,
               and what remains is `halving`.
    halving    uses no components and has no challengers

A third of the rows and the last part of the requests are held out for confirmation: a few finalists, the best so far,
are asked these rows, and then other rows that are new to them. The winner is the finalist with the best posterior mean,
or a shorter one within half a point of it. Its score on new rows is estimated from the confirmation alone, by a model
of the finalists, because all earlier answers were used to select them, and the posterior of a slightly wrong model
trusts these too much. The estimate is at least as uncertain as that many answers of the winner alone would be (Agresti
& Coull, 1998), because the model would see no noise in rows that all finalists answer rightly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ease_lib.evaluation.rows import row_order
from ease_lib.machine import one_thread
from ease_lib.search.candidates.neighbours import climb
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.optimizers.history import Candidate, History, Observation, Phase
from ease_lib.search.optimizers.problem import (
    BUDGET,
    EXHAUSTED,
    PERFECT,
    PERFECT_SCORE,
    Problem,
    Recommendation,
    ask_random,
)
from ease_lib.search.surrogate.answer_model import AnswerModel, Function
from ease_lib.search.surrogate.answers import Answers, fitted_model, variance_of_mean
from ease_lib.search.surrogate.components import Components
from ease_lib.seeding import rng
from ease_lib.tasks.splits import classes_of

FIRST_ROWS = 2
"""n0, rows of the first look; many sequences on few rows find better ones than few sequences on many rows
(`tests/worlds`)."""
MOST_ROWS = 1_500
"""Maximum number of validation rows; so many distinguish scores that differ by two points."""
MORE_ROWS = 0.25
"""Rows of each further look, as a share of the rows asked so far."""
CONFIRMED_ROWS = 8
"""Number of rows in a look for confirmation."""
CONFIRMATION, FINALISTS = 0.2, 3
"""Share of the requests for confirmation, and number of finalists."""
KEPT_ROWS, MOST_CONFIRMED = 1 / 3, 1 / 2
"""Shares of the validation rows: held out for confirmation, and the maximum asked of each finalist."""
CHALLENGE_PERIOD = 2
"""Number of proposals after which a new sequence is sought."""
EQUAL = 0.005
"""Difference of scores below which the shorter sequence is better."""
CHECKPOINT_GROWTH = 1.2
"""Growth factor of the number of answers after which variances are estimated again."""
MOST_INSERTED = 150
"""Exemplars that a step of the local search tries; of larger pools the best ones and random ones."""


@dataclass(frozen=True, kw_only=True)
class Rungs:
    """Schedule of requests over sequences: how many still compete after so many answers.

    Args:
        rows: B, answers to pay for.
        validation_rows: R, without those kept for confirmation.
        confirmation: answers of B that are for that.
    """

    rows: int
    validation_rows: int
    confirmation: int = 0

    @classmethod
    def of(cls, rows: int, validation_rows: int) -> Rungs:
        """Args: validation_rows: all there are."""
        return cls(
            rows=rows,
            validation_rows=max(1, round(validation_rows * (1 - KEPT_ROWS))),
            confirmation=math.floor(min(CONFIRMATION * rows, FINALISTS * MOST_CONFIRMED * validation_rows)),
        )

    @property
    def search(self) -> int:
        """Number of the B answers that are not for confirmation."""
        return self.rows - self.confirmation

    @cached_property
    def first_looks(self) -> float:
        """c, the number of answers for first looks at random sequences."""
        return self.search / (1 + math.log(max(self.validation_rows / FIRST_ROWS, 1.0)))

    def contenders(self, spent: int) -> int:
        """A, the number of sequences that compete once so many answers are spent."""
        due = FIRST_ROWS * math.exp((spent - self.first_looks) / self.first_looks)
        return max(1, math.ceil(self.first_looks / due))


class Halving:
    """Optimizer of `adaptive` and `halving`; the module's docstring has the method.

    Args:
        problem: `answers` of it are paid for at most.
        challenged: sequences that the model of all answers proposes compete with the random ones.
    """

    def __init__(self, problem: Problem, *, challenged: bool) -> None:
        self.problem = problem
        self.order = row_order(problem.validation_outputs, problem.seed)[:MOST_ROWS]
        self.rungs = Rungs.of(problem.answers, len(self.order))
        self.for_search = self.order[: self.rungs.validation_rows]
        self.kept = self.order[self.rungs.validation_rows :]
        self.places = {row: place for place, row in enumerate(self.for_search)}
        self.challenged = challenged
        self._alone = components_of(problem).without_components()
        self._components = components_of(problem) if challenged else self._alone
        self.answers = Answers()
        self.history = History(comparable=False)
        self.spent = 0
        self._model: AnswerModel | None = None
        self._refit = self.rungs.first_looks / 2

    def recall(self, prompt: Prompt, rows: Sequence[int], scores: Sequence[float | None]) -> None:
        self.answers.add(prompt, rows, scores)

    @one_thread()
    def tell(self, observation: Observation) -> None:
        self.history.add(observation)
        self.spent += len(observation.candidate.rows)
        prompt = observation.candidate.prompt
        self.answers.add(prompt, observation.rows, observation.scores)
        if len(self.answers) >= self._refit:  # here, so that models are a function of what was told alone
            self._model = self._fit(self._model)
            self._refit = CHECKPOINT_GROWTH * len(self.answers)
        elif self._model and prompt in self._model:
            self._model.add(prompt, observation.rows, observation.scores)
        elif self._model:
            self._model.add(prompt, *self.answers.of(prompt))

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return _Choice(self, iteration, pending).first_look() is None

    @one_thread()
    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        if self.left(pending) <= 0 or self._is_perfect():
            return None
        return _Choice(self, iteration, pending).next()

    @one_thread()
    def recommend(self, avoided: Collection[int] = ()) -> Recommendation | None:
        if not len(self.answers):
            return None
        model = self.fitted()
        finalists = self._finalists()
        whole = len(self.order)  # who was asked every row cannot be confirmed, and need not be
        confirmed = [
            place
            for place, prompt in enumerate(model.prompts)
            if prompt in finalists or len(self.answers.asked(prompt)) >= whole
        ]
        finalists = finalists if confirmed else {}
        among = confirmed if finalists else list(range(len(model.prompts)))
        top = max(float(model.mean[place]) for place in among) - EQUAL
        equal = [place for place in among if model.mean[place] >= top]
        if not finalists:  # what was hardly looked at is not known to be equal
            equal = [int(np.argmax(model.mean))]

        def rank(place: int) -> tuple[bool, int, float]:
            sequence = model.prompts[place][1]
            return not set(avoided).isdisjoint(sequence), len(sequence), -float(model.mean[place])

        best = min(equal, key=rank)
        prompt = model.prompts[best]
        score, error = float(model.mean[best]), float(np.sqrt(max(model.covariance[best, best], 0.0)))
        if prompt in finalists:
            score, error = self._confirmed(prompt) or (score, error)
        return Recommendation(
            candidate=Candidate(sequence=prompt[1], phase="search", instruction=prompt[0]),
            score=float(np.clip(score, 0.0, 1.0)),
            error=error,
            rows=len(self.answers.asked(prompt)),
        )

    def _confirmed(self, prompt: Prompt) -> tuple[float, float] | None:
        """Mean and standard deviation of its score on new rows, from the answers of the confirmation alone.

        None if all of its rows were refused.
        """
        confirmed = Answers()
        for observation in self.history:
            if observation.candidate.phase == "confirmation":
                confirmed.add(observation.candidate.prompt, observation.rows, observation.scores)
        if not len(confirmed):
            return None
        model = fitted_model(self._alone, confirmed)
        if prompt not in model:
            return None
        place = model.place(prompt)
        least = variance_of_mean([score for score in confirmed.of(prompt)[1] if score is not None])
        return float(model.mean[place]), float(np.sqrt(max(model.covariance[place, place], least)))

    def ended(self) -> str:
        if self.spent >= self.rungs.rows:
            return BUDGET
        return PERFECT if self._is_perfect() else EXHAUSTED

    def _is_perfect(self) -> bool:
        """Whether a prompt answered every row rightly."""
        return max(self.answers.sums, default=0.0) >= PERFECT_SCORE * len(self.order) - 1e-9

    def left(self, pending: Sequence[Candidate]) -> int:
        return self.rungs.rows - self.spent - _rows_of(pending)

    def fitted(self) -> AnswerModel:
        """The model fitted to all answers so far."""
        return self._model or self._fit(None)

    def _finalists(self) -> dict[Prompt, int]:
        return finalists_among(observation.candidate for observation in self.history)

    def _fit(self, before: AnswerModel | None) -> AnswerModel:
        return fitted_model(self._components, self.answers, coming=self.order, before=before, always=self._finalists())


class _Choice:
    """The next evaluation of a search, from the scores so far and the evaluations under way."""

    def __init__(self, search: Halving, iteration: int, pending: Sequence[Candidate]) -> None:
        self._search = search
        self._iteration = iteration
        self._pending = pending
        self._problem = search.problem
        self._rungs = search.rungs
        self._answers = search.answers
        self._spent = search.spent + _rows_of(pending)

    def next(self) -> Candidate | None:
        """Choose first looks at random prompts, then more rows for contenders, then the confirmation of finalists.

        Who answered all rows of the search rightly is to prove it at once.
        """
        if first := self.first_look():
            return first
        if flawless := self._flawless():
            return self._confirmation(flawless)
        if self._spent < self._rungs.search and (contender := self._contender()):
            return contender
        return self._confirmed_finalist() or self._contender()

    def first_look(self) -> Candidate | None:
        """Ask a random prompt, whatever the answers are; None when enough were asked."""
        return self._random() if self._spent < self._rungs.first_looks else None

    def _random(self) -> Candidate | None:
        """A first look; the very first one without exemplars, if that is allowed.

        Prompts whose search rows were all answered in an earlier search are skipped; None if no others are left.
        """
        if self._iteration == 0 and not self._problem.space.lengths.start and self._is_open((0, ())):
            return self._look((0, ()), None, "initial")
        known: list[Candidate] = []
        while drawn := ask_random(self._problem, self._search.history, self._iteration, [*self._pending, *known]):
            if self._is_open(drawn.prompt):
                return self._look(drawn.prompt, None, "initial")
            known.append(drawn)
        return None

    def _flawless(self) -> Prompt | None:
        """A prompt that answered all search rows rightly and has other rows left."""
        found = self._answers.all_right(len(self._search.for_search))
        return next((prompt for prompt in found if self._unasked(prompt, self._search.order)), None)

    def _contender(self) -> Candidate | None:
        """Return the most uncertain of the best prompts; a random one while there are no answers."""
        if not len(self._answers):
            return self._random()
        model = self._search.fitted()
        prompts = list(model.prompts)
        means, variances = model.mean, model.covariance.diagonal()
        challenger = self._challenger()
        if challenger:
            prompts = [*prompts, challenger]
            predicted = model.predict([challenger])
            means, variances = np.append(means, predicted[0]), np.append(variances, predicted[1])
        order = iter(np.argsort(-means, kind="stable").tolist())
        best = itertools.islice(order, self._rungs.contenders(self._spent))
        among = [place for place in best if self._is_open(prompts[place])]
        among = among or list(itertools.islice((place for place in order if self._is_open(prompts[place])), 1))
        if not among:
            return self._random()
        among = [place for place in among if prompts[place] not in self._under_way] or among
        chosen = max(among, key=lambda place: variances[place])
        return self._look(prompts[chosen], float(means[chosen]), "search")

    def _challenger(self) -> Prompt | None:
        """A new prompt that could be better than those known."""
        if not self._search.challenged or self._iteration % CHALLENGE_PERIOD:
            return None
        model = self._search.fitted()
        if self._iteration // CHALLENGE_PERIOD % 2:
            function, values = model.sample(rng(self._problem.seed, "ask", self._iteration))
        else:
            function, values = model.posterior_mean(), model.mean
        start = model.prompts[int(np.argmax(values))]
        inserted = self._inserted(function)
        found, _ = climb(function, start, self._problem.space, inserted, instructions=self._problem.instructions)
        return None if self._asked(found) else found

    def _inserted(self, function: Function) -> NDArray[np.int64]:
        n = self._problem.space.n
        if n <= MOST_INSERTED:
            return np.arange(n)
        best = np.argsort(-function.exemplar_effects, kind="stable")[: MOST_INSERTED * 2 // 3]
        others = rng(self._problem.seed, "inserted", self._iteration).permutation(n)[: MOST_INSERTED - len(best)]
        return np.union1d(best, others)

    def _confirmed_finalist(self) -> Candidate | None:
        """The finalist with the fewest rows of confirmation; until there are enough of them, the best other prompt."""
        if not len(self._answers):
            return None
        told = (observation.candidate for observation in self._search.history)
        finalists = finalists_among(itertools.chain(told, self._pending))
        unfinished = [prompt for prompt in finalists if self._unasked(prompt, self._search.order)]
        if len(finalists) < FINALISTS or not unfinished:
            chosen = self._next_finalist(finalists)
        else:
            chosen = min(unfinished, key=lambda prompt: finalists[prompt])
        return self._confirmation(chosen) if chosen else None

    def _next_finalist(self, finalists: Collection[Prompt]) -> Prompt | None:
        """The best prompt that is not a finalist yet; the second time the shortest of those that look as good."""
        model = self._search.fitted()
        means: dict[Prompt, float] = dict(zip(model.prompts, model.mean.tolist(), strict=True))
        others = [each for each in means if each not in finalists and self._unasked(each, self._search.order)]
        if not others:
            return None
        best = max(others, key=lambda each: means[each])
        if len(finalists) != 1:
            return best
        equal = [each for each in others if means[each] >= means[best] - EQUAL]
        return min(equal, key=lambda each: (len(each[1]), -means[each]))

    def _look(self, prompt: Prompt, acquisition: float | None, phase: Phase) -> Candidate:
        """The prompt with rows that it was not asked yet: the next ones in the order."""
        order, places = self._search.for_search, self._search.places
        asked = [places[row] for row in self._asked(prompt) if row in places]
        start = (asked[-1] + 1 if asked else self._spent) % len(order)
        rows = self._unasked(prompt, (*order[start:], *order[:start]))
        size = min(max(FIRST_ROWS, math.ceil(MORE_ROWS * len(asked))), self._left)
        return Candidate(
            sequence=prompt[1], phase=phase, acquisition=acquisition, instruction=prompt[0], rows=tuple(rows[:size])
        )

    def _confirmation(self, prompt: Prompt) -> Candidate:
        """The prompt with rows held out for confirmation or, once all of these are asked, with other new rows."""
        rows = self._unasked(prompt, (*self._search.kept, *self._search.for_search))
        size = min(CONFIRMED_ROWS, self._left)
        return Candidate(sequence=prompt[1], phase="confirmation", instruction=prompt[0], rows=tuple(rows[:size]))

    @property
    def _left(self) -> int:
        return self._rungs.rows - self._spent

    @cached_property
    def _under_way(self) -> dict[Prompt, list[int]]:
        """Rows under way, by prompt."""
        rows: dict[Prompt, list[int]] = {}
        for candidate in self._pending:
            rows.setdefault(candidate.prompt, []).extend(candidate.rows)
        return rows

    def _is_open(self, prompt: Prompt) -> bool:
        """Whether the prompt has search rows that it was not asked yet."""
        rows = self._search.for_search
        return len(self._asked(prompt)) < len(rows) or bool(self._unasked(prompt, rows))

    def _unasked(self, prompt: Prompt, rows: Sequence[int]) -> list[int]:
        asked = set(self._asked(prompt))
        return [row for row in rows if row not in asked]

    def _asked(self, prompt: Prompt) -> Sequence[int]:
        told = self._answers.asked(prompt)
        return [*told, *self._under_way[prompt]] if prompt in self._under_way else told


def finalists_among(candidates: Iterable[Candidate]) -> dict[Prompt, int]:
    """Number of confirmation rows of each finalist."""
    asked: dict[Prompt, int] = {}
    for candidate in candidates:
        if candidate.phase == "confirmation":
            asked[candidate.prompt] = asked.get(candidate.prompt, 0) + len(candidate.rows)
    return asked


def _rows_of(candidates: Iterable[Candidate]) -> int:
    return sum(len(candidate.rows) for candidate in candidates)


def components_of(problem: Problem) -> Components:
    """Components of a problem's sequences that the model may use."""
    class_of = classes_of(problem.outputs)
    number = {label: place for place, label in enumerate(dict.fromkeys(class_of.values()))}
    labels = np.array([number[class_of[output]] for output in problem.outputs], dtype=np.int64) if class_of else None
    return Components(k=problem.space.k, pool=problem.pool, labels=labels, instructions=problem.instructions)
