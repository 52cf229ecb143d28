"""Open the black-box that a configuration names: start it if it is one of ours, find its model, wrap the client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ease_lib import observations
from ease_lib.artifacts.store import is_s3
from ease_lib.black_box.cache import CachingClient, ResponseCache, open_cache
from ease_lib.black_box.client import (
    JUDGE_REMEDIES,
    REMEDIES,
    InnermostClient,
    LLMClient,
    OpenAIClient,
    Sampling,
)
from ease_lib.black_box.concurrency import AdaptiveClient
from ease_lib.black_box.endpoint_notes import FIRST, EndpointNotes, Notes
from ease_lib.black_box.failures import FailurePolicy, Remedies, without_credentials
from ease_lib.black_box.in_process import OWN_FUNCTION, FunctionClient, OwnFunctionClient
from ease_lib.black_box.meter import Meter, MeteredClient
from ease_lib.black_box.pace import paced
from ease_lib.black_box.retries import RetryingClient
from ease_lib.black_box.served_models import asked_model, own_model
from ease_lib.config.sections import EndpointConfig, JudgeConfig
from ease_lib.endpoints.child import running_endpoint
from ease_lib.endpoints.local import weights_path
from ease_lib.errors import ConfigError
from ease_lib.keys import endpoint_key, header_value
from ease_lib.processes import few_collections
from ease_lib.signals import open_event_loop

KEY_VARIABLE, JUDGE_KEY_VARIABLE = "EASE_LLM_API_KEY", "EASE_JUDGE_API_KEY"
VERDICT_TOKENS = 1024
"""Of the longest verdict of a judge, with what it thinks before."""
OWN_ENDPOINTS = LOCAL, SIMULATED, FUNCTION = "local", "simulated", "function"
"""Not behind a URL: a small LLM in a process of its own, functions of ours, and the caller's (`ease_lib.optimize`)."""


@dataclass(frozen=True, kw_only=True)
class OpenedJudge:
    """A second LLM, that scores answers; all but the clients is its identity."""

    endpoint: str
    model: str
    extra: Mapping[str, Any]
    max_tokens: int
    client: LLMClient
    innermost: InnermostClient

    @property
    def identity(self) -> list[Any]:
        return [self.endpoint, self.model, dict(self.extra), self.max_tokens]


@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """The LLM as the search sees it.

    `endpoint` is its URL without credentials, or `local` or `simulated`; with `model`, `api` and `extra`, what else its
    requests say, it is its identity. `innermost` counts the answers that this process had from it, `meter` bounds what
    it and the judge may still send, and `answers` is the generation of kept answers.
    """

    endpoint: str
    model: str
    api: str
    client: LLMClient
    innermost: InnermostClient
    meter: Meter
    answers: str
    runner: asyncio.Runner
    failures: FailurePolicy
    extra: Mapping[str, Any] = field(default_factory=dict)
    judge: OpenedJudge | None = None

    @property
    def answered(self) -> int:
        """Answers that this process had, the judge's too."""
        return self.innermost.answered + (self.judge.innermost.answered if self.judge else 0)

    @property
    def simulated(self) -> bool:
        return self.endpoint == "simulated"


@contextmanager
def open_black_box(
    config: EndpointConfig, *, sampling: Sampling, store_uri: str, answers: str = "", judge: JudgeConfig | None = None
) -> Iterator[BlackBox]:
    """The black-box for the length of the context.

    Args:
        store_uri: folder or s3:// for the response cache, or empty for none; a folder also takes the log of an endpoint
            of ours.
        answers: generation of kept answers to use; empty is the newest.
        judge: of the answers, where an LLM is.

    Raises:
        EndpointError, ConfigError: when it cannot be reached or does not say which model to use.
    """
    with ExitStack() as stack:
        runner = stack.enter_context(open_event_loop())
        stack.enter_context(few_collections())
        if config.llm_base_url == SIMULATED:
            endpoint, model, api, client, known = _simulated(config, sampling, store_uri)
        elif config.llm_base_url == FUNCTION:
            endpoint, model, api, client, known = _own_function(config, sampling, store_uri)
        else:
            endpoint, model, api, client, known = _served(config, sampling, store_uri, runner, stack)
        stack.callback(lambda: runner.run(client.close()))
        meter = Meter()
        bounded = AdaptiveClient(
            _paced(MeteredClient(client, meter), config, sampling, store_uri, endpoint, model),
            maximum=config.llm_concurrency,
            outlives_prompts=config.llm_failures != "stop",
        )
        answering: LLMClient = RetryingClient(bounded, deadline_seconds=config.llm_deadline_seconds)
        generation = answers or known.answers
        cache = stack.enter_context(open_cache(store_uri)) if store_uri else None
        if cache:
            identity = answer_identity(endpoint, model, api, sampling, generation, config.extra)
            answering = CachingClient(answering, cache, identity, lambda: client.left_out)
        opened_judge = _judge(judge, config, meter, cache, store_uri, runner, stack) if judge else None
        observations.endpoint_used(endpoint, model, api)
        observations.parameters_left_out(client.left_out)
        yield BlackBox(
            endpoint=endpoint,
            model=model,
            api=api,
            client=answering,
            innermost=client,
            meter=meter,
            answers=generation,
            runner=runner,
            extra=config.extra,
            judge=opened_judge,
            failures=FailurePolicy(kind=config.llm_failures, coverage=config.llm_coverage),
        )


def _judge(
    judge: JudgeConfig,
    config: EndpointConfig,
    meter: Meter,
    cache: ResponseCache | None,
    store_uri: str,
    runner: asyncio.Runner,
    stack: ExitStack,
) -> OpenedJudge:
    """It shares the meter, and has a concurrency of its own; verdicts that are refused stop no others."""
    asked = judge.endpoint(config)
    sampling = Sampling(max_tokens=VERDICT_TOKENS, stop="", messages=True)
    variable = JUDGE_KEY_VARIABLE if judge.judge_base_url else KEY_VARIABLE
    endpoint, model, api, client, known = _served(
        asked, sampling, store_uri, runner, stack, key_variable=variable, remedies=JUDGE_REMEDIES
    )
    stack.callback(lambda: runner.run(client.close()))
    bounded = AdaptiveClient(
        _paced(MeteredClient(client, meter, judges=True), asked, sampling, store_uri, endpoint, model),
        maximum=config.llm_concurrency,
        outlives_prompts=True,
    )
    answering: LLMClient = RetryingClient(bounded, deadline_seconds=config.llm_deadline_seconds)
    if cache:
        identity = answer_identity(endpoint, model, api, sampling, known.answers, asked.extra)
        answering = CachingClient(answering, cache, identity, lambda: client.left_out)
    return OpenedJudge(
        endpoint=endpoint,
        model=model,
        extra=asked.extra,
        max_tokens=sampling.max_tokens,
        client=answering,
        innermost=client,
    )


def _paced(
    client: LLMClient, config: EndpointConfig, sampling: Sampling, store_uri: str, endpoint: str, model: str
) -> LLMClient:
    return paced(
        client,
        requests_per_minute=config.llm_requests_per_minute,
        tokens_per_minute=config.llm_tokens_per_minute,
        answer_tokens=sampling.max_tokens,
        store_uri=store_uri,
        endpoint=endpoint,
        model=model,
    )


def answer_identity(
    endpoint: str,
    model: str,
    api: str,
    sampling: Sampling,
    answers: str = FIRST,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """What an answer depends on beside its prompt: with it, the address of the answer in the cache."""
    generation: dict[str, Any] = {} if answers == FIRST else {"answers": answers}
    if extra:
        generation["extra"] = dict(extra)
    return {"endpoint": endpoint, "model": model, "api": api, **sampling.identity, **generation}


class _Opened(NamedTuple):
    """An endpoint, and what is known of it."""

    endpoint: str
    model: str
    api: str
    client: InnermostClient
    notes: Notes


def _simulated(config: EndpointConfig, sampling: Sampling, store_uri: str) -> _Opened:
    if find_spec("ease_lib.simulation") is None:
        raise ConfigError(
            f"llm_base_url={SIMULATED} is for studies in a checkout, and is not in this image; name an endpoint"
        )
    from ease_lib.simulation.models import MODELS

    model, api = own_model(config, list(MODELS)), _api(config, sampling)
    known = EndpointNotes(store_uri, SIMULATED, model, api).read()
    return _Opened(SIMULATED, model, api, FunctionClient(model, MODELS[model]), known)


def _own_function(config: EndpointConfig, sampling: Sampling, store_uri: str) -> _Opened:
    own = OWN_FUNCTION.value
    if own is None:
        raise ConfigError(f"llm_base_url={FUNCTION} is set by ease_lib.optimize, for a function of the same program")
    api = _api(config, sampling)
    known = EndpointNotes(store_uri, FUNCTION, own.name, api).read()
    return _Opened(FUNCTION, own.name, api, OwnFunctionClient(own, config.llm_concurrency), known)


def _served(
    config: EndpointConfig,
    sampling: Sampling,
    store_uri: str,
    runner: asyncio.Runner,
    stack: ExitStack,
    *,
    key_variable: str = KEY_VARIABLE,
    remedies: Remedies = REMEDIES,
) -> _Opened:
    url = stack.enter_context(_endpoint_url(config, store_uri))
    own = config.llm_base_url == LOCAL
    key = "" if own else endpoint_key(url, key_variable)
    api = _api(config, sampling)
    model = runner.run(asked_model(config, url, key, remedies))
    endpoint = LOCAL if own else without_credentials(url)
    notes = EndpointNotes(store_uri, endpoint, model, api)
    known = notes.read()
    client = OpenAIClient(
        base_url=url,
        model=model,
        api=api,
        key=key,
        sampling=sampling,
        timeout_seconds=config.llm_timeout_seconds,
        extra=config.extra,
        headers=_headers(config),
        left_out=known.left_out,
        on_refusal=notes.keep_left_out,
        remedies=remedies,
    )
    return _Opened(endpoint, model, api, client, known)


def _headers(config: EndpointConfig) -> dict[str, str]:
    """
    Raises:
        ConfigError: where a variable is not set.
    """
    values = {name: header_value(variable) for name, variable in config.headers.items()}
    missing = [name for name, value in values.items() if not value]
    if missing:
        variable = config.headers[missing[0]]
        raise ConfigError(f"llm_headers names the environment variable {variable}, which is not set; export it")
    return values


def _api(config: EndpointConfig, sampling: Sampling) -> str:
    """
    Raises:
        ConfigError: where prompts are messages, and the API takes texts.
    """
    if sampling.messages and config.llm_api == "completions":
        raise ConfigError("llm_api=completions takes no messages, and the prompt has some; leave llm_api at auto")
    if config.llm_api != "auto":
        return config.llm_api
    own = config.llm_base_url in (LOCAL, SIMULATED)
    return "completions" if own and not sampling.messages else "chat"


@contextmanager
def _endpoint_url(config: EndpointConfig, store_uri: str) -> Iterator[str]:
    name = config.llm_base_url
    if name == LOCAL:
        weights_path()
        with running_endpoint(name, _log_of(name, store_uri)) as url:
            yield url
        return
    if urlsplit(name).scheme not in ("http", "https") or not urlsplit(name).hostname:
        raise ConfigError(f"llm_base_url={name} is none of local, simulated, or an http(s) URL like https://host/v1")
    yield name.rstrip("/")


def _log_of(name: str, store_uri: str) -> Path | None:
    """Where an endpoint of ours writes what it prints: beside the answers, where these are kept in a folder."""
    if not store_uri or is_s3(store_uri):
        return None
    folder = Path(store_uri)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-endpoint.log"
