"""A key goes to the host that it is for, and to no other."""

import pytest

from ease_lib.errors import ConfigError
from ease_lib.keys import endpoint_key, header_value


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


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("'sk-1234'", "begins or ends with a quotation mark"),
        ('"sk-1234"', "begins or ends with a quotation mark"),
        ("\u201csk-1234\u201d", "begins or ends with a quotation mark"),
        ("Bearer sk-1234", "begins with `Bearer`, which is added automatically"),
        ("sk\u20131234", r"holds U\+2013 \(en dash\), which no key contains"),
        ("sk-12\u200b34", r"holds U\+200B \(zero width space\)"),
        ("sk-12 34", r"holds U\+0020 \(space\)"),
        ("sk-1234\nsk-5678", r"holds U\+000A \(a control character\) within its value"),
    ],
)
@pytest.mark.parametrize("variable", ["EASE_LLM_API_KEY", "OPENAI_API_KEY"])
def test_what_no_header_can_hold_as_a_key_is_told_where_it_is_read(key, problem, variable, monkeypatch):
    monkeypatch.setenv(variable, key)
    with pytest.raises(ConfigError, match=f"{variable} {problem}") as raised:
        endpoint_key("https://api.openai.com/v1", "EASE_LLM_API_KEY")
    assert "1234" not in str(raised.value)
    assert variable == "EASE_LLM_API_KEY" or endpoint_key("https://llm.example.org/v1", "EASE_LLM_API_KEY") == ""


def test_a_header_of_several_lines_is_told_where_it_is_read(monkeypatch):
    monkeypatch.setenv("TENANT", "a\r\nX-Other: b")
    with pytest.raises(ConfigError, match=r"TENANT holds U\+000D .* which a header cannot hold; write it on one line"):
        header_value("TENANT")
    monkeypatch.setenv("TENANT", "Müller & Söhne\tKG")
    assert header_value("TENANT") == "Müller & Söhne\tKG"
