"""How prompts are written."""

import json

import pytest

from ease_lib.artifacts.sources import Sources
from ease_lib.errors import ConfigError, DataError
from ease_lib.prompts.messages import as_text, messages_of
from ease_lib.prompts.template import PAPER, PromptTemplate, read_template
from ease_lib.tasks.base import Exemplar
from tests.simulation.models import run_together


def exemplars(*pairs, **fields):
    return [Exemplar(number, text, (output,)) for number, (text, output) in enumerate(pairs)]


def query(text, **fields):
    return Exemplar(99, text, ("secret",), fields=tuple(fields.items()))


def ticket(number, subject, body, label):
    return Exemplar(number, f"{subject} {body}", (label,), fields=(("subject", subject), ("body", body)))


def render(pairs, text, instruction="", **entries):
    return PromptTemplate.of(entries).render(exemplars(*pairs), query(text), instruction)


def test_template_of_the_paper():
    prompt = render([("a", "1"), ("b", "2")], "c", "Count.")
    assert prompt == "Instruction: Count.\n\nInput: a\nOutput: 1\n\nInput: b\nOutput: 2\n\nInput: c\nOutput:"
    assert messages_of(prompt) == [{"role": "user", "content": prompt}]


def test_without_instruction_there_is_no_instruction_line():
    assert render([("a", "1")], "c") == "Input: a\nOutput: 1\n\nInput: c\nOutput:"


def test_braces_in_data_are_never_fields():
    nasty = [("[INPUT] {input} [full_DEMO]", "Output: %s {0}")]
    assert render(nasty, "{query}") == (
        "Input: [INPUT] {input} [full_DEMO]\nOutput: Output: %s {0}\n\nInput: {query}\nOutput:"
    )
    turns = messages_of(render([("{output}", '{"a": 1}')], "{", exemplars="turns"))
    assert [message["content"] for message in turns] == ["{output}", '{"a": 1}', "{"]


def test_texts_stand_before_and_after_the_exemplars_and_columns_have_names():
    template = PromptTemplate.of(
        {
            "before": "Sort {{tickets}}.",
            "after": "Now:",
            "query": "S: {subject}\nB: {body}\nLabel:",
            "between": "\n--\n",
        }
    )
    prompt = template.render([ticket(0, "Broken", "It {hurts}", "bug")], ticket(1, "Hi", "there", "x"))
    assert prompt == "Sort {tickets}.\n--\nS: Broken\nB: It {hurts}\nLabel: bug\n--\nNow:\n--\nS: Hi\nB: there\nLabel:"
    assert template.columns == ("subject", "body")


def test_turns_are_messages_of_the_user_and_the_assistant():
    prompt = render([("a", "1"), ("b", "2")], "c", "Count.", exemplars="turns", system="You count.")
    assert [(each["role"], each["content"]) for each in messages_of(prompt)] == [
        ("system", "You count.\n\nInstruction: Count."),
        ("user", "a"),
        ("assistant", "1"),
        ("user", "b"),
        ("assistant", "2"),
        ("user", "c"),
    ]
    assert as_text(prompt).startswith("[system]\nYou count.\n\nInstruction: Count.\n\n[user]\na\n\n[assistant]\n1")


def test_a_template_may_place_the_instruction_itself():
    prompt = render([("a", "1")], "c", "Count.", system="Do this: {instruction}")
    assert messages_of(prompt)[0]["content"] == "Do this: Count."
    assert "Instruction" not in messages_of(prompt)[1]["content"]


def test_a_system_text_alone_makes_two_messages():
    prompt = render([("a", "1")], "c", system="Be short.")
    assert messages_of(prompt) == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Input: a\nOutput: 1\n\nInput: c\nOutput:"},
    ]
    assert json.loads(prompt) == messages_of(prompt)
    assert run_together(messages_of(prompt)) == "Be short.\n\nInput: a\nOutput: 1\n\nInput: c\nOutput:"


def test_without_a_query_names_of_the_fields_stand_for_it():
    template = PromptTemplate.of({"query": "{subject}: {body} ->"})
    shown = [ticket(0, "{subject}", "b", "x")]
    assert template.render([], template.placeholder([])) == "{subject}: {body} ->"
    assert template.render(shown, template.placeholder(shown)).endswith("\n\n{subject_}: {body} ->")


def test_a_template_is_named_by_its_content():
    assert PromptTemplate.of({}).identity == PAPER
    assert PromptTemplate.of({"between": "\n"}).identity != PromptTemplate.of({"between": "\n\n\n"}).identity
    template = PromptTemplate.of({"stop": "\n", "exemplars": "turns"})
    assert PromptTemplate.of(json.loads(json.dumps(template.document))) == template


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"querry": "x"}, "field querry is unknown; the fields are exemplars, system"),
        ({"query": "Q:"}, "query names no field"),
        ({"query": "{input} {output}"}, "give the answer away"),
        ({"answer": "A:"}, "answer lacks the field {output}"),
        ({"system": "{input}"}, "system has the field {input}"),
        ({"instruction": "Do"}, "instruction lacks the field"),
        ({"query": "{input"}, "expected '}'"),
        ({"query": "{input.upper}"}, "is not a field's name"),
        ({"query": "{}"}, "is not a field's name"),
        ({"exemplars": "chat"}, "exemplars should be 'text', 'turns' or 'rows', found 'chat'"),
        ({"system": 3}, "system should be a valid string, found 3; .* in quotes"),
        ({True: "x"}, "field True is unknown"),
        ({"stop": [1]}, r"stop\[0\] should be a valid string"),
    ],
)
def test_a_broken_template_says_which_entry_is_wrong(entries, message):
    with pytest.raises(ConfigError, match=message.replace("{", r"\{")):
        PromptTemplate.of(entries)


def test_templates_are_read_from_yaml(tmp_path):
    (tmp_path / "p.yaml").write_text('exemplars: turns\nstop: "\\n"\n', encoding="utf-8")
    assert read_template(str(tmp_path / "p.yaml"), Sources()) == PromptTemplate.of({"exemplars": "turns", "stop": "\n"})
    assert read_template("", Sources()) == PromptTemplate()
    (tmp_path / "rows.yaml").write_text("exemplars: rows")
    with pytest.raises(ConfigError, match="is of runs with evaluate, which write no prompts; write text or turns"):
        read_template(str(tmp_path / "rows.yaml"), Sources())
    (tmp_path / "list.yaml").write_text("- a\n", encoding="utf-8")
    with pytest.raises(DataError, match="entries like"):
        read_template(str(tmp_path / "list.yaml"), Sources())
    (tmp_path / "broken.yaml").write_text("a: [\n", encoding="utf-8")
    with pytest.raises(DataError, match="is not YAML or JSON"):
        read_template(str(tmp_path / "broken.yaml"), Sources())
