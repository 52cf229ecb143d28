import json

import pytest

from ease_lib.cli import __main__ as cli


def test_help_lists_every_stage(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for stage in ("build-dataset", "prefilter", "embed", "optimize", "evaluate", "report"):
        assert stage in shown


def test_a_stage_runs_on_files(tmp_path, capsys):
    names = ("pool", "validation", "test", "summary")
    outputs = [part for name in names for part in (f"--out-{name}", str(tmp_path / name))]
    assert cli.main(["build-dataset", *outputs, "--task", "lr", "--pool-size", "12", "--noise-ratio", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pool": 12, "validation": 20, "test": 100}
    assert json.loads((tmp_path / "summary").read_text())["noisy"] == 6


def test_a_stage_names_bad_files(tmp_path, capsys):
    (tmp_path / "pool").write_text("x")
    with pytest.raises(SystemExit) as ended:
        cli.main(["prefilter", "--pool", str(tmp_path / "pool"), "--tops", "v", "--out-kept", str(tmp_path / "kept")])
    assert ended.value.code == 2
    assert "cannot be read" in capsys.readouterr().err
