"""Providers that speak another API than OpenAI's are reached through a gateway, as ease_lib/README.md says: LiteLLM's.

The gateway is the real one, in an environment of its own; behind it the test answers as Anthropic, Gemini and Bedrock
do.
"""

import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from tests.support.environments import environment_with
from tests.support.runs import run_stages

GATEWAY = "litellm[proxy]==1.106.2"
KEY = "sk-gateway"
ANSWER = "billing"
ANSWERS = {
    "/v1/messages": {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 2},
    },
    ":generateContent": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 2, "totalTokenCount": 13},
    },
    "/converse": {
        "output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 11, "outputTokens": 2, "totalTokens": 13},
    },
}
"""Answers by the end of the path, as each provider documents them."""
PROVIDERS = {"claude": "/v1/messages", "gemini": ":generateContent", "nova": "/converse"}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, asked))
        body = json.dumps(next(said for path, said in ANSWERS.items() if self.path.endswith(path))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def provider():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.asked = []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def installed():
    return environment_with("gateway", GATEWAY) / "bin/litellm"


@pytest.fixture(scope="module")
def gateway(provider, installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    url = f"http://127.0.0.1:{provider.server_port}"
    models = {
        "claude": {"model": "anthropic/claude-haiku-4-5", "api_base": url, "api_key": "none"},
        "gemini": {"model": "gemini/gemini-2.5-flash", "api_base": url, "api_key": "none"},
        "nova": {
            "model": "bedrock/converse/amazon.nova-lite-v1:0",
            "aws_bedrock_runtime_endpoint": url,
            "aws_region_name": "us-east-1",
            "aws_access_key_id": "none",
            "aws_secret_access_key": "none",
        },
    }
    (folder / "gateway.yaml").write_text(
        yaml.safe_dump(
            {
                "model_list": [{"model_name": name, "litellm_params": each} for name, each in models.items()],
                "litellm_settings": {"drop_params": True},
            }
        )
    )
    with running(installed, folder) as address:
        yield address


@contextmanager
def running(program, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [program, "--config", "gateway.yaml", "--host", "127.0.0.1", "--port", port, "--telemetry", "False"]
    environment = {**os.environ, "LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            _wait(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(url, process, log):
    for _ in range(300):
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            urllib.request.urlopen(url, timeout=2)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.4)
    raise AssertionError(log.read_text()[-2000:])


@pytest.mark.parametrize("model", PROVIDERS)
@pytest.mark.rooms("ease_lib/black_box", "ease_lib/prompts")
def test_a_search_asks_a_provider_in_its_own_words(gateway, provider, model, tmp_path, monkeypatch):
    monkeypatch.setenv("EASE_LLM_API_KEY", KEY)
    rows = [{"text": f"bill {number}", "team": "billing" if number % 2 else "sales"} for number in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "prompt.yaml").write_text("{system: Sort mail., exemplars: turns, query: '{text}'}")
    parameters = parse_parameters(
        {
            "task": "table",
            "task_uri": str(tmp_path / "rows.jsonl"),
            "output_column": "team",
            "prompt": str(tmp_path / "prompt.yaml"),
            "pool_size": 10,
            "validation_size": 8,
            "test_size": 10,
            "method": "best_of_n",
            "budget": 2,
            "k": 2,
            "llm_base_url": gateway,
            "llm_model": model,
        }
    )
    begin = len(provider.asked)
    at = Workspace(tmp_path / "run")
    run_stages(at, parameters, *modules_between("", "optimize"), optimize, *modules_between("optimize", "publish"))
    report = read_document(Path(at.numbers), contracts.REPORT)
    asked = provider.asked[begin:]
    assert {path.endswith(PROVIDERS[model]) for path, _ in asked} == {True}
    assert report["llm"]["prompt_tokens"] == 11 * report["llm"]["requests"] == 11 * len(asked)
    assert 0 < report["best"]["test_score"] < 1
    assert "Sort mail." in json.dumps(asked[0][1].get("system") or asked[0][1].get("system_instruction"))
