"""The search for callers that evaluate prompts themselves: it proposes ordered exemplars and receives scores.

Any program that takes examples can be searched for: all that is needed is a score from 0 to 1 of the answer to a row.
`Search` is the same search as a run's (`search/ask_tell.py`), without endpoint, prompt, metric and test set.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from ease_lib.arrays import FloatArray
from ease_lib.black_box.usage import Usage
from ease_lib.config.methods import METHODS
from ease_lib.config.parsing import declared_parameters, parse_parameters
from ease_lib.config.sections import LATEST, EmbeddingConfig, HardwareConfig, OptimizerConfig, Parameters
from ease_lib.digests import key_of, sha256_of
from ease_lib.embedding.embedder import Embedder
from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.rows import row_order
from ease_lib.machine import resolve_device
from ease_lib.notes import Notes
from ease_lib.search.ask_tell import AskTell
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.journal import Journal, MemoryJournal, open_journal_file
from ease_lib.search.optimizers.history import Candidate, Observation
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.optimizers.registry import create_optimizer, least_answers, planned_answers, scaled_design
from ease_lib.search.outcome import outcome_of
from ease_lib.search.plan_and_caps import Plan
from ease_lib.search.surrogate.representations import (
    Representation,
    SequenceRepresentation,
    precomputed_representation,
)

Item = TypeVar("Item")
Row = TypeVar("Row")
TextOf = Callable[[Any], str]

NEED_AN_LLM = ("llm_select",)
"""Methods that send requests other than rows."""
NOT_READ = ("max_prompt_tokens", "warm_start", "order_report", "instruction_share")
"""Parameters that concern what `Search` does not have: prompts, a store, instructions."""
NO_TEXT = 0
"""Dimension of the embeddings if there are none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial(Generic[Item, Row]):
    """An ordered sequence of exemplars to evaluate.

    Args:
        number: of this trial, from 0 on, in the order of asking.
        exemplars: items of the pool, in the order in which they are to be shown; perhaps none.
        rows: items of the validation set that they are to be scored on.
        positions, row_numbers: where these are in pool and validation set.
    """

    number: int
    exemplars: tuple[Item, ...]
    rows: tuple[Row, ...]
    positions: tuple[int, ...]
    row_numbers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Best(Generic[Item]):
    """Winner if the search ended now.

    Args:
        exemplars: items of the pool, in order; positions: where they are there.
        score: on the validation rows that they were asked, as the method sees it: too good, for it was chosen by it.
        expected: score on new rows, corrected for that; interval: 95 % of it.
        evaluations: validation rows that they were evaluated on.
    """

    exemplars: tuple[Item, ...]
    positions: tuple[int, ...]
    score: float
    expected: float
    interval: tuple[float, float]
    evaluations: int


class Search(Generic[Item, Row]):
    """A search for the ordered exemplars with which a program answers best, whatever the program is.

        search = ease_lib.Search(pool, validation, k=5, answers=2000, journal="search.jsonl")
        for trial in search:
            search.tell(trial, [score(trial.exemplars, row) for row in trial.rows])
        print(search.best.exemplars, search.best.expected, search.best.interval)

    Trials may be evaluated at once, and told in any order: `trials = search.ask(8)`. What is proposed depends on what
    is told by then; with `parallel=8` up to eight are under way and the search is the same however fast each is. Calls
    may come from several threads.

    Args:
        pool: what exemplars are chosen from: mappings, objects, arrays, texts.
        validation: rows that tell how good exemplars are; no others than a program is to be judged by.
        answers: rows to be evaluated in the whole search, over all trials; by default `budget` evaluations of
            `evaluation_rows` each, which are 165 of 20.
        text: text of an item of the pool or validation set, by which it is embedded; by default its values.
        label: what the output of an item is; where outputs are classes, rows are spread over them, and the search
            learns which ones to show in which order.
        embeddings: vectors of pool and validation set, (n, d) and (m, d), in place of the embedder's.
        journal: file that keeps the search; the same call continues it after a kill.
        parameters: of the search by their names, as `ease run --help` has them: `k`, `k_min`, `seed`, `method`,
            `parallel`, ...

    Raises:
        ConfigError: listing what is wrong with parameters.
        DataError: if pool or validation set are empty, or hold what has no text.
        JournalError: if the journal is in use, damaged, or of another search.
    """

    def __init__(
        self,
        pool: Sequence[Item],
        validation: Sequence[Row],
        *,
        answers: int | None = None,
        text: TextOf | None = None,
        label: TextOf | None = None,
        embeddings: tuple[Any, Any] | None = None,
        journal: str | Path | None = None,
        **parameters: str | float | bool,
    ) -> None:
        self._pool, self._validation = _listed("pool", pool), _listed("validation", validation)
        data = _Data.of(self._pool, self._validation, text or text_of, label)
        checked = checked_parameters(parameters, answers, len(self._pool), len(self._validation))
        settings = checked.optimizer
        rows = row_order(data.validation_outputs, checked.run.seed)[: settings.evaluation_rows or None]
        planned = _planned(settings, len(self._validation), answers)
        vectors = _Vectors.of(data, checked, embeddings)
        problem = _problem(data, vectors, checked, rows, planned)
        optimizer = create_optimizer(settings, problem)
        plan = Plan(
            rows=rows,
            evaluations=planned if settings.chooses_rows else settings.budget,
            chooses_rows=settings.chooses_rows,
            answers=planned,
        )
        self._problem, self._optimizer = problem, optimizer
        self._lock = threading.RLock()
        self._stack = ExitStack()
        key = _key(data, vectors, checked, planned)
        path = journal_path(journal)
        opened = open_journal_file(path, key, "journal") if path else nullcontext(MemoryJournal())
        kept: Journal = self._stack.enter_context(opened)
        self._asked = AskTell(
            optimizer,
            kept,
            plan,
            parallel=settings.parallel or None,
            latest_of_equals=settings.ties == LATEST,
        )
        self._repeatable = bool(settings.parallel)
        self._is_closed = False
        self._given: dict[int, Trial[Item, Row]] = {}
        self._next: list[Trial[Item, Row]] = []
        self._propose(0)

    def ask(self, trials: int = 1) -> list[Trial[Item, Row]]:
        """Up to so many trials to evaluate; each is in the journal when this returns.

        Fewer, perhaps none, where `parallel` are under way, where the method needs the scores of those that are under
        way, and when the search has ended (`ended`).
        """
        with self._lock:
            self._check_open()
            self._propose(trials)
            if self._asked.ended:
                return []
            given, self._next = self._next[:trials], self._next[trials:]
            self._given |= {trial.number: trial for trial in given}
            return given

    def tell(self, trial: Trial[Item, Row] | int, scores: Sequence[float | None]) -> None:
        """Report the scores of a trial's rows; they are in the journal when this returns.

        Args:
            trial: one that was asked for, or its number.
            scores: in the order of the rows, 0 (wrong) to 1 (right); None of a row that could not be evaluated, which
                is left out.

        Raises:
            ValueError: when the trial was not asked for or was told before, or the scores do not fit.
            JournalError: when it cannot be stored.
        """
        number = trial.number if isinstance(trial, Trial) else int(trial)
        with self._lock:
            self._check_open()
            if number not in self._given:
                raise ValueError(f"trial {number} was already told, or was never asked for; tell each trial once")
            observation = _observation(self._asked.under_way[number], scores, number)
            self._asked.score(number, observation, Usage(requests=len(observation.rows)))
            del self._given[number]
            self._propose(0)

    def __iter__(self) -> Iterator[Trial[Item, Row]]:
        """Iterate over trials; each must be told before the next, until the search has ended.

        It begins with those that were given before and never told.

        Raises:
            ValueError: when nothing more can be asked for before a trial is told.
        """
        for number, trial in sorted(self._given.items()):
            if number in self._given:
                yield trial
        while True:
            trials = self.ask()
            if not trials:
                if self.ended:
                    return
                untold = ", ".join(map(str, self._given))
                raise ValueError(f"the next trial needs the scores of trial {untold}; tell it")
            yield from trials

    @property
    def ended(self) -> str:
        """Reason why the search has ended: `budget`, `perfect score` or `every sequence evaluated`; empty while it goes
        on."""
        with self._lock:
            if not self._asked.under_way:
                self._propose(1)
            return self._asked.ended

    @property
    def best(self) -> Best[Item]:
        """Winner if the search ended now.

        Raises:
            ValueError: before a score was told.
        """
        with self._lock:
            found = outcome_of(self._asked.history, self._optimizer, self._problem)
            untold = sorted(self._given)
        if found is None:
            first = (
                f"trial {untold[0]}, which comes before those that were told" if untold else "a row that was evaluated"
            )
            raise ValueError(f"no score has been told yet; tell {first}")
        positions = found.candidate.sequence
        return Best(
            exemplars=self._items(positions),
            positions=positions,
            score=found.score,
            expected=found.estimate,
            interval=found.interval,
            evaluations=found.rows,
        )

    @property
    def history(self) -> list[dict[str, Any]]:
        """Finished trials in the order of asking, up to the first unfinished one: one row each, in a form that
        `pandas.DataFrame` accepts.
        """
        with self._lock:
            return [
                {
                    "number": record.iteration,
                    "positions": record.observation.candidate.sequence,
                    "phase": record.observation.candidate.phase,
                    "score": record.observation.score if record.observation.validation_rows else None,
                    "row_numbers": record.observation.rows,
                    "scores": record.observation.scores,
                }
                for record in self._asked.records
            ]

    @property
    def answers(self) -> int:
        """Number of rows of all told trials, including those of an earlier process and those not yet in `history`."""
        with self._lock:
            return self._asked.answers

    def close(self) -> None:
        """Release the journal; told scores are kept."""
        with self._lock:
            self._is_closed = True
            self._asked.close()
            self._stack.close()

    def __enter__(self) -> Search[Item, Row]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        """
        Raises:
            ValueError: after `close`.
        """
        if self._is_closed:
            raise ValueError("this Search is closed; open it again with its journal")

    def _propose(self, trials: int) -> None:
        """Tell the scores, and prepare trials for the caller.

        With `parallel` they are proposed as soon as the scores are told that are needed for them, and before any other:
        what is proposed does then not depend on who asks when.
        """
        while True:
            most = None if self._repeatable else trials - len(self._next)
            new = self._asked.ask(most)
            self._next += [self._trial(*each) for each in new.items()]
            if self._asked.is_waiting or not self._asked.under_way or self._asked.ended:
                return
            self._asked.settle(1 if self._repeatable else None)

    def _trial(self, number: int, candidate: Candidate) -> Trial[Item, Row]:
        return Trial(
            number=number,
            exemplars=self._items(candidate.sequence),
            rows=tuple(self._validation[row] for row in candidate.rows),
            positions=candidate.sequence,
            row_numbers=candidate.rows,
        )

    def _items(self, positions: Sequence[int]) -> tuple[Item, ...]:
        return tuple(self._pool[position] for position in positions)


def _listed(name: str, items: Any) -> list[Any]:
    """
    Raises:
        DataError: if it is one item, or a table, whose parts would be taken for the items.
    """
    if isinstance(items, str | bytes | Mapping):
        raise DataError(f"{name} is one {type(items).__name__}; give a sequence of items")
    if hasattr(items, "columns"):
        raise DataError(
            f'{name} is a {type(items).__name__}; of a pandas DataFrame give df.to_dict("records"), of a polars one '
            "df.to_dicts()"
        )
    return list(items)


def text_of(item: Any) -> str:
    """The values of an item: of a mapping or an object, a line for each; of an array a digest of its numbers.

    Raises:
        DataError: when it says nothing of itself.
    """
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        return "\n".join(f"{name}: {text_of(value)}" for name, value in item.items())
    if isinstance(item, set | frozenset):
        return "\n".join(sorted(map(text_of, item)))
    if isinstance(item, list | tuple):
        return "\n".join(map(text_of, item))
    if isinstance(item, np.generic):
        return text_of(item.item())
    if hasattr(item, "__array__"):
        array = np.asarray(item)
        if array.dtype == object:
            return text_of(array.tolist())
        return f"array {array.shape} {sha256_of(np.ascontiguousarray(array).tobytes())}"
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return text_of({each.name: getattr(item, each.name) for each in dataclasses.fields(item)})
    kind: Any = type(item)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        if not hasattr(item, "__dict__"):
            raise DataError(f"a {type(item).__name__} has no text; pass text=, a function that returns one")
        return text_of(vars(item))
    return str(item)


@dataclass(frozen=True, kw_only=True)
class _Data:
    """Texts and labels of pool and validation set; labels are empty if none are given."""

    pool: list[str]
    validation: list[str]
    outputs: list[str]
    validation_outputs: list[str]

    @classmethod
    def of(cls, pool: Sequence[Any], validation: Sequence[Any], text: TextOf, label: TextOf | None) -> _Data:
        for name, items in (("pool", pool), ("validation", validation)):
            if not len(items):
                raise DataError(f"{name} is empty; give at least one item")
        outputs, validation_outputs = ([label(each) if label else "" for each in items] for items in (pool, validation))
        for output in (*outputs, *validation_outputs):
            if not isinstance(output, str):
                raise DataError(f"label= gives {output!r}, which is not a str; return str")
        return cls(
            pool=[text(each) for each in pool],
            validation=[text(each) for each in validation],
            outputs=outputs,
            validation_outputs=validation_outputs,
        )


@dataclass(frozen=True, kw_only=True)
class _Vectors:
    """Embeddings of pool, of its outputs alone, and of the validation set; (n, 0) if there are none.

    Args:
        origin: what tells them from those of others.
        embedder: that made them; None if none did.
    """

    pool: FloatArray
    outputs: FloatArray
    validation: FloatArray
    origin: Any
    embedder: Embedder | None = None

    @classmethod
    def of(cls, data: _Data, checked: Parameters, given: tuple[Any, Any] | None) -> _Vectors:
        sizes = len(data.pool), len(data.validation)
        none, none_of_validation = (np.zeros((size, NO_TEXT), dtype=np.float32) for size in sizes)
        if given is not None:
            pool, validation = _unit(given[0], sizes[0], "pool"), _unit(given[1], sizes[1], "validation set")
            if pool.shape[1] != validation.shape[1]:
                raise DataError(f"embeddings: pool has {pool.shape[1]} dimensions, validation {validation.shape[1]}")
            digest = sha256_of(pool.tobytes() + validation.tobytes())
            return cls(pool=pool, outputs=none, validation=validation, origin=digest)
        if not METHODS[checked.optimizer.method].embeds:
            return cls(pool=none, outputs=none, validation=none_of_validation, origin=None)
        from ease_lib.embedding.opening import embedder_identity

        embedder = _embedder(checked)
        labelled = any(data.outputs)
        texts = [*data.pool, *data.validation, *(data.outputs if labelled else [])]
        vectors = embedder.embed(texts)
        return cls(
            pool=vectors[: sizes[0]],
            outputs=vectors[sum(sizes) :] if labelled else none,
            validation=vectors[sizes[0] : sum(sizes)],
            origin=[dataclasses.astuple(checked.embedding), embedder_identity(checked.embedding)],
            embedder=embedder,
        )


def _embedder(checked: Parameters) -> Embedder:
    from ease_lib.embedding.opening import open_embedder  # a second, which searches that embed nothing need not spend

    return open_embedder(checked.embedding, checked.hardware, notes=Notes())


def _unit(vectors: Any, size: int, name: str) -> FloatArray:
    """(size, d) of unit length.

    Raises:
        DataError: when there are more or fewer, or one has no direction.
    """
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or len(array) != size:
        raise DataError(f"embeddings of the {name} have the shape {array.shape}; give ({size}, d)")
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        row = int(np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))[0])
        raise DataError(f"embeddings of the {name}: row {row} is zero or not a number")
    unit: FloatArray = array / lengths
    return unit


@dataclass(frozen=True)
class _Read:
    """Sections of parameters that `Search` reads."""

    optimizer: OptimizerConfig
    embedding: EmbeddingConfig
    hardware: HardwareConfig


def checked_parameters(
    parameters: Mapping[str, str | float | bool], answers: int | None, items: int, rows: int
) -> Parameters:
    """Parameters of a search over so many items and rows, from the arguments of `Search`, with `budget` by answers.

    Raises:
        ConfigError: listing all that is wrong.
    """
    known = {*declared_parameters(_Read), "seed"} - {*NOT_READ}
    declared = declared_parameters()
    foreign = [name for name in parameters if name in declared and name not in known]
    problems = [f"{name} is not used by Search; remove it" for name in foreign]
    if answers is not None and (isinstance(answers, bool) or not isinstance(answers, int) or answers < 1):
        problems.append(f"answers={answers!r} is not a number of rows to evaluate; pass 1 or more")
    if answers is not None and "budget" in parameters:
        problems.append("answers and budget both limit the search; keep one of them")
    elif parameters.get("budget") == 0:
        problems.append("budget=0 does not limit the search; pass answers")
    if parameters.get("method") in NEED_AN_LLM:
        problems.append(f"method={parameters['method']} asks an LLM, but Search has none; choose another method")
    if problems:
        raise ConfigError(*problems)
    checked = parse_parameters(parameters)
    settings = checked.optimizer
    if settings.k > items:
        raise ConfigError(f"k={settings.k} exceeds the {items} items of the pool; lower k")
    if answers is None or settings.chooses_rows:
        return checked
    budget = max(1, answers // least_answers(settings, rows))
    return dataclasses.replace(checked, optimizer=dataclasses.replace(settings, budget=budget))


def _planned(settings: OptimizerConfig, rows: int, answers: int | None) -> int:
    """Number of answers of the whole search.

    Raises:
        ConfigError: when they do not allow one evaluation.
    """
    least = least_answers(settings, rows)
    if answers is not None and answers < least:
        more = "raise it" if settings.chooses_rows else "raise it, or lower evaluation_rows"
        raise ConfigError(f"answers={answers} does not allow one evaluation of {least} rows; {more}")
    return planned_answers(settings, rows) if answers is None else answers


def _problem(data: _Data, vectors: _Vectors, checked: Parameters, rows: tuple[int, ...], answers: int) -> Problem:
    settings = checked.optimizer
    has_surrogate = METHODS[settings.method].has_surrogate
    return Problem(
        space=SequenceSpace(len(data.pool), settings.k, settings.shortest),
        representation=_representation(data, vectors, checked) if has_surrogate else None,
        pool=vectors.pool,
        validation=vectors.validation,
        exemplars=data.pool,
        inputs=data.pool,
        validation_inputs=data.validation,
        outputs=data.outputs,
        validation_outputs=data.validation_outputs,
        seed=checked.run.seed,
        device=resolve_device(checked.hardware.device) if has_surrogate else "cpu",
        evaluated=None if settings.chooses_rows else rows,
        answers=answers if settings.chooses_rows else 0,
    )


def _representation(data: _Data, vectors: _Vectors, checked: Parameters) -> Representation:
    settings = checked.optimizer
    if settings.representation == "sequence":
        return SequenceRepresentation(vectors.embedder or _embedder(checked), data.pool)
    return precomputed_representation(
        settings.representation,
        vectors.pool,
        vectors.outputs,
        np.zeros((0, vectors.pool.shape[1]), dtype=np.float32),
        varies_length=settings.shortest < settings.k,
    )


def journal_path(journal: str | Path | None) -> Path | None:
    """The file of the journal; None without one.

    Raises:
        ConfigError: when it cannot be a file of this machine.
    """
    if not journal:
        return None
    path = Path(journal).expanduser()
    if "://" in str(journal) or path.is_dir():
        raise ConfigError(f"journal={journal} is not a file on this machine; name one")
    return path


def _key(data: _Data, vectors: _Vectors, checked: Parameters, answers: int) -> str:
    """Key of this search's journal; as in `search/identity.py`, a longer search continues a shorter one."""
    settings = dataclasses.asdict(checked.optimizer)
    settings["initial_design"] = scaled_design(checked.optimizer)
    settings["k_min"] = checked.optimizer.shortest
    for name in (*NOT_READ, "ties", "parallel", "budget"):
        del settings[name]
    method = METHODS[checked.optimizer.method]
    bound = answers if method.chooses_rows or method.depends_on_budget else None
    return key_of([dataclasses.asdict(data), vectors.origin, settings, checked.run.seed, bound])


def _observation(candidate: Candidate, scores: Sequence[float | None], number: int) -> Observation:
    """Observation of a trial's candidate, from the scores told.

    Raises:
        ValueError: when a score is missing or none.
    """
    found = tuple(None if score is None else float(score) for score in scores)
    if any(isinstance(score, str) for score in scores):
        raise ValueError(f"a score of trial {number} is a str; pass 0 (wrong) to 1 (right), or None")
    if len(found) != len(candidate.rows):
        raise ValueError(f"trial {number} has {len(candidate.rows)} rows and was told {len(found)} scores")
    known = [score for score in found if score is not None]
    for score in known:
        if not 0 <= score <= 1:
            raise ValueError(f"a score of trial {number} is {score}; pass 0 (wrong) to 1 (right), or None")
    return Observation(
        candidate=candidate,
        score=math.fsum(known) / max(1, len(known)),
        validation_rows=len(known),
        failed_rows=len(found) - len(known),
        rows=candidate.rows,
        scores=found,
    )
