"""An endpoint as newer models have it, and a task as people have it in production: what the tests of J optimise.

The model knows nothing of the task: it answers as the last exemplar did whose mail has a word of four letters or more
in common with the query's, else `{}`. It refuses `max_tokens`, `temperature` and `stop`, and thinks aloud.
"""

import json
import re
from contextlib import contextmanager

from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served

MODEL = "newer-1"
REFUSED = ("max_tokens", "temperature", "stop")
KINDS = {
    "broken": {"team": "support", "urgent": True},
    "invoice": {"team": "billing", "urgent": False},
    "price": {"team": "sales", "urgent": False},
    "refund": {"team": "billing", "urgent": True},
}
ROWS = [
    {"subject": f"{kind} {{n}} #{number}", "body": f"{{{{ {kind} }}}}\n{{% the {kind} %}} {{subject}}.", "label": label}
    for number in range(25)
    for kind, label in KINDS.items()
]
TEMPLATE = {
    "system": 'You sort mail. Answer with {{"team": ..., "urgent": ...}} alone.',
    "exemplars": "turns",
    "query": "Subject: {subject}\n\n{body}",
    "answer": "{output}",
}
METRIC = '''\
import json


def score(answer, outputs):
    """Half a point for the team, half for the urgency."""
    try:
        given, wanted = json.loads(answer), json.loads(outputs[0])
    except ValueError:
        return 0.0
    return sum(given.get(name) == wanted[name] for name in ("team", "urgent")) / 2
'''


class _Handler(OpenAIRoutesHandler):
    def answer_request(self, request, prompt):
        refused = next((name for name in REFUSED if name in request), None)
        if refused:
            self.reply_error(400, "unsupported_parameter", f"Unsupported parameter: '{refused}' with this model.")
            return
        self.server.requests.append(request)
        answer = learned(request["messages"])
        self.reply(200, self.completion(prompt, f"<think>What is {{this}}?</think>\n{answer}"))


def learned(messages):
    """The answer of the last exemplar that is about the same."""
    wanted = _words(messages[-1]["content"])
    turns = [message for message in messages[:-1] if message["role"] != "system"]
    pairs = zip(turns[::2], turns[1::2], strict=True)
    return next((said["content"] for asked, said in reversed([*pairs]) if _words(asked["content"]) & wanted), "{}")


def _words(text):
    return set(re.findall(r"[a-z]{4,}", text)) - {"about", "ubject", "subject"}


@contextmanager
def production_endpoint():
    """Served on a free port; `requests` are those that were answered."""
    server = OpenAIRoutesServer({MODEL: lambda prompt: ""})
    server.RequestHandlerClass = _Handler
    server.requests = []
    with served(server):
        yield server


def write_task(folder):
    """The rows, the template and the metric as files; the options that name them."""
    (folder / "mail.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    (folder / "prompt.yaml").write_text(json.dumps(TEMPLATE), encoding="utf-8")
    (folder / "metric.py").write_text(METRIC, encoding="utf-8")
    return {
        "task": "table",
        "task_uri": str(folder / "mail.jsonl"),
        "prompt": str(folder / "prompt.yaml"),
        "metric": f"{folder}/metric.py:score",
    }


SETTINGS = {
    "input_columns": "subject,body",
    "output_column": "label",
    "test_size": 20,
    "k": 4,
    "max_llm_requests": 1000,  # with 500 some processors round so that one label in four is not found
    "llm_refresh": "never",
}
