"""Register the prompt in MLflow: python register_in_mlflow.py NAME [EXPERIMENT]; MLFLOW_TRACKING_URI names the server.

The prompt becomes a version of NAME with its model and sampling; a run holds its scores, its lineage digest and
prompt.json, and the version names that run.
"""

import sys
from pathlib import Path

import mlflow
from ease_prompt import PROMPT

CONFIG = {"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "stop": "stop_sequences"}
"""MLflow's names for the fields of a request."""


def template():
    """Chat messages, or a text, with {{field}} where the query stands.

    Texts with braces of that kind are protected by `raw` blocks, which MLflow reads as Jinja.
    """
    texts = [part for each in PROMPT["messages"] for part in each["content"] if isinstance(part, str)]
    is_jinja = any(mark in text for text in texts for mark in ("{{", "{%", "{#"))

    def written(part):
        if not isinstance(part, str):
            return "{{ " + part["field"] + " }}"
        if "endraw" in part:
            raise SystemExit("an exemplar contains `endraw`, which an MLflow template cannot hold")
        return "{% raw %}" + part + "{% endraw %}" if is_jinja else part

    contents = ["".join(map(written, each["content"])) for each in PROMPT["messages"]]
    if PROMPT["api"] != "chat":
        return contents[0]
    return [{"role": each["role"], "content": text} for each, text in zip(PROMPT["messages"], contents, strict=True)]


def register(name, experiment="ease"):
    """Register it; the version."""
    sampling = PROMPT["sampling"]
    known = {CONFIG[key]: value for key, value in sampling.items() if key in CONFIG}
    others = {key: value for key, value in sampling.items() if key not in CONFIG}
    scores = PROMPT["scores"]
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=name) as run:
        mlflow.log_metrics({"test_score": scores["test"], "expected_score": scores["expected"]})
        mlflow.log_params({"model": PROMPT["model"], "metric": PROMPT["metric"], **sampling})
        mlflow.set_tags({"ease.lineage_sha256": PROMPT["lineage_sha256"], "ease.verdict": PROMPT["verdict"]})
        mlflow.log_artifact(str(Path(__file__).with_name("prompt.json")))
        return mlflow.genai.register_prompt(
            name=name,
            template=template(),
            commit_message=PROMPT["verdict"],
            model_config={"model_name": PROMPT["model"], **known, **({"extra_params": others} if others else {})},
            tags={
                "ease.test_score": f"{scores['test']:.4f}",
                "ease.expected_score": f"{scores['expected']:.4f}",
                "ease.lineage_sha256": PROMPT["lineage_sha256"],
                "ease.run_id": run.info.run_id,
            },
        )


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__.partition("\n")[0])
    version = register(*sys.argv[1:])
    print(f"{version.name}, version {version.version}")
