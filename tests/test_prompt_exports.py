"""A prompt that was found is as good in the libraries that people use: asked by them, the test set has the same score.

The libraries are installed into environments of their own below `.venv`, for they need other versions than we do.
"""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import openai
import pytest

import ease_lib
from ease_lib.artifacts.sources import Sources
from ease_lib.cli.__main__ import main
from ease_lib.cli.prompt_exports.writing import FORMS, prompt_document, write_export
from ease_lib.evaluation.own_metric import load_metric
from tests.production_endpoint import SETTINGS, production_endpoint, write_task
from tests.support.environments import environment_with
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

ROOT = Path(__file__).parents[1]
LIBRARIES = ("dspy==3.4.1", "langchain-openai", "mlflow==3.17.2")
PROMPTFOO = "promptfoo@0.121.20"


@pytest.fixture(scope="module")
def endpoint():
    with production_endpoint() as server:
        yield server


@pytest.fixture(scope="module")
def run(endpoint, tmp_path_factory):
    """A run with three exemplars of four kinds, so that not all answers are right."""
    folder = tmp_path_factory.mktemp("task")
    settings = {**SETTINGS, **write_task(folder), "k": 3}
    ease_lib.optimize(None, endpoint.base_url, progress=False, output_dir=folder / "run", **settings)
    return folder / "run"


@pytest.fixture(scope="module")
def result(run):
    found = ease_lib.Result.read(str(run))
    assert 0.3 < found.test_score < 1
    return found


@pytest.fixture(scope="module")
def libraries():
    """The interpreter that has them."""
    return environment_with("libraries", *LIBRARIES) / "bin/python"


def score_of(result, answers):
    metric = load_metric(result.best["metric"], Sources()).score
    scores = [metric(answer, row.outputs) for answer, row in zip(answers, result.test_rows, strict=True)]
    return sum(scores) / len(scores)


def queries(result):
    return [
        {name: text for name, text in result.query(row).items() if name in result.query_fields}
        for row in result.test_rows
    ]


def asked_by(interpreter, program, folder, result):
    """The answers that a program of another environment gets; it has `queries`, and prints a list."""
    given = f"import json, sys\nqueries = json.load(open('queries.json'))\n{program}\n"
    (folder / "queries.json").write_text(json.dumps(queries(result)))
    (folder / "program.py").write_text(given)
    finished = subprocess.run(
        [interpreter, "program.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def imported(folder):
    specification = importlib.util.spec_from_file_location("ease_prompt", folder / "ease_prompt.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def requests_of(endpoint, begin):
    return [
        {name: value for name, value in request.items() if name != "stream"} for request in endpoint.requests[begin:]
    ]


def test_openai(endpoint, run, result, tmp_path, capsys):
    assert main(["export", str(run), "--to", "openai", "--output-dir", str(tmp_path)]) == 0
    assert result.verdict in capsys.readouterr().out
    prompt, begin = imported(tmp_path), len(endpoint.requests)
    client = openai.OpenAI(base_url=endpoint.base_url, api_key="none")
    answers = [prompt.answer(client, **query) for query in queries(result)]
    assert score_of(result, answers) == result.test_score
    assert requests_of(endpoint, begin) == [result.request(query) for query in queries(result)]
    assert [prompt.request(**query) for query in queries(result)] == requests_of(endpoint, begin)


def test_openai_with_raw_completions(tmp_path):
    rows = [{"input": f"{word} {n} {{input}}", "output": word[:1]} for n in range(30) for word in ("red", "blue")]

    def answer(prompt):
        return prompt.rpartition("Input: ")[2][:1] if prompt.count("\n\n") > 1 else "?"

    with faulty_endpoint(answer) as server:
        found = ease_lib.optimize(
            rows, server.base_url, llm_api="completions", max_llm_requests=300, test_size=20, progress=False
        )
        write_export(found, "openai", tmp_path)
        prompt = imported(tmp_path)
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        answers = [prompt.answer(client, **query) for query in queries(found)]
        assert score_of(found, answers) == found.test_score
    assert prompt.request(input="{x}") == found.request("{x}")
    assert prompt.PROMPT["model"] == MODEL


def test_the_document_says_what_was_measured_and_where_it_comes_from(result):
    document = prompt_document(result)
    assert document["sampling"] == {"max_completion_tokens": 64}
    assert document["scores"]["test"] == result.test_score
    assert document["lineage_sha256"] == result.lineage_sha256 != ""
    assert document["messages"][-1]["content"] == ["Subject: ", {"field": "subject"}, "\n\n", {"field": "body"}]


def test_what_a_library_cannot_take_is_said(run, result, tmp_path, capsys):
    assert main(["export", str(tmp_path), "--to", "openai"]) == 2
    assert "holds no result" in capsys.readouterr().err
    moved = tmp_path / "moved"
    shutil.copytree(run, moved, ignore=shutil.ignore_patterns("pipeline", "lineage.json", "store"))
    assert main(["export", str(moved), "--to", "promptfoo", "--output-dir", str(tmp_path / "out")]) == 2
    assert "the test rows of this run cannot be found" in capsys.readouterr().err
    assert main(["export", str(moved), "--to", "openai", "--output-dir", str(tmp_path / "out")]) == 0
    named = replace(result, best={**result.best, "prompt": {**result.best["prompt"], "query": "{sub ject}"}})
    with pytest.raises(ease_lib.errors.ConfigError, match="the column 'sub ject' cannot be a DSPy field"):
        write_export(named, "dspy", tmp_path)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("evil.py:score", "best_sequence.json names metric=evil.py:score, and the lineage of the run /"),
        ("antigravity:fly", "names metric=antigravity:fly"),
        ("judge", "is a judge that the run asked"),
        ("function:score", "is a function of the program that searched"),
    ],
)
def test_a_metric_that_is_not_the_one_of_the_lineage_is_not_exported(result, metric, message, tmp_path):
    changed = replace(result, best={**result.best, "metric": metric})
    with pytest.raises(ease_lib.errors.ConfigError, match=message):
        write_export(changed, "promptfoo", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_breaks_what_is_required_scores_nothing_in_promptfoo_too(result, tmp_path):
    right = result.test_rows[0].outputs[0]
    required = {"text": f"characters<={len(right)}", "sha256": {}}
    write_export(replace(result, dataset={**result.dataset, "requirement": required}), "promptfoo", tmp_path)
    specification = importlib.util.spec_from_file_location("score", tmp_path / "score.py")
    score = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(score)
    expected = {"config": {"outputs": [right]}}
    assert score.get_assert(right, expected) == {"pass": True, "score": 1.0, "reason": "score 1"}
    longer = score.get_assert(f"{right} and some more words", expected)
    assert longer == {"pass": False, "score": 0.0, "reason": f"breaks {required['text']}"}
    judged = {"text": "judge>=0.5", "sha256": {}}
    with pytest.raises(ease_lib.errors.ConfigError, match="require=judge is a judge that the run asked"):
        write_export(replace(result, dataset={**result.dataset, "requirement": judged}), "promptfoo", tmp_path)


@pytest.mark.parametrize(
    ("library", "program"),
    [
        (
            "dspy",
            "import dspy\nfrom ease_prompt_dspy import EasePrompt, language_model\n"
            "dspy.configure(lm=language_model(cache=False))\n"
            "print(json.dumps([EasePrompt()(**query).output for query in queries]))",
        ),
        (
            "langchain",
            "from ease_prompt_langchain import chain\nprint(json.dumps(chain().batch(queries)))",
        ),
    ],
)
@pytest.mark.rooms("ease_lib/cli/prompt_exports", "ease_lib/prompts")
def test_python_libraries(endpoint, result, libraries, library, program, tmp_path):
    write_export(result, library, tmp_path)
    begin = len(endpoint.requests)
    answers = asked_by(libraries, program, tmp_path, result)
    assert score_of(result, answers) == result.test_score
    key = json.dumps
    sent = sorted(requests_of(endpoint, begin), key=key)
    assert sent == sorted((result.request(query) for query in queries(result)), key=key)


@pytest.fixture(scope="module")
def tracking_server(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--backend-store-uri", "sqlite:///mlflow.db", "--port", str(port), "--workers", "1")
    command = [libraries, "-m", "mlflow", "server", *options]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # its jobs look for the network
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            assert _answers(f"{url}/health"), (folder / "log").read_text()
            yield url
        finally:
            server.terminate()


def _answers(url):
    for _ in range(400):  # a busy machine takes minutes to import mlflow
        try:
            with urllib.request.urlopen(url, timeout=1):
                return True
        except OSError:
            time.sleep(0.5)
    return False


@pytest.mark.parametrize("braces", [True, False], ids=["braces", "plain"])
@pytest.mark.rooms("ease_lib/cli/prompt_exports", "ease_lib/prompts")
def test_mlflow(endpoint, result, libraries, tracking_server, braces, tmp_path):
    if not braces:
        exemplars = [{**entry, "fields": {"subject": "a {n}", "body": "b"}} for entry in result.best["exemplars"]]
        system = {**result.best["prompt"], "system": "Sort mail."}
        result = replace(result, best={**result.best, "exemplars": exemplars, "prompt": system})
    write_export(result, "mlflow", tmp_path)
    program = f"""
import mlflow
from openai import OpenAI
from ease_prompt import answer_of
from register_in_mlflow import register
mlflow.set_tracking_uri({tracking_server!r})
version = register("tickets-{braces}")
loaded = mlflow.genai.load_prompt(f"prompts:/{{version.name}}/{{version.version}}")
run = mlflow.get_run(loaded.tags["ease.run_id"])
client = OpenAI(base_url={endpoint.base_url!r}, api_key="none")
model = loaded.model_config
sent = [loaded.format(**query) for query in queries]
answers = [
    client.chat.completions.create(
        model=model["model_name"], messages=messages, extra_body=model["extra_params"]
    ).choices[0].message.content
    for messages in sent
]
print(json.dumps([[*map(answer_of, answers)], sent, loaded.tags, run.data.metrics, run.data.tags]))
"""
    answers, sent, tags, metrics, run_tags = asked_by(libraries, program, tmp_path, result)
    assert sent == [result.messages(query) for query in queries(result)]
    if braces:
        assert score_of(result, answers) == result.test_score
    assert metrics["test_score"] == result.test_score
    assert tags["ease.lineage_sha256"] == run_tags["ease.lineage_sha256"] == result.lineage_sha256


@pytest.fixture(scope="module")
def promptfoo():
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = ROOT / ".venv/promptfoo"
    program = folder / "node_modules/.bin/promptfoo"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", PROMPTFOO], cwd=folder, check=True)
    return program


@pytest.mark.rooms("ease_lib/cli/prompt_exports", "ease_lib/prompts")
def test_promptfoo(endpoint, result, promptfoo, tmp_path):
    write_export(result, "promptfoo", tmp_path)
    begin = len(endpoint.requests)
    environment = {
        **os.environ,
        "EASE_LLM_API_KEY": "none",
        "PROMPTFOO_PYTHON": sys.executable,
        "PROMPTFOO_CONFIG_DIR": str(tmp_path / "config"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [promptfoo, "eval", "--no-cache", "--no-table", "--no-progress-bar", "--output", "out.json"]
    finished = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert (tmp_path / "out.json").exists(), finished.stdout + finished.stderr
    evaluated = json.loads((tmp_path / "out.json").read_text())["results"]["results"]
    scores = [each["score"] for each in evaluated]
    assert len(scores) == len(result.test_rows)
    assert sum(scores) / len(scores) == pytest.approx(result.test_score, abs=1e-12)
    sent = [request["messages"] for request in requests_of(endpoint, begin)]
    assert sorted(map(json.dumps, sent)) == sorted(json.dumps(result.messages(query)) for query in queries(result))
    assert all(request["max_completion_tokens"] == 64 for request in requests_of(endpoint, begin))


def test_every_form_says_how_it_is_used():
    assert all(form.use for form in FORMS.values())
