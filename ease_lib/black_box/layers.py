"""Open the LLM of a configuration: find it, start it if it is built in, and wrap its client layer by layer.

    wire             OpenAIClient, FunctionClient: asks once, and names every failure
    MeteredClient    sends no more than the caps allow
    PacedClient      obeys the limits per minute
    BlamingClient    separates failures of one prompt from failures of the endpoint
    AdaptiveClient   bounds the requests in flight
    RetryingClient   retries temporary failures
    CachingClient    asks nothing twice

`LAYERS` is that order. The judge is a second LLM behind the same layers; both share the meter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ease_lib.artifacts.functions import load_function
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.store import Store
from ease_lib.black_box.blame import BlamingClient
from ease_lib.black_box.cache import CachingClient, ResponseCache
from ease_lib.black_box.client import (
    JUDGE_REMEDIES,
    REMEDIES,
    InnermostClient,
    LLMClient,
    OpenAIClient,
    Sampling,
)
from ease_lib.black_box.concurrency import AdaptiveClient
from ease_lib.black_box.endpoint_notes import EndpointNotes
from ease_lib.black_box.failures import FailurePolicy
from ease_lib.black_box.in_process import FunctionClient, OwnFunction, OwnProgram, ProgramClient
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.black_box.local_llm import weights_path
from ease_lib.black_box.meter import Meter, MeteredClient
from ease_lib.black_box.pace import PacedClient, SharedRate, schedules
from ease_lib.black_box.retries import RetryingClient
from ease_lib.black_box.served_models import asked_model
from ease_lib.black_box.versions import Versions
from ease_lib.config.sections import FUNCTION, PYTHON, ROWS, EndpointConfig, JudgeConfig
from ease_lib.digests import sha256_of
from ease_lib.errors import ConfigError
from ease_lib.keys import endpoint_key, sent_header
from ease_lib.urls import endpoint_url, problems_of_url, without_credentials

KEY_VARIABLE, JUDGE_KEY_VARIABLE = "EASE_LLM_API_KEY", "EASE_JUDGE_API_KEY"
LOCAL = "local"
"""Name of the small local LLM, which runs in its own process; not a URL, like what begins with `PYTHON`, and
`FUNCTION`."""


@dataclass(frozen=True, kw_only=True)
class LayerContext:
    """Settings from which the layers of one LLM are built.

    Args:
        left_out: parameters that the endpoint is known to refuse by now.
        versions: of the model behind the name.
        is_judge: its answers are verdicts, one of which that is refused stops no others.
    """

    config: EndpointConfig
    asked: LLMIdentity
    around: LLMEnvironment
    schedules: tuple[SharedRate | None, SharedRate | None]
    left_out: Callable[[], frozenset[str]]
    versions: Versions
    is_judge: bool

    @property
    def outlives_prompts(self) -> bool:
        return self.is_judge or self.config.llm_failures != "stop"


def _metered(inner: LLMClient, at: LayerContext) -> LLMClient:
    return MeteredClient(inner, at.around.meter, judges=at.is_judge)


def _blaming(inner: LLMClient, at: LayerContext) -> LLMClient:
    return BlamingClient(inner)


def _paced(inner: LLMClient, at: LayerContext) -> LLMClient:
    answer_tokens = at.asked.sampling.max_tokens
    return PacedClient(inner, *at.schedules, answer_tokens=answer_tokens) if any(at.schedules) else inner


def _bounded(inner: LLMClient, at: LayerContext) -> LLMClient:
    return AdaptiveClient(inner, maximum=at.config.llm_concurrency, outlives_prompts=at.outlives_prompts)


def _retrying(inner: LLMClient, at: LayerContext) -> LLMClient:
    return RetryingClient(inner, deadline_seconds=at.config.llm_deadline_seconds)


def _cached(inner: LLMClient, at: LayerContext) -> LLMClient:
    if at.around.cache is None:
        return inner
    return CachingClient(inner, at.around.cache, at.asked, at.around.sources.notes, at.left_out, at.versions)


LAYERS: tuple[Callable[[LLMClient, LayerContext], LLMClient], ...] = (
    _metered,
    _paced,
    _blaming,
    _bounded,
    _retrying,
    _cached,
)
"""The layers from the wire outwards."""


@dataclass(frozen=True, kw_only=True)
class LLMEnvironment:
    """Resources that an LLM needs from the process and the run that ask it.

    Args:
        loop: the event loop that its clients live in.
        serve: returns the base URL of a built-in endpoint by its name, started if it is not up; a path takes its log.
        store: the run's, where what is known of endpoints and the schedules lie; None keeps nothing.
        cache: kept answers; None keeps none.
        sources: files that parameters name, and the notes of the stage that asks.
        own: the caller's function to ask, if any; program: one that replaces endpoint, prompt and metric, if any.
    """

    loop: asyncio.Runner
    serve: Callable[[str, Path | None], str]
    store: Store | None
    cache: ResponseCache | None
    sources: Sources
    meter: Meter
    own: OwnFunction | None = None
    program: OwnProgram | None = None


@dataclass(frozen=True, kw_only=True)
class ConnectedLLM:
    """One LLM behind its layers; `wire` counts the answers that this process had from it."""

    asked: LLMIdentity
    client: LLMClient
    wire: InnermostClient


@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """The LLM as the search sees it, and the judge of its answers, where a second one scores them.

    `meter` bounds what both may still send; `loop` is the event loop that their clients live in.
    """

    answering: ConnectedLLM
    judge: ConnectedLLM | None
    meter: Meter
    loop: asyncio.Runner
    failures: FailurePolicy

    @property
    def asked(self) -> LLMIdentity:
        return self.answering.asked

    @property
    def client(self) -> LLMClient:
        return self.answering.client

    @property
    def answered(self) -> int:
        """Number of answers that this process received, the judge's included."""
        return self.answering.wire.answered + (self.judge.wire.answered if self.judge else 0)

    @property
    def is_function(self) -> bool:
        """Whether a function that was named answers in this process, and no LLM."""
        return self.asked.endpoint.startswith(PYTHON)


class _Wire(NamedTuple):
    asked: LLMIdentity
    client: InnermostClient
    versions: Versions


def connect(
    config: EndpointConfig,
    sampling: Sampling,
    around: LLMEnvironment,
    stack: ExitStack,
    *,
    generation: str = "",
    judge: JudgeConfig | None = None,
) -> ConnectedLLM:
    """An LLM behind its layers, until `stack` ends; `llm_thinking_tokens` are added to the limit of each request.

    Args:
        config: of the LLM; of a judge, as `JudgeConfig.endpoint` gives it.
        generation: of kept answers to use; empty is the newest.
        judge: true where it is the one.

    Raises:
        EndpointError, ConfigError: when it cannot be reached or does not say which model to use.
    """
    sampling = replace(sampling, max_tokens=sampling.max_tokens + config.llm_thinking_tokens)
    if config.evaluate:
        wire = _program(config, around, generation)
    elif config.llm_base_url == FUNCTION:
        wire = _callers(config, sampling, around, generation)
    elif config.llm_base_url.startswith(PYTHON):
        wire = _named(config, sampling, around, generation)
    else:
        wire = _served(config, sampling, around, generation, judge)
    stack.callback(lambda: around.loop.run(wire.client.close()))
    at = LayerContext(
        config=config,
        asked=wire.asked,
        around=around,
        schedules=schedules(config, wire.asked, around.store),
        left_out=lambda: wire.client.left_out,
        versions=wire.versions,
        is_judge=judge is not None,
    )
    client: LLMClient = wire.client
    for layer in LAYERS:
        client = layer(client, at)
    return ConnectedLLM(asked=wire.asked, client=client, wire=wire.client)


def _program(config: EndpointConfig, around: LLMEnvironment, generation: str) -> _Wire:
    """A program that evaluates rows, identified by the content of its file or module, which decides the scores."""
    if config.program == FUNCTION:
        if around.program is None:
            raise ConfigError(f"evaluate={FUNCTION} is set by ease_lib.optimize, for a function of the same program")
        own, endpoint = around.program, FUNCTION
    else:
        loaded = load_function(f"evaluate={config.evaluate}", config.program, around.sources)
        name = config.llm_model or config.program.rpartition(":")[2]
        own, endpoint = OwnProgram(name, loaded.call, sha256_of(loaded.source)), f"{PYTHON}{config.program}"
    asked = LLMIdentity(
        endpoint=endpoint,
        model=own.name,
        api=ROWS,
        sampling=Sampling(max_tokens=0, stop=""),
        extra={"source_sha256": own.sha256},
    )
    versions = Versions(EndpointNotes(around.store, asked, around.sources.notes), asked, generation)
    client = ProgramClient(own, config.llm_concurrency, around.sources.notes)
    return _Wire(replace(asked, generation=versions.own), client, versions)


def _callers(config: EndpointConfig, sampling: Sampling, around: LLMEnvironment, generation: str) -> _Wire:
    if around.own is None:
        raise ConfigError(f"llm_base_url={FUNCTION} is set by ease_lib.optimize, for a function of the same program")
    return _function(around.own, FUNCTION, config, sampling, around, generation)


def _named(config: EndpointConfig, sampling: Sampling, around: LLMEnvironment, generation: str) -> _Wire:
    url = config.llm_base_url
    loaded = load_function(f"llm_base_url={url}", url.removeprefix(PYTHON), around.sources)
    own = OwnFunction(config.llm_model or url.rpartition(":")[2], loaded.call)
    return _function(own, url, config, sampling, around, generation)


def _function(
    own: OwnFunction, endpoint: str, config: EndpointConfig, sampling: Sampling, around: LLMEnvironment, generation: str
) -> _Wire:
    asked = LLMIdentity(
        endpoint=endpoint, model=own.name, api=_api(config, sampling), sampling=sampling, extra=config.extra
    )
    versions = Versions(EndpointNotes(around.store, asked, around.sources.notes), asked, generation)
    client = FunctionClient(own, config.llm_concurrency, around.sources.notes)
    return _Wire(replace(asked, generation=versions.own), client, versions)


def _served(
    config: EndpointConfig, sampling: Sampling, around: LLMEnvironment, generation: str, judge: JudgeConfig | None
) -> _Wire:
    url = _endpoint_url(config, around)
    is_local = config.llm_base_url == LOCAL
    variable = JUDGE_KEY_VARIABLE if judge and judge.judge_base_url else KEY_VARIABLE
    remedies = JUDGE_REMEDIES if judge else REMEDIES
    key, headers = "" if is_local else endpoint_key(url, variable), _headers(config)
    asked = LLMIdentity(
        endpoint=LOCAL if is_local else without_credentials(url),
        model=around.loop.run(asked_model(config, url, key, remedies, headers)),
        api=_api(config, sampling),
        sampling=sampling,
        extra=config.extra,
    )
    kept = EndpointNotes(around.store, asked, around.sources.notes)
    versions = Versions(kept, asked, generation)
    client = OpenAIClient(
        base_url=url,
        model=asked.model,
        api=asked.api,
        key=key,
        sampling=sampling,
        timeout_seconds=config.llm_timeout_seconds,
        notes=around.sources.notes,
        extra=config.extra,
        headers=headers,
        left_out=kept.read().left_out,
        on_refusal=kept.keep_left_out,
        on_answer=versions.met,
        remedies=remedies,
    )
    return _Wire(replace(asked, generation=versions.own), client, versions)


def _headers(config: EndpointConfig) -> Mapping[str, str]:
    """
    Raises:
        ConfigError: if a variable is not set.
    """
    values = {name: sent_header(name, variable) for name, variable in config.headers.items()}
    missing = [name for name, value in values.items() if not value]
    if missing:
        variable = config.headers[missing[0]]
        raise ConfigError(f"llm_headers names the environment variable {variable}, which is not set; export it")
    return values


def _api(config: EndpointConfig, sampling: Sampling) -> str:
    """
    Raises:
        ConfigError: if prompts are messages, and the API takes texts.
    """
    if sampling.messages and config.llm_api == "completions":
        raise ConfigError("llm_api=completions takes no messages, and the prompt has some; leave llm_api at auto")
    if config.llm_api != "auto":
        return config.llm_api
    return "completions" if config.llm_base_url == LOCAL and not sampling.messages else "chat"


def _endpoint_url(config: EndpointConfig, around: LLMEnvironment) -> str:
    name = config.llm_base_url
    if name == LOCAL:
        weights_path()
        return around.serve(name, _log_of(name, around.store))
    for problem in problems_of_url(name):
        raise ConfigError(f"llm_base_url={name} {problem}; or take local, or python:MODULE:NAME")
    return endpoint_url(name)


def _log_of(name: str, store: Store | None) -> Path | None:
    """Path of a built-in endpoint's log: next to the answers, if these are kept in a folder."""
    if store is None or store.folder is None:
        return None
    store.folder.mkdir(parents=True, exist_ok=True)
    return store.folder / f"{name}-endpoint.log"
