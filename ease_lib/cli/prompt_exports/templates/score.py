"""Scores an answer for promptfoo with the metric of the search; needs the package ease-pipelines."""

import json
from pathlib import Path

from ease_lib.artifacts.sources import Sources
from ease_lib.evaluation.metrics import LABEL, label_metric
from ease_lib.evaluation.own_metric import load_metric
from ease_lib.evaluation.requirement import load_requirement
from ease_lib.prompts.messages import without_reasoning

PROMPT = json.loads(Path(__file__).with_name("prompt.json").read_text(encoding="utf-8"))
METRIC = load_metric(PROMPT["metric"], Sources(), sha256=PROMPT["metric_sha256"]).score
if PROMPT["metric"] == LABEL:
    METRIC = label_metric(PROMPT["labels"])
REQUIRED = PROMPT["requirement"]
REQUIREMENT = REQUIRED and load_requirement(
    REQUIRED["text"], lambda name, sha256: load_metric(name, Sources(), sha256=sha256), REQUIRED["sha256"]
)


def get_assert(output, context):
    """Pass where more than half of the score is reached."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    outputs = context["config"]["outputs"]
    if REQUIREMENT and not REQUIREMENT.is_kept(without_reasoning(text), outputs):
        return {"pass": False, "score": 0.0, "reason": f"breaks {REQUIRED['text']}"}
    score = METRIC(without_reasoning(text), outputs)
    return {"pass": score > 0.5, "score": score, "reason": f"score {score:g}"}
