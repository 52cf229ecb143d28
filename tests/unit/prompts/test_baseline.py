"""The prompt in use now, asked as it is."""

import json

import pytest

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import ConfigError, DataError
from ease_lib.prompts.baseline import Baseline, read_baseline
from ease_lib.prompts.messages import messages_of
from ease_lib.tasks.base import Exemplar

ROW = Exemplar(0, "a {b}", ("x",), fields=(("subject", "{input}"),))


def written(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_baseline(str(tmp_path / name), Sources())


def test_a_text_is_sent_as_it_is_with_the_query_in_it(tmp_path):
    baseline = written(tmp_path, "now.txt", 'Answer {{"team": ...}}.\n\n{input}\n')
    assert baseline.render([ROW], ROW, "an instruction") == 'Answer {"team": ...}.\n\na {b}'
    assert not baseline.is_chat


@pytest.mark.parametrize("name", ["now.yaml", "now.json"])
def test_messages_keep_their_roles_and_values_are_never_fields(tmp_path, name):
    messages = [{"role": "system", "content": "Sort."}, {"role": "user", "content": "{subject}: {input}"}]
    for document in (messages, {"messages": messages}):
        baseline = written(tmp_path, name, json.dumps(document))
        sent = messages_of(baseline.render([], ROW))
        assert sent == [messages[0], {"role": "user", "content": "{input}: a {b}"}]
        assert baseline.columns == ("subject",)
        assert Baseline.of(baseline.document) == baseline


def test_json_may_be_indented_by_tabs(tmp_path):
    text = json.dumps({"messages": [{"role": "user", "content": "{input}"}]}, indent="\t")
    assert written(tmp_path, "now.json", text).is_chat


def test_none_is_none():
    assert read_baseline("", Sources()) is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("now.txt", "Sort mail.", "it contains no field of the query"),
        ("now.txt", "Answer {team: 1}: {input}", r"message 1: \{team...\} is not a field's name"),
        ("now.txt", "{input", "write {{ and }} for braces that are text"),
        (
            "now.yaml",
            "- {role: boss, content: '{input}'}",
            r"messages\[0\].role should be 'system', 'developer', ",
        ),
        ("now.yaml", "- content: Sort.\n- {role: user, content: '{input}'}", r"messages\[0\].role is missing"),
        ("now.yaml", "- {role: '', content: Sort.}\n- {role: user, content: '{input}'}", "a message has no role"),
        ("now.yaml", "[]", "write a text, or a list of messages"),
        ("now.yaml", "- [", "is not YAML or JSON"),
    ],
)
def test_mistakes_are_named(tmp_path, name, text, message):
    with pytest.raises((ConfigError, DataError), match=message):
        written(tmp_path, name, text)
