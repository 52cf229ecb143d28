"""`EASE`, an optimizer for DSPy: find the ordered demonstrations with which a program scores best.

    from ease_lib.dspy import EASE

    optimizer = EASE(metric=my_metric, k=5, calls=1000, num_threads=8)
    better = optimizer.compile(program, trainset=train, valset=val)
    print(better.ease)

It searches with `ease_lib.Search`. A trial is a copy of the program whose predictors show some examples in one order,
and it is scored on some rows of the validation set. Rows are evaluated in threads of DSPy's `ParallelExecutor`, so
`dspy.context(...)` holds in them.

What predictors show of an example. If the program has one predictor and the examples hold all of its fields, the
example itself. Otherwise what the teacher did for the example: each predictor shows all of its own calls, in order, so
a predictor that is called in a loop shows several demonstrations of each example. `bootstrap` decides.
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
import numbers
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
from ease_lib.search.journal import append_lines, locked_file
from ease_lib.search.optimizers.registry import least_answers
from ease_lib.seeding import rng
from ease_lib.trials import Best, Search, Trial, checked_parameters, journal_path, text_of
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
"""Demonstrations as the values of their fields."""

OURS = ("answers", "budget", "text", "label", "embeddings")
"""Arguments of `Search` that `EASE` chooses."""
LABELLED = 16
"""Examples that a teacher is shown, as many as DSPy's `BootstrapFewShot` shows."""
ROUND_SHARE, MOST_IN_ROUND = 0.2, 100
"""Share of all calls for the first bootstrapping, and its maximum."""
ENOUGH = 2
"""Multiple of k of accepted examples below which another round follows."""
MOST_SHARE = 0.5
"""Share of all calls that bootstrapping may take."""
WINDOW = 10
"""Number of recent calls, for each of `max_errors`, among which exceptions are counted."""
NUMBER = bool | int | float | np.bool_ | np.number
ROUNDING = 1e-9
"""Tolerance for scores outside [0, 1], as sums of weights have."""
VALIDATION_SHARE = 0.5
"""Share of the training set that becomes the validation set where none is given."""
POOL_SUFFIX = ".pool.jsonl"
VERSION = "ease_dspy_pool/2"


@dataclass(frozen=True, kw_only=True)
class Found:
    """Result of the search; the attribute `ease` of the program that `EASE.compile` returns.

    Args:
        expected: score on new rows, corrected for having been chosen; interval: 95 % of it.
        score: on the validation rows that were evaluated; too good, because it decided the choice.
        exemplars: the examples that are shown, in order; each predictor's `demos` hold what it shows of them.
        calls: of the program, bootstrapping and those of an earlier process included.
        bootstrapping: those of `calls` that made demonstrations.
        failed: calls of this process that raised an exception.
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
        """Return itself: programs are copied for every trial, and this object never changes."""
        return self


class EASE(Teleprompter):  # type: ignore[misc]  # DSPy has no types
    """Optimizer that finds the best ordered sequence of demonstrations for all predictors of a program.

    Args:
        metric: function of (example, prediction) that returns a bool, an int or float from 0 to 1, or an object with
            such a `score`. While bootstrapping it is called with the trace as third argument, and what it returns, or
            its `score`, is taken as true or false.
        k: demonstrations at most; `k_min` of `parameters` is the least.
        calls: of the program for one row, in all; those for bootstrapping count. A program of two predictors asks its
            LM about twice as often, and DSPy may ask it again for an answer that it cannot read.
        num_threads: rows evaluated at once; by default `dspy.settings.num_threads`. It also sets how many trials are
            under way, so another number leads to another search; a search that is continued may change it.
        bootstrap: whether demonstrations are what the teacher did, True, or the examples themselves, False; by default
            True if the program has several predictors or the examples lack fields of its only one.
        max_errors: number of exceptions of program or metric, among the last `10 * max_errors` calls, at which
            compiling ends with the last one; by default `dspy.settings.max_errors`. Rows that fail otherwise count as
            0. Rows that failed while nothing else succeeded, as in an outage, are asked again by a continued search.
        journal: file that keeps the search. The same call continues it after a kill, and asks nothing again that was
            told. What was bootstrapped is kept next to it, in `<journal>.pool.jsonl`: the journal holds for that pool
            alone, and bootstrapping again could give another one, since DSPy's cache may be off and LMs may sample.
            Signatures, models and settings of LMs, the adapter, the examples and the metric's name must be the same;
            the code of program and metric is not compared.
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
        problems = [f"{name} is set by EASE; remove it" for name in OURS if name in parameters]
        if not callable(metric):
            problems.append(f"metric={metric!r} cannot be called; give a function of (example, prediction)")
        if bootstrap not in ("auto", True, False):
            problems.append(f"bootstrap={bootstrap!r} is unknown; give 'auto', True or False")
        whole = {"k": k, "calls": calls, "num_threads": num_threads, "max_errors": max_errors}
        for name, value in whole.items():
            is_default = value is None and name in ("num_threads", "max_errors")
            if not is_default and (isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1):
                problems.append(f"{name}={value!r} is not a whole number above 0; pass 1 or more")
        if problems:
            raise ConfigError(*problems)
        journal_path(journal)
        self.metric = metric
        self.k, self.calls, self.seed = int(k), int(calls), seed
        self.num_threads = num_threads
        self.bootstrap = bootstrap
        self.max_errors = max_errors
        self.journal = journal
        self.parameters = parameters
        checked_parameters(self._search_parameters(), self.calls, items=sys.maxsize, rows=1)

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
            ConfigError: when parameters do not fit the program or the examples, the program cannot be copied, or the
                metric returns no score.
            DataError: when there are too few examples, or none could be bootstrapped.
            JournalError: when the journal is in use, damaged, or of another search.
            Exception: the last one of program or metric, when there were `max_errors`.
        """
        if not isinstance(getattr(student, "ease", None), Found | None):
            raise ConfigError("the program has an attribute `ease`, where the result is put; rename it")
        shown, rows = _dealt(trainset, valset, self.seed)
        program = _without_demos(student)
        signatures = _signatures(program)
        bootstraps = _bootstraps(self.bootstrap, signatures, shown)
        spendable = self._spendable(bootstraps, shown, rows)
        _check_arguments(self.metric, bootstraps)
        calls = _Calls(self.metric, self.num_threads, self.max_errors)
        label = partial(_label, {name for each in signatures.values() for name in each.output_fields})
        ours = [self.calls, self.k, self.seed] if bootstraps else []  # else `Search` refuses what does not continue
        identity = _identity(program, teacher or (student if _is_compiled(student) else None), self.metric)
        key = key_of([identity, [list(map(_text, each)) for each in (shown, rows)], ours])
        with _open_pool(self.journal, key) as kept:
            pool, spent = _labelled(signatures, shown), 0
            if bootstraps:
                made = _Bootstrap(_teacher(teacher, student, shown, signatures, self.seed), shown, calls, kept)
                spent = made.spend(
                    *spendable, enough=ENOUGH * self.k, order=rng(self.seed, "bootstrap").permutation(len(shown))
                )
                pool = made.items()
            parameters = self._search_parameters() | {"parallel": self._parallel(rows, calls.num_threads)}
            if bootstraps and len(pool) < self.k:
                logger.warning("only %s could be bootstrapped, fewer than k=%d", _counted(len(pool), "example"), self.k)
                parameters["k"] = len(pool)
                parameters["k_min"] = min(int(parameters.get("k_min", -1)), len(pool))
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
            raise DataError(f"trainset has {_counted(len(shown), 'example')}, too few to split; pass valset")
        logger.info("valset is not given: %d examples of trainset are scored on, %d are shown", len(rows), len(shown))
    else:
        rows = list(valset)
    for name, examples in (("trainset", shown), ("valset", rows)):
        if not examples:
            raise DataError(f"{name} is empty; give at least one example")
        for each in examples:
            if not isinstance(each, dspy.Example):
                found = type(each).__name__
                raise DataError(f"{name} holds a {found}; make each row a dspy.Example(**row).with_inputs(...)")
            each.inputs()
    scored = {*map(_inputs_text, rows)}
    others = [each for each in shown if _inputs_text(each) not in scored]
    if not others:
        raise DataError(
            "every example of trainset has the inputs of a row that is scored on, so a demonstration would show its "
            "answer; pass other examples"
        )
    if len(others) < len(shown):
        left_out = _counted(len(shown) - len(others), "example")
        logger.warning("%s of trainset will not be shown, because rows to score on have the same inputs", left_out)
    return others, rows


def _inputs_text(example: Any) -> str:
    return text_of(dict(sorted(example.inputs().items())))


def _shows(demo: Any, example: Any) -> bool:
    """Whether a demonstration gives an example's answer away: its inputs are the example's, as far as it has them."""
    inputs = example.inputs()
    common = [name for name, _ in inputs.items() if name in demo]
    return bool(common) and all(text_of({"": demo[name]}) == text_of({"": inputs[name]}) for name in common)


def _text(item: Any) -> str:
    """Fields of an example, and of what a teacher did for it, a line each."""
    if isinstance(item, _Item):
        return f"{_text(item.example)}\n{item.traced}".rstrip("\n")
    return text_of(dict(item.items()))


def _label(outputs: Iterable[str], item: Any) -> str:
    """The outputs of an example that a predictor has too, else all of them; empty if it has none."""
    example = item.example if isinstance(item, _Item) else item
    labels = dict(example.labels().items())
    known = {name: labels[name] for name in sorted(labels) if name in outputs}
    return "\n".join(map(text_of, (known or labels).values()))


def _copied(program: Any) -> Any:
    """A copy with the same LMs. Copies of LMs would take their histories along, and `reset_copy` takes LMs away.

    Raises:
        ConfigError: when the copy shares predictors with the program, so that trials would change each other's.
    """
    held = [value for _, module in program.named_sub_modules() for value in vars(module).values()]
    try:
        return copy.deepcopy(program, {id(each): each for each in held if isinstance(each, dspy.BaseLM)})
    except Exception as error:  # it holds what cannot be copied, which DSPy leaves as it is
        copied, reason = program.deepcopy(), error
    for mine, original in zip(copied.predictors(), program.predictors(), strict=True):
        if mine is original:
            raise ConfigError(
                f"the program cannot be copied ({type(reason).__name__}: {reason}): a list or dict of it holds both "
                "a predictor and what cannot be copied; keep the latter elsewhere, or define its __deepcopy__"
            ) from reason
        mine.lm = original.lm
    return copied


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


def _identity(program: Any, teacher: Any, metric: Metric) -> list[Any]:
    """Identity of a search: program, teacher and metric. Keys and addresses of LMs are not part of it."""
    found: list[Any] = [getattr(metric, "__qualname__", type(metric).__qualname__)]
    found.append(type(dspy.settings.adapter).__name__)
    for each in (program, teacher):
        found.append(type(each).__name__)
        for name, predictor in each.named_predictors() if each is not None else ():
            lm = predictor.lm or dspy.settings.lm
            settings = {key: value for key, value in getattr(lm, "kwargs", {}).items() if not _is_address(key)}
            state = predictor.signature.dump_state(), predictor.config, [dict(demo) for demo in predictor.demos]
            found.append([name, *state, str(getattr(lm, "model", "")), settings])
    return list(to_jsonable_python(found, fallback=lambda value: type(value).__name__))


def _is_address(setting: str) -> bool:
    return setting.startswith("api_") or setting == "base_url"


def _is_compiled(program: Any) -> bool:
    return bool(getattr(program, "_compiled", False))


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
    fields = [name for signature in signatures.values() for name in signature.fields]
    lacking = sorted({name for each in examples for name in fields if each.get(name) is None})
    if bootstrap is False and lacking:
        logger.warning("some examples lack %s; DSPy shows those first, or not at all", ", ".join(lacking))
    return several or bool(lacking) if bootstrap == "auto" else bool(bootstrap)


def _check_arguments(metric: Metric, bootstraps: bool) -> None:
    """Check that the metric takes the arguments that it will be called with.

    Raises:
        ConfigError: when it does not.
    """
    wanted = ("example", "prediction", "trace") if bootstraps else ("example", "prediction")
    try:
        signature = inspect.signature(metric)
    except (TypeError, ValueError):  # of what is written in C
        return
    try:
        signature.bind(*wanted)
    except TypeError as error:
        raise ConfigError(
            f"metric is called as metric({', '.join(wanted)}), and takes {signature}; change it"
        ) from error


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
        failed: calls that raised an exception.
    """

    def __init__(self, metric: Metric, num_threads: int | None, max_errors: int | None) -> None:
        self.num_threads: int = num_threads or dspy.settings.num_threads
        self._max_errors: int = dspy.settings.max_errors if max_errors is None else max_errors
        self._metric = metric
        self._error: BaseException | None = None
        self._recent: deque[bool] = deque(maxlen=WINDOW * self._max_errors)
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

    def score(self, program: Any, example: Any) -> float | None:
        """Score of a row in [0, 1]; None if program or metric raise an exception.

        Raises:
            ConfigError: when the metric returns no score.
            Exception: that of the row, when it is one too many.
        """
        try:
            value = self._metric(example, _prediction(program, example))
        except Exception as error:
            self._fail(example, error)
            return None
        self._succeed()
        return score_of(value)

    def trace(self, program: Any, example: Any) -> list[tuple[Any, Any, Any]] | Exception | None:
        """Calls that the program made for an example, each (predictor, inputs, outputs); None if the metric does not
        accept it, and the exception that program or metric raised.

        Raises: as `score`.
        """
        try:
            with dspy.context(trace=[]):
                prediction = _prediction(program, example)
                trace = list(dspy.settings.trace)
                value = self._metric(example, prediction, trace)
                is_accepted = bool(getattr(value, "score", value))
        except Exception as error:
            self._fail(example, error)
            return error
        self._succeed()
        return trace if is_accepted else None

    @property
    def last_failed(self) -> bool:
        """Whether the call that ended last raised an exception."""
        return bool(self._recent) and self._recent[-1]

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

    def _succeed(self) -> None:
        with self.changed:
            self._recent.append(False)

    def _fail(self, example: Any, error: Exception) -> None:
        with self.changed:
            self._recent.append(True)
            self.failed += 1
            is_last = sum(self._recent) >= self._max_errors
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
    found: Any = value if isinstance(value, NUMBER) else getattr(value, "score", None)
    if not isinstance(found, NUMBER) or not -ROUNDING <= float(found) <= 1 + ROUNDING:
        raise ConfigError(
            f"metric returned {value!r}; return a bool, an int or float from 0 (wrong) to 1 (right), "
            "or an object whose `score` is one"
        )
    return min(max(float(found), 0.0), 1.0)


def _prediction(program: Any, example: Any) -> Any:
    """Prediction of the program; a program without `forward` is awaited."""
    if hasattr(type(program), "forward") or "forward" in vars(program):  # asking the program itself makes DSPy warn
        return program(**example.inputs())
    return run_async(program.acall(**example.inputs()))


@dataclass
class _UnderWay:
    """A trial, its program, and the scores so far; None for rows that are not answered, or failed."""

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
        self._ended: list[_UnderWay] = []
        self._rows_left = 0
        self._under_way = 0
        self._told = 0
        self._asking = threading.Lock()

    def run(self) -> None:
        """Work on rows until the search has ended.

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
            self._rows_left += size
            self._under_way += 1
        if trials:
            self._calls.changed.notify_all()

    def _end(self, under_way: _UnderWay, row: int, score: float | None) -> None:
        with self._calls.changed:
            self._bar.update()
            under_way.scores[row] = score
            under_way.left -= 1
            self._rows_left -= 1
            if not under_way.left:
                self._ended.append(under_way)
            ready = self._ready()
        for each in ready:
            self._search.tell(each.trial, [score or 0.0 for score in each.scores])
            with self._calls.changed:
                self._under_way -= 1
                self._told += 1
                self._calls.changed.notify_all()

    def _ready(self) -> list[_UnderWay]:
        """Trials that have ended. One with a row that failed waits until a call succeeds, if any is to come: what an
        outage fails would stay in the journal as wrong."""
        may_be_outage = self._calls.last_failed and self._rows_left > 0
        ready = [each for each in self._ended if not (may_be_outage and None in each.scores)]
        self._ended = [each for each in self._ended if each not in ready]
        return ready


# --- bootstrapping ----------------------------------------------------------------------------------------------------


def _teacher(given: Any, student: Any, examples: Sequence[Any], signatures: Mapping[str, Any], seed: int) -> Any:
    """The program that bootstraps.

    Raises:
        ConfigError: when its predictors are not those of the student.
    """
    teacher = _copied(given or student)
    if given is not None:
        own, wanted = _fields_of(_signatures(teacher)), _fields_of(signatures)
        if own != wanted:
            raise ConfigError(f"teacher has the predictors {own}, the program {wanted}; give one of the same structure")
    elif not _is_compiled(student):
        chosen = rng(seed, "teacher").permutation(len(examples))[:LABELLED]
        _show(teacher, _labelled(signatures, [examples[place] for place in sorted(chosen)]))
    return teacher


def _fields_of(signatures: Mapping[str, Any]) -> str:
    """Predictors with their fields, as `name(a, b)`."""
    return ", ".join(f"{name}({', '.join(sorted(each.fields))})" for name, each in signatures.items())


class _Bootstrap:
    """Traces of a teacher on examples, as far as the metric accepts them."""

    def __init__(self, teacher: Any, examples: Sequence[Any], calls: _Calls, kept: _Kept) -> None:
        self._teacher = teacher
        self._examples = examples
        self._calls = calls
        self._kept = kept
        self._tried: list[int] = []
        self._raised: dict[int, Exception] = {}
        self._hidden = 0

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
        while len(self._tried) < min(most, len(places)) and len(self._accepted()) < enough:
            until = min(len(self._tried) + first, most, len(places))
            self._try([place for place in places[len(self._tried) : until] if place not in self._kept.demos])
            self._tried = places[:until]
        if not self._accepted():
            raise DataError(self._why_nothing()) from next(iter(self._raised.values()), None)
        self._kept.settle(self._raised)
        return len(self._tried)

    def items(self) -> list[_Item]:
        """Accepted traces, in the order of the examples."""
        return [self._item(place, demos) for place, demos in sorted(self._accepted().items())]

    def _accepted(self) -> dict[int, Fields]:
        """Accepted traces of the examples tried; a continued search may know more."""
        known = self._kept.demos
        return {place: demos for place in self._tried if (demos := known.get(place)) is not None}

    def _why_nothing(self) -> str:
        number, rejected = len(self._tried), len(self._tried) - len(self._raised) - self._hidden
        found = [f"none of the teacher's traces for {_counted(number, 'example')} can be shown"]
        if self._raised:
            error = [*self._raised.values()][-1]
            found.append(f"{len(self._raised)} raised an exception, the last {type(error).__name__}: {error}")
        if self._hidden:
            found.append(
                f"{self._hidden} were accepted, but no predictor of the program made a call: modules that copy "
                "themselves, such as dspy.BestOfN, hide theirs; search the module that they wrap"
            )
        if rejected:
            found.append(
                f"the metric accepted none of {rejected}; give a teacher that solves some of them, easier examples, "
                "or a metric that accepts more when its argument `trace` is given"
            )
        return "; ".join(found)

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
                    if isinstance(demos, Exception):
                        self._raised[place] = demos
                    elif not self._calls.stopped:
                        self._kept.add(place, demos)
                    bar.update()
                return True

            self._calls.in_threads(work)

    def _demos(self, place: int) -> Fields | Exception | None:
        """Traces of the teacher for an example that it is not shown; see `_Calls.trace`."""
        example, teacher = self._examples[place], _copied(self._teacher)
        names = {}
        for name, predictor in teacher.named_predictors():
            predictor.demos = [demo for demo in predictor.demos if not _shows(demo, example)]
            names[id(predictor)] = name
        trace = self._calls.trace(teacher, example)
        if trace is None or isinstance(trace, Exception):
            return trace
        demos: Fields = {name: [] for name in names.values()}
        for predictor, inputs, outputs in trace:
            if id(predictor) in names:  # others are made while the program runs, and cannot be shown anything
                values = {**inputs, **dict(outputs.items())}
                demos[names[id(predictor)]].append(
                    {each: self._kept.plain(each, value) for each, value in values.items()}
                )
        if not any(demos.values()):
            with self._calls.changed:
                self._hidden += 1
            return None
        return demos


class _Kept:
    """Bootstrapped demonstrations by the place of their example; None if it was not accepted.

    Args:
        file: of JSON lines that it is appended to.
    """

    def __init__(self, file: IO[bytes] | None = None, path: Path = Path()) -> None:
        self._file = file
        self._path = path
        self.demos: dict[int, Fields | None] = {}

    def add(self, place: int, demos: Fields | None) -> None:
        if self._file is not None:
            self._write({"row": place, "demos": demos})
        self.demos[place] = demos

    def settle(self, places: Iterable[int]) -> None:
        """Note examples tried without success, and flush everything to disk before a journal that depends on it."""
        for place in places:
            self.add(place, None)
        if self._file is not None:
            append_lines(self._file, self._path, "journal", through=True)

    def plain(self, name: str, value: Any) -> Any:
        """A field's value in the form in which a continued search reads it.

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
                f"{self._path} is of another program, teacher, metric, LM, adapter, trainset or valset, or of other "
                "calls, k or seed; "
                "move it and its journal away or choose another journal"
            )

    def _write(self, entry: Mapping[str, Any]) -> None:
        assert self._file is not None
        append_lines(self._file, self._path, "journal", json.dumps(entry).encode())


@contextmanager
def _open_pool(journal: str | Path | None, key: str) -> Iterator[_Kept]:
    """Open or create the file next to the journal, locked; without a journal, nothing is kept.

    Raises:
        JournalError: when it is in use, damaged, or of another search, or cannot be opened.
    """
    place = journal_path(journal)
    if place is None:
        yield _Kept()
        return
    with locked_file(place.with_name(f"{place.name}{POOL_SUFFIX}"), "journal") as (file, path):
        kept = _Kept(file, path)
        kept.recover(key)
        yield kept
