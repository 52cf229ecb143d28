"""An OpenAI-compatible endpoint over real HTTP that answers prompts of DSPy's `ChatAdapter` by their demonstrations.

Questions hold a number: "ticket 17". The right query is "look up 17", and the right answer is its team, "a" or "b". The
more the demonstrations shown are worth, late ones most, the more questions are answered rightly; of a question without
demonstrations `NO_DEMOS`. The same messages get the same answer.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served

MODEL = "demo-reader"
NO_DEMOS = 0.3
WRONG = "neither"
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n*\[\[ ## |\n\nRespond with|\Z)", re.DOTALL)
_OUTPUTS = re.compile(r"Your output fields are:\n(.*?)\nAll interactions", re.DOTALL)
_NAME = re.compile(r"^\d+\. `(\w+)`", re.MULTILINE)

Messages = Sequence[Mapping[str, str]]


def worth(question: str) -> float:
    """How much a demonstration of this question helps, in [0, 1]."""
    return random.Random(f"worth of {question}").random()


def chance(questions: Sequence[str]) -> float:
    """Share of questions that are answered rightly behind demonstrations of these questions, in this order."""
    places = range(1, len(questions) + 1)
    total = sum(place * worth(question) for place, question in zip(places, questions, strict=True))
    return 0.05 + 0.9 * total / sum(places) if questions else NO_DEMOS


def query_of(question: str) -> str:
    return f"look up {question.split()[-1]}"


def answer_of(question: str) -> str:
    return "ab"[int(question.split()[-1]) % 2]


def shown(messages: Messages) -> list[dict[str, str]]:
    """The fields of each demonstration, inputs and outputs together."""
    turns = [fields(message["content"]) for message in messages[1:-1]]
    return [before | after for before, after in zip(turns[::2], turns[1::2], strict=True)]


def outputs_of(messages: Messages) -> list[str]:
    """Names of the fields that are to be answered."""
    found = _OUTPUTS.search(messages[0]["content"])
    return _NAME.findall(found[1]) if found else []


def fields(content: str) -> dict[str, str]:
    return {name: text.strip() for name, text in _FIELD.findall(content) if name != "completed"}


def answer(messages: Messages) -> str:
    """The completion, in `ChatAdapter`'s form."""
    outputs = outputs_of(messages)
    inputs, demos = fields(messages[-1]["content"]), shown(messages)
    question = inputs["question"]
    drawn = random.Random(f"{[sorted(demo.items()) for demo in demos]} {outputs} {sorted(inputs.items())}").random()
    is_right = drawn < chance([demo["question"] for demo in demos])
    knows = is_right and inputs.get("query", query_of(question)) == query_of(question)
    values = {
        "query": query_of(question) if is_right else "look around",
        "answer": answer_of(question) if knows else WRONG,
        "reasoning": f"it ends with {question.split()[-1]}",
    }
    return "\n\n".join(f"[[ ## {name} ## ]]\n{values[name]}" for name in [*outputs, "completed"] if name in values)


@dataclass
class Seen:
    """Requests that the endpoint received.

    Args:
        on_request: called with the messages before they are answered.
        fails: whether a question is refused with status 400.
    """

    requests: list[Messages] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    latency_seconds: float = 0.0
    on_request: Callable[[Messages], None] = lambda messages: None
    fails: Callable[[str], bool] = lambda question: False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def questions(self) -> list[str]:
        return [fields(messages[-1]["content"])["question"] for messages in self.requests]


class DspyServer(OpenAIRoutesServer):
    seen: Seen


class DspyHandler(OpenAIRoutesHandler):
    server: DspyServer

    def answer_request(self, request: Mapping[str, Any], prompt: str) -> None:
        seen, messages = self.server.seen, request["messages"]
        with seen.lock:
            seen.requests.append(messages)
            seen.models.append(self.model)
            seen.running += 1
            seen.most_running = max(seen.most_running, seen.running)
        try:
            seen.on_request(messages)
            time.sleep(seen.latency_seconds)
            if seen.fails(fields(prompt)["question"]):
                self.reply_error(400, "bad_request", "this question is refused")
            else:
                self.reply(200, self.completion(prompt, answer(messages)))
        finally:
            with seen.lock:
                seen.running -= 1


@contextmanager
def dspy_endpoint(*more_models: str, latency_seconds: float = 0.0) -> Iterator[DspyServer]:
    """Serve `MODEL` and others of the same kind on a free loopback port."""
    server = DspyServer({name: str for name in (MODEL, *more_models)})
    server.RequestHandlerClass = DspyHandler
    server.seen = Seen(latency_seconds=latency_seconds)
    with served(server):
        yield server
