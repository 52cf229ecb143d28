"""A key goes to the host that it is for, and to no other."""

import pytest

from ease_lib.keys import endpoint_key


@pytest.mark.parametrize(
    ("url", "environment", "sent"),
    [
        ("https://llm.example.org/v1", {"OPENAI_API_KEY": "openai"}, ""),
        ("http://api.openai.com/v1", {"OPENAI_API_KEY": "openai"}, ""),
        ("https://api.openai.com.example.org/v1", {"OPENAI_API_KEY": "openai"}, ""),
        ("https://notopenai.com/v1", {"OPENAI_API_KEY": "openai"}, ""),
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "openai"}, "openai"),
        ("https://eu.api.openai.com/v1", {"OPENAI_API_KEY": "openai"}, "openai"),
        ("", {"OPENAI_API_KEY": "openai"}, "openai"),
        ("", {"OPENAI_API_KEY": "openai", "OPENAI_BASE_URL": "http://proxy/v1"}, ""),
        ("https://llm.example.org/v1", {"OPENAI_API_KEY": "openai", "EASE_LLM_API_KEY": "own"}, "own"),
        ("http://localhost:8000/v1", {"EASE_LLM_API_KEY": "own"}, "own"),
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "openai", "EASE_LLM_API_KEY": "own"}, "own"),
    ],
)
def test_openais_key_is_sent_to_openai_alone(url, environment, sent, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert endpoint_key(url, "EASE_LLM_API_KEY") == sent


def test_the_end_of_a_line_behind_a_key_is_no_part_of_it(monkeypatch):
    monkeypatch.setenv("EASE_LLM_API_KEY", " own\n")
    assert endpoint_key("https://llm.example.org/v1", "EASE_LLM_API_KEY") == "own"
