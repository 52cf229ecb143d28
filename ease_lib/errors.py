"""Every error a user can cause or meet, by kind. The message names the value, the limit and the remedy.

Anything else that is raised is a bug of ours and keeps its traceback.
"""

from __future__ import annotations


class EaseError(Exception):
    """Base of all errors that are shown as one message, without a traceback."""


class ConfigError(EaseError):
    """Parameters that cannot work, all of them listed."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(problems[0] if len(problems) == 1 else "\n".join(f"- {problem}" for problem in problems))


class DataError(EaseError):
    """Task data that cannot be used: names file, row, column and remedy."""


class ContractError(EaseError):
    """An artifact that is not what its contract says: names file, column, expected and found."""


class StoreError(EaseError):
    """A file or object that cannot be read or written."""


class StoreUnavailable(StoreError):
    """The object store cannot be reached or is overloaded: time may cure it."""


class JournalError(EaseError):
    """A journal that is damaged, in use by another process, or of another run. It is never overwritten."""


class LineageError(EaseError):
    """A lineage record that is missing, damaged, or cannot answer what was asked."""


class EndpointError(EaseError):
    """The black-box gave no usable answer. Never a score, never an answer.

    `retry_after` is the wait in seconds that the endpoint asked for, if it did.
    """

    retryable = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(EndpointError):
    """HTTP 429 that time will cure."""

    retryable = True


class Overloaded(EndpointError):
    """HTTP 5xx, 408 or 409."""

    retryable = True


class EndpointTimeout(EndpointError):
    """No answer within the time limit of one request."""

    retryable = True


class ConnectionFailed(EndpointError):
    """Refused, reset or unresolved connection."""

    retryable = True


class GarbledAnswer(EndpointError):
    """An answer that is not the JSON, or not the fields, of the OpenAI API."""

    retryable = True


class QuotaExhausted(EndpointError):
    """HTTP 429 that time will not cure: the account has no credit left."""


class ContentRefused(EndpointError):
    """The endpoint's content filter refused the prompt or the answer."""


class ContextTooLong(EndpointError):
    """The prompt does not fit in the model's context."""


class AuthenticationFailed(EndpointError):
    """HTTP 401 or 403."""


class ModelNotFound(EndpointError):
    """HTTP 404, or a model that the endpoint does not serve."""


class BadRequest(EndpointError):
    """Any other HTTP 4xx."""
