"""Stage `check_prerequisites`: find within seconds what would stop the run, all of it at once.

Of task data above `build_dataset.READ_WHOLE_BYTES` it looks at the first rows only; the others are read when they are
used, and a broken one among them stops `build_dataset`.

Its outputs are the parameters each later stage receives: checked, complete, and no more than that stage reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import S3Store, is_s3
from ease_lib.black_box.asking import complete_all
from ease_lib.black_box.client import Completion, Sampling
from ease_lib.black_box.endpoint_notes import EndpointNotes
from ease_lib.black_box.opening import open_black_box
from ease_lib.config import (
    EndpointConfig,
    Parameters,
    flat_parameters,
    parse_parameter_text,
    parse_parameters,
    stage_parameters,
)
from ease_lib.embedding.opening import check_embedder
from ease_lib.endpoints import local
from ease_lib.endpoints.child import OWN_ENDPOINTS
from ease_lib.errors import ConfigError, EaseError, StoreError
from ease_lib.observations import collecting
from ease_lib.running.execution import Artifact, logger, recorded, user_errors, work_on
from ease_lib.running.under_way import begun
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
PROBE_PROMPTS = (
    "Input: The delivery was late and the box was broken.\nOutput: negative\n\nInput: Great service!\nOutput:",
    "Input: dog\nOutput: animal\n\nInput: rose\nOutput: plant\n\nInput: salmon\nOutput:",
    "Input: 12 + 30\nOutput: 42\n\nInput: 17 + 5\nOutput:",
    "Input: cold\nOutput: hot\n\nInput: early\nOutput:",
)
"""Short questions with one good answer, whose answers change when the model does."""
PROBE_SAMPLING = Sampling(max_tokens=16, stop="\n")


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
    _check_caps(parameters)
    parameters = with_service_for_local(parameters)
    with collecting():  # what is tried here is not what the run rests on
        trials = check(parameters)
        parameters = begun(parameters, lambda: current_answers(parameters, trials))
    logger.info("all prerequisites are met")
    passed: dict[str, Any] = {stage: stage_parameters(config, parameters) for stage, config in STAGE_CONFIGS.items()}
    del passed["rank_pool"]
    return {**passed, SHARDS: [stage_parameters(rank_pool.Config, shard) for shard in _shards(parameters)]}


def with_service_for_local(parameters: Parameters) -> Parameters:
    """`llm_base_url=local`, the default, in an image without that LLM: the cluster's service of it, if it answers."""
    if parameters.endpoint.llm_base_url != "local" or local.is_installed():
        return parameters
    url = local.answering_service()
    if not url:
        return parameters  # what to set instead is said by the check of the endpoint
    logger.info("notice: this image does not hold the LLM of llm_base_url=local; %s answers in its place", url)
    return replace(parameters, endpoint=replace(parameters.endpoint, llm_base_url=url, llm_api="completions"))


def _check_caps(parameters: Parameters) -> None:
    caps = {name: getattr(parameters.caps, name) for name in ("max_llm_requests", "max_cost_usd")}
    wanted = [f"{name}={value:g}" for name, value in caps.items() if value]
    if wanted and not parameters.run.store_uri:
        raise ConfigError(f"{' and '.join(wanted)} needs store_uri, where the stages keep what they have spent")


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


Trials = dict[EndpointConfig, Completion]
"""The answer of each endpoint to the trial question."""


def check(*runs: Parameters) -> Trials:
    """The endpoints' answers to the trial question.

    Raises:
        ConfigError: with every problem of `findings`.
    """
    trials: Trials = {}
    problems = [problem for finding in findings(*runs, trials=trials) for problem in finding.problems]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return trials


def current_answers(parameters: Parameters, trials: Trials) -> str:
    """The generation of kept answers for a run that begins now; by `llm_refresh` a new one, which is said.

    An endpoint of ours changes with our packages only; unless it is to be refreshed the newest is taken as it is.
    """
    endpoint = parameters.endpoint
    if endpoint.llm_base_url in OWN_ENDPOINTS and endpoint.llm_refresh == "never":
        return ""
    with open_black_box(endpoint, sampling=PROBE_SAMPLING, store_uri="") as black_box:
        notes = EndpointNotes(parameters.run.store_uri, black_box.endpoint, black_box.model, black_box.api)
        probe: dict[str, str] = {}
        if endpoint.llm_refresh == "probe":
            answers = black_box.runner.run(complete_all(black_box.client, PROBE_PROMPTS, ""))
            probe = {prompt: answer.text.strip() for prompt, answer in zip(PROBE_PROMPTS, answers, strict=True)}
        revision = trials[endpoint].model if trials[endpoint].model != black_box.model else ""
    before = notes.read().answers
    answers_now = notes.refreshed(endpoint.llm_refresh, revision, probe).answers
    if answers_now != before:
        logger.info("notice: kept answers of %s are put aside, and everything is asked anew", black_box.model)
    return answers_now


def findings(*runs: Parameters, trials: Trials | None = None) -> Iterator[Finding]:
    """Try data, embedder, instructions, store and endpoint, one by one; what several runs share is tried once."""
    endpoints = [run.endpoint for run in runs], lambda endpoint: str(endpoint.llm_base_url)
    sections: list[tuple[str, Callable[[Any], None], list[Any], Callable[[Any], str]]] = [
        ("task data", build_dataset.check_data, [run.task for run in runs], lambda task: task.task_uri or task.task),
        ("embedder", check_embedder, [run.embedding for run in runs], lambda embedding: embedding.embedder),
        ("instructions", _check_instructions, [run.instructions.instructions_uri for run in runs], str),
        ("store", partial(_check_store, "store_uri"), [run.run.store_uri for run in runs], str),
        ("lineage", partial(_check_store, "lineage_uri"), [run.lineage.lineage_uri for run in runs], str),
        ("publishing", _check_published, [run.publishing.publish_uri for run in runs], str),
        ("endpoint", partial(_check_endpoint, {} if trials is None else trials), *endpoints),
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


def _check_endpoint(trials: Trials, endpoint: EndpointConfig) -> None:
    """One short answer; retries only for a few seconds."""
    trial = replace(endpoint, llm_deadline_seconds=min(endpoint.llm_deadline_seconds, TRIAL_DEADLINE_SECONDS))
    with open_black_box(trial, sampling=TRIAL_SAMPLING, store_uri="") as black_box:
        trials[endpoint] = black_box.runner.run(black_box.client.complete(TRIAL_PROMPT))
