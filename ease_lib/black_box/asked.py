"""What is sent beside the prompt, and the keys that are made of it: of answers, of what is known of an endpoint, of
schedules. What is not in it decides no answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ease_lib.black_box.client import Sampling

FIRST = "first"
"""The generation of answers before any other, which are addressed as if there were no generations."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An LLM as it is asked.

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

    def identity(self, left_out: Iterable[str] = ()) -> dict[str, Any]:
        """All of it, by which answers are addressed; what is at its default is left out, so that old keys stay valid.

        Args:
            left_out: parameters that the endpoint refuses.
        """
        refused = sorted(left_out)
        return {
            **self.endpoint_identity,
            **self.sampling.identity,
            **({"answers": self.generation} if self.generation != FIRST else {}),
            **({"extra": dict(self.extra)} if self.extra else {}),
            **({"left_out": refused} if refused else {}),
        }

    def answer_key(self, prompt: str, left_out: Iterable[str] = ()) -> str:
        """Address of the answer to a prompt: SHA-256 of the question in a canonical form."""
        return _digest([self.identity(left_out), prompt])

    @property
    def endpoint_identity(self) -> dict[str, str]:
        return {"endpoint": self.endpoint, "model": self.model, "api": self.api}

    @property
    def endpoint_key(self) -> str:
        """Of what is known of the endpoint."""
        return _digest(self.endpoint_identity)[:32]

    @property
    def schedule_key(self) -> str:
        """Of its limits a minute."""
        return _digest([self.endpoint, self.model])[:32]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
