"""Write a prompt as a folder for another library: `prompt.json`, the same for all, and code without other needs.

Texts of the prompt and fields of the query are kept separate, so no brace in an exemplar is ever taken for a field.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ease_lib.config.requirement_terms import requirement_of, with_measures
from ease_lib.config.sections import EVALUATED, FUNCTION, JUDGE
from ease_lib.errors import ConfigError
from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.own_metric import file_of
from ease_lib.prompts.messages import messages_of
from ease_lib.result import Result

PROMPT = "prompt.json"
CONTRACT = "exported_prompt/1"
_LOADED = ("file:", "package:")
"""Values that begin so are loaded by promptfoo."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """Format that a library accepts.

    Args:
        files: of `templates/`, next to `PROMPT`.
        use: how it is used, for people.
        more: further files by name, made of a result.
    """

    files: tuple[str, ...]
    use: str
    more: Callable[[Result], dict[str, str]] = lambda result: {}


def write_export(result: Result, to: str, folder: Path) -> list[Path]:
    """Write the files of one form; return their paths.

    Raises:
        ConfigError: when the library cannot take this prompt.
    """
    form, templates = FORMS[to], resources.files(__package__) / "templates"
    texts = form.more(result) | {PROMPT: _json(prompt_document(result))}
    texts |= {name: (templates / name).read_text(encoding="utf-8") for name in form.files}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def prompt_document(result: Result) -> dict[str, Any]:
    """The prompt with the fields of its query marked, its request, its scores and its lineage."""
    if result.best["metric"] == EVALUATED:
        raise ConfigError(
            "this run searched for a program, which writes its own prompts; pass the content of exemplars.json to it"
        )
    best, settings = result.best, dict(result.best["request"])
    fields = list(result.query_fields)
    return {
        "contract": CONTRACT,
        "endpoint": best["llm_endpoint"],
        "api": best["llm_api"],
        "model": settings.pop("model"),
        "sampling": settings,
        "fields": fields,
        "messages": _with_fields(result, fields),
        "metric": _absolute(str(best["metric"])),
        "metric_sha256": result.dataset.get("metric_sha256", ""),
        "requirement": _requirement(result),
        "labels": result.dataset.get("labels", []),
        "scores": {
            "test": result.test_score,
            "test_interval": list(result.test_interval),
            "test_rows": result.report["best"]["test_rows"],
            "expected": result.expected_score,
            "expected_interval": list(result.expected_interval),
        },
        "verdict": result.verdict,
        "exemplar_ids": list(best["exemplar_ids"]),
        "lineage_sha256": result.lineage_sha256,
    }


def _with_fields(result: Result, fields: list[str]) -> list[dict[str, Any]]:
    """The messages; the content of each a list of texts and of `{"field": name}`."""
    marks = {uuid.uuid4().hex: name for name in fields}
    prompt = result.rendered({name: mark for mark, name in marks.items()})
    pattern = re.compile(f"({'|'.join(marks)})")

    def parts(text: str) -> Iterator[str | dict[str, str]]:
        for part in filter(None, pattern.split(text)):
            yield {"field": marks[part]} if part in marks else part

    return [{"role": message["role"], "content": [*parts(message["content"])]} for message in messages_of(prompt)]


def _promptfoo(result: Result) -> dict[str, str]:
    """Configuration for promptfoo, with the test rows as test cases."""
    document = prompt_document(result)
    if not result.test_rows:
        raise ConfigError("the test rows of this run cannot be found; run the export where its artifacts are")
    _check_metric(result)
    if "://" not in document["endpoint"]:
        raise ConfigError(f"promptfoo asks a URL, and this prompt was found with llm_base_url={document['endpoint']}")
    kind = "chat" if document["api"] == "chat" else "completion"
    cases = [
        {
            "vars": {name: _as_is(str(text)) for name, text in result.query(row).items() if name in document["fields"]},
            "assert": [{"type": "python", "value": "file://score.py", "config": {"outputs": list(row.outputs)}}],
        }
        for row in result.test_rows
    ]
    asked = {"apiBaseUrl": document["endpoint"], "apiKeyEnvar": "EASE_LLM_API_KEY", "omitDefaults": True}
    asked["passthrough"] = document["sampling"]
    config = {
        "description": f"{result.best['task']}: {result.verdict}",
        "prompts": [{"id": "file://prompt.cjs", "label": "winner"}],
        "providers": [{"id": f"openai:{kind}:{document['model']}", "config": asked}],
        "tests": "file://tests.json",
    }
    written = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    return {"promptfooconfig.yaml": written, "tests.json": _json(cases)}


def _check_metric(result: Result) -> None:
    """Refuse a metric that promptfoo cannot use, or that differs from the recorded one, because its code would run.

    Raises:
        ConfigError: saying which.
    """
    named, recorded = str(result.best["metric"]), str(result.dataset.get("metric", ""))
    requirement = requirement_of(_requirement(result).get("text", ""))
    for each in (named, *(requirement.measures if requirement else ())):
        if each == JUDGE or each.startswith(f"{FUNCTION}:"):
            what = "a judge that the run asked" if each == JUDGE else "a function of the program that searched"
            raise ConfigError(
                f"{'metric' if each == named else 'require'}={each} is {what}; promptfoo takes the built-in metrics, "
                "and those of a file or module"
            )
    if named not in METRICS and named != recorded:
        raise ConfigError(
            f"best_sequence.json names metric={named}, and the lineage of the run {recorded or 'none'}: it was "
            "changed, or its records cannot be found; `ease lineage verify` shows which"
        )


def _requirement(result: Result) -> dict[str, Any]:
    """Requirement on answers from the run's lineage, with absolute paths of files; empty if there is none."""
    required = result.dataset.get("requirement") or {}
    if not required:
        return {}
    places = {measure: _absolute(measure) for measure in required["sha256"]}
    return {
        "text": with_measures(required["text"], places),
        "sha256": {places[measure]: digest for measure, digest in required["sha256"].items()},
    }


def _absolute(metric: str) -> str:
    """A metric of a file with its absolute path, because exports are used in other folders."""
    place = file_of(metric)
    return metric.replace(place, str(Path(place).absolute()), 1) if place and "://" not in place else metric


def _as_is(text: str) -> str:
    """A value protected from promptfoo's templates, which also apply within values; `prompt.cjs` does the same."""
    return ("{{''}}" if text.startswith(_LOADED) else "") + re.sub(r"\{(?=[{%#]|\Z)", "{{'{'}}", text)


def _dspy(result: Result) -> dict[str, str]:
    wrong = [name for name in result.query_fields if not name.isidentifier()]
    if wrong:
        raise ConfigError(f"the column {wrong[0]!r} cannot be a DSPy field; rename it in the table, and run again")
    return {}


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


FORMS = {
    "openai": Form(
        files=("ease_prompt.py",),
        use="from ease_prompt import answer; answer(openai.OpenAI(...), input=...)",
    ),
    "dspy": Form(
        files=("ease_prompt.py", "ease_prompt_dspy.py"),
        use="from ease_prompt_dspy import EasePrompt, language_model; EasePrompt()(input=...).output",
        more=_dspy,
    ),
    "langchain": Form(
        files=("ease_prompt.py", "ease_prompt_langchain.py"),
        use="from ease_prompt_langchain import prompt, chain; chain().invoke({...})",
    ),
    "promptfoo": Form(
        files=("prompt.cjs", "score.py"),
        use="npx promptfoo eval (PROMPTFOO_PYTHON names a Python that has ease-pipelines)",
        more=_promptfoo,
    ),
    "mlflow": Form(
        files=("ease_prompt.py", "register_in_mlflow.py"),
        use="python register_in_mlflow.py NAME (MLFLOW_TRACKING_URI names the server)",
    ),
}
