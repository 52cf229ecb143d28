"""Resources of a run while it is under way, opened once and closed only by `with`.

Host      a process: its event loop, the built-in endpoints that it has started, where it reports progress
Run       a run in it: its store, kept answers, lineage root, and the functions of the caller
  stage      the same with the notes and the record of a stage that is at work
  llm        the black-box, which sends no more than the caps leave
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ease_lib.artifacts.functions import LoadedFunction
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.store import Store, open_store
from ease_lib.black_box.budget_ledger import Budget, ledger_below
from ease_lib.black_box.cache import ResponseCache, open_cache
from ease_lib.black_box.child import child_endpoint
from ease_lib.black_box.client import Sampling
from ease_lib.black_box.failures import FailurePolicy
from ease_lib.black_box.in_process import OwnFunction, OwnProgram
from ease_lib.black_box.layers import BlackBox, LLMEnvironment, connect
from ease_lib.black_box.meter import Meter
from ease_lib.config.sections import Asks, EndpointConfig, JudgeConfig, Parameters
from ease_lib.evaluation.own_metric import LoadedMetric, load_metric
from ease_lib.lineage.recording import Attempt, RunContext, Work, recording
from ease_lib.machine import few_collections
from ease_lib.notes import Notes
from ease_lib.running.run_context import run_context
from ease_lib.signals import cancel_all, open_event_loop

if TYPE_CHECKING:  # it imports the search, which few who open a run need
    from ease_lib.search.search_progress import SearchState

VERDICT_TOKENS = 1024
"""Maximum number of tokens in a judge's verdict, with its reasons."""


class Progress(Protocol):
    """Receives the progress of a run."""

    def stage(self, name: str) -> None:
        """Report that a stage begins."""
        ...

    def searched(self, state: SearchState) -> None:
        """Report the progress of the search."""
        ...

    def counted(self, done: int, total: int) -> None:
        """Report that `done` of the `total` parts of a stage are done."""
        ...


class Silent:
    """Report nothing."""

    def stage(self, name: str) -> None:
        pass

    def searched(self, state: SearchState) -> None:
        pass

    def counted(self, done: int, total: int) -> None:
        pass


SILENT = Silent()


@dataclass(kw_only=True)
class Host:
    """Resources of a process, for all its runs; used by one thread.

    Args:
        context: for which run and where the process works.
        patience_seconds: how long stores that are away are waited for: `PATIENCE_SECONDS` where a run would lose what
            it did.
    """

    context: RunContext
    patience_seconds: float = 0.0
    progress: Progress = SILENT
    stack: ExitStack = field(default_factory=ExitStack)
    _servers: dict[str, str] = field(default_factory=dict)

    @cached_property
    def loop(self) -> asyncio.Runner:
        """The event loop of the asking thread, shared by all stages, so that a caller's clients survive them."""
        self.stack.enter_context(few_collections())
        return self.stack.enter_context(open_event_loop())

    def server(self, name: str, log: Path | None) -> str:
        """Base URL of a built-in endpoint, which stays up until the process ends."""
        if name not in self._servers:
            self._servers[name] = self.stack.enter_context(child_endpoint(name, log))
        return self._servers[name]

    def store(self, uri: str) -> Store | None:
        return open_store(uri, patience_seconds=self.patience_seconds) if uri else None

    def cancel(self) -> None:
        """Cancel the tasks of the event loop, like an interrupt in the main thread; called from another thread."""
        if "loop" in vars(self):
            cancel_all(self.loop.get_loop())


@contextmanager
def open_host(
    *, context: RunContext | None = None, patience_seconds: float = 0.0, progress: Progress = SILENT
) -> Iterator[Host]:
    """Open a host for this process, as its environment describes it."""
    with ExitStack() as stack:
        yield Host(context=context or run_context(), patience_seconds=patience_seconds, progress=progress, stack=stack)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Functions that were given to `ease_lib.optimize`."""

    llm: OwnFunction | None = None
    metric: LoadedFunction | None = None
    program: OwnProgram | None = None


class _Kept:
    """The kept answers of a run, opened when first needed, because the store must be checked before."""

    def __init__(self, store: Store | None, stack: ExitStack) -> None:
        self._store = store
        self._stack = stack

    @cached_property
    def answers(self) -> ResponseCache | None:
        return self._stack.enter_context(open_cache(self._store)) if self._store else None


@dataclass(frozen=True, kw_only=True)
class Run:
    """Resources that the stages of a run receive.

    Args:
        store: `store_uri`: journals, ledgers, schedules, vectors; None if nothing outlives the run.
        records: the lineage root, or None.
        notes: of the current stage; before the first stage they are thrown away.
        attempt: the record of the stage at work; None if none is written.
    """

    host: Host
    store: Store | None
    records: Store | None
    kept: _Kept
    caller: Caller = Caller()
    notes: Notes = field(default_factory=Notes)
    attempt: Attempt | None = None

    @property
    def sources(self) -> Sources:
        """Files that parameters name."""
        return Sources(notes=self.notes, patience_seconds=self.host.patience_seconds)

    @contextmanager
    def stage(self, work: Work, *, run_name: str = "") -> Iterator[Run]:
        """The run for a stage with this work, which is recorded."""
        with recording(work, self.records, replace_name(self.host.context, run_name)) as attempt:
            yield replace(self, notes=attempt.notes, attempt=attempt)

    def unrecorded(self) -> Run:
        """The run for trial work, and for stages whose work is recorded elsewhere or not at all."""
        return replace(self, notes=Notes(), attempt=None)

    def metric(self, name: str, sha256: str = "", parameter: str = "metric") -> LoadedMetric:
        """A metric by its name, from a file, or the caller's function; messages name its parameter."""
        return load_metric(name, self.sources, sha256=sha256, own=self.caller.metric, parameter=parameter)

    def budget(self, config: Asks) -> Budget:
        """The caps of the run, with what its stages have spent."""
        caps = config.caps
        return Budget(
            requests=caps.max_llm_requests,
            cost_usd=caps.max_cost_usd,
            prices=prices_of(config),
            store=ledger_below(self.store, config.continuation.ledger),
        )

    @contextmanager
    def llm(self, config: Asks, sampling: Sampling, part: str, *, judged: object = False) -> Iterator[BlackBox]:
        """The black-box, limited to what the caps leave after the other parts of the run.

        Args:
            part: of the run, as the ledger names it; what it spends is booked by the stage.
            judged: true where answers are scored by a judge.

        Raises:
            EndpointError, ConfigError: when the endpoint cannot be reached or does not say which model to use.
        """
        budget = self.budget(config)
        meter = Meter(budget, budget.spent(without=[part]))
        judge = config.judge if judged else None
        generation = config.continuation.answers
        with self._connected(config.endpoint, sampling, judge, meter, generation=generation, keeps=True) as black_box:
            yield black_box

    @contextmanager
    def trial(
        self, endpoint: EndpointConfig, sampling: Sampling, judge: JudgeConfig | None = None
    ) -> Iterator[BlackBox]:
        """The black-box for the checks before a run: nothing is kept, counted or capped."""
        with self._connected(endpoint, sampling, judge, Meter(), generation="", keeps=False) as black_box:
            yield black_box

    @contextmanager
    def _connected(
        self,
        endpoint: EndpointConfig,
        sampling: Sampling,
        judge: JudgeConfig | None,
        meter: Meter,
        *,
        generation: str,
        keeps: bool,
    ) -> Iterator[BlackBox]:
        around = LLMEnvironment(
            loop=self.host.loop,
            serve=self.host.server,
            store=self.store if keeps else None,
            cache=self.kept.answers if keeps else None,
            sources=self.sources,
            meter=meter,
            own=self.caller.llm,
            program=self.caller.program,
        )
        with ExitStack() as stack:
            answering = connect(endpoint, sampling, around, stack, generation=generation)
            judging = None
            if judge:
                verdicts = Sampling(max_tokens=VERDICT_TOKENS, stop="", messages=True)
                judging = connect(judge.endpoint(endpoint), verdicts, around, stack, judge=judge)
            self.notes.endpoint = answering.asked.endpoint_identity
            self.notes.parameters_left_out(answering.wire.left_out)
            yield BlackBox(
                answering=answering,
                judge=judging,
                meter=meter,
                loop=self.host.loop,
                failures=FailurePolicy(kind=endpoint.llm_failures, coverage=endpoint.llm_coverage),
            )


@contextmanager
def open_run(host: Host, store_uri: str, lineage_root: str, caller: Caller = Caller()) -> Iterator[Run]:
    """A run in this process.

    Args:
        store_uri, lineage_root: folders or s3://; empty if nothing of the run outlives it.
    """
    store = host.store(store_uri)
    with ExitStack() as stack:
        yield Run(host=host, store=store, records=host.store(lineage_root), kept=_Kept(store, stack), caller=caller)


def run_of(parameters: Parameters) -> tuple[str, str]:
    """The places that `open_run` takes, of a run with these parameters."""
    return parameters.run.store_uri, parameters.lineage_root


def replace_name(context: RunContext, run_name: str) -> RunContext:
    return replace(context, run_name=run_name) if run_name else context


def prices_of(config: Asks) -> dict[str, float]:
    """USD for a million tokens of the LLM and of the judge, as `Usage.cost_usd` takes them."""
    return config.endpoint.prices | config.judge.prices
