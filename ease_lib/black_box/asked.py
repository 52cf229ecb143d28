"""What is sent beside the prompt, and the keys that are made of it: of answers, of what is known of an endpoint, of
schedules. What is not in it decides no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ease_lib.black_box.client import Sampling
from ease_lib.digests import key_of, sha256_of_json

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

    @property
    def sent(self) -> dict[str, Any]:
        """What every request says beside its prompt, and to whom: the one definition, by which searches are told apart
        and of which the keys of answers are made. What is at its default is left out, so that old keys stay valid.
        """
        return self._identity(self.sampling.as_sent(self.api))

    def answer_key(self, prompt: str, left_out: Iterable[str] = ()) -> str:
        """Address of the answer to a prompt: SHA-256 of the question in a canonical form.

        Args:
            left_out: parameters that the endpoint refuses.
        """
        return self._key(self.sent, prompt, left_out)

    def former_key(self, prompt: str, left_out: Iterable[str] = ()) -> str:
        """Where the answer lies that was kept when keys named what is not sent, too; often the same."""
        return self._key(self._identity(self.sampling), prompt, left_out)

    def _identity(self, sampling: Sampling) -> dict[str, Any]:
        return {
            **self.endpoint_identity,
            **sampling.identity,
            **({"answers": self.generation} if self.generation != FIRST else {}),
            **({"extra": dict(self.extra)} if self.extra else {}),
        }

    @staticmethod
    def _key(identity: Mapping[str, Any], prompt: str, left_out: Iterable[str]) -> str:
        refused = sorted(left_out)
        return sha256_of_json([{**identity, **({"left_out": refused} if refused else {})}, prompt])

    @property
    def endpoint_identity(self) -> dict[str, str]:
        return {"endpoint": self.endpoint, "model": self.model, "api": self.api}

    @property
    def endpoint_key(self) -> str:
        """Of what is known of the endpoint."""
        return key_of(self.endpoint_identity)

    @property
    def schedule_key(self) -> str:
        """Of its limits a minute."""
        return key_of([self.endpoint, self.model])
