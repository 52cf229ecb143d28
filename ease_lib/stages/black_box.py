"""Open the black-box that a configuration names: start it if it is one of ours, find its model, wrap the client."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ease_lib import observations
from ease_lib.artifacts.store import is_s3
from ease_lib.config import EndpointConfig
from ease_lib.endpoint_failures import without_credentials
from ease_lib.endpoints.child import OWN_ENDPOINTS, running_endpoint
from ease_lib.endpoints.local import weights_path
from ease_lib.errors import ConfigError, ModelNotFound
from ease_lib.evaluation.concurrency import AdaptiveClient
from ease_lib.evaluation.llm_client import LLMClient, OpenAIClient, RetryingClient, Sampling, list_models
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.response_cache import CachingClient, open_cache
from ease_lib.tasks.base import Exemplar

KEY_VARIABLES = ("EASE_LLM_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """The LLM as the search sees it.

    `endpoint` is its URL without credentials, or `local` or `simulated`; with `model` and `api` it is its identity.
    `innermost` counts the answers that this process had from it.
    """

    endpoint: str
    model: str
    api: str
    client: LLMClient
    innermost: OpenAIClient
    runner: asyncio.Runner
    ask_first_alone: bool

    @property
    def simulated(self) -> bool:
        return self.endpoint == "simulated"

    def objective(self, rows: list[Exemplar], metric: str) -> Objective:
        return Objective(self.client, self.runner, rows, metric=metric, ask_first_alone=self.ask_first_alone)


@contextmanager
def open_black_box(config: EndpointConfig, *, sampling: Sampling, store_uri: str) -> Iterator[BlackBox]:
    """The black-box for the length of the context.

    Args:
        store_uri: folder or s3:// for the response cache, or empty for none; a folder also takes the log of an endpoint
            of ours.

    Raises:
        EndpointError, ConfigError: when it cannot be reached or does not say which model to use.
    """
    with ExitStack() as stack:
        url = stack.enter_context(_endpoint_url(config, store_uri))
        runner = stack.enter_context(asyncio.Runner())
        own = config.llm_base_url in OWN_ENDPOINTS
        key = "" if own else next((value for name in KEY_VARIABLES if (value := os.environ.get(name))), "")
        api = config.llm_api if config.llm_api != "auto" else "completions" if own else "chat"
        model = _model(config, url, key)
        client = OpenAIClient(
            base_url=url,
            model=model,
            api=api,
            key=key,
            sampling=sampling,
            timeout_seconds=config.llm_timeout_seconds,
        )
        stack.callback(lambda: runner.run(client.close()))
        endpoint = config.llm_base_url if own else without_credentials(url)
        bounded = AdaptiveClient(client, maximum=config.llm_concurrency)
        answering: LLMClient = RetryingClient(bounded, deadline_seconds=config.llm_deadline_seconds)
        if store_uri:
            cache = stack.enter_context(open_cache(store_uri))
            answering = CachingClient(answering, cache, answer_identity(endpoint, model, api, sampling))
        observations.endpoint_used(endpoint, model, api)
        yield BlackBox(
            endpoint=endpoint,
            model=model,
            api=api,
            client=answering,
            innermost=client,
            runner=runner,
            ask_first_alone=config.llm_base_url == "local",
        )


def answer_identity(endpoint: str, model: str, api: str, sampling: Sampling) -> dict[str, Any]:
    """What an answer depends on beside its prompt: with it, the address of the answer in the cache."""
    return {"endpoint": endpoint, "model": model, "api": api, **asdict(sampling)}


@contextmanager
def _endpoint_url(config: EndpointConfig, store_uri: str) -> Iterator[str]:
    name = config.llm_base_url
    if name not in OWN_ENDPOINTS:
        if urlsplit(name).scheme not in ("http", "https") or not urlsplit(name).hostname:
            raise ConfigError(
                f"llm_base_url={name} is none of local, simulated, or an http(s) URL like https://host/v1"
            )
        yield name.rstrip("/")
        return
    if name == "local":
        weights_path()
    folder = Path(store_uri if store_uri and not is_s3(store_uri) else tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    with running_endpoint(name, folder / f"{name}-endpoint.log") as url:
        yield url


def _model(config: EndpointConfig, url: str, key: str) -> str:
    """The model to ask for, from the configuration; else the only one served, or the first of an endpoint of ours."""
    shown = without_credentials(url)
    served = list_models(url, key, config.llm_timeout_seconds)
    own = config.llm_base_url in OWN_ENDPOINTS
    if config.llm_model:
        if own and config.llm_model not in served:
            raise ModelNotFound(
                f"llm_model={config.llm_model} is not served by {config.llm_base_url}; set one of {', '.join(served)}"
            )
        return config.llm_model
    if len(served) == 1 or (served and own):
        return served[0]
    if not served:
        raise ConfigError(f"{shown} does not list its models; set llm_model (and check llm_base_url: most end in /v1)")
    some = ", ".join(served[:5]) + (", ..." if len(served) > 5 else "")
    raise ConfigError(f"{shown} serves {len(served)} models ({some}); set llm_model to one of them")
