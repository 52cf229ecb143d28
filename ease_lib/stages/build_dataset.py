"""Stage `build_dataset`: load the task's data, relabel it, deal the splits and corrupt the pool as the parameters
say.
"""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import write_document, write_exemplars
from ease_lib.config.sections import JUDGE, RunConfig, TaskConfig
from ease_lib.evaluation.judge import read_rubric
from ease_lib.evaluation.requirement import load_requirement
from ease_lib.prompts.baseline import read_baseline
from ease_lib.prompts.template import read_template
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path
from ease_lib.running.task_data import load_data
from ease_lib.words import cut

MOST_WIDTH = 80
"""Number of characters shown of a label."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Inputs of the stage, which has none: parameters name the source."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    pool: str = makes(contracts.EXEMPLAR_POOL)
    validation: str = makes(contracts.VALIDATION_SET)
    test: str = makes(contracts.TEST_SET)
    summary: str = makes(contracts.DATASET_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Config:
    task: TaskConfig
    run: RunConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Load, relabel, split and corrupt as the parameters say.

    Raises:
        DataError, StoreError, ConfigError: naming file, row, column and remedy.
    """
    sources = run.sources
    template, baseline = read_template(config.task.prompt, sources), read_baseline(config.task.baseline, sources)
    rubric = read_rubric(config.task.judge_rubric, sources) if config.task.is_judged else None
    requirement = load_requirement(config.task.require, run.metric)
    data = load_data(config.task, config.run.seed, sources, run.caller.metric)
    write_exemplars(output_path(outputs.pool), contracts.EXEMPLAR_POOL, data.pool)
    write_exemplars(output_path(outputs.validation), contracts.VALIDATION_SET, data.validation)
    write_exemplars(output_path(outputs.test), contracts.TEST_SET, data.test)
    marks = [row.is_noisy for row in data.pool]
    noisy = None if None in marks else sum(map(bool, marks))
    summary = {
        "task": data.name,
        "metric": data.metric,
        "metric_sha256": rubric.sha256 if rubric and data.metric == JUDGE else run.metric(data.metric).sha256,
        "pool": len(data.pool),
        "validation": len(data.validation),
        "test": len(data.test),
        "noisy": noisy,
        "unused": data.unused,
        "classes": {label: list(counts) for label, counts in data.classes.items()},
        "notices": [notice.partition("\n")[0] for notice in data.notices],
        "template": template.document,
        "baseline": baseline.document if baseline else {},
        "rubric": rubric.document if rubric else {},
        "requirement": requirement.document if requirement else {},
    }
    write_document(output_path(outputs.summary), contracts.DATASET_SUMMARY, summary)
    logger.info(
        "%s: %d exemplars (%s), %d validation rows, %d test rows",
        data.name,
        len(data.pool),
        "noise unknown" if noisy is None else f"{noisy} noisy",
        len(data.validation),
        len(data.test),
    )
    if data.unused:
        logger.info("notice: %d rows of the data are not used; raise pool_size, or set it to 0 for all", data.unused)
    width = min(MOST_WIDTH, max(map(len, data.classes), default=0))
    for label, counts in data.classes.items():
        logger.info("  %-*s %5d in the pool %5d validation %5d test", width, cut(label, width), *counts)
    for notice in data.notices:
        logger.info("notice: %s", notice)
    return StageReport(metrics={"pool": len(data.pool), "validation": len(data.validation), "test": len(data.test)})
