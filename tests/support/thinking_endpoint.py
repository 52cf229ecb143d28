"""An OpenAI-compatible endpoint over real HTTP whose model thinks before it answers, and is cut as real ones are.

Tokens are words. What it thinks and answers counts as `completion_tokens`; where the request's limit is below their
sum, the answer is cut there: `finish_reason` is `length`. The forms in which it shows its thinking:

    field     `reasoning_content`, with `content` null until it has answered (vLLM with a reasoning parser, DeepSeek)
    empty     the same, with `content` "" in place of null (llama.cpp)
    marks     `<think>…</think>` in `content` (vLLM without a parser, Ollama)
    hidden    not at all; `usage` alone tells (OpenAI)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served

MODEL = "thinking-1"
FORMS = ("field", "empty", "marks", "hidden")


class ThinkingServer(OpenAIRoutesServer):
    """Attributes: `thinking_of`, how many tokens it thinks about a prompt; `form`; `requests`, those it was sent."""

    thinking_of: Callable[[str], int]
    form: str
    requests: list[Mapping[str, Any]]


class ThinkingHandler(OpenAIRoutesHandler):
    server: ThinkingServer

    def answer_request(self, request: Mapping[str, Any], prompt: str) -> None:
        self.server.requests.append(request)
        limit = request.get("max_completion_tokens", request.get("max_tokens", 10**6))
        answer = self.server.models[self.model](prompt).split()
        thoughts = ["hm"] * min(self.server.thinking_of(prompt), limit)
        said = answer[: limit - len(thoughts)]
        self.reply(200, self.thought(prompt, thoughts, said, is_cut=len(said) < len(answer)))

    def thought(self, prompt: str, thoughts: list[str], said: list[str], *, is_cut: bool) -> dict[str, Any]:
        """The response body."""
        response = self.completion(prompt, "")
        message = response["choices"][0]["message"]
        text = " ".join(said)
        if self.server.form in ("field", "empty"):
            message["content"] = text or (None if self.server.form == "field" else "")
            message["reasoning_content"] = " ".join(thoughts)
        elif self.server.form == "marks":
            message["content"] = " ".join(["<think>", *thoughts, *(["</think>", text] if said else [])])
        else:
            message |= {"content": text, "refusal": None, "annotations": []}
        response["choices"][0]["finish_reason"] = "length" if is_cut else "stop"
        used = len(thoughts) + len(said)
        response["usage"] |= {
            "completion_tokens": used,
            "total_tokens": response["usage"]["prompt_tokens"] + used,
            "completion_tokens_details": {"reasoning_tokens": len(thoughts)},
        }
        return response


@contextmanager
def thinking_endpoint(
    answer: Callable[[str], str], *, thinking: int = 100, form: str = "field"
) -> Iterator[ThinkingServer]:
    """Serve on a free loopback port; how much it thinks may be changed while it is served."""
    server = ThinkingServer({MODEL: answer})
    server.RequestHandlerClass = ThinkingHandler
    server.thinking_of, server.form, server.requests = lambda prompt: thinking, form, []
    with served(server):
        yield server
