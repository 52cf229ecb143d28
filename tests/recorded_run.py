"""All stages of a run in this process, each recorded as the pipeline records it, without kfp's processes."""

import uuid
from dataclasses import replace
from pathlib import Path

from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.config.parsing import parse_parameters, without_unread
from ease_lib.running import run_context
from ease_lib.running.graph import CHECK, RUN, folder_of
from ease_lib.running.inline import Workspace, outputs_of_run
from ease_lib.running.run import open_host, open_run, run_of
from ease_lib.running.stage import LocalArtifact, user_errors
from tests.simulation.models import SIMULATED

STAGES = tuple(stage.module for stage in RUN)
SMALL = {
    "method": "ease",
    "pool_size": 20,
    "validation_size": 6,
    "test_size": 12,
    "budget": 5,
    "initial_design": 3,
    "sampled_candidates": 200,
    "shortlist_size": 20,
    "k": 3,
    "llm_base_url": SIMULATED,
    "prefilter": "bm25",
    "retained": 15,
}


class RecordedRun:
    """A run whose artifacts lie below `folder`, a folder for each component.

    Args:
        values: parameters that are not those of `SMALL`.
    """

    def __init__(self, folder, **values):
        self.folder = Path(folder)
        self.parameters = parse_parameters(
            without_unread({**SMALL, "store_uri": str(self.folder / "store"), **values}, kept=values)
        )
        self.run_id = str(uuid.uuid4())
        self.workspace = Workspace(self.folder)

    def __call__(self, *stages):
        """Run stages, by default all; the run itself. Errors end it as they end a component's process."""
        context = replace(run_context.run_context(), run_id=self.run_id)
        with (
            user_errors("run"),
            open_host(context=context, patience_seconds=PATIENCE_SECONDS) as host,
            open_run(host, *run_of(self.parameters)) as run,
        ):
            if not stages:
                CHECK.module.perform(self.parameters, run, record=self.workspace.record(CHECK.name))
            for stage in stages or STAGES:
                chain = LocalArtifact(str(self.folder / folder_of(RUN[-1].component) / "chain"))
                self.workspace.perform(self.parameters, run, stage, chain=chain if stage is STAGES[-1] else None)
        return self

    def artifact(self, name):
        return self.workspace.artifact(outputs_of_run()[name])

    def path(self, name):
        return Path(self.artifact(name).path)
