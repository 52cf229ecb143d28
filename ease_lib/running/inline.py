"""A whole run in this process: the stages one after another, with the artifacts and records that the pipeline makes.

What starting a process for each stage costs, and Kubeflow's own packages, are spared; nothing else differs.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

from ease_lib.config.sections import Parameters
from ease_lib.endpoints.child import shared_endpoints
from ease_lib.processes import limit_threads
from ease_lib.running.execution import Artifact, LocalArtifact, logger, output_path, perform
from ease_lib.running.graph import CHECK, PASSED, RUN, Stage
from ease_lib.running.run_context import new_run
from ease_lib.signals import sigterm_as_interrupt

LOG_FILE = "log.txt"
LINEAGE_FILE = "lineage.json"
"""Record of the last stage, from which everything before it is found."""
Made = dict[str, LocalArtifact]
"""The artifacts of a task, by name."""


def run_inline(
    parameters: Parameters,
    output_dir: Path,
    *,
    lines: TextIO | None = sys.stdout,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Path:
    """Run all stages and put their results into `output_dir`; their artifacts stand below `pipeline/`.

    Args:
        lines: takes our lines, beside the log; None for the log alone.
        on_stage: called with the name of every stage before it begins.

    Raises:
        EaseError: as the stage that failed says it.
        KeyboardInterrupt: when this process was told to stop.
    """
    root = output_dir / "pipeline" / f"ease-{datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    root.mkdir(parents=True)
    limit_threads()
    with (
        sigterm_as_interrupt(),
        new_run(root.parent),
        _logged(root.parent / LOG_FILE, lines),
        shared_endpoints(),
    ):
        on_stage(CHECK.name)
        configs = CHECK.module.perform(parameters, **_records(root / CHECK.command))
        done: dict[str, list[Made]] = {}
        for passed, stage in PASSED.items():
            on_stage(stage.name)
            of_tasks = configs[passed] if stage.shards else [configs[passed]]
            tasks = [root / stage.command / (str(number) if stage.shards else "") for number in range(len(of_tasks))]
            done[stage.name] = [_done(stage, config, task, done) for config, task in zip(of_tasks, tasks, strict=True)]
    results, last = done["report"][0]["results"], done[RUN[-1].name][0]["lineage"]
    keep_results(output_dir, Path(results.path), Path(last.path))
    return output_dir


def keep_results(output_dir: Path, results: Path, lineage: Path) -> None:
    """Copy what the stage `report` collected, and the record of the last stage, to where people look."""
    shutil.copytree(results, output_dir, dirs_exist_ok=True)
    shutil.copyfile(lineage, output_dir / LINEAGE_FILE)


def _done(stage: Stage, config: str, folder: Path, done: dict[str, list[Made]]) -> Made:
    """The artifacts of a task of this stage, once it has run."""
    artifacts: dict[str, Artifact | Sequence[Artifact]] = {}
    for name, source in stage.sources.items():
        maker, _, output = source.partition(".")
        made = [task[output] for task in done[maker]]
        artifacts[name] = made if _takes_many(stage, name) else made[0]
    outputs = {name: LocalArtifact(str(folder / name)) for name in stage.outputs}
    artifacts.update(outputs)
    records = _records(folder)
    perform(stage.module, config, artifacts, lineage=records["lineage"], chain=records["chain"])
    return {**outputs, **records}


def _takes_many(stage: Stage, name: str) -> bool:
    return bool(stage.module.Inputs.__dataclass_fields__[name].metadata["many"])


def _records(folder: Path) -> Made:
    return {name: LocalArtifact(str(output_path(folder / name))) for name in ("lineage", "chain")}


@contextmanager
def _logged(file: Path, lines: TextIO | None) -> Iterator[None]:
    """Our lines go there and to a file."""
    kept = logging.FileHandler(file, mode="w", encoding="utf-8")
    shown = [logging.StreamHandler(lines)] if lines else []
    before, level, propagate = logger.handlers[:], logger.level, logger.propagate
    logger.handlers[:], logger.propagate = [*shown, kept], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = before, propagate
        logger.setLevel(level)
        kept.close()
