"""Which models an endpoint serves, and which of them is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib import errors
from ease_lib.black_box.child import PROGRAMS
from ease_lib.black_box.client import REMEDIES
from ease_lib.black_box.failures import Refusal, Remedies, named_failure, what_it_said, without_credentials
from ease_lib.black_box.retries import with_retries
from ease_lib.black_box.transport import openai_client
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import ConfigError, ModelNotFound


async def list_models(
    base_url: str, key: str, *, timeout_seconds: float, deadline_seconds: float, remedies: Remedies = REMEDIES
) -> list[str]:
    """The models an endpoint says it serves; empty when it does not say.

    Raises:
        EndpointError: when it cannot be reached, or refuses the key.
    """
    import openai  # see `failures.is_of_openai`

    client = openai_client(base_url, key, timeout_seconds)
    shown = without_credentials(base_url)

    async def ask() -> list[str]:
        try:
            return [model.id for model in (await client.models.list()).data or []]
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            response = error.response
            said = what_it_said(Refusal.of_response(error.status_code, response.headers, response.content), [key])
            raise errors.AuthenticationFailed(
                f"{shown} answered {error.status_code} to a question for its models: {said}; "
                f"set {remedies.model}, or check {remedies.keys}"
            ) from error
        except openai.OpenAIError as error:
            failure = named_failure(error, where=shown, model="", remedies=remedies, secrets=[key])
            away = failure.retryable and not isinstance(failure, errors.GarbledAnswer)
            if away or isinstance(failure, errors.AuthenticationFailed):
                raise failure from error
            return []
        except (AttributeError, TypeError, ValueError):
            return []

    try:
        return (await with_retries(ask, deadline_seconds=deadline_seconds))[0]
    finally:
        await client.close()


async def asked_model(config: EndpointConfig, url: str, key: str, remedies: Remedies = REMEDIES) -> str:
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
    """The model to ask for of an endpoint of ours: the first, or the one that is named."""
    if config.llm_model and config.llm_model not in served:
        raise ModelNotFound(
            f"llm_model={config.llm_model} is not served by {config.llm_base_url}; set one of {', '.join(served)}"
        )
    return config.llm_model or served[0]
