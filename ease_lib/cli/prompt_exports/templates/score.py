"""Scores an answer for promptfoo with the metric of the search; needs the package ease-pipelines."""

import json
from pathlib import Path

from ease_lib.artifacts.sources import Sources
from ease_lib.evaluation.metrics import LABEL, label_metric
from ease_lib.evaluation.own_metric import load_metric
from ease_lib.prompts.messages import without_reasoning

PROMPT = json.loads(Path(__file__).with_name("prompt.json").read_text(encoding="utf-8"))
METRIC = load_metric(PROMPT["metric"], Sources(), sha256=PROMPT["metric_sha256"]).score
if PROMPT["metric"] == LABEL:
    METRIC = label_metric(PROMPT["labels"])


def get_assert(output, context):
    """Pass where more than half of the score is reached."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    score = METRIC(without_reasoning(text), context["config"]["outputs"])
    return {"pass": score > 0.5, "score": score, "reason": f"score {score:g}"}
