"""The forms in which the report has the prompt."""

import json
import shutil
import subprocess
import time

import pytest

from ease_lib.stages.report import _forms, _request
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

PROMPT = 'Input: it\'s "$HOME" `date`\nOutput: a\\b\n\nInput: {input}\nOutput:'
BEST = {"llm_api": "chat", "request": {"model": MODEL, "temperature": 0.0, "max_tokens": 4}}


def forms(url, **changed):
    asked = {"llm_base_url": url, "llm_headers": "", **changed}
    return _forms(PROMPT, BEST, {"llm": {"endpoint": url.partition("?")[0]}, "parameters": {"endpoint": asked}})


def test_messages_and_request_are_what_is_sent():
    found = forms("https://llm.example.org/v1")
    assert json.loads(found["Request"]) == _request(PROMPT, BEST) | {"messages": json.loads(found["Messages"])}


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_command_sends_the_request_as_it_is():
    with faulty_endpoint(lambda prompt: "answer") as endpoint:
        command = forms(endpoint.base_url)["curl"]
        done = subprocess.run(["sh", "-c", f"{command} --silent"], capture_output=True, check=True)
        assert json.loads(done.stdout)["choices"], done.stdout
        while not endpoint.script.finished:  # curl may end before the endpoint has taken note; pytest ends what hangs
            time.sleep(0.01)
        (prompt,) = endpoint.script.finished
    assert '"$HOME" `date`' in str(prompt)


@pytest.mark.parametrize(
    ("url", "changed"),
    [
        ("local", {}),
        ("python:module:function", {}),
        ("https://llm.example.org/v1?api-version=1", {}),
        ("https://llm.example.org/v1", {"llm_headers": "X-Team"}),
    ],
)
def test_there_is_no_command_that_would_not_work(url, changed):
    assert set(forms(url, **changed)) == {"Messages", "Request"}
