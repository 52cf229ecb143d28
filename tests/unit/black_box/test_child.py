"""Endpoints of our own: real processes, real HTTP, none left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from ease_lib.black_box import child as child_module
from ease_lib.black_box.child import child_endpoint
from ease_lib.errors import ConnectionFailed


def post(url, **body):
    request = urllib.request.Request(
        f"{url}/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request, timeout=30))


def models(url):
    return [model["id"] for model in json.load(urllib.request.urlopen(f"{url}/models", timeout=10))["data"]]


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setitem(child_module.PROGRAMS, "broken", "ease_lib.black_box.nonsense")
    return "broken"


def test_endpoint_answers_and_ends_with_its_context(tmp_path):
    with child_endpoint("local", tmp_path / "log") as url:
        model = models(url)[0]
        prompt = "Input: great\nOutput: good\n\nInput: awful\nOutput: bad\n\nInput: great\nOutput:"
        answer = post(url, model=model, prompt=prompt, max_tokens=4, temperature=0, stop=["\n"])
        assert answer["choices"][0]["text"].strip()
        assert answer["usage"]["prompt_tokens"] > 10
    with pytest.raises(OSError, match="refused"):
        models(url)


@pytest.mark.rooms("ease_lib/black_box/local_llm.py", "ease_lib/black_box/child.py")
def test_local_answers_do_not_depend_on_its_prompt_cache(tmp_path):
    prefix = "Input: fits well\nOutput: praise\n\nInput: broke at once\nOutput: complaint\n\n"
    prompts = [f"{prefix}Input: {text}\nOutput:" for text in ("so soft", "arrived late", "lovely", "the zip tore")]
    answers = []
    for order in (prompts, prompts[::-1]):
        with child_endpoint("local", tmp_path / "log") as url:
            said = {p: post(url, model="m", prompt=p, max_tokens=4, temperature=0, stop=["\n"]) for p in order}
        answers.append([said[p]["choices"][0]["text"] for p in prompts])
    assert answers[0] == answers[1]


def test_no_endpoint_outlives_a_killed_run(tmp_path):
    code = (
        "import time; from pathlib import Path; from ease_lib.black_box.child import child_endpoint\n"
        f"with child_endpoint('local', Path({str(tmp_path / 'log')!r})) as url:\n"
        "    print(url, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        url = run.stdout.readline().strip()
        assert models(url)
        os.kill(run.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            models(url)
        except OSError:
            return
        time.sleep(0.1)
    pytest.fail("the endpoint still answers after its run was killed")


def test_an_endpoint_that_does_not_start_says_why(broken, tmp_path):
    starting = child_endpoint(broken, tmp_path / "log")
    with pytest.raises(ConnectionFailed, match=r"the broken endpoint did not start: .*No module named"), starting:
        pass


def test_without_a_log_nothing_is_kept_and_the_reason_is_still_said(broken, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    starting = child_endpoint(broken)
    with pytest.raises(ConnectionFailed, match=r"did not start: .*No module named [^;]*$"), starting:
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("said", ["", "half a line without an end"])
def test_an_endpoint_that_starts_and_never_says_where_is_waited_for_no_longer_than_stated(said):
    silent = [sys.executable, "-c", f"import time; print({said!r}, end='', flush=True); time.sleep(60)"]
    with subprocess.Popen(silent, stdout=subprocess.PIPE) as child:
        start = time.monotonic()
        assert child_module._announced_port(child, 0.5) is None
        assert time.monotonic() - start < 5
        child.kill()


def test_an_endpoint_starts_in_a_folder_with_a_module_named_like_one_of_pythons(tmp_path, monkeypatch):
    (tmp_path / "html.py").write_text("raise RuntimeError('mine')")
    (tmp_path / "http.py").write_text("raise RuntimeError('mine')")
    monkeypatch.chdir(tmp_path)
    with child_endpoint("local", tmp_path / "log") as url:
        assert models(url)
