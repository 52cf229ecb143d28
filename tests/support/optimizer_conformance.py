"""Conformance suite of optimizers. A new one gets all of it for three lines:

class TestMyMethod(OptimizerConformance):
    def create(self, problem):
        return MyMethod(problem, ...)

The resume tests kill real processes (SIGKILL) that search through a real HTTP endpoint, with journal and response
cache, at every evaluation and in the middle of evaluations, until one attempt gets to the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
import traceback
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openai  # noqa: F401 loaded here, once, and not in each of the processes that are forked
import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.cache import CachingClient, open_cache
from ease_lib.black_box.client import Completion, LLMClient, OpenAIClient, Sampling
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.black_box.transport import openai_client
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective
from ease_lib.notes import Notes
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.journal import Evaluated, open_journal
from ease_lib.search.loop import EvaluationsOn, Study, search
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import ExemplarOptimizer, Problem, RowAllocating
from ease_lib.search.plan_and_caps import Plan
from ease_lib.signals import open_event_loop
from ease_lib.tasks.base import Exemplar
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.objectives import ANSWERS, ROWS, AtOnce, OrderedSum, ordered_sum

BUDGET = 14
KILLED_BUDGET = 9
"""Budget of searches that are killed: a process for each evaluation."""
MOST_ATTEMPTS = 4 * KILLED_BUDGET
KEY = "key"
ASKED = LLMIdentity(endpoint="test", model="test", api="completions", sampling=Sampling(max_tokens=8, stop="\n"))
openai_client("http://127.0.0.1", "")  # loads what every forked process would load again
_fork_or_look = threading.Lock()
"""A process that is forked while a thread looks into the cache would wait forever for what that thread holds."""


class Prompts:
    """The part of a search's task that evaluations need."""

    def __init__(self, pool: Sequence[Exemplar]) -> None:
        self._pool = pool

    def question(self, prompt: Prompt, rows: Sequence[int], account: str) -> Question:
        return Question(exemplars=[self._pool[position] for position in prompt[1]], account=account, rows=rows)


def plan_of(evaluations: int) -> Plan:
    return Plan(rows=tuple(range(ROWS)), evaluations=evaluations)


class OptimizerConformance:
    """Determinism, budget, no repetition, batches, exhaustion, resume after SIGKILL.

    `most_evaluations`: of a method that proposes fewer than the budget allows. `seeded`: whether it draws at random.
    """

    most_evaluations = BUDGET
    answers_before_kill = ROWS + ROWS // 2
    seeded = True

    @abstractmethod
    def create(self, problem: Problem) -> ExemplarOptimizer:
        """The optimizer under test, with an initial design of at most 6."""

    def run(self, objective: OrderedSum, folder: Path, budget: int = BUDGET, parallel: int = 1) -> Study:
        with open_journal(open_store(str(folder)), KEY, Notes()) as journal:
            optimizer = self.create(objective.problem)
            return search(optimizer, objective.at_once, journal, plan_of(budget), parallel=parallel)

    def test_equal_seeds_give_equal_histories(self, tmp_path: Path) -> None:
        first, second = (self.run(ordered_sum(), tmp_path / name) for name in "ab")
        assert first.history == second.history

    def test_another_seed_gives_another_history(self, tmp_path: Path) -> None:
        if not self.seeded:
            pytest.skip("the method draws nothing at random")
        first, second = (self.run(ordered_sum(seed=seed), tmp_path / str(seed)) for seed in (1, 2))
        assert first.history.sequences.tolist() != second.history.sequences.tolist()

    @pytest.mark.parametrize("parallel", [1, 4, 50])
    def test_budget_is_kept_and_no_sequence_is_evaluated_twice(self, tmp_path: Path, parallel: int) -> None:
        objective = ordered_sum()
        study = self.run(objective, tmp_path, parallel=parallel)
        assert objective.evaluations == len(study.history) == len(study.history.seen) == self.most_evaluations

    @pytest.mark.parametrize("parallel", [1, 4])
    def test_preparing_ahead_changes_no_proposal(self, tmp_path: Path, parallel: int) -> None:
        """The loop lets an optimizer prepare; asked and told by hand, it never does."""
        objective = ordered_sum()
        study = self.run(objective, tmp_path, parallel=parallel)
        optimizer = self.create(objective.problem)
        observations = study.history.observations
        told, group = 0, max(1, parallel // 2)
        for iteration, observation in enumerate(observations):
            while told < iteration // group * group - (parallel - group):
                optimizer.tell(observations[told])
                told += 1
            pending = tuple(each.candidate for each in observations[told:iteration])
            proposed = optimizer.ask(iteration, pending)
            assert proposed is not None
            assert (proposed.prompt, proposed.rows or tuple(range(ROWS))) == (
                observation.candidate.prompt,
                observation.candidate.rows,
            )

    @pytest.mark.parametrize(("parallel", "ahead"), [(1, 1), (1, 5), (2, 5), (5, 1), (8, 3)])
    def test_a_history_does_not_depend_on_which_answers_come_first(
        self, tmp_path: Path, parallel: int, ahead: int
    ) -> None:
        """Nor on how many evaluations that need no score are under way."""
        first, last = ordered_sum(), ordered_sum()
        with open_journal(open_store(str(tmp_path / "last")), KEY, Notes()) as journal:
            optimizer = self.create(last.problem)
            evaluations = AtOnce(lambda iteration, candidate: last.of(candidate), choose=max)
            study = search(optimizer, evaluations, journal, plan_of(BUDGET), parallel=parallel, ahead=ahead)
        assert study.history == self.run(first, tmp_path / "first", parallel=parallel).history

    def test_a_batch_depends_on_nothing_that_is_not_told(self) -> None:
        """Asked again with the same pending candidates, it proposes the same."""
        if self.most_evaluations < BUDGET:
            pytest.skip("the method proposes less than a batch")
        objective = ordered_sum()
        optimizers = [self.create(objective.problem) for _ in range(2)]
        histories = [_told(optimizer, objective, 8) for optimizer in optimizers]
        assert histories[0] == histories[1]
        batches: list[list[Candidate]] = [[], []]
        for batch, optimizer in zip(batches, optimizers, strict=True):
            for iteration in range(8, 12):
                candidate = optimizer.ask(iteration, tuple(batch))
                assert candidate is not None
                batch.append(candidate)
        assert batches[0] == batches[1]
        assert optimizers[0].ask(10, tuple(batches[0][:2])) == batches[0][2]

    @pytest.mark.parametrize("parallel", [1, 4])
    def test_ends_when_every_sequence_is_evaluated(self, tmp_path: Path, parallel: int) -> None:
        objective = ordered_sum(n=3, k=2)
        objective.values[:] = [0.0, 0.0, 0.1]  # only (.., 2) scores, so a perfect score may come first
        study = self.run(objective, tmp_path, budget=50, parallel=parallel)
        assert len(study.history) == len(study.history.seen) <= 1 + 3 + 6  # of no exemplar, of one, of two
        assert study.stopped in ("every sequence evaluated", "perfect score")

    def test_whole_pool_as_sequence(self, tmp_path: Path) -> None:
        study = self.run(ordered_sum(n=4, k=4), tmp_path)
        for observation in study.history:
            sequence = observation.candidate.sequence
            assert len(set(sequence)) == len(sequence)
            assert set(sequence) <= {0, 1, 2, 3}

    @pytest.mark.parametrize("parallel", [1, 3])
    def test_killed_after_any_evaluation_it_ends_as_if_it_had_not_been(self, tmp_path: Path, parallel: int) -> None:
        self._check_resume(tmp_path, parallel=parallel, kill_after_records=1)

    def test_killed_in_the_middle_of_evaluations_it_pays_for_no_answer_twice(self, tmp_path: Path) -> None:
        self._check_resume(tmp_path, parallel=1, kill_after_answers=self.answers_before_kill)

    def _check_resume(self, folder: Path, *, parallel: int, **kill: int) -> None:
        with faulty_endpoint(_pseudo_random_answer) as quiet, faulty_endpoint(_pseudo_random_answer) as killed:
            asked_although_stored: list[str] = []
            killed.script.on_request = lambda prompt: asked_although_stored.extend(
                [prompt] if _is_stored(folder / "killed", prompt) else []
            )
            assert _in_process(self._search, quiet.base_url, folder / "quiet", parallel=parallel) == 0
            for attempts in range(1, MOST_ATTEMPTS):  # noqa: B007 counted for the assertion below
                code = _in_process(self._search, killed.base_url, folder / "killed", parallel=parallel, **kill)
                if code != -signal.SIGKILL:
                    break
            assert code == 0
            assert attempts > min(self.most_evaluations, KILLED_BUDGET) / 2 / parallel
            assert not asked_although_stored, "an answer was paid for twice"
            assert killed.script.finished.keys() == quiet.script.finished.keys()
            if parallel == 1:  # nothing was in flight at any kill
                assert killed.script.finished == quiet.script.finished
        first, second = (_records(folder / name) for name in ("quiet", "killed"))
        assert [record.observation for record in first] == [record.observation for record in second]
        assert [record.usage.requests for record in first] == [record.usage.requests for record in second]

    def _search(
        self,
        base_url: str,
        folder: Path,
        *,
        parallel: int,
        kill_after_records: int = 0,
        kill_after_answers: int = 0,
    ) -> None:
        """One attempt; kills its own process after so many new records or answers."""
        problem = ordered_sum().problem
        rows = [Exemplar(position, f"row {position}", ("yes",)) for position in range(ROWS)]
        pool = [Exemplar(position, f"exemplar {position}", ("yes",)) for position in range(problem.space.n)]
        new: list[int] = []

        def on_record(record: Evaluated, history: History) -> None:
            new.append(record.iteration)
            if len(new) == kill_after_records:
                os.kill(os.getpid(), signal.SIGKILL)

        with (
            open_event_loop() as runner,
            open_cache(open_store(str(folder))) as cache,
            open_journal(open_store(str(folder)), KEY, Notes()) as journal,
        ):
            asking = OpenAIClient(
                base_url=base_url,
                model=MODEL,
                api="completions",
                key="",
                sampling=Sampling(max_tokens=8, stop="\n"),
                timeout_seconds=30,
                notes=Notes(),
            )
            client = CachingClient(asking, cache, ASKED, Notes())
            killing = _KillingClient(client, asking, kill_after_answers)
            objective = Objective(Evaluator(killing, rows, metric=exact_match), runner)
            search(
                self.create(problem),
                EvaluationsOn(objective, Prompts(pool), KEY),
                journal,
                plan_of(KILLED_BUDGET),
                parallel=parallel,
                on_record=on_record,
            )
            runner.run(asking.close())


class RowAllocatingConformance(OptimizerConformance):
    """The same of a method that chooses the rows of its evaluations."""

    answers_before_kill = 3

    @pytest.mark.parametrize("parallel", [1, 4, 50])
    def test_budget_is_kept_and_no_sequence_is_evaluated_twice(self, tmp_path: Path, parallel: int) -> None:
        """The budget is one of answers, and no row is asked twice of a sequence."""
        study = self.run(ordered_sum(), tmp_path, budget=ANSWERS, parallel=parallel)
        asked = _asked(study)
        assert len(asked) == len(set(asked)) == ANSWERS
        assert study.stopped == "budget"

    @pytest.mark.parametrize("parallel", [1, 4])
    def test_ends_when_every_sequence_is_evaluated(self, tmp_path: Path, parallel: int) -> None:
        objective = ordered_sum(n=3, k=2)
        objective.values[:] = [0.0, 0.0, 0.1]
        study = self.run(objective, tmp_path, budget=ANSWERS, parallel=parallel)
        asked = _asked(study)
        assert len(asked) == len(set(asked)) <= ROWS * 6
        assert study.stopped in ("every sequence evaluated", "perfect score")

    def test_it_recommends_what_was_told_and_says_how_sure_it_is(self) -> None:
        objective = ordered_sum()
        optimizer = self.create(objective.problem)
        assert isinstance(optimizer, RowAllocating)
        assert optimizer.recommend() is None
        told = _told(optimizer, objective, self.most_evaluations)
        recommended = optimizer.recommend()
        assert recommended is not None
        assert recommended.candidate.prompt in {candidate.prompt for candidate in told}
        assert 0 <= recommended.score <= 1
        assert 0 < recommended.error < 1


def _asked(study: Study) -> list[tuple[Prompt, int]]:
    return [(each.candidate.prompt, row) for each in study.history for row in each.rows]


class _KillingClient:
    """Asks one question at a time and kills the process once so many new answers are stored (0: never)."""

    def __init__(self, client: LLMClient, innermost: OpenAIClient, limit: int) -> None:
        self._client = client
        self._innermost = innermost
        self._limit = limit
        self._turn = asyncio.Lock()

    async def complete(self, prompt: str, account: str = "") -> Completion:
        if not self._limit:
            return await self._client.complete(prompt, account)
        async with self._turn:
            completion = await self._client.complete(prompt, account)
            if self._innermost.answered == self._limit:
                os.kill(os.getpid(), signal.SIGKILL)
            return completion


def _pseudo_random_answer(prompt: str) -> str:
    return "yes" if hashlib.sha256(prompt.encode()).digest()[0] % 2 else "no"


def _told(optimizer: ExemplarOptimizer, objective: OrderedSum, evaluations: int) -> list[Candidate]:
    """Ask and tell so many times; the candidates."""
    candidates: list[Candidate] = []
    for iteration in range(evaluations):
        candidate = optimizer.ask(iteration)
        assert candidate is not None
        evaluation = objective.of(candidate)
        optimizer.tell(
            Observation(
                candidate=candidate,
                score=evaluation.score,
                validation_rows=len(evaluation.rows),
                rows=evaluation.rows,
                scores=evaluation.scores,
            )
        )
        candidates.append(candidate)
    return candidates


def _is_stored(folder: Path, prompt: str) -> bool:
    with _fork_or_look, open_event_loop() as runner, open_cache(open_store(str(folder))) as cache:
        return runner.run(cache.get(ASKED.answer_key(prompt), Notes())) is not None


def _records(folder: Path) -> Sequence[Evaluated]:
    with open_journal(open_store(str(folder)), KEY, Notes()) as journal:
        return journal.replay()


def _in_process(work: Callable[..., None], *arguments: Any, **settings: Any) -> int:
    """Do the work in a forked process; its exit code, negative for a signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the endpoint's thread is not needed in the child
        with _fork_or_look:
            child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        work(*arguments, **settings)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
