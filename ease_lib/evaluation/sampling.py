"""How answers are drawn: how long they may be, and where they end."""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib.black_box.client import Sampling, estimated_tokens
from ease_lib.config.sections import EndpointConfig
from ease_lib.prompts.baseline import Baseline
from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar

SHORT_ANSWER_TOKENS = 64


def answer_sampling(
    pool: Sequence[Exemplar],
    endpoint: EndpointConfig,
    template: PromptTemplate = PromptTemplate(),  # noqa: B008 frozen
    baseline: Baseline | None = None,
) -> Sampling:
    """How answers to prompts with exemplars of this pool are drawn.

    Unless the template says where an answer ends, a raw completion ends at the line's end, or at the blank line when
    outputs of this task span lines; where they hold blank lines themselves, at the next "Input:".

    Args:
        endpoint: its `llm_max_tokens`, of which 0 takes `SHORT_ANSWER_TOKENS`, or twice the longest output of the pool,
            for the answers to reasoning tasks differ in length; `llm_thinking_tokens` come on top.
        baseline: asked in the same run; where it is messages, a chat endpoint is asked for all.
    """
    longest = max(estimated_tokens(exemplar.output) for exemplar in pool)
    return Sampling(
        max_tokens=endpoint.llm_thinking_tokens + (endpoint.llm_max_tokens or max(SHORT_ANSWER_TOKENS, 2 * longest)),
        stop=_stop([exemplar.output.strip() for exemplar in pool], template),
        stops=template.stop,
        messages=template.is_chat or (baseline is not None and baseline.is_chat),
    )


def _stop(outputs: Sequence[str], template: PromptTemplate) -> str:
    if any("\n\n" in output for output in outputs):
        return (template.between + template.query_opening).rstrip() or "\n\n"
    return "\n\n" if any("\n" in output for output in outputs) else "\n"
