"""All stages of a run in this process, each recorded as a task of a pipeline is, without kfp's processes."""

import os
import uuid
from pathlib import Path

from ease_lib.config.parsing import changed_parameters, parse_parameters, stage_parameters
from ease_lib.running import run_context
from ease_lib.running.execution import LocalArtifact, execute
from ease_lib.running.graph import modules_between
from ease_lib.running.one_process import artifact_name
from ease_lib.stages import check_prerequisites, optimize, publish

STAGES = (*modules_between("", "optimize"), optimize, *modules_between("optimize", "publish"), publish)
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
    "llm_base_url": "simulated",
    "prefilter": "bm25",
    "retained": 15,
}


class RecordedRun:
    """A run whose artifacts lie below `folder`, one folder for each stage.

    Args:
        values: parameters that are not those of `SMALL`.
    """

    def __init__(self, folder, **values):
        self.folder = Path(folder)
        self.parameters = parse_parameters({**SMALL, "store_uri": str(self.folder / "store"), **values})
        self.run_id = str(uuid.uuid4())
        self.artifacts = {}

    def __call__(self, *stages):
        """Run stages, by default all; the run itself."""
        before = os.environ.get(run_context.RUN_ID)
        os.environ[run_context.RUN_ID] = self.run_id
        try:
            if not stages:
                form = changed_parameters(self.parameters)
                check_prerequisites.execute(form, "", lineage=self._records("check_prerequisites")["lineage"])
            for stage in stages or STAGES:
                name = stage.__name__.rpartition(".")[2]
                execute(
                    stage, stage_parameters(stage.Config, self.parameters), **self._records(name), **self._files(stage)
                )
        finally:
            os.environ.pop(run_context.RUN_ID) if before is None else os.environ.update({run_context.RUN_ID: before})
        return self

    def path(self, name):
        return Path(self.artifacts[name].path)

    def _records(self, stage):
        return {name: self._artifact(f"{stage}/{name}", f"{stage}/{name}") for name in ("lineage", "chain")}

    def _files(self, stage):
        """The stage's inputs and outputs: the same objects for maker and readers, as metadata travels with them."""
        files = {}
        name = stage.__name__.rpartition(".")[2]
        for declared in (stage.Inputs, stage.Outputs):
            for field in declared.__dataclass_fields__.values():
                known = artifact_name(field.metadata["of"] or f"{name}.{field.name}")
                made = self._artifact(known, f"{name}/{field.name}")
                files[field.name] = [made] if field.metadata["many"] else made
        return files

    def _artifact(self, name, path):
        return self.artifacts.setdefault(name, LocalArtifact(str(self.folder / path)))
