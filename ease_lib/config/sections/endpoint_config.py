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
        "OpenAI-compatible URL, local (small LLM shipped), or a function: python:MODULE:NAME or python:FILE.py:NAME.",
        form=True,
    )
    llm_model: str = param("", "Model name; empty takes the endpoint's only one.", form=True)
    evaluate: str = param(
        "",
        "In place of endpoint, prompt and metric: a function of exemplars and a row that returns a score, FILE.py:NAME "
        "or python:MODULE:NAME.",
    )
    llm_api: str = param(
        "auto",
        "chat or completions; auto is completions for local, else chat.",
        choices=("auto", "chat", "completions"),
    )
    llm_concurrency: int = param(20, "Requests in flight at most.", low=1, high=1000, form=True, role="speed")
    llm_requests_per_minute: int = param(
        0,
        "Requests a minute at most, of all processes with this store_uri; 0 is no limit.",
        low=0,
        high=10**7,
        role="speed",
    )
    llm_tokens_per_minute: int = param(
        0, "Prompt and answer tokens a minute at most, likewise; 0 is no limit.", low=0, high=10**10, role="speed"
    )
    llm_max_tokens: int = param(
        0, "Longest answer in tokens; 0 takes 64, or twice the longest output of the pool.", low=0, high=32_768
    )
    llm_thinking_tokens: int = param(
        0,
        "Tokens that a model may think before it answers, on top of the limit of every request.",
        low=0,
        high=1_000_000,
    )
    llm_extra: str = param(
        "", 'JSON that is merged into every request: {"reasoning_effort": "low"}, {"response_format": {...}}, ...'
    )
    llm_headers: str = param(
        "", "Headers with values from environment variables: X-Team=TEAM_TOKEN,X-Trace=TRACE; the names alone."
    )
    llm_timeout_seconds: float = param(60.0, "Time limit of one request.", low=0.1, high=3600, role="speed")
    llm_deadline_seconds: float = param(
        300.0, "Time limit of one answer, retries included.", low=0, high=86_400, role="speed"
    )
    llm_failures: str = param(
        "stop",
        "A row that the endpoint refuses or leaves without text: stop the run, skip (no score, counted), zero (wrong).",
        choices=("stop", "skip", "zero"),
        role="tolerance",
    )
    llm_coverage: float = param(
        0.9,
        "Least share of rows that must be answered where llm_failures is skip or zero.",
        low=0,
        high=1,
        role="tolerance",
    )
    llm_refresh: str = param(
        "never",
        "When kept answers are asked anew: never, always, probe (a few fixed prompts get other answers), or days.",
    )
    llm_prompt_usd: float = param(0.0, "Price of a million prompt tokens in USD.", low=0, high=1e6, role="cap")
    llm_completion_usd: float = param(0.0, "Price of a million completion tokens in USD.", low=0, high=1e6, role="cap")

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
