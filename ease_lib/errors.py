"""Every error a user can cause or meet, by kind. The message names the value, the limit and the remedy.

Anything else that is raised is a bug in EASE and keeps its traceback.
"""

from __future__ import annotations

import re

EXIT_ERROR = 2
EXIT_NOT_BETTER = 3
"""Exit code of a run that finished, but whose winner does not beat the prompt named by `--require-better-than`."""
EXIT_STOPPED = 75
"""EX_TEMPFAIL of sysexits.h: try again."""


def message_and_remedy(text: str) -> str:
    """A message for a terminal: what is wrong and why in one line, and below it what to do about it.

    The remedy is what follows the last "; ", which is how messages are written here. A list of several stays as it is.
    """
    for found in reversed([] if "\n" in text else list(re.finditer("; ", text))):
        wrong, remedy = text[: found.start()], text[found.end() :]
        if wrong and remedy.strip() and not (_is_open(wrong) or _is_open(remedy)):
            return f"{wrong}\n  {remedy}"
    return text


def _is_open(part: str) -> bool:
    """Whether a bracket or quotation in the part is not closed, or not opened."""
    return part.count("(") != part.count(")") or part.count("`") % 2 == 1 or part.count('"') % 2 == 1


class EaseError(Exception):
    """Base of all errors that are shown as one message, without a traceback.

    `time_may_cure`: the same work, done again, may end well. Otherwise every attempt fails the same way until a person
    changes parameters, data, keys or the store.
    """

    time_may_cure = False


class Notice(UserWarning):
    """Information about a search that goes on; `ease_lib.optimize` issues it as a warning."""


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
    """The object store cannot be reached or is overloaded."""

    time_may_cure = True


class JournalError(EaseError):
    """A journal that is damaged, in use by another process, or of another run. It is never overwritten."""

    time_may_cure = True  # the process that uses it may be about to end


class JournalInUse(JournalError):
    """A journal that another process uses now.

    Args:
        length: of the journal, which grows as long as that one gets on.
    """

    def __init__(self, message: str, *, length: int) -> None:
        super().__init__(message)
        self.length = length


class LineageError(EaseError):
    """A lineage record that is missing, damaged, or cannot answer what was asked."""


class EndpointError(EaseError):
    """The black-box gave no usable answer. Never an answer, and a score only where `llm_failures=zero` asks for it.

    `what` is the message without its remedy. `retry_after` is the wait in seconds that the endpoint asked for, if it
    did. `of_prompt`: it is about this one prompt, and others may well be answered. `may_be_of_prompt`: it says nothing
    of that; what becomes of other prompts does (`black_box/blame.py`), and `suspected` is it of which that begins to
    show. `of_load`: endpoints say it when they have no room, for all prompts or for those of one worker.

    An answer without text is paid for all the same: `prompt_tokens` and `completion_tokens` are what it cost, with
    those of `retries` failed requests before it, `model` is what it says that it is of, and `cut` whether it was cut.
    """

    retryable = False
    of_prompt = False
    may_be_of_prompt = False
    of_load = False
    suspected = False
    prompt_tokens = completion_tokens = retries = 0
    cost_usd = 0.0
    model = ""
    cut = False

    @property
    def time_may_cure(self) -> bool:  # type: ignore[override]
        return self.retryable

    def __init__(self, message: str, *, remedy: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.what = message
        self.retry_after = retry_after


class RateLimited(EndpointError):
    """HTTP 429 that time will cure."""

    retryable = True
    may_be_of_prompt = True
    of_load = True


class Overloaded(EndpointError):
    """HTTP 502, 503, 504, 529, 408, 409 or 425."""

    retryable = True
    may_be_of_prompt = True
    of_load = True


class ServerFailed(Overloaded):
    """HTTP 500, or another 5xx."""

    of_load = False


class EndpointTimeout(EndpointError):
    """No answer within the time limit of one request."""

    retryable = True
    may_be_of_prompt = True
    of_load = True


class ConnectionFailed(EndpointError):
    """Refused, reset or unresolved connection."""

    retryable = True
    may_be_of_prompt = True
    of_load = True


class GarbledAnswer(EndpointError):
    """An answer that is not the JSON, or not the fields, of the OpenAI API."""

    retryable = True
    may_be_of_prompt = True


class FailedAnswer(EndpointError):
    """An answer that did not come to its end: an aborted one, or one that ended for a reason that is not an end."""

    retryable = True
    may_be_of_prompt = True


class ProgramFailed(EndpointError):
    """A program that `evaluate` names raised at a row, or returned no score."""

    may_be_of_prompt = True


class PromptFailed(EndpointError):
    """The endpoint fails at this prompt again and again, and answers others before and after."""

    of_prompt = True


class CapReached(EndpointError):
    """A cap on requests or cost does not allow another request; `cap` is it, as `name=value`."""

    def __init__(self, cap: str) -> None:
        super().__init__(f"{cap} does not allow another request; raise it (answers so far are kept)")
        self.cap = cap


class TooManyFailures(EndpointError):
    """More rows were refused than may be left out of a score."""


class QuotaExhausted(EndpointError):
    """HTTP 402, or another status that says so: the account has no credit left, which time will not cure."""


class ContentRefused(EndpointError):
    """The model, or the endpoint's content filter, refused the prompt or the answer."""

    of_prompt = True


class AnswerCut(EndpointError):
    """The limit of tokens ended the answer before it answered: all of them went into thinking."""

    of_prompt = True
    cut = True


class EmptyAnswer(EndpointError):
    """An answer without text, the first to a prompt."""

    retryable = True
    of_prompt = True


class EmptyAgain(EmptyAnswer):
    """The second answer without text to the same prompt."""

    retryable = False


class ContextTooLong(EndpointError):
    """The prompt does not fit in the model's context."""

    of_prompt = True


class NotAsked(EndpointError):
    """Error of a prompt that was not sent because another prompt had failed for good."""


class AuthenticationFailed(EndpointError):
    """HTTP 401, or a certificate that is not trusted."""


class Forbidden(AuthenticationFailed):
    """HTTP 403."""

    may_be_of_prompt = True


class WrongAddress(EndpointError):
    """Error of an address where nothing answers: it has moved to another host or speaks another protocol."""


class ModelNotFound(EndpointError):
    """HTTP 404, or a model that the endpoint does not serve."""

    may_be_of_prompt = True


class BadRequest(EndpointError):
    """Any other HTTP 400, 413 or 422."""

    of_prompt = True


class UnexpectedStatus(EndpointError):
    """Any other status of failure."""

    may_be_of_prompt = True
