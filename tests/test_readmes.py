"""The READMEs hold: every command is run here, or says what it needs; options, links and paths exist.

A comment with the word "needs" marks the command that it is behind, or all those below it in its block.
"""

import argparse
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ease_lib.cli import __main__ as ease
from ease_lib.evaluation.judge import Rubric
from ease_lib.prompts.template import PromptTemplate
from pipelines import __main__ as pipelines
from tests.recorded_run import RecordedRun
from tests.studies import __main__ as studies
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

ROOT = Path(__file__).parents[1]
OURS = ("pipelines", "components", "images", "ease_lib", "manifests", "tests")
BELOW = sorted(path for folder in OURS for path in (ROOT / folder).rglob("README.md"))
READMES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *BELOW]
TESTED_ELSEWHERE = {"python -m pipelines schedule": "tests/pipelines/test_schedules.py"}
"""File of the test that runs commands with this beginning, against a server made for it."""
HERE = {"s3://prompts/feedback": "prompts"}
"""Places of the READMEs, and what stands for them here."""


@dataclass(frozen=True)
class Command:
    """A command of a shell block, and whether it says what it needs."""

    readme: Path
    text: str
    is_marked: bool

    @property
    def words(self):
        words = shlex.split(self.text.replace("\\\n", " "), comments=True)
        words[0] = words[0].removeprefix(".venv/bin/")
        return words

    @property
    def program(self):
        return " ".join(self.words[: 3 if self.words[:2] == ["python", "-m"] else 1])

    def __str__(self):
        return f"{self.readme.parent.name}: {' '.join(self.words)[:80]}"


def named(readme):
    return str(readme.relative_to(ROOT))


def prose_of(readme):
    return re.sub(r"^ *```.*?^ *```$", "", readme.read_text(), flags=re.DOTALL | re.MULTILINE)


def blocks_of(readme):
    """Language and text of every fenced block."""
    return re.findall(r"^ *```(\w*)\n(.*?)^ *```$", readme.read_text(), flags=re.DOTALL | re.MULTILINE)


def commands_of(readme):
    for language, block in blocks_of(readme):
        is_marked, begun = False, ""
        for line in block.splitlines() if language == "bash" else ():
            begun += f"{line}\n"
            if line.endswith("\\") or not is_complete(begun):
                continue
            needs = re.search(r"(^|\s)#.*\bneeds\b", line) is not None
            if line.strip().startswith("#"):
                is_marked = is_marked or needs
            elif line.strip():
                yield Command(readme, begun, is_marked or needs)
            begun = ""


def is_complete(text):
    try:
        shlex.split(text, comments=True)
    except ValueError:  # a quotation goes on
        return False
    return True


def exit_code(main, arguments):
    try:
        return main(arguments)
    except SystemExit as ended:  # of --help
        return ended.code


def options_of(parser):
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from options_of(each)


def anchors_of(markdown):
    headings = re.findall(r"^#+ (.+)$", prose_of(markdown), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


COMMANDS = [command for readme in READMES for command in commands_of(readme)]
MARKED = [command for command in COMMANDS if command.is_marked]
SBOM = pytest.mark.rooms("images", "Makefile")
UNMARKED = {tuple(command.words): command for command in COMMANDS if not command.is_marked}.values()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A folder with what the commands name: runs, published prompts, a prompt."""
    folder = tmp_path_factory.mktemp("workspace")
    RecordedRun(folder / "runs" / "demo", publish_uri=str(folder / "prompts"))()
    for copy in ("one", "two"):
        shutil.copytree(folder / "runs" / "demo", folder / "runs" / copy)
    (prompt,) = folder.glob("prompts/versions/*/prompt.txt")
    shutil.copyfile(prompt, folder / "prompt.txt")
    shutil.copyfile(ROOT / "Makefile", folder / "Makefile")
    shutil.copytree(ROOT / "images", folder / "images")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def test_the_readme_is_read_in_minutes():
    assert len((ROOT / "README.md").read_bytes()) <= 7168


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_every_block_says_whether_it_holds_commands(readme):
    assert {language for language, _ in blocks_of(readme)} <= {"bash", "python", "text", "yaml"}


def test_prompts_and_rubrics_that_are_shown_are_such():
    shown = [yaml.safe_load(text) for readme in READMES for language, text in blocks_of(readme) if language == "yaml"]
    prompts = [document for document in shown if "scale" not in document]
    assert {PromptTemplate.of(document).columns for document in prompts} == {("subject", "body")}
    assert {Rubric.of(document).columns for document in shown if "scale" in document} == {()}


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=SBOM if each.words[1:2] == ["sbom"] else ()) for each in UNMARKED],
    ids=str,
)
def test_a_command_that_needs_nothing_works(command, workspace, monkeypatch):
    elsewhere = [path for begin, path in TESTED_ELSEWHERE.items() if " ".join(command.words).startswith(begin)]
    if elsewhere:
        assert f'"{command.words[3]}"' in (ROOT / elsewhere[0]).read_text()
        return
    monkeypatch.chdir(workspace)
    arguments = [HERE.get(word, word) for word in command.words]
    if command.program == "make":
        made = subprocess.run([*arguments, "--assume-old=install"], capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        return
    mains = {"ease": (ease.main, arguments[1:]), "python -m pipelines": (pipelines.main, arguments[3:])}
    assert command.program in mains, "neither run by a test nor marked by a comment with what it needs"
    assert exit_code(*mains[command.program]) == 0


@pytest.mark.parametrize("command", MARKED, ids=str)
def test_a_command_that_needs_something_has_options_that_exist(command):
    words = command.words
    if command.program == "ease":
        ease._parser(words[1], shows_all=False)[0].parse_args(words[1:])
    elif command.program == "python -m pipelines":
        pipelines._parser(words[3]).parse_args(words[3:])
    elif command.program == "python -m tests.studies":
        studies._parser().parse_args(words[3:])
    elif command.program.startswith("python -m tests."):
        source = (ROOT / words[2].replace(".", "/")).with_suffix(".py").read_text()
        assert all(f'"{word}"' in source for word in words[3:] if word.startswith("--"))
    elif command.program == "make":
        variables = {word.partition("=")[0] for word in words[1:] if "=" in word}
        makefile = (ROOT / "Makefile").read_text()
        assert all(f"$({variable})" in makefile for variable in variables)
        assert all(f"\n{word}:" in makefile for word in words[1:] if "=" not in word)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_files_of_ours_that_a_command_names_are_there(command):
    for word in command.words:
        if word.startswith(tuple(f"{folder}/" for folder in OURS)):
            assert list(ROOT.glob(word)), word


PROGRAMS = [
    pytest.param(text, id=named(readme))
    for readme in READMES
    for language, text in blocks_of(readme)
    if language == "python"
]


MY_PROGRAM = """
def answer(examples, text):
    said = [example["team"] for example in examples if example["text"].split()[0] == text.split()[0]]
    return said[-1] if said else "help"


async def answer_async(examples, text):
    return answer(examples, text)
"""
"""Replacement for the reader's own code."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_it_stands(program, tmp_path, monkeypatch, capsys):
    """Against an endpoint that answers as the last exemplar did."""
    of_dspy = "import dspy" in program
    if of_dspy:
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the internet
        pytest.importorskip("dspy", reason="DSPy is not installed: pip install 'ease-pipelines[dspy]'")
    rows = [f"{word} {number},{team}" for number in range(200) for word, team in (("bill", "sales"), ("bug", "help"))]
    (tmp_path / "tickets.csv").write_text("\n".join(["text,team", *rows]))
    (tmp_path / "my_program.py").write_text(MY_PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_program", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    said = "[[ ## team ## ]]\nhelp\n\n[[ ## completed ## ]]" if of_dspy else "help"
    with faulty_endpoint(lambda prompt: said) as server:
        path = tmp_path / "program.py"
        path.write_text(program.replace("https://llm.example.org/v1", server.base_url).replace("small-1", MODEL))
        runpy.run_path(str(path))
    shown = capsys.readouterr().out.lower()
    assert "better than random exemplars" in shown or "expected on new rows" in shown


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_read_in_a_minute(program):
    assert len([line for line in program.splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_options_in_the_text_exist(readme):
    parsers = [pipelines._parser(name) for name in pipelines.COMMANDS]
    parsers += [ease._parser(name, shows_all=False)[0] for name in ease.COMMANDS]
    known = {option for parser in parsers for option in options_of(parser)}
    for span in re.findall(r"`([^`]+)`", prose_of(readme)):
        if span.removeprefix(".venv/bin/").startswith(("--", "ease ", "python -m pipelines ")):
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", span)) <= known, span


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_every_link_leads_somewhere(readme):
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", prose_of(readme)):
        target = readme.parent / path if path else readme
        assert target.exists(), path
        assert not anchor or anchor in anchors_of(target), f"{path}#{anchor}"


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_every_file_that_the_text_names_is_there(readme):
    for path in re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|yaml|svg))`", prose_of(readme)):
        assert (ROOT / path).is_file() or (readme.parent / path).is_file(), path
