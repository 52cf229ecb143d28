"""A whole run in this process: the stages one after another, with the artifacts and records that the pipeline makes.

What starting a process for each stage costs, and Kubeflow's own packages, are spared; nothing else differs.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

from ease_lib.config.sections import Parameters
from ease_lib.endpoints.child import shared_endpoints
from ease_lib.lineage.chain import ARTIFACT
from ease_lib.processes import limit_threads
from ease_lib.running.execution import Artifact, LocalArtifact, logger
from ease_lib.running.graph import CHECK, PASSED, RUN, TASKS, Task
from ease_lib.running.run_context import new_run
from ease_lib.running.task import part_of, perform_task
from ease_lib.signals import sigterm_as_interrupt

LOG_FILE = "log.txt"
LINEAGE_FILE = "lineage.json"
"""Record of the last stage, from which everything before it is found."""


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
        first = TASKS[0]
        lineage = part_of(LocalArtifact(str(root / first.command / first.folder)), f"{CHECK.name}.{ARTIFACT}")
        configs = CHECK.module.perform(parameters, lineage=lineage)
        made: dict[str, Artifact | Sequence[Artifact]] = {}
        for passed, task in PASSED.items():
            own = root / task.command
            if task.shards:
                numbered = enumerate(configs[passed])
                made[task.folder] = [_done(task, config, own / str(n), made, on_stage) for n, config in numbered]
            else:
                made[task.folder] = _done(task, configs[passed], own, made, on_stage)
    keep_results(output_dir, root / TASKS[-1].command / TASKS[-1].folder)
    return output_dir


def keep_results(output_dir: Path, made: Path) -> None:
    """Copy what the stage `report` collected, and the record of the last stage, to where people look.

    Args:
        made: the folder of the last task.
    """
    shutil.copytree(made / "report" / "results", output_dir, dirs_exist_ok=True)
    shutil.copyfile(made / RUN[-1].name / ARTIFACT, output_dir / LINEAGE_FILE)


def _done(
    task: Task,
    config: str,
    own: Path,
    folders: Mapping[str, Artifact | Sequence[Artifact]],
    on_stage: Callable[[str], None],
) -> LocalArtifact:
    """What a task made below `own`, once it is done."""
    made = LocalArtifact(str(own / task.folder))
    pages = {name: LocalArtifact(str(own / name)) for name in task.pages}
    chain = LocalArtifact(str(own / "chain")) if task is TASKS[-1] else None
    perform_task(task, config, made, {**folders, **pages}, chain=chain, on_stage=on_stage)
    return made


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
