"""`ease doctor`: every finding with its remedy, nothing secret, and the checks are those of a run."""

import socket

import pytest

from ease_lib.cli import __main__ as cli
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ConfigError
from ease_lib.running import diagnosis
from tests.s3_server import free_ports
from tests.simulation.models import SIMULATED
from tests.support.runs import check, findings, opened_run


def test_a_healthy_place_has_no_problems(s3_prefix, tmp_path, capsys):
    options = ("--llm-base-url", SIMULATED, "--store-uri", s3_prefix, "--output-dir", str(tmp_path / "new"))
    assert cli.main(["doctor", *options]) == 0
    shown = capsys.readouterr().out
    assert f"ok    store           {s3_prefix}" in shown
    assert "all checks passed" in shown
    assert not (tmp_path / "new").exists()


def test_every_problem_is_found_with_its_remedy(s3_prefix, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-0815")
    (tmp_path / "file").write_text("")
    options = (
        *("--task", "table", "--task-uri", str(tmp_path / "absent.csv"), "--embedder", "./absent"),
        *("--store-uri", s3_prefix, "--llm-base-url", "http://127.0.0.1:9/v1", "--llm-model", "m"),
        *("--output-dir", str(tmp_path / "file" / "below")),
    )
    assert cli.main(["doctor", *options]) == 2
    shown = capsys.readouterr().out
    for remedy in (
        "absent.csv",
        "embedder=./absent: no such folder; give bundled-minilm",
        "wrong secret key; check AWS_SECRET_ACCESS_KEY",
        "is not a folder, or not writable",
        "cannot be reached or broke off the connection; check llm_base_url",
        "5 problems found",
    ):
        assert remedy in shown
    assert "canary" not in shown


def test_values_of_keys_are_never_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("EASE_LLM_API_KEY", "canary-4711")
    with opened_run() as run:
        found = list(diagnosis.examine(parse_parameters({"llm_base_url": SIMULATED}), tmp_path, run))
    assert any("EASE_LLM_API_KEY" in finding.which for finding in found)
    assert "canary" not in repr(found)


def test_a_run_is_refused_for_the_same_problems():
    parameters = parse_parameters({"embedder": "./absent", "llm_base_url": "http://127.0.0.1:9/v1", "llm_model": "m"})
    problems = [problem for finding in findings(parameters) for problem in finding.problems]
    with pytest.raises(ConfigError) as refused:
        check(parameters)
    assert list(refused.value.problems) == problems
    assert len(problems) == 2


def test_a_pod_looks_for_what_kubeflow_needs(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as api:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.getsockname()[1]))
        monkeypatch.setattr(diagnosis, "KUBERNETES_NAME", "localhost")
        monkeypatch.setattr(diagnosis, "KUBEFLOW_API", ("127.0.0.1", free_ports(1)[0]))
        found = {finding.what: finding.problems for finding in diagnosis._cluster()}
    assert found["name service"] == found["API server"] == ()
    assert "see manifests/components/cluster-addresses" in found["Kubeflow's API"][0]
