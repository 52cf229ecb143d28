"""The judge."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ease_lib.config.sections.declaration import JUDGED, Section, param
from ease_lib.config.sections.endpoint_config import EndpointConfig


@dataclass(frozen=True, kw_only=True)
class JudgeConfig(Section):
    """The LLM that reads answers where `metric` or `require` names the judge. Its key comes from EASE_JUDGE_API_KEY."""

    judge_base_url: str = param(
        "",
        "OpenAI-compatible URL of the judge (key: EASE_JUDGE_API_KEY); empty: the LLM's URL and key.",
        only=JUDGED,
    )
    judge_model: str = param(
        "", "Model of the judge; empty: llm_model, or the only model of judge_base_url.", only=JUDGED
    )
    judge_extra: str = param(
        "", 'JSON to merge into requests to the judge: {"reasoning_effort": "low"}, ...', only=JUDGED
    )
    judge_prompt_usd: float = param(
        0.0, "USD per million prompt tokens of the judge.", low=0, high=1e6, role="cap", only=JUDGED
    )
    judge_completion_usd: float = param(
        0.0, "USD per million completion tokens of the judge.", low=0, high=1e6, role="cap", only=JUDGED
    )

    @property
    def prices(self) -> dict[str, float]:
        """Prices of the judge, in the form of `EndpointConfig.prices`."""
        return {"judge_prompt_usd": self.judge_prompt_usd, "judge_completion_usd": self.judge_completion_usd}

    def endpoint(self, llm: EndpointConfig) -> EndpointConfig:
        """Endpoint of the judge: that of the LLM, except for the values set here."""
        return dataclasses.replace(
            llm,
            llm_base_url=self.judge_base_url or llm.llm_base_url,
            llm_model=self.judge_model or ("" if self.judge_base_url else llm.llm_model),
            llm_headers="" if self.judge_base_url else llm.llm_headers,
            llm_extra=self.judge_extra,
            llm_requests_per_minute=0 if self.judge_base_url else llm.llm_requests_per_minute,
            llm_tokens_per_minute=0 if self.judge_base_url else llm.llm_tokens_per_minute,
            llm_api="chat",
        )
