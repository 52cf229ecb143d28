"""A run under way: its ledger and its generation of answers, which the same command finds again after a kill.

`store_uri/under_way/PARAMETERS` exists from the first stage of a run to the end of its last one. A run with the same
parameters that finds it continues; one that does not begins with a new ledger and, if `llm_refresh` demands it, with
new answers. Runs without caps and without refreshing need neither, and write no such file.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ease_lib.artifacts.store import Store
from ease_lib.config.parsing import changed_parameters, parameters_of
from ease_lib.config.sections import ContinuationConfig, Parameters
from ease_lib.digests import key_of
from ease_lib.documents import Misfit, parsed

FOLDER = "under_way"


def may_change() -> frozenset[str]:
    """Parameters that may differ between attempts at one run, which a higher cap or more tolerance continues."""
    return parameters_of("place", "speed", "cap", "tolerance", internal=True)


def begun(parameters: Parameters, store: Store | None, answers: Callable[[], str]) -> Parameters:
    """The parameters, with the values that the stages of this run share.

    Args:
        store: the run's.
        answers: the generation of answers for a run that begins now; not asked where one is continued.
    """
    if store is None or parameters.continuation.answers:
        return parameters  # nothing is kept, or a generation was asked for by name
    capped = parameters.caps.max_llm_requests or parameters.caps.max_cost_usd
    if not capped and parameters.endpoint.llm_refresh == "never":
        return replace(parameters, continuation=ContinuationConfig(answers=answers()))
    store, name = store.below(FOLDER), _digest(parameters)
    found = _read(store, name)
    if not found:
        found = ContinuationConfig(ledger=f"{name}-{uuid.uuid4().hex[:8]}", answers=answers())
        if not store.create(name, json.dumps(asdict(found)).encode()):  # another attempt was faster
            found = _read(store, name) or found
    return replace(parameters, continuation=found)


def ended(store: Store | None, continuation: ContinuationConfig) -> None:
    """Mark the run as finished, so that an equal run that begins now is a new one."""
    name = continuation.ledger.partition("-")[0]
    if store and name:
        store.below(FOLDER).delete(name)


class _Begun(TypedDict):
    ledger: Annotated[str, Field(min_length=1)]
    answers: str


def _read(store: Store, name: str) -> ContinuationConfig | None:
    with suppress(Misfit):  # a damaged one is begun anew
        return ContinuationConfig(**parsed(_Begun, store.read(name)))
    return None


def _digest(parameters: Parameters) -> str:
    ignored = may_change()
    compared = {name: value for name, value in changed_parameters(parameters).items() if name not in ignored}
    return key_of(compared)
