"""The prompt as a DSPy module: dspy.configure(lm=language_model()), then EasePrompt()(field=...).output.

Its adapter sends the messages as they were scored; DSPy's own adapters would write another prompt.
"""

import os

import dspy
from ease_prompt import PROMPT, answer_of, messages


class FixedMessages(dspy.Adapter):
    """The prompt of prompt.json, whatever the signature and its demos say."""

    def format(self, signature, demos, inputs):
        return messages(**{name: inputs[name] for name in PROMPT["fields"]})

    def parse(self, signature, completion):
        return {"output": answer_of(completion)}


class EasePrompt(dspy.Module):
    """Takes the fields of a query by name; its prediction has `output`."""

    def __init__(self):
        super().__init__()
        self.predict = dspy.Predict(", ".join(PROMPT["fields"]) + " -> output")

    def forward(self, **fields):
        with dspy.context(adapter=FixedMessages()):
            return self.predict(**fields)


def language_model(**settings):
    """A `dspy.LM` with the model and the sampling that the scores were measured with; settings win."""
    own = {
        "model_type": "chat" if PROMPT["api"] == "chat" else "text",
        "api_key": os.environ.get("EASE_LLM_API_KEY") or os.environ.get("OPENAI_API_KEY") or "no-key",
        **({"api_base": PROMPT["endpoint"]} if "://" in PROMPT["endpoint"] else {}),
        **PROMPT["sampling"],
    }
    return dspy.LM(f"openai/{PROMPT['model']}", **{**own, **settings})
