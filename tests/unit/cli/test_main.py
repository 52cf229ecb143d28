import ast
import subprocess
import sys

import pytest

from ease_lib.cli import __main__ as cli


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for command in cli.COMMANDS:
        assert f"    {command} " in shown


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_nothing_is_loaded_that_a_command_does_not_use(option):
    """So that they answer at once: they compute nothing."""
    code = (
        f"import sys; from ease_lib.cli.__main__ import main\n"
        f"try:\n    main([{option!r}])\n"
        "except SystemExit:\n    print(sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)\n"
        "    print(sorted(name for name in sys.modules if name.startswith('ease_lib.')), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    top, ours = (set(ast.literal_eval(line)) for line in ended.stderr.splitlines())
    foreign = {name for name in top if not name.startswith("_")} - set(sys.stdlib_module_names)
    assert foreign - started_with() == {"ease_lib"}
    assert ours == {"ease_lib.cli", "ease_lib.cli.__main__", "ease_lib.errors"}


def started_with():
    """What Python itself has loaded from this environment before it does anything."""
    code = "import sys; print(sorted(name for name in sys.modules if '.' not in name))"
    return set(ast.literal_eval(subprocess.check_output([sys.executable, "-c", code], text=True)))
