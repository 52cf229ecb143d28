"""Stages to which every answer, vector and evaluation is known load nothing that only asking or computing needs.

A package that takes a tenth of a second to import takes half of one on two slow cores of a cluster.
"""

import json
import subprocess
import sys

import pytest

from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import COMPONENTS, RUN
from ease_lib.running.inline import Workspace
from ease_lib.search.task import SearchTask
from ease_lib.stages import optimize
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.runs import opened_run, run_stages

AGAIN = """
import json, sys
from pathlib import Path

from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import CHECK, stages_of
from ease_lib.running.inline import Workspace
from ease_lib.running.run import open_host, open_run, run_of

component, folder, values = sys.argv[1:]
parameters = parse_parameters(json.loads(values))
with open_host() as host, open_run(host, *run_of(parameters)) as run:
    for stage in stages_of(component):
        if stage is CHECK:
            stage.module.perform(parameters, run)
        else:
            Workspace(Path(folder)).perform(parameters, run, stage.module)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
LARGE = {
    *("aiohttp", "boto3", "kfp", "matplotlib", "openai", "ot", "pandas", "scipy", "sentence_transformers", "sklearn"),
    *("torch", "transformers"),
}
LOADED = {"build_dataset": {"aiohttp", "openai"}, "optimize": {"scipy"}}
"""A run begins with a question to the endpoint; a search that continues fits its model of the answers again."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    with faulty_endpoint(lambda prompt: "praise" if len(prompt) % 2 else "complaint") as served:
        values = {
            **{"pool_size": 30, "validation_size": 8, "test_size": 5, "budget": 4, "max_zero_answers": 0},
            **{"llm_base_url": served.base_url, "llm_model": MODEL, "store_uri": str(folder / "store")},
        }
        parameters = parse_parameters(values)
        with opened_run(parameters) as run:
            for stage in RUN:
                Workspace(folder).perform(parameters, run, stage.module)
        yield served, folder, values


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_is_known_is_neither_asked_nor_computed_and_little_is_loaded(finished, component):
    served, folder, values = finished
    before = served.script.requests
    again = subprocess.run(
        [sys.executable, "-c", AGAIN, component, str(folder), json.dumps(values)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert LARGE & set(again.stdout.splitlines()[-1].split()) == LOADED.get(component, set())
    assert served.script.requests - before == (component == "build_dataset"), "the question that tries the endpoint"


def test_a_method_without_a_surrogate_represents_no_sequences(finished, monkeypatch):
    """Representing them decomposes the vectors of the pool, which took a second and a half twice on two busy cores."""
    _, folder, values = finished
    monkeypatch.setattr(SearchTask, "representation", lambda *given: pytest.fail("sequences were represented"))
    run_stages(Workspace(folder), parse_parameters(values), optimize)
