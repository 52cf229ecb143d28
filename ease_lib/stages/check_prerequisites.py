"""Stage `check_prerequisites`: find within seconds what would stop the run, all of it at once.

Its outputs are the parameters each later stage receives: checked, complete, and no more than that stage reads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import S3Store, is_s3
from ease_lib.config import (
    EndpointConfig,
    Parameters,
    TaskConfig,
    flat_parameters,
    parse_parameter_text,
    parse_parameters,
    stage_parameters,
)
from ease_lib.errors import ConfigError, EaseError, StoreError
from ease_lib.evaluation.llm_client import Sampling
from ease_lib.observations import collecting
from ease_lib.stages import (
    build_dataset,
    embed,
    evaluate,
    optimize,
    prefilter,
    propose_instructions,
    publish,
    rank_pool,
    report,
)
from ease_lib.stages.black_box import open_black_box
from ease_lib.stages.embedder import check_embedder
from ease_lib.stages.execution import Artifact, logger, recorded, user_errors, work_on
from ease_lib.tasks.instruction_induction import SPLIT_FOLDERS

STAGE_CONFIGS: dict[str, type] = {
    "build_dataset": build_dataset.Config,
    "rank_pool": rank_pool.Config,
    "prefilter": prefilter.Config,
    "propose_instructions": propose_instructions.Config,
    "embed": embed.Config,
    "optimize": optimize.Config,
    "evaluate": evaluate.Config,
    "report": report.Config,
    "publish": publish.Config,
}
SHARDS = "Output"
"""The only name of an output that `kfp.local` can loop over."""
TRIAL_PROMPT = "Input: 1\nOutput: 1\n\nInput: 2\nOutput:"
TRIAL_SAMPLING = Sampling(max_tokens=64, stop="\n")
TRIAL_DEADLINE_SECONDS = 5.0


def execute(
    form: Mapping[str, object],
    advanced: str,
    *,
    scheduled: str = "",
    lineage: Artifact | None = None,
    chain: Artifact | None = None,
) -> dict[str, Any]:
    """Check as a task of a pipeline.

    Args:
        advanced: the form's field for all other parameters, as YAML or JSON.
        scheduled: the time that a recurring run was planned for.
        lineage, chain: take the lineage record, and a page about it for people.
    """
    with user_errors("check_prerequisites"):
        parameters = read_form(form, advanced)
        work = work_on("check_prerequisites", flat_parameters(parameters), scheduled=_as_time(scheduled))
        try:
            with recorded(work, parameters.lineage_root, lineage, chain):
                return run(parameters)
        except StoreError:
            check(parameters)  # no record can be written: say what else is wrong before saying so
            raise


def run(parameters: Parameters) -> dict[str, Any]:
    """The parameters of each stage, as JSON; under `SHARDS` a list of those of `rank_pool` for each shard.

    Raises:
        ConfigError: listing every problem found.
    """
    with collecting():  # what is tried here is not what the run rests on
        check(parameters)
    logger.info("all prerequisites are met")
    passed: dict[str, Any] = {stage: stage_parameters(config, parameters) for stage, config in STAGE_CONFIGS.items()}
    del passed["rank_pool"]
    return {**passed, SHARDS: [stage_parameters(rank_pool.Config, shard) for shard in _shards(parameters)]}


def _as_time(text: str) -> str:
    """A time as Kubeflow fills it in; empty where its placeholder was left as it is."""
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _shards(parameters: Parameters) -> list[Parameters]:
    """The parameters for each shard of the pool."""
    settings = parameters.prefilter
    return [replace(parameters, prefilter=replace(settings, shard=shard)) for shard in range(settings.shards)]


def read_form(form: Mapping[str, object], advanced: str) -> Parameters:
    """The parameters of the run form and its `advanced` field together."""
    more = parse_parameter_text(advanced, "advanced")
    twice = sorted(set(form) & set(more))
    if twice:
        raise ConfigError(f"advanced repeats {', '.join(twice)}; set each in its own field of the form")
    return parse_parameters({**form, **more})


@dataclass(frozen=True)
class Finding:
    """What was tried, as a person would name it, and what is wrong with it: nothing, or messages with their remedy."""

    what: str
    which: str
    problems: tuple[str, ...] = ()


def check(*runs: Parameters) -> None:
    """Raises `ConfigError` with every problem of `findings`."""
    problems = [problem for finding in findings(*runs) for problem in finding.problems]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))


def findings(*runs: Parameters) -> Iterator[Finding]:
    """Try data, embedder, instructions, store and endpoint, one by one; what several runs share is tried once."""
    sections: list[tuple[str, Callable[[Any], None], list[Any], Callable[[Any], str]]] = [
        ("task data", _check_data, [run.task for run in runs], lambda task: task.task_uri or task.task),
        ("embedder", check_embedder, [run.embedding for run in runs], lambda embedding: embedding.embedder),
        ("instructions", _check_instructions, [run.instructions.instructions_uri for run in runs], str),
        ("store", partial(_check_store, "store_uri"), [run.run.store_uri for run in runs], str),
        ("lineage", partial(_check_store, "lineage_uri"), [run.lineage.lineage_uri for run in runs], str),
        ("publishing", _check_published, [run.publishing.publish_uri for run in runs], str),
        ("endpoint", _check_endpoint, [run.endpoint for run in runs], lambda endpoint: endpoint.llm_base_url),
    ]
    for what, check_one, tried, described in sections:
        for section in dict.fromkeys(tried):
            problems: tuple[str, ...] = ()
            try:
                check_one(section)
            except ConfigError as error:
                problems = tuple(error.problems)
            except EaseError as error:
                problems = (str(error),)
            yield Finding(what, described(section) or "none", problems)


def _check_data(task: TaskConfig) -> None:
    if not task.task_uri:
        return
    store, names = build_dataset.task_files(task.task_uri)
    with tempfile.TemporaryDirectory() as folder:
        if task.task == "instruction_induction":
            names = [f"{split}/{task.task_name}.json" for split in SPLIT_FOLDERS.values()]
            names += [f"{SPLIT_FOLDERS['pool']}/{task.clean_task_name}.json"] if task.clean_task_name else []
        for name in names:
            store.fetch(name, Path(folder))
    if not names:
        store.list_names()


def _check_instructions(instructions_uri: str) -> None:
    if instructions_uri:
        propose_instructions.read_instruction_file(instructions_uri)


def _check_store(parameter: str, store_uri: str) -> None:
    if not store_uri:
        return
    if is_s3(store_uri):
        S3Store(store_uri).check()
        return
    if "://" in store_uri:
        raise ConfigError(f"{parameter}={store_uri}: unknown scheme; give a folder or s3://bucket/prefix")
    try:
        Path(store_uri).mkdir(parents=True, exist_ok=True)
        probe = Path(store_uri) / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"{parameter}={store_uri} cannot be written: {error.strerror}; choose another folder"
        ) from error


def _check_published(publish_uri: str) -> None:
    _check_store("publish_uri", publish_uri)
    if is_s3(publish_uri):
        S3Store(publish_uri).check_swap()


def _check_endpoint(endpoint: EndpointConfig) -> None:
    """One short answer; retries only for a few seconds."""
    trial = replace(endpoint, llm_deadline_seconds=min(endpoint.llm_deadline_seconds, TRIAL_DEADLINE_SECONDS))
    with open_black_box(trial, sampling=TRIAL_SAMPLING, store_uri="") as black_box:
        black_box.runner.run(black_box.client.complete(TRIAL_PROMPT))
