"""The black-box, how it is asked, and what it costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ease_lib.config.sections.declaration import PYTHON, Section, param


@dataclass(frozen=True, kw_only=True)
class EndpointConfig(Section):
    """The black-box LLM. Its key comes from EASE_LLM_API_KEY, for OpenAI's own hosts also from OPENAI_API_KEY."""

    llm_base_url: str = param(
        "local",
        "OpenAI-compatible URL, local (the included small LLM), or a function: python:MODULE:NAME or "
        "python:FILE.py:NAME.",
        form=True,
    )
    llm_model: str = param("", "Model name; empty: the endpoint's only model.", form=True)
    evaluate: str = param(
        "",
        "Function of exemplars and a row that returns a score; replaces endpoint, prompt and metric: FILE.py:NAME "
        "or python:MODULE:NAME.",
    )
    llm_api: str = param(
        "auto",
        "API to use: chat or completions; auto: completions for local, else chat.",
        choices=("auto", "chat", "completions"),
    )
    llm_concurrency: int = param(20, "Maximum number of requests in flight.", low=1, high=1000, form=True, role="speed")
    llm_requests_per_minute: int = param(
        0,
        "Maximum number of requests per minute, over all processes with this store_uri; 0: no limit.",
        low=0,
        high=10**7,
        role="speed",
    )
    llm_tokens_per_minute: int = param(
        0,
        "Maximum number of prompt and answer tokens per minute, over all processes with this store_uri; 0: no limit.",
        low=0,
        high=10**10,
        role="speed",
    )
    llm_max_tokens: int = param(
        0,
        "Maximum number of tokens in an answer; 0: 64, or at least twice the longest output of the pool.",
        low=0,
        high=32_768,
    )
    llm_thinking_tokens: int = param(
        0,
        "Tokens that a model may spend thinking, in addition to llm_max_tokens.",
        low=0,
        high=1_000_000,
    )
    llm_extra: str = param(
        "", 'JSON to merge into every request: {"reasoning_effort": "low"}, {"response_format": {...}}, ...'
    )
    llm_headers: str = param(
        "", "Extra headers, each with the environment variable that holds its value: X-Team=TEAM_TOKEN,X-Trace=TRACE."
    )
    llm_timeout_seconds: float = param(60.0, "Time limit of one request, in seconds.", low=0.1, high=3600, role="speed")
    llm_deadline_seconds: float = param(
        300.0, "Time limit of one answer with all retries, in seconds.", low=0, high=86_400, role="speed"
    )
    llm_failures: str = param(
        "stop",
        "If the endpoint refuses a row or returns no text: stop the run, skip the row, or score it zero.",
        choices=("stop", "skip", "zero"),
        role="tolerance",
    )
    llm_coverage: float = param(
        0.9,
        "Minimum share of rows that must be answered if llm_failures is skip or zero.",
        low=0,
        high=1,
        role="tolerance",
    )
    llm_refresh: str = param(
        "never",
        "When to ask kept answers again: never, always, probe (if fixed prompts get new answers), or a number of days.",
    )
    llm_prompt_usd: float = param(0.0, "USD per million prompt tokens.", low=0, high=1e6, role="cap")
    llm_completion_usd: float = param(0.0, "USD per million completion tokens.", low=0, high=1e6, role="cap")

    @property
    def is_local(self) -> bool:
        """Whether the small LLM that is shipped answers."""
        return self.llm_base_url == "local" and not self.evaluate

    @property
    def program(self) -> str:
        """The function that `evaluate` names, as `FILE.py:NAME` or `MODULE:NAME`."""
        return self.evaluate.removeprefix(PYTHON)

    @property
    def extra(self) -> dict[str, Any]:
        """`llm_extra`, read."""
        return dict(json.loads(self.llm_extra)) if self.llm_extra else {}

    @property
    def headers(self) -> dict[str, str]:
        """Environment variables by header."""
        pairs = (entry.partition("=") for entry in self.llm_headers.split(",") if entry.strip())
        return {name.strip(): variable.strip() for name, _, variable in pairs}

    @property
    def prices(self) -> dict[str, float]:
        """USD for a million tokens, by the names that `Usage.cost_usd` takes."""
        return {"prompt_usd": self.llm_prompt_usd, "completion_usd": self.llm_completion_usd}
