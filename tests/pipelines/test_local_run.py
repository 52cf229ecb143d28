"""`ease run` as its user sees it: the real pipeline through kfp.local, in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from textwrap import indent

import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts.result_files import RESULT_FILES
from ease_lib.cli import __main__ as cli
from ease_lib.errors import EXIT_STOPPED
from ease_lib.lineage.chain import follow, is_record
from ease_lib.lineage.verification import verify_place
from tests.support.faulty_endpoint import body, faulty_endpoint, status

QUICK = ("--params", "smoke", "--pool-size", "30", "--validation-size", "8", "--test-size", "5", "--budget", "7")
QUICK_EASE = (
    *QUICK,
    *("--method", "ease", "--initial-design", "5", "--sampled-candidates", "300", "--shortlist-size", "30"),
)
"""Evaluations of eight rows, one after another."""


def command(*options):
    """The command as the script `ease` starts it: the working folder is not searched for modules."""
    return [sys.executable, "-P", "-m", "ease_lib.cli", "run", "--runner", "process", *map(str, options)]


def ease_run(*options, cwd=None, **environment):
    return subprocess.run(
        command(*options),
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment},
        cwd=cwd,
        check=False,
    )


@pytest.mark.rooms(
    *("pipelines", "components", "ease_lib/running", "ease_lib/stages"),
    *("ease_lib/black_box/local_llm.py", "ease_lib/black_box/child.py"),
)
def test_smoke_run_from_data_to_report(tmp_path):
    """The run starts in a folder with a module named like one of Python's, which is not run; no temporary file is
    left."""
    folder, temporary = tmp_path / "work", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    for module in ("html", "socket", "tempfile"):
        (folder / f"{module}.py").write_text("raise RuntimeError('a module of the working folder was run')")
    finished = ease_run(*QUICK, "--output-dir", tmp_path / "out", cwd=folder, TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []
    assert not list((tmp_path / "out/pipeline").glob("scratch-*"))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert set(RESULT_FILES) <= {path.name for path in (tmp_path / "out").iterdir()}
    for shown in (
        "/56  ",
        f"search ended: budget, after {report['evaluations']} evaluations",
        f"{report['sequences']} sequences, 56 answers, stopped: budget",
        report["verdict"]["text"],
        (tmp_path / "out/prompt.txt").read_text().split("\n")[0],
        f"{report['best']['test_score']:.3f}",
        f"LLM requests                {report['llm']['requests']}, of SmolLM2-135M-Instruct",
        str(tmp_path / "out/report.html"),
    ):
        assert shown in finished.stdout
    assert finished.stderr == ""
    verdict = verify_place(str(tmp_path / "out"))
    assert verdict.problems == ()
    assert verdict.checked > 100
    assert_the_same_in_one_process(tmp_path / "out", tmp_path / "inline")
    (tmp_path / "out" / "prompt.txt").write_text("another prompt")
    (problem,) = verify_place(str(tmp_path / "out")).problems
    assert (problem.uri, problem.stage) == (str(tmp_path / "out" / "prompt.txt"), "report")


def assert_the_same_in_one_process(out, inline):
    """Only times, addresses and the records that hold them differ."""
    finished = ease_run(*QUICK, "--output-dir", inline, "--runner", "inline")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert (finished.stderr, "search ended: budget" in finished.stdout) == ("", True)
    timed = {"history", "history.parquet", "search", "predictions", "test_scores.json", "numbers.json", "page"}
    timed |= {"report.json", "report.html"}
    once = {"verdict", "publication.json"}
    roots = [next(folder.glob("pipeline/ease-*")) for folder in (out, inline)]
    by_process, in_one = (
        {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()} for root in roots
    )
    assert set(in_one) == {name for name in by_process if not name.endswith("/executor_output.json")}
    for name, path in in_one.items():
        if path.name not in timed | once and not is_record(name):
            assert path.read_bytes() == by_process[name].read_bytes(), name
    columns = ["iteration", "phase", "exemplar_ids", "score", "incumbent_score", "acquisition"]
    histories = [pq.read_table(folder / "history.parquet", columns=columns) for folder in (out, inline)]
    assert histories[0].equals(histories[1])
    assert verify_place(str(inline)).problems == ()


@pytest.mark.long
def test_killed_run_continues_and_asks_nothing_twice(tmp_path):
    """SIGKILL of the whole run in the middle of the search, then the same command again."""
    with faulty_endpoint(lambda prompt: "praise" if len(prompt) % 3 else "question", latency_seconds=0.02) as server:
        options = (*QUICK_EASE, "--llm-base-url", server.base_url)
        quiet = ease_run(*options, "--output-dir", tmp_path / "quiet")
        assert quiet.returncode == 0, quiet.stdout + quiet.stderr
        server.script.finished.clear()
        with subprocess.Popen(
            command(*options, "--output-dir", tmp_path / "killed"),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as killed:
            for line in killed.stdout:
                if line.startswith("evaluation 3/7"):
                    os.killpg(killed.pid, signal.SIGKILL)
        resumed = ease_run(*options, "--output-dir", tmp_path / "killed")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert re.search(r"continuing: [3-6] of 7 evaluations are in the journal", resumed.stdout), resumed.stdout
    columns = ["iteration", "phase", "exemplar_ids", "score", "incumbent_score", "acquisition"]
    histories = [pq.read_table(tmp_path / name / "history.parquet", columns=columns) for name in ("quiet", "killed")]
    assert histories[0].equals(histories[1])
    asked_again = sum(server.script.finished.values()) - len(server.script.finished)
    assert asked_again <= 1 + 20  # the prerequisites' trial, and what was in flight when the kill came
    assert (tmp_path / "quiet/prompt.txt").read_text() == (tmp_path / "killed/prompt.txt").read_text()
    chain = follow(str(tmp_path / "killed"))
    (earlier,) = chain.step_of("optimize").record["attempt"]["earlier"]
    assert json.loads((tmp_path / "killed/store/lineage" / earlier).read_text())["state"] == "started"
    assert verify_place(str(tmp_path / "killed")).problems == ()


@pytest.mark.long
def test_sigterm_to_the_run_alone_ends_its_stage_too_and_the_same_command_continues(tmp_path):
    with faulty_endpoint(lambda prompt: "praise", latency_seconds=0.05) as server:
        options = (*QUICK_EASE, "--llm-base-url", server.base_url, "--output-dir", tmp_path / "out")
        with subprocess.Popen(command(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as stopped:
            for line in stopped.stdout:
                if line.startswith("evaluation 3/7"):
                    os.kill(stopped.pid, signal.SIGTERM)
            message = stopped.stderr.read()
        assert stopped.returncode == EXIT_STOPPED
        assert message == "ease: stopped; answers are kept, and the same command continues\n"
        asked = server.script.requests
        time.sleep(0.5)
        assert server.script.requests == asked, "the stage went on alone"
        resumed = ease_run(*options)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "evaluations are in the journal" in resumed.stdout
    assert "of them now" in resumed.stdout


def run_with_stages_that_begin_with(tmp_path, program):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\nif os.environ.get('_KFP_RUNTIME'):\n" + indent(program, "    ")
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return ease_run(*QUICK, "--output-dir", tmp_path / "out", PYTHONPATH=path)


def test_a_stage_that_breaks_is_named_with_its_reason_and_without_codes_of_the_terminal(tmp_path):
    finished = run_with_stages_that_begin_with(
        tmp_path,
        "class Broken:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ease_lib.stages':\n"
        "            raise ImportError('half an installation')\n"
        "sys.meta_path.insert(0, Broken())\n",
    )
    assert finished.returncode == 2
    log = tmp_path / "out/pipeline/log.txt"
    assert finished.stderr == (f"ease: error: build_dataset failed: ImportError: half an installation\n  see {log}\n")


def test_a_stage_that_is_killed_is_named_too(tmp_path):
    finished = run_with_stages_that_begin_with(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)\n")
    assert "build_dataset failed: it ended without a message" in finished.stderr
    assert "\x1b" not in finished.stderr


@pytest.mark.rooms("pipelines", "components", "ease_lib/running", "ease_lib/stages")
def test_of_a_task_with_several_stages_the_one_that_broke_is_named(tmp_path):
    finished = run_with_stages_that_begin_with(
        tmp_path,
        "def watch(event, details):\n"
        "    if event == 'open' and str(details[0]).endswith('embed/instructions'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(watch)\n",
    )
    assert "embed (propose_instructions) failed: it ended without a message" in finished.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--k", "31"), "k=31 exceeds pool_size=30"),
        (("--noise-ratio", "1.3"), "noise_ratio=1.3 is above 1"),
        (("--task", "poetry"), "task=poetry is not one of"),
        (
            ("--params", "tests/benchmarks/sets/knowledge.yaml"),
            "knowledge.yaml is a comparison (endpoints, methods, noise_ratios, repeats, tasks)\n  use it with ease",
        ),
        (("--params", "nothing"), "no parameter set nothing\n  use one of demo, paper, paper-ablations"),
        (("--output-dir", "/proc/out"), "--output-dir /proc/out cannot be created"),
    ],
)
def test_bad_parameters_end_with_one_clear_message(tmp_path, capsys, options, message):
    """Parameters are checked before a stage starts, so this can be tried in this process."""
    assert cli.main(["run", *map(str, (*QUICK, "--output-dir", tmp_path / "out", *options))]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out/report.json").exists()


@pytest.mark.rooms("pipelines", "components", "ease_lib/running", "ease_lib/stages")
def test_what_cannot_be_reached_ends_with_one_message_for_each(tmp_path):
    options = {
        "--task-uri": "/no/such.csv",
        "--llm-base-url": "http://127.0.0.1:9/v1",
        "--embedder": "/no/such/model",
        "--store-uri": "/proc/store",
    }
    given = [part for option in options.items() for part in option]
    finished = ease_run(*QUICK, "--output-dir", tmp_path / "out", "--task", "table", *given)
    assert finished.returncode == 2
    for message in (
        "/no/such.csv: no such file",
        "cannot be reached",
        "embedder=/no/such/model: no such folder",
        "store_uri=/proc/store cannot be written",
    ):
        assert message in finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr
    assert not (tmp_path / "out/report.json").exists()


def test_unknown_option_is_refused(tmp_path):
    finished = ease_run("--buget", "3", "--output-dir", tmp_path)
    assert finished.returncode == 2
    assert "no option --buget; did you mean --budget?" in finished.stderr


@pytest.mark.rooms("pipelines", "components", "ease_lib/running", "ease_lib/stages")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(401, "no such key"), "no such key\n  check EASE_LLM_API_KEY"),
        (body(b"<html>welcome</html>", "text/html"), "not the OpenAI API"),
    ],
)
def test_endpoint_that_refuses_or_talks_nonsense(tmp_path, fault, message):
    with faulty_endpoint(lambda prompt: "x", *[fault] * 100) as server:
        finished = ease_run(*QUICK, "--llm-base-url", server.base_url, "--output-dir", tmp_path / "out")
    assert finished.returncode == 2
    assert message in finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr
