"""Models that an endpoint serves, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ease_lib import errors
from ease_lib.black_box.child import PROGRAMS
from ease_lib.black_box.client import REMEDIES
from ease_lib.black_box.failures import Refusal, Remedies, named_failure, what_it_said
from ease_lib.black_box.retries import with_retries
from ease_lib.black_box.transport import Transport
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import ConfigError, ModelNotFound
from ease_lib.urls import without_credentials


async def list_models(
    base_url: str,
    key: str,
    *,
    timeout_seconds: float,
    deadline_seconds: float,
    remedies: Remedies = REMEDIES,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Models that an endpoint lists; empty if it lists none.

    Raises:
        EndpointError: when it cannot be reached, or refuses the key.
    """
    transport = Transport(base_url, key, timeout_seconds, headers)
    shown, secrets = transport.shown_url, [key, *headers.values()]

    async def ask() -> list[str]:
        try:
            return [str(model["id"]) for model in (await transport.get("models"))["data"] or []]
        except (AttributeError, TypeError, LookupError):
            return []
        except Exception as error:
            if isinstance(error, Refusal) and error.status in (401, 403):
                raise errors.AuthenticationFailed(
                    f"{shown} answered {error.status} when asked for its models: {what_it_said(error, secrets)}",
                    remedy=f"set {remedies.model}, or check {remedies.keys}",
                ) from error
            failure = named_failure(
                error, where=shown, model="", remedies=remedies, secrets=secrets, proxy=transport.proxy
            )
            away = failure.retryable and not isinstance(failure, errors.GarbledAnswer)
            if away or isinstance(failure, errors.AuthenticationFailed | errors.WrongAddress):
                raise failure from error
            return []

    try:
        return (await with_retries(ask, deadline_seconds=deadline_seconds))[0]
    finally:
        await transport.close()


async def asked_model(
    config: EndpointConfig,
    url: str,
    key: str,
    remedies: Remedies = REMEDIES,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The model to ask for: the one of the configuration, else the only one that is served, or the first of `local`."""
    own = config.llm_base_url in PROGRAMS
    if config.llm_model and not own:
        return config.llm_model
    served = await list_models(
        url,
        key,
        timeout_seconds=config.llm_timeout_seconds,
        deadline_seconds=config.llm_deadline_seconds,
        remedies=remedies,
        headers=headers,
    )
    if own:
        return own_model(config, served)
    if len(served) == 1:
        return served[0]
    shown = without_credentials(url)
    if not served:
        raise ConfigError(
            f"{shown} does not list its models; set {remedies.model} (and check {remedies.url}: most end in /v1)"
        )
    some = ", ".join(served[:5]) + (", ..." if len(served) > 5 else "")
    raise ConfigError(f"{shown} serves {len(served)} models ({some}); set {remedies.model} to one of them")


def own_model(config: EndpointConfig, served: Sequence[str]) -> str:
    """Model to ask of a built-in endpoint: the first, or the one that is named."""
    if config.llm_model and config.llm_model not in served:
        raise ModelNotFound(
            f"llm_model={config.llm_model} is not served by {config.llm_base_url}; set one of {', '.join(served)}"
        )
    return config.llm_model or served[0]
