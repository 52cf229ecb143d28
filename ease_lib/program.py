"""The search for programs and notebooks, from rows, a model and a metric to a prompt with its scores.

The same stages run as in the pipeline, in this process, with the same journal, answers, caps and seeds, and without
kfp. Nothing is left on the disk unless `output_dir` or `store_uri` asks for it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ease_lib.artifacts.functions import LoadedFunction, source_of
from ease_lib.black_box.in_process import Function, OwnFunction, OwnProgram, Program
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import FUNCTION
from ease_lib.digests import sha256_of
from ease_lib.errors import ConfigError, EaseError, Notice
from ease_lib.evaluation import own_metric
from ease_lib.evaluation.own_metric import OwnMetric
from ease_lib.result import Result
from ease_lib.running.bar import Bar
from ease_lib.running.inline import run_inline
from ease_lib.running.run import SILENT, Caller, Host
from ease_lib.signals import sigterm_as_interrupt
from ease_lib.tasks.columns import joined_names
from ease_lib.tasks.given_rows import write_rows

Made = TypeVar("Made")
Rows = Iterable[Mapping[str, Any]]

CANCEL_SECONDS = 0.2
"""Seconds between two attempts to cancel a run whose caller was interrupted."""
NOTICE = "notice: "
"""Beginning of a line that becomes a warning."""
_on_host: ContextVar[Callable[[Host], None]] = ContextVar("on_host", default=lambda host: None)
"""Receives the host by which `optimize_async` cancels its search."""


def optimize(
    rows: Rows | None = None,
    llm: str | Function = "local",
    *,
    evaluate: str | Program | None = None,
    metric: str | OwnMetric = "auto",
    prompt: str | Mapping[str, Any] = "",
    baseline: str | Sequence[Mapping[str, str]] = "",
    output_dir: str | Path | None = None,
    progress: bool = True,
    **parameters: str | float | bool | Sequence[str] | Mapping[str, Any],
) -> Result:
    """Find one ordered sequence of exemplars, perhaps with an instruction, that works for every query of a task.

        result = optimize(rows, "https://llm.example.org/v1", llm_model="small-1",
                          input_columns="text", output_column="team", max_llm_requests=2000)
        client.chat.completions.create(**result.request({"input": "Where is my parcel?"}))

    Args:
        rows: labelled rows, a mapping of columns each; pool, validation set and test set are dealt from them. Without
            rows the parameters name the task (`task`, `task_uri`).
        llm: URL of an OpenAI-compatible endpoint, whose key is in EASE_LLM_API_KEY; `local`; or a function that takes
            messages (`[{"role": "user", "content": ...}]`) and returns the answer's text, or a coroutine function.
            A function is called from up to `llm_concurrency` threads at once; what it raises ends the search, but for
            time-outs, broken connections and the failures of `openai`, which are tried again. Its answers are kept by
            `llm_model`, else by its name: give another one when it changes and `store_uri` stays.
        evaluate: in place of `llm`, `prompt` and `metric` a function of exemplars and a row, each a mapping of columns,
            that returns the score of the answer to the row, 0 (wrong) to 1 (right), or an `ease_lib.Evaluated`; it may
            be a coroutine function. It is called, and known, as `llm` and `metric` are; a row at which it raises, while
            it evaluates others, is what `llm_failures` says.
        metric: name of a metric, `metric.py:score`, or a function of an answer and the accepted outputs of its row that
            returns 0 (wrong) to 1 (right). A function is known by the source of its file or notebook cell: if it is
            closed over a value that changes while `store_uri` stays, give it another name.
        prompt: how prompts are written: the entries of a template (`ease_lib.prompts.template`), or a YAML file.
        baseline: the prompt in use now, to be beaten: its text, its messages, or a file of either.
        output_dir: takes what `ease run` leaves: report, artifacts, lineage, journal. The same call with the same
            folder continues a search that was stopped.
        progress: show a bar, on a terminal and in a notebook.
        parameters: every other parameter of a run by its name (`ease run --help`): `k`, `budget`, `seed`,
            `max_llm_requests`, `store_uri`, ...; a list where several columns are named, a mapping where JSON is.

    Raises:
        ConfigError, DataError, EndpointError, StoreError: as `ease run` would say it.
        KeyboardInterrupt: what was answered until then is kept in `store_uri` or `output_dir`.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(output_dir))
        values: dict[str, object] = {"store_uri": str(folder / "store")}
        values |= {name: _as_value(value) for name, value in parameters.items()}
        values |= _of_rows(rows, folder) | _of_prompt(prompt, folder) | _of_baseline(baseline, folder)
        if output_dir is not None or parameters.get("store_uri"):
            _check_names(llm, metric, evaluate, parameters.get("llm_model"))
        checked = parse_parameters(values | _of_functions(llm, metric, evaluate))
        caller = _caller(llm, metric, evaluate, parameters.get("llm_model"))
        shown = stack.enter_context(Bar()) if progress else SILENT
        stack.callback(_warn, lines := io.StringIO())
        try:
            _without_running_loop(
                lambda on_host: run_inline(checked, folder, lines=lines, progress=shown, caller=caller, on_host=on_host)
            )
        except EaseError as error:
            raise error.with_traceback(None) from _of_own_function(error)
        return Result.read(str(folder))


def _of_functions(llm: str | Function, metric: str | OwnMetric, evaluate: str | Program | None) -> dict[str, object]:
    """Names of the LLM and the metric in parameters, or of the functions that replace them."""
    return {
        "evaluate": FUNCTION if callable(evaluate) else evaluate or "",
        "metric": metric if isinstance(metric, str) else f"{FUNCTION}:{own_metric.name_of(metric)}",
        "llm_base_url": llm if isinstance(llm, str) else FUNCTION,
    }


def _caller(llm: str | Function, metric: str | OwnMetric, evaluate: str | Program | None, model: object) -> Caller:
    name = str(model or own_metric.name_of(llm)) if callable(llm) else ""
    program = None
    if callable(evaluate):
        named = str(model or own_metric.name_of(evaluate))
        program = OwnProgram(named, evaluate, sha256_of(source_of(evaluate)))
    return Caller(
        program=program,
        llm=OwnFunction(name, llm) if callable(llm) else None,
        metric=None if isinstance(metric, str) else LoadedFunction(metric, source_of(metric)),
    )


async def optimize_async(rows: Rows | None = None, llm: str | Function = "local", **given: Any) -> Result:
    """`optimize` for programs that are async: takes the same, searches in a thread, and ends the search when cancelled.

    A coroutine function is awaited in the event loop of the caller, to which his clients belong.
    """
    hosts: list[Host] = []
    _on_host.set(hosts.append)
    loop = asyncio.get_running_loop()
    given |= {name: _in_loop(given[name], loop) for name in ("evaluate",) if name in given}
    search = asyncio.create_task(asyncio.to_thread(optimize, rows, _in_loop(llm, loop), **given))
    try:
        return await asyncio.shield(search)
    except asyncio.CancelledError:
        while not search.done():
            for host in hosts:
                host.cancel()
            await asyncio.wait([search], timeout=CANCEL_SECONDS)
        await asyncio.gather(search, return_exceptions=True)
        raise


def _in_loop(function: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """A coroutine function that is awaited in this loop, from any loop; anything else unchanged."""
    if not inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def answer(*asked: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(*asked), loop))

    return answer


def _warn(lines: io.StringIO) -> None:
    """Warn of each notice among the lines of a run."""
    for line in dict.fromkeys(lines.getvalue().splitlines()):
        if line.startswith(NOTICE):
            warnings.warn(line.removeprefix(NOTICE), Notice, stacklevel=5)  # past the `ExitStack` of `optimize`


def _of_own_function(error: EaseError) -> BaseException | None:
    """Exception of a caller's function, if that caused the error; its arguments become a note of both."""
    cause: BaseException | None = error
    while isinstance(cause, EaseError):
        cause = cause.__cause__
    notes = getattr(cause, "__notes__", ())
    for note in notes:
        error.add_note(note)
    return cause if notes else None


@contextmanager
def _folder(output_dir: str | Path | None) -> Iterator[Path]:
    if output_dir is None:
        with tempfile.TemporaryDirectory(prefix="ease-") as folder:
            yield Path(folder)
        return
    kept = Path(output_dir).expanduser().absolute()
    kept.mkdir(parents=True, exist_ok=True)
    yield kept


def _of_rows(rows: Rows | None, folder: Path) -> dict[str, object]:
    """A table of the task; its name is always the same, so that the same rows are the same task."""
    if rows is None:
        return {}
    path = folder / "rows.jsonl"
    write_rows(rows, path)
    return {"task": "table", "task_uri": str(path)}


def _of_prompt(prompt: str | Mapping[str, Any], folder: Path) -> dict[str, object]:
    if isinstance(prompt, str):
        return {"prompt": prompt}
    path = folder / "prompt.yaml"
    path.write_text(yaml.safe_dump(dict(prompt), allow_unicode=True), encoding="utf-8")
    return {"prompt": str(path)}


def _of_baseline(baseline: str | Sequence[Mapping[str, str]], folder: Path) -> dict[str, object]:
    if isinstance(baseline, str) and "{" not in baseline:  # a text has a field; an address has none
        return {"baseline": baseline}
    path = folder / ("baseline.txt" if isinstance(baseline, str) else "baseline.json")
    path.write_text(baseline if isinstance(baseline, str) else json.dumps(list(baseline)), encoding="utf-8")
    return {"baseline": str(path)}


def _as_value(value: object) -> object:
    """A parameter in the form of the command line."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return joined_names(list(map(str, value))) if isinstance(value, list | tuple) else value


def _check_names(
    llm: str | Function, metric: str | OwnMetric, evaluate: str | Program | None, llm_model: object
) -> None:
    """Refuse functions whose kept answers and scores could be confused with those of another function.

    Raises:
        ConfigError: naming the remedy.
    """
    for name, function in (("llm", llm), ("evaluate", evaluate)):
        of_object = name == "evaluate" and inspect.ismethod(function)
        if (
            callable(function)
            and not llm_model
            and (of_object or getattr(function, "__name__", "<lambda>") == "<lambda>")
        ):
            raise ConfigError(
                f"{name} is a {type(function).__name__} without its own name, under which its answers would be kept; "
                "name it with llm_model, and rename it when it changes"
            )
    if callable(metric) and not hasattr(metric, "__name__"):
        raise ConfigError(
            f"metric is a {type(metric).__name__}, which cannot be told from others when its scores are kept; pass a "
            "function (`def`)"
        )


def _without_running_loop(work: Callable[[Callable[[Host], None]], Made]) -> Made:
    """The result of work, done in its own thread if an event loop runs in this one, as in a notebook.

    Args:
        work: is given what to call with its host, by which it is cancelled.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work(_on_host.get())
    hosts: list[Host] = []
    with sigterm_as_interrupt(), ThreadPoolExecutor(1, "ease") as thread:
        made = thread.submit(work, hosts.append)
        try:
            return made.result()
        except KeyboardInterrupt:
            _cancelled(made, hosts)
            raise


def _cancelled(made: Future[Made], hosts: Sequence[Host]) -> None:
    """Wait for work in another thread, and cancel it if the wait is interrupted."""
    while not made.done():
        for host in hosts:
            host.cancel()
        try:
            made.exception(CANCEL_SECONDS)
        except TimeoutError:
            continue
