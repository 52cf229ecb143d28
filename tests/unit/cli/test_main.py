import ast
import json
import subprocess
import sys

import pytest

from ease_lib.cli import __main__ as cli


def test_help_lists_every_stage(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for stage in ("build-dataset", "prefilter", "embed", "optimize", "evaluate", "report"):
        assert stage in shown


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
    assert ours == {
        *("ease_lib.cli", "ease_lib.cli.__main__", "ease_lib.errors"),
        *("ease_lib.running", "ease_lib.running.graph"),
    }


def started_with():
    """What Python itself has loaded from this environment before it does anything."""
    code = "import sys; print(sorted(name for name in sys.modules if '.' not in name))"
    return set(ast.literal_eval(subprocess.check_output([sys.executable, "-c", code], text=True)))


def test_a_stage_runs_on_files(tmp_path, capsys):
    names = ("pool", "validation", "test", "summary")
    outputs = [part for name in names for part in (f"--out-{name}", str(tmp_path / name))]
    assert cli.main(["build-dataset", *outputs, "--task", "lr", "--pool-size", "12", "--noise-ratio", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pool": 12, "validation": 200, "test": 100}
    assert json.loads((tmp_path / "summary").read_text())["noisy"] == 6


def test_a_stage_names_bad_files(tmp_path, capsys):
    (tmp_path / "pool").write_text("x")
    with pytest.raises(SystemExit) as ended:
        cli.main(["prefilter", "--pool", str(tmp_path / "pool"), "--tops", "v", "--out-kept", str(tmp_path / "kept")])
    assert ended.value.code == 2
    assert "cannot be read" in capsys.readouterr().err
