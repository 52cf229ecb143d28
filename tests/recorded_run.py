"""All stages of a run in this process, each recorded as the pipeline records it, without kfp's processes."""

import copy
import os
import shutil
import tempfile
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


_REMEMBERED = {}
"""Copies of what runs left, and of these themselves, by what was there before."""


def _environment():
    return (
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(("EASE_", "OPENLINEAGE"))
    )


def _state_of(folder):
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        yield (str(path), at.st_mode, *((at.st_size, at.st_mtime_ns) if path.is_file() else ()))


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
                verdict = LocalArtifact(str(self.folder / folder_of(RUN[-1].component) / "verdict"))
                self.workspace.perform(self.parameters, run, stage, verdict=verdict if stage is STAGES[-1] else None)
        return self

    def remembered(self, *stages):
        """Call the stages, or copy what they did if this process has run them on the same files before.

        The files are those of the folder that the run's folder is in, which is all that a run may read or change
        that is remembered: no bucket, no endpoint that counts, nothing that the test puts in the place of our code.
        What it prints is printed the first time alone.
        """
        place = self.folder.parent
        parameters = self.parameters
        written = (parameters.run.store_uri, parameters.publishing.publish_uri, parameters.lineage.lineage_uri)
        if not all(Path(uri).is_relative_to(place) for uri in written if uri):
            raise ValueError(f"a run that writes elsewhere than in {place} cannot be remembered")
        before = (
            str(self.folder),
            str(parameters),
            *(stage.__name__ for stage in stages),
            *_environment(),
            *_state_of(place),
        )
        if before in _REMEMBERED:
            after, state = _REMEMBERED[before]
            vars(self).update(copy.deepcopy(state))
            for path in place.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(after, place, symlinks=True, dirs_exist_ok=True)
            return self
        self(*stages)
        after = Path(tempfile.mkdtemp(dir=place.parent, prefix="after-"))
        shutil.copytree(place, after, symlinks=True, dirs_exist_ok=True)
        _REMEMBERED[before] = after, copy.deepcopy(vars(self))
        return self

    def artifact(self, name):
        return self.workspace.artifact(outputs_of_run()[name])

    def path(self, name):
        return Path(self.artifact(name).path)
