"""Scores an answer for promptfoo with the metric of the search; needs the package ease-pipelines."""

import json
from pathlib import Path

from ease_lib.artifacts.sources import Sources
from ease_lib.evaluation.metrics import LABEL, label_metric
from ease_lib.evaluation.own_metric import LoadedMetric, load_metric
from ease_lib.evaluation.requirement import load_requirement
from ease_lib.prompts.messages import without_reasoning

PROMPT = json.loads(Path(__file__).with_name("prompt.json").read_text(encoding="utf-8"))
REQUIRED = PROMPT["requirement"]


def load(name, sha256, parameter="metric"):
    """A metric by its name; `label` knows the labels of the search."""
    if name == LABEL:
        return LoadedMetric(label_metric(PROMPT["labels"]))
    return load_metric(name, Sources(), sha256=sha256, parameter=parameter)


METRIC = load(PROMPT["metric"], PROMPT["metric_sha256"]).score
REQUIREMENT = REQUIRED and load_requirement(REQUIRED["text"], load, REQUIRED["sha256"])


def get_assert(output, context):
    """Pass where more than half of the score is reached."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    outputs = context["config"]["outputs"]
    if REQUIREMENT and not REQUIREMENT.is_kept(without_reasoning(text), outputs):
        return {"pass": False, "score": 0.0, "reason": f"breaks {REQUIRED['text']}"}
    score = METRIC(without_reasoning(text), outputs)
    return {"pass": score > 0.5, "score": score, "reason": f"score {score:g}"}
