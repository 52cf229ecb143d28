"""A prompt that is in production, with a system text, two input fields, chat turns, JSON output and its own metric, is
optimised from a program, from the shell and as a pipeline, against an endpoint that refuses what newer models refuse.
"""

import json
import runpy
import subprocess
import sys

import pytest

import ease_lib
from ease_lib.errors import EXIT_NOT_BETTER
from tests.production_endpoint import METRIC, MODEL, ROWS, SETTINGS, TEMPLATE, production_endpoint, write_task


@pytest.fixture(scope="module")
def endpoint():
    with production_endpoint() as server:
        yield server


@pytest.fixture(scope="module")
def found(endpoint, tmp_path_factory):
    metric = tmp_path_factory.mktemp("metric") / "metric.py"
    metric.write_text(METRIC, encoding="utf-8")
    return ease_lib.optimize(
        ROWS,
        endpoint.base_url,
        metric=runpy.run_path(str(metric))["score"],
        prompt=TEMPLATE,
        progress=False,
        **SETTINGS,
    )


def test_from_a_program(endpoint, found):
    assert found.test_score == 1.0, "an exemplar of each kind, and a model that follows them"
    assert {json.loads(entry["outputs"][0])["team"] for entry in found.exemplars} == {"support", "billing", "sales"}
    query = {"subject": "the {price}", "body": "{subject}"}
    messages = found.messages(query)
    assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * 4, "user"]
    assert messages[0]["content"] == 'You sort mail. Answer with {"team": ..., "urgent": ...} alone.'
    assert messages[-1]["content"] == "Subject: the {price}\n\n{subject}"
    assert found.request(query) == {"messages": messages, "model": MODEL, "max_completion_tokens": 64}
    asked = [request["messages"] for request in endpoint.requests]
    for row in found.test_rows[:3]:
        assert found.messages(found.query(row)) in asked, "what the program sends is what was scored"


def _texts(result):
    """Texts of a result without the names of their files."""
    return [{name: value for name, value in entry.items() if name != "origin"} for entry in result.exemplars]


def test_as_a_pipeline(endpoint, found, tmp_path):
    values = {**SETTINGS, **write_task(tmp_path), "llm_base_url": endpoint.base_url}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    command = [sys.executable, "-m", "ease_lib.cli", "run", "--runner", "process", "--output-dir", tmp_path / "out"]
    finished = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    result = ease_lib.Result.read(str(tmp_path / "out"))
    assert _texts(result) == _texts(found), "the same rows, seed and answers find the same prompt"
    assert result.test_score == found.test_score
    request = json.loads((tmp_path / "out/request.json").read_text())
    assert request["max_completion_tokens"] == 64
    assert "temperature" not in request


def test_from_the_shell_it_is_better_than_what_runs_now(endpoint, found, tmp_path):
    """The prompt without exemplars, of which this model answers nothing right, and the winner itself."""
    query = {"role": "user", "content": "Subject: {subject}\n\n{body}"}
    system, *turns, _ = (
        {**message, "content": message["content"].replace("{", "{{").replace("}", "}}")}
        for message in found.messages({"subject": "", "body": ""})
    )
    prompts = {"now": [{"role": "system", "content": TEMPLATE["system"]}, query], "winner": [system, *turns, query]}
    for name, messages in prompts.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(messages), encoding="utf-8")
    values = {**SETTINGS, **write_task(tmp_path), "llm_base_url": endpoint.base_url}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    command = [sys.executable, "-m", "ease_lib.cli", "run", "--runner", "inline", "--output-dir", tmp_path / "out"]

    def finished(baseline, rival):
        told = [f"--baseline={tmp_path / baseline}.json", "--require-better-than", rival]
        return subprocess.run([*command, *told, *options], capture_output=True, text=True, check=False)

    equal = finished("winner", "baseline")
    assert equal.returncode == EXIT_NOT_BETTER, equal.stdout + equal.stderr
    assert "not better than baseline: no evidence" in equal.stderr
    better = finished("now", "random")
    assert better.returncode == 0, better.stdout + better.stderr
    result = ease_lib.Result.read(str(tmp_path / "out"))
    report = result.report
    assert report["baseline"]["score"] == 0
    assert report["verdict"]["text"].startswith("Better than your baseline by 100 points")
    assert "Your baseline" in result.page
