import ast
import re
import subprocess
import sys

import pytest

from ease_lib.cli import __main__ as cli
from ease_lib.config.parsing import declared_parameters
from tests.support.faulty_endpoint import MODEL, faulty_endpoint, status


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for command, summary in cli.COMMANDS.items():
        assert command in shown
        assert summary in " ".join(shown.split())


def modules_loaded_by(*arguments):
    """The top ones of others, and ours; beside what Python itself has loaded."""
    code = (
        f"import sys; from ease_lib.cli.__main__ import main\n"
        f"try:\n    main({list(arguments)!r})\n"
        "except SystemExit:\n    print(sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)\n"
        "    print(sorted(name for name in sys.modules if name.startswith('ease_lib.')), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    top, ours = (set(ast.literal_eval(line)) for line in ended.stderr.splitlines())
    foreign = {name for name in top if not name.startswith("_")} - set(sys.stdlib_module_names)
    return foreign - started_with(), ours


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_nothing_is_loaded_that_a_command_does_not_use(option):
    """So that they answer at once: they compute nothing."""
    foreign, ours = modules_loaded_by(option)
    assert foreign == {"ease_lib"}
    assert ours == {"ease_lib.cli", "ease_lib.cli.__main__", "ease_lib.errors"}


@pytest.mark.parametrize("command", ["run", "plan", "compare", "doctor"])
def test_help_of_a_command_loads_none_of_what_computes(command):
    foreign, _ = modules_loaded_by(command, "--help")
    assert not foreign & {"numpy", "pyarrow", "openai", "aiohttp", "torch", "scipy", "boto3"}


def test_help_shows_what_most_people_need_and_help_all_the_rest(capsys):
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", option])
        assert ended.value.code == 0
        shown[option] = capsys.readouterr().out
    assert "--nu" not in shown["--help"]
    assert "--task-uri" in shown["--help"]
    assert "--help-all" in shown["--help"]
    assert {f"--{name.replace('_', '-')}" for name, each in declared_parameters().items() if not each.internal} <= set(
        shown["--help-all"].split()
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["run", "--taks", "lr"], "no option --taks; did you mean --task?"),
        (["run", "--llm-modle=x"], "no option --llm-modle=x; did you mean --llm-model?"),
        (["run", "--qqqqqq"], "no option --qqqqqq\n"),
    ],
)
def test_a_mistyped_option_names_the_nearest(given, said, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(given)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def started_with():
    """Modules that Python itself has loaded in this environment before it does anything."""
    code = "import sys; print(sorted(name for name in sys.modules if '.' not in name))"
    return set(ast.literal_eval(subprocess.check_output([sys.executable, "-c", code], text=True)))


@pytest.mark.parametrize(
    ("is_terminal", "environment", "begins"),
    [
        (True, {}, "\x1b[31mease: error:\x1b[0m "),
        (True, {"NO_COLOR": "1"}, "ease: error: "),
        (True, {"TERM": "dumb"}, "ease: error: "),
        (False, {}, "ease: error: "),
    ],
)
def test_an_error_is_red_where_a_terminal_shows_colours(is_terminal, environment, begins, monkeypatch, capsys):
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert cli.main(["list", "/there/is/nothing"]) == 2
    assert capsys.readouterr().err.startswith(begins)


def test_verbose_says_where_an_error_was_raised_and_what_caused_it_without_keys(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EASE_LLM_API_KEY", "canary-1f3870be274f6c49b3e31a0c")
    (tmp_path / "canary-1f3870be274f6c49b3e31a0c.csv").write_bytes(b"text,label\n\xff\xfe\xfa,b\n")
    given = ["plan", "--task", "table", "--task-uri", str(tmp_path / "canary-1f3870be274f6c49b3e31a0c.csv")]
    assert cli.main(given) == 2
    assert "caused by" not in capsys.readouterr().err
    assert cli.main([*given, "--verbose"]) == 2
    said = capsys.readouterr().err
    assert "ease: error: " in said
    assert "UnicodeDecodeError" in said, "what caused it"
    assert "canary" not in said.partition("ease: error: ")[2].partition("\n")[2]


def test_verbose_shows_no_key_that_an_endpoint_quotes(monkeypatch, tmp_path, capsys):
    """Nor a short one, nor that of a custom header."""
    monkeypatch.setenv("EASE_LLM_API_KEY", "hunter2")
    monkeypatch.setenv("GATE", "zQ9fk27Lmm0x81Tq")
    quoting = status(400, "unknown credential zQ9fk27Lmm0x81Tq / Bearer hunter2")
    with faulty_endpoint(lambda prompt: "x", *[quoting] * 3) as server:
        given = ["--llm-base-url", server.base_url, "--llm-model", MODEL, "--llm-headers", "X-Gate=GATE"]
        code = cli.main(["run", "--task", "lr", *given, "--output-dir", str(tmp_path), "--verbose"])
    said = capsys.readouterr()
    assert code == 2
    assert "caused by" in said.err
    assert not {"hunter2", "zQ9fk27Lmm0x81Tq"} & set(re.findall(r"\w+", said.err + said.out))
