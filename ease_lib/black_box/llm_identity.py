"""Fields sent in addition to the prompt, and keys derived from them: for answers, for notes on an endpoint, for
schedules. Nothing outside these fields affects an answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ease_lib.black_box.client import Sampling
from ease_lib.digests import key_of, sha256_of_text

FIRST = "first"
"""The first generation of answers, whose keys are as if there were no generations."""


@dataclass(frozen=True, kw_only=True)
class LLMIdentity:
    """Identity of an LLM and of the settings of its requests.

    Args:
        endpoint: its URL without credentials, or the name of one that has no URL.
        model: as the endpoint calls it.
        api: `chat` or `completions`.
        extra: what else every request says (`llm_extra`).
        generation: of the kept answers that are used.
    """

    endpoint: str
    model: str
    api: str
    sampling: Sampling
    extra: Mapping[str, Any] = field(default_factory=dict)
    generation: str = FIRST

    @property
    def sent(self) -> dict[str, Any]:
        """Fields of every request other than its prompt, and the endpoint it goes to. This is the one definition that
        distinguishes searches and from which keys of answers are derived. Values at their default are left out, so that
        old keys stay valid.
        """
        return self._identity(self.sampling.as_sent(self.api))

    def answer_key(self, prompt: str, left_out: Iterable[str] = ()) -> str:
        """Address of the answer to a prompt: SHA-256 of the question in a canonical form.

        Args:
            left_out: parameters that the endpoint refuses.
        """
        return self.answer_keys(left_out).key(prompt)

    def answer_keys(self, left_out: Iterable[str] = ()) -> AnswerKeys:
        """Addresses of the answers to any prompts."""
        refused = {"left_out": sorted(left_out)} if left_out else {}
        sent, named = ({**each, **refused} for each in (self.sent, self._identity(self.sampling)))
        return AnswerKeys(json.dumps(sent, sort_keys=True), json.dumps(named, sort_keys=True))

    def _identity(self, sampling: Sampling) -> dict[str, Any]:
        return {
            **self.endpoint_identity,
            **sampling.identity,
            **({"answers": self.generation} if self.generation != FIRST else {}),
            **({"extra": dict(self.extra)} if self.extra else {}),
        }

    @property
    def endpoint_identity(self) -> dict[str, str]:
        return {"endpoint": self.endpoint, "model": self.model, "api": self.api}

    @property
    def endpoint_key(self) -> str:
        """Key of what is known about the endpoint."""
        return key_of(self.endpoint_identity)

    @property
    def schedule_key(self) -> str:
        """Key of the endpoint's limits per minute."""
        return key_of([self.endpoint, self.model])


@dataclass(frozen=True)
class AnswerKeys:
    """Addresses of answers in a cache: SHA-256 of what is sent besides the prompt and of the prompt, as a JSON list.

    Args:
        sent: what is sent, as JSON.
        named: what keys named when they named what is not sent, too; often the same.
    """

    sent: str
    named: str

    def key(self, prompt: str) -> str:
        """Key under which the answer to a prompt is kept."""
        return sha256_of_text(f"[{self.sent}, {json.dumps(prompt)}]")

    def former_key(self, prompt: str) -> str | None:
        """Key under which an earlier version kept it; None if it is the same."""
        return None if self.named == self.sent else sha256_of_text(f"[{self.named}, {json.dumps(prompt)}]")
