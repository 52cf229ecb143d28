"""The comparison as Kubeflow runs it, by tasks that share its cells, through kfp.local."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.embedding_endpoint import MODEL as EMBEDDER
from tests.support.embedding_endpoint import embedding_server
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

RUN = """
import json, sys
from kfp import local
from pipelines.comparison_pipeline import comparison_pipeline
from pipelines.placement import Placement, placed
local.init(local.SubprocessRunner(use_venv=False), pipeline_root=sys.argv[1], raise_on_error=True)
print(placed(comparison_pipeline, Placement(workers=2))(**json.loads(sys.argv[2])).outputs["results"].path)
"""
SMALL = {
    "pool_size": 12,
    "validation_size": 4,
    "test_size": 4,
    "budget": 3,
    "initial_design": 2,
    "k": 2,
    "llm_model": MODEL,
}


def run(tmp_path, arguments):
    return subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "kfp"), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.rooms("pipelines", "components", "ease_lib/running", "ease_lib/stages")
def test_workers_run_every_cell_and_the_report_has_them_all(tmp_path):
    with (
        faulty_endpoint(lambda prompt: "praise" if len(prompt) % 2 else "question") as server,
        embedding_server() as embedding,
    ):
        embedded = {"embedder": f"openai:{EMBEDDER}", "embedder_base_url": embedding.base_url}
        arguments = {
            "methods": "best_of_n, {method: zero_shot, label: no exemplars}",
            "endpoints": server.base_url,
            "repeats": 2,
            "store_uri": str(tmp_path / "store"),
            "parameters": json.dumps(SMALL | embedded),
        }
        finished = run(tmp_path, arguments)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        folder = Path(finished.stdout.strip().splitlines()[-1])
        rows = pq.read_table(folder / "comparison.parquet").to_pylist()
        assert [(row["method"], row["seed"]) for row in rows] == [
            ("best_of_n", 0), ("no exemplars", 0), ("best_of_n", 1), ("no exemplars", 1)
        ]  # fmt: skip
        assert (folder / "comparison.html").read_text().startswith("<!doctype html>")
        assert len(list((tmp_path / "store" / "cells").iterdir())) == 4


def test_a_comparison_that_cannot_work_ends_in_its_first_task(tmp_path):
    finished = run(tmp_path, {"methods": "greedy", "repeats": 1, "store_uri": str(tmp_path / "store")})
    assert finished.returncode != 0
    assert "method=greedy is not one of adaptive" in finished.stdout + finished.stderr
    assert "'run-cells'" not in finished.stdout + finished.stderr
