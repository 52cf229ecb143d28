"""A prompt that EASE Pipelines found, for any program; needs nothing but prompt.json next to it.

messages(...), request(...) and answer(client, ...) take the fields of the query by name: PROMPT["fields"] lists them.
"""

import json
import re
from pathlib import Path

PROMPT = json.loads(Path(__file__).with_name("prompt.json").read_text(encoding="utf-8"))


def messages(**fields):
    """Messages to send for a query."""
    return [{"role": each["role"], "content": _filled(each["content"], fields)} for each in PROMPT["messages"]]


def request(**fields):
    """The body of the request, with the model and the sampling that the scores were measured with."""
    asked = messages(**fields)
    content = {"messages": asked} if PROMPT["api"] == "chat" else {"prompt": asked[0]["content"]}
    return {**content, "model": PROMPT["model"], **PROMPT["sampling"]}


def answer(client, **fields):
    """The answer of an `openai.OpenAI` client to a query."""
    asked = messages(**fields)
    if PROMPT["api"] == "chat":
        response = client.chat.completions.create(model=PROMPT["model"], messages=asked, extra_body=PROMPT["sampling"])
        return answer_of(response.choices[0].message.content or "")
    response = client.completions.create(
        model=PROMPT["model"], prompt=asked[0]["content"], extra_body=PROMPT["sampling"]
    )
    return answer_of(response.choices[0].text)


def answer_of(text):
    """The answer without what a model thinks aloud before it."""
    text = re.sub(r"(?si)<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", "", text)
    return re.sub(r"(?si)\A.*</(?:think|thinking|reasoning)>", "", text)


def _filled(content, fields):
    return "".join(part if isinstance(part, str) else str(fields[part["field"]]) for part in content)
