"""`EASE`, an optimizer for DSPy: find the ordered demonstrations with which a program scores best.

    from ease_lib.dspy import EASE

    optimizer = EASE(metric=my_metric, k=5, calls=1000, num_threads=8)
    better = optimizer.compile(program, trainset=train, valset=val)
    print(better.ease)

It searches with `ease_lib.Search`. A trial is a copy of the program whose predictors show some examples in one order,
and it is scored on some rows of the validation set. Rows are evaluated in threads of DSPy's `ParallelExecutor`, so
`dspy.context(...)` holds in them.

What predictors show of an example. Where the program has one predictor and the examples hold its outputs, the example
itself. Else what the teacher did for the example: each predictor shows all of its own calls, in order, so a predictor
that is called in a loop shows several demonstrations of each example. `bootstrap` decides.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import tqdm
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ease_lib.arrays import IntArray
from ease_lib.digests import key_of
from ease_lib.errors import ConfigError, DataError, JournalError
from ease_lib.search.journal import locked_file
from ease_lib.search.optimizers.registry import least_answers
from ease_lib.seeding import rng
from ease_lib.trials import Best, Search, Trial, checked_parameters, text_of
from ease_lib.words import grouped

try:
    import dspy
    from dspy.teleprompt import Teleprompter
    from dspy.utils.parallelizer import ParallelExecutor
    from dspy.utils.syncify import run_async
except ImportError as error:
    if error.name != "dspy":
        raise
    raise ImportError('DSPy is not installed; install it: pip install "ease-pipelines[dspy]"', name="dspy") from error

logger = logging.getLogger("ease")

Metric = Callable[..., Any]
Demos = Mapping[str, Sequence[Any]]
"""Demonstrations (`dspy.Example`) by the name of the predictor that shows them."""
Fields = dict[str, list[dict[str, Any]]]
"""The same, as the values of their fields."""

OURS = ("answers", "budget", "text", "label", "embeddings")
"""Arguments of `Search` that `EASE` chooses."""
LABELLED = 16
"""Examples that a teacher is shown, as many as DSPy's `BootstrapFewShot` shows."""
ROUND_SHARE, MOST_IN_ROUND = 0.2, 100
"""Calls that are spent on bootstrapping at first: this share of all, and no more than so many."""
ENOUGH = 2
"""Times k examples that have to be accepted; else another round follows."""
MOST_SHARE = 0.5
"""Share of all calls that bootstrapping may take."""
VALIDATION_SHARE = 0.5
"""Share of the training set that becomes the validation set where none is given."""
POOL_SUFFIX = ".pool.jsonl"
VERSION = "ease_dspy_pool/1"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the search found; the attribute `ease` of the program that `EASE.compile` returns.

    Args:
        expected: score on new rows, corrected for having been chosen; interval: 95 % of it.
        score: on the validation rows that were evaluated; too good, because it decided the choice.
        exemplars: the examples that are shown, in order; each predictor's `demos` hold what it shows of them.
        calls: of the program, bootstrapping and those of an earlier process included.
        bootstrapping: those of `calls` that made demonstrations.
        failed: calls of this process that raised an exception and count as 0.
        ended: why the search ended: `budget`, `perfect score` or `every sequence evaluated`.
        history: one mapping for each trial, as `ease_lib.Search.history` has it.
    """

    expected: float
    interval: tuple[float, float]
    score: float
    exemplars: tuple[Any, ...]
    calls: int
    bootstrapping: int
    failed: int
    ended: str
    history: tuple[Mapping[str, Any], ...] = field(repr=False)

    def __str__(self) -> str:
        low, high = self.interval
        shown = _counted(len(self.exemplars), "demonstration")
        return f"expected score {self.expected:.3f} ({low:.3f} to {high:.3f}) with {shown}, after {self.calls} calls"

    def __deepcopy__(self, memo: Any) -> Found:
        """Itself: programs are copied for every trial of an optimizer, and this never changes."""
        return self


class EASE(Teleprompter):  # type: ignore[misc]  # DSPy has no types
    """Optimizer that finds the best ordered sequence of demonstrations for all predictors of a program.

    Args:
        metric: function of (example, prediction) that returns a bool, an int or float from 0 to 1, or an object with
            such a `score`. While bootstrapping it is called with the trace as third argument, and what it returns is
            taken as true or false, as by DSPy's other optimizers.
        k: demonstrations at most; `k_min` of `parameters` is the least.
        calls: of the program for one row, in all; those for bootstrapping count. A program of two predictors asks its
            LM about twice as often, and DSPy may ask it again for an answer that it cannot read.
        num_threads: rows evaluated at once; by default `dspy.settings.num_threads`. It also sets how many trials are
            under way, so another number leads to another search; a search that is continued may change it.
        bootstrap: whether demonstrations are what the teacher did, True, or the examples themselves, False; by default
            True where the program has several predictors or the examples lack outputs of its only one.
        max_errors: exceptions of program or metric at which compiling ends with the last one; by default
            `dspy.settings.max_errors`. Rows that fail before count as 0.
        journal: file that keeps the search. The same call continues it after a kill, and asks nothing again that was
            told. What was bootstrapped is kept next to it, in `<journal>.pool.jsonl`: the journal holds for that pool
            alone, and bootstrapping again could give another one, since DSPy's cache may be off and LMs may sample.
        seed: of all draws.
        parameters: of `ease_lib.Search` by name: `method`, `k_min`, `parallel`, ...

    Raises:
        ConfigError: listing what is wrong with parameters.
    """

    def __init__(
        self,
        metric: Metric,
        *,
        k: int = 5,
        calls: int = 1000,
        num_threads: int | None = None,
        bootstrap: bool | str = "auto",
        max_errors: int | None = None,
        journal: str | Path | None = None,
        seed: int = 0,
        **parameters: str | float | bool,
    ) -> None:
        super().__init__()
        problems = [f"{name} is chosen by EASE; leave it out" for name in OURS if name in parameters]
        if not callable(metric):
            problems.append(f"metric={metric!r} cannot be called; give a function of (example, prediction)")
        if bootstrap not in ("auto", True, False):
            problems.append(f"bootstrap={bootstrap!r} is unknown; give 'auto', True or False")
        for name, value in (("calls", calls), ("num_threads", num_threads), ("max_errors", max_errors)):
            is_default = value is None and name != "calls"
            if not is_default and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                problems.append(f"{name}={value!r} is not a number of them; give 1 or more")
        if problems:
            raise ConfigError(*problems)
        self.metric = metric
        self.k, self.calls, self.seed = k, calls, seed
        self.num_threads = num_threads
        self.bootstrap = bootstrap
        self.max_errors = max_errors
        self.journal = journal
        self.parameters = parameters
        checked_parameters(self._search_parameters(), calls, items=sys.maxsize, rows=1)

    def compile(
        self,
        student: Any,
        *,
        trainset: Sequence[Any],
        valset: Sequence[Any] | None = None,
        teacher: Any = None,
    ) -> Any:
        """Return a copy of the student that shows the best demonstrations found; its attribute `ease` is `Found`.

        Args:
            student: program (`dspy.Module`); it is not changed, and its own demonstrations are not used.
            trainset: examples that may be shown.
            valset: examples that a sequence is scored on. By default half of the training set, drawn by the seed, and
                only the other half is shown. An example that is in both is never shown.
            teacher: program of the same structure that bootstraps, as it is. By default the student, which is shown up
                to 16 of the examples, unless it is compiled.

        Raises:
            ConfigError: when parameters do not fit the program or the examples, or the metric returns no score.
            DataError: when there are too few examples, or none could be bootstrapped.
            JournalError: when the journal is in use, damaged, or of another search.
            Exception: the last one of program or metric, when there were `max_errors`.
        """
        shown, rows = _dealt(trainset, valset, self.seed)
        program = _without_demos(student)
        signatures = _signatures(program)
        bootstraps = _bootstraps(self.bootstrap, signatures, shown)
        spendable = self._spendable(bootstraps, shown, rows)
        calls = _Calls(self.metric, self.num_threads, self.max_errors)
        label = partial(_label, {name for each in signatures.values() for name in each.output_fields})
        ours = [self.calls, self.k, self.seed] if bootstraps else []  # else `Search` refuses what does not continue
        key = key_of([_identity(program, teacher), [list(map(_text, each)) for each in (shown, rows)], ours])
        with _open_pool(self.journal, key) as kept:
            pool, spent = _labelled(signatures, shown), 0
            if bootstraps:
                made = _Bootstrap(_teacher(teacher, student, shown, signatures, self.seed), shown, calls, kept)
                spent = made.spend(
                    *spendable, enough=ENOUGH * self.k, order=rng(self.seed, "bootstrap").permutation(len(shown))
                )
                pool = made.items()
            k = min(self.k, len(pool)) if bootstraps else self.k
            if k < self.k:
                logger.warning("only %s could be bootstrapped; k is %d", _counted(k, "example"), k)
            parameters = self._search_parameters() | {"k": k, "parallel": self._parallel(rows, calls.num_threads)}
            answers = self.calls - spent
            with (
                Search(pool, rows, answers=answers, text=_text, label=label, journal=self.journal, **parameters) as s,
                tqdm.tqdm(total=answers, initial=s.answers, desc="EASE", dynamic_ncols=True, file=sys.stdout) as bar,
            ):
                _Trials(s, program, calls, bar).run()
                return _compiled(program, s, spent, calls.failed)

    def _search_parameters(self) -> dict[str, Any]:
        return {**self.parameters, "k": self.k, "seed": self.seed}

    def _spendable(self, bootstraps: bool, shown: Sequence[Any], rows: Sequence[Any]) -> tuple[int, int]:
        """Calls that bootstrapping may take at first, and in all.

        Raises:
            ConfigError: when no trial could follow.
        """
        settings = checked_parameters(self._search_parameters(), self.calls, len(shown), len(rows)).optimizer
        least = least_answers(settings, len(rows))
        most = min(int(MOST_SHARE * self.calls), self.calls - least)
        if most < bootstraps:
            before = "a bootstrapped example and " if bootstraps else ""
            raise ConfigError(
                f"calls={self.calls} does not allow {before}one evaluation of {_counted(least, 'row')}; raise it"
            )
        return max(1, min(int(ROUND_SHARE * self.calls), MOST_IN_ROUND, most)), most

    def _parallel(self, rows: Sequence[Any], num_threads: int) -> int:
        """Trials under way at most: half of them, which are proposed at once, have a row for every thread."""
        if "parallel" in self.parameters:
            return int(self.parameters["parallel"])
        settings = checked_parameters(self._search_parameters(), self.calls, sys.maxsize, len(rows)).optimizer
        return 1 if num_threads == 1 else 2 * -(-num_threads // least_answers(settings, len(rows)))


def _counted(number: int, noun: str) -> str:
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"


# --- examples and programs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Item:
    """An example of the pool, and what predictors show of it.

    Args:
        traced: text of what a teacher did.
    """

    example: Any
    demos: Demos
    traced: str = ""


def _dealt(trainset: Sequence[Any], valset: Sequence[Any] | None, seed: int) -> tuple[list[Any], list[Any]]:
    """Examples that may be shown, and rows to score on.

    Raises:
        DataError: when either is empty.
        ValueError: DSPy's, when an example does not say what its inputs are.
    """
    shown = list(trainset)
    if valset is None:
        order = rng(seed, "validation").permutation(len(shown))
        taken = {*map(int, order[: int(VALIDATION_SHARE * len(shown))])}
        rows = [each for place, each in enumerate(shown) if place in taken]
        shown = [each for place, each in enumerate(shown) if place not in taken]
        if not rows:
            raise DataError(f"trainset has {_counted(len(shown), 'example')}, too few to deal; give valset")
        logger.info("valset is not given: %d examples of trainset are scored on, %d are shown", len(rows), len(shown))
    else:
        rows = list(valset)
    for name, examples in (("trainset", shown), ("valset", rows)):
        if not examples:
            raise DataError(f"{name} is empty; give at least one example")
        for each in examples:
            each.inputs()
    texts = {*map(_text, rows)}
    apart = [each for each in shown if _text(each) not in texts]
    if not apart:
        raise DataError("every example of trainset is in valset, and would show its answer; give others, or no valset")
    if len(apart) < len(shown):
        logger.warning(
            "%s of trainset will not be shown, for valset has the same", _counted(len(shown) - len(apart), "example")
        )
    return apart, rows


def _text(item: Any) -> str:
    """Fields of an example, and of what a teacher did for it, a line each."""
    if isinstance(item, _Item):
        return f"{_text(item.example)}\n{item.traced}".rstrip("\n")
    return text_of(dict(item.items()))


def _label(outputs: Iterable[str], item: Any) -> str:
    """The outputs of an example that a predictor has too, else all of them; empty where it has none."""
    example = item.example if isinstance(item, _Item) else item
    labels = dict(example.labels().items())
    known = {name: labels[name] for name in sorted(labels) if name in outputs}
    return "\n".join(map(text_of, (known or labels).values()))


def _copied(program: Any) -> Any:
    """A copy with the same LMs. Copies of LMs would take their histories along, and `reset_copy` takes LMs away."""
    lms = [predictor.lm for predictor in program.predictors() if predictor.lm is not None]
    try:
        return copy.deepcopy(program, {id(lm): lm for lm in lms})
    except Exception:  # it holds what cannot be copied, which DSPy leaves as it is
        return program.deepcopy()


def _without_demos(program: Any) -> Any:
    copied = _copied(program)
    _show(copied, ())
    return copied


def _show(program: Any, items: Iterable[_Item]) -> None:
    shown = list(items)
    for name, predictor in program.named_predictors():
        predictor.demos = [demo for item in shown for demo in item.demos.get(name, ())]


def _signatures(program: Any) -> dict[str, Any]:
    """The signatures of predictors by name.

    Raises:
        ConfigError: when no predictor can show demonstrations.
    """
    found = {name: predictor.signature for name, predictor in program.named_predictors()}
    if not found:
        raise ConfigError(
            "the program has no predictor that can show demonstrations; DSPy freezes compiled parts of it"
        )
    return found


def _identity(program: Any, teacher: Any) -> list[Any]:
    """What tells a program and its teacher from others: signatures and models."""
    return [
        [name, to_jsonable_python(predictor.signature.dump_state()), str(getattr(lm, "model", ""))]
        for each in (program, teacher)
        if each is not None
        for name, predictor in each.named_predictors()
        for lm in [predictor.lm or dspy.settings.lm]
    ]


def _bootstraps(bootstrap: bool | str, signatures: Mapping[str, Any], examples: Sequence[Any]) -> bool:
    """Whether demonstrations are what a teacher did.

    Raises:
        ConfigError: when they must be, and are not to.
    """
    several = len(signatures) > 1
    if bootstrap is False and several:
        raise ConfigError(
            f"bootstrap=False needs a program of one predictor, and this has {len(signatures)}; leave bootstrap out"
        )
    outputs = [name for signature in signatures.values() for name in signature.output_fields]
    lacking = any(name not in each for each in examples for name in outputs)
    return bool(several or lacking) if bootstrap == "auto" else bool(bootstrap)


def _labelled(signatures: Mapping[str, Any], examples: Sequence[Any]) -> list[_Item]:
    return [_Item(example=each, demos={name: (each,) for name in signatures}) for each in examples]


def _compiled(program: Any, search: Search[_Item, Any], bootstrapping: int, failed: int) -> Any:
    best: Best[_Item] = search.best
    _show(program, best.exemplars)
    program._compiled = True
    program.ease = Found(
        expected=best.expected,
        interval=best.interval,
        score=best.score,
        exemplars=tuple(item.example for item in best.exemplars),
        calls=bootstrapping + search.answers,
        bootstrapping=bootstrapping,
        failed=failed,
        ended=search.ended,
        history=tuple(search.history),
    )
    logger.info("%s", program.ease)
    return program


# --- calls of the program ---------------------------------------------------------------------------------------------


class _Calls:
    """Calls of programs for rows, in threads; a row that fails is logged and counted.

    Attributes:
        changed: notified when calls are to stop.
        stopped: whether they are.
        failed: rows that raised an exception.
    """

    def __init__(self, metric: Metric, num_threads: int | None, max_errors: int | None) -> None:
        self.num_threads: int = num_threads or dspy.settings.num_threads
        self._max_errors: int = dspy.settings.max_errors if max_errors is None else max_errors
        self._metric = metric
        self._error: BaseException | None = None
        self.changed = threading.Condition()
        self.stopped = False
        self.failed = 0

    def in_threads(self, work: Callable[[], bool]) -> None:
        """Call `work` in every thread again and again, until it returns False.

        DSPy's executor gives its threads the caller's context and callbacks, and passes on an interrupt. It has one
        task for each thread, not for each row, because later rows depend on earlier scores.

        Raises:
            BaseException: the first that `work` raises, once all threads have ended what they do; an interrupt of the
            caller's thread at once.
        """
        executor = ParallelExecutor(num_threads=self.num_threads, disable_progress_bar=True, timeout=0)
        try:
            executor.execute(lambda _: self._worked(work), list(range(self.num_threads)))
        except BaseException:
            self._stop(None)
            raise
        if self._error is not None:
            raise self._error

    def score(self, program: Any, example: Any) -> float:
        """Score of a row in [0, 1]; 0 where program or metric raise an exception.

        Raises:
            ConfigError: when the metric returns no score.
            Exception: that of the row, when it is one too many.
        """
        try:
            value = self._metric(example, _prediction(program, example))
        except Exception as error:
            self._fail(example, error)
            return 0.0
        return score_of(value)

    def trace(self, program: Any, example: Any) -> list[tuple[Any, Any, Any]] | None:
        """What the program did for an example, (predictor, inputs, outputs) a call; None where that was not right.

        Raises: as `score`.
        """
        try:
            with dspy.context(trace=[]):
                prediction = _prediction(program, example)
                trace = list(dspy.settings.trace)
                value = self._metric(example, prediction, trace)
        except Exception as error:
            self._fail(example, error)
            return None
        return trace if score_of(value) else None

    def _worked(self, work: Callable[[], bool]) -> None:
        try:
            while not self.stopped and work():
                pass
        except BaseException as error:
            self._stop(error)

    def _stop(self, error: BaseException | None) -> None:
        with self.changed:
            self._error = self._error or error
            self.stopped = True
            self.changed.notify_all()

    def _fail(self, example: Any, error: Exception) -> None:
        with self.changed:
            self.failed += 1
            is_last = self.failed >= self._max_errors
        traced = dspy.settings.provide_traceback
        hint = "" if traced else " Set `provide_traceback=True` for traceback."
        logger.error("Error for %s: %s.%s", example, error, hint, exc_info=error if traced else None)
        if is_last:
            raise error


def score_of(value: Any) -> float:
    """The score that a metric returned.

    Raises:
        ConfigError: when it is not one.
    """
    found = value if isinstance(value, bool | int | float | np.bool_ | np.number) else getattr(value, "score", None)
    if not isinstance(found, bool | int | float | np.bool_ | np.number) or not 0 <= float(found) <= 1:
        raise ConfigError(
            f"metric returned {value!r}; return a bool, an int or float from 0 (wrong) to 1 (right), "
            "or an object whose `score` is one"
        )
    return float(found)


def _prediction(program: Any, example: Any) -> Any:
    """What the program answers; one that has no `forward` is awaited."""
    if hasattr(type(program), "forward") or "forward" in vars(program):  # asking the program itself makes DSPy warn
        return program(**example.inputs())
    return run_async(program.acall(**example.inputs()))


@dataclass
class _UnderWay:
    """A trial, its program, and the scores so far."""

    trial: Trial[_Item, Any]
    program: Any
    scores: list[float | None]
    left: int


class _Trials:
    """The trials of a search, row by row: threads take rows of all that are under way."""

    def __init__(self, search: Search[_Item, Any], program: Any, calls: _Calls, bar: tqdm.tqdm) -> None:
        self._search = search
        self._program = program
        self._calls = calls
        self._bar = bar
        self._rows: deque[tuple[_UnderWay, int]] = deque()
        self._under_way = 0
        self._told = 0
        self._asking = threading.Lock()

    def run(self) -> None:
        """Until the search has ended.

        Raises: as `_Calls.score`; what was told is in the journal.
        """
        self._calls.in_threads(self._work)

    def _work(self) -> bool:
        taken = self._take()
        if taken is None:
            return False
        under_way, row = taken
        self._end(under_way, row, self._calls.score(under_way.program, under_way.trial.rows[row]))
        return True

    def _take(self) -> tuple[_UnderWay, int] | None:
        """The next row, as soon as there is one; None when none will be."""
        changed = self._calls.changed
        while not self._calls.stopped:
            with self._asking:
                with changed:
                    if self._rows:
                        return self._rows.popleft()
                    told = self._told
                trials = self._search.ask()
                with changed:
                    self._add(trials)
                    if not trials and told == self._told and not self._under_way:
                        return None
            with changed:
                while not self._rows and self._told == told and not self._calls.stopped:
                    changed.wait()
        return None

    def _add(self, trials: Sequence[Trial[_Item, Any]]) -> None:
        for trial in trials:
            program = _copied(self._program)
            _show(program, trial.exemplars)
            size = len(trial.rows)
            under_way = _UnderWay(trial, program, [None] * size, size)
            self._rows += [(under_way, row) for row in range(size)]
            self._under_way += 1
        if trials:
            self._calls.changed.notify_all()

    def _end(self, under_way: _UnderWay, row: int, score: float) -> None:
        with self._calls.changed:
            self._bar.update()
            under_way.scores[row] = score
            under_way.left -= 1
            if under_way.left:
                return
        self._search.tell(under_way.trial, under_way.scores)
        with self._calls.changed:
            self._under_way -= 1
            self._told += 1
            self._calls.changed.notify_all()


# --- bootstrapping ----------------------------------------------------------------------------------------------------


def _teacher(given: Any, student: Any, examples: Sequence[Any], signatures: Mapping[str, Any], seed: int) -> Any:
    """The program that bootstraps.

    Raises:
        ConfigError: when its predictors are not those of the student.
    """
    teacher = _copied(given or student)
    if given is not None:
        names = [name for name, _ in teacher.named_predictors()]
        if names != list(signatures):
            raise ConfigError(
                f"teacher has the predictors {names}, the program {list(signatures)}; give one of the same structure"
            )
    elif not getattr(student, "_compiled", False):
        chosen = rng(seed, "teacher").permutation(len(examples))[:LABELLED]
        _show(teacher, _labelled(signatures, [examples[place] for place in sorted(chosen)]))
    return teacher


class _Bootstrap:
    """What a teacher did for examples, where the metric accepts it."""

    def __init__(self, teacher: Any, examples: Sequence[Any], calls: _Calls, kept: _Kept) -> None:
        self._teacher = teacher
        self._examples = examples
        self._calls = calls
        self._kept = kept

    def spend(self, first: int, most: int, *, enough: int, order: IntArray) -> int:
        """Bootstrap examples in rounds until enough are accepted; the number tried depends on the answers alone.

        Args:
            first: calls of a round; most: of all rounds.
            order: (n,) places of the examples, in which they are tried.

        Returns:
            calls spent, those of an earlier process included.

        Raises:
            DataError: when none was accepted.
        """
        places = [int(place) for place in order]
        tried = 0
        while tried < min(most, len(places)) and self._accepted < enough:
            until = min(tried + first, most, len(places))
            self._try([place for place in places[tried:until] if place not in self._kept.demos])
            tried = until
        if not self._accepted:
            raise DataError(
                f"nothing of what the teacher did for {_counted(tried, 'example')} was accepted by the metric; "
                "give a teacher that solves some of them, easier examples, or a metric that accepts more "
                "when its argument `trace` is given"
            )
        return tried

    def items(self) -> list[_Item]:
        """What was accepted, in the order of the examples."""
        return [self._item(place, demos) for place, demos in sorted(self._kept.demos.items()) if demos is not None]

    @property
    def _accepted(self) -> int:
        return sum(demos is not None for demos in self._kept.demos.values())

    def _item(self, place: int, demos: Fields) -> _Item:
        example = self._examples[place]
        made = {name: [dspy.Example(augmented=True, **each) for each in fields] for name, fields in demos.items()}
        known = dict(example.items())
        traced = [text_of(each) for fields in demos.values() for each in fields if each != known]
        return _Item(example=example, demos=made, traced="\n".join(traced))

    def _try(self, places: Sequence[int]) -> None:
        left = deque(places)
        with tqdm.tqdm(total=len(left), desc="bootstrapping", dynamic_ncols=True, file=sys.stdout) as bar:

            def work() -> bool:
                with self._calls.changed:
                    if not left:
                        return False
                    place = left.popleft()
                demos = self._demos(place)
                with self._calls.changed:
                    if not self._calls.stopped:
                        self._kept.add(place, demos)
                        bar.update()
                return True

            self._calls.in_threads(work)

    def _demos(self, place: int) -> Fields | None:
        """What the teacher does for an example without being shown it."""
        example, teacher = self._examples[place], _copied(self._teacher)
        names = {}
        for name, predictor in teacher.named_predictors():
            predictor.demos = [demo for demo in predictor.demos if demo != example]
            names[id(predictor)] = name
        trace = self._calls.trace(teacher, example)
        if trace is None:
            return None
        demos: Fields = {name: [] for name in names.values()}
        for predictor, inputs, outputs in trace:
            if id(predictor) in names:  # others are made while the program runs, and cannot be shown anything
                values = {**inputs, **dict(outputs.items())}
                demos[names[id(predictor)]].append(
                    {each: self._kept.plain(each, value) for each, value in values.items()}
                )
        return demos


class _Kept:
    """What was bootstrapped, by the place of its example; None of one that was not accepted.

    Args:
        file: of JSON lines that it is appended to.
    """

    def __init__(self, file: IO[bytes] | None = None, path: str = "") -> None:
        self._file = file
        self._path = path
        self.demos: dict[int, Fields | None] = {}

    def add(self, place: int, demos: Fields | None) -> None:
        if self._file is not None:
            self._write({"row": place, "demos": demos})
        self.demos[place] = demos

    def plain(self, name: str, value: Any) -> Any:
        """A field's value as `program.save` writes it and a continued search reads it.

        Raises:
            DataError: when it cannot be kept.
        """
        try:
            return json.loads(json.dumps(to_jsonable_python(value)))
        except (PydanticSerializationError, TypeError, ValueError) as error:
            if self._file is None:
                return value
            raise DataError(
                f"field {name} of a demonstration is a {type(value).__name__}, which a journal cannot hold; "
                "leave journal out"
            ) from error

    def recover(self, key: str) -> None:
        """Read the file; a last line that a kill cut is dropped.

        Raises:
            JournalError: when it is damaged, or of another search.
        """
        assert self._file is not None
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        header = {"version": VERSION, "key": key}
        if not whole:
            self._write(header)
            return
        try:
            first, *entries = map(json.loads, whole.splitlines())
            self.demos = {int(entry["row"]): entry["demos"] for entry in entries}
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{self._path} is damaged; move it and its journal away, then run again") from error
        if first != header:
            raise JournalError(
                f"{self._path} is of another program, teacher, LM, trainset or valset, or of other calls, k or seed; "
                "move it and its journal away or choose another journal"
            )

    def _write(self, entry: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(entry).encode() + b"\n")


@contextmanager
def _open_pool(journal: str | Path | None, key: str) -> Iterator[_Kept]:
    """Open or create the file next to the journal, locked; without a journal, nothing is kept.

    Raises:
        JournalError: when it is in use, damaged, or of another search, or cannot be opened.
    """
    if journal is None:
        yield _Kept()
        return
    with locked_file(Path(f"{Path(journal).expanduser()}{POOL_SUFFIX}"), "journal") as (file, path):
        kept = _Kept(file, str(path))
        kept.recover(key)
        yield kept
