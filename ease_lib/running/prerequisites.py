"""Checks of everything a run needs (data, embedder, instructions, stores, endpoint), with a message for each.

Of task data above `task_data.READ_WHOLE_BYTES` the first rows only are looked at; the others are read when they are
used, and a broken one among them stops `build_dataset`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.store import S3Store, is_s3
from ease_lib.black_box import local_llm as local
from ease_lib.black_box.client import LLMClient, Sampling, all_answers
from ease_lib.black_box.endpoint_notes import EndpointNotes
from ease_lib.config.sections import EmbeddingConfig, EndpointConfig, JudgeConfig, Parameters, TaskConfig
from ease_lib.embedding.opening import check_embedder
from ease_lib.errors import AnswerCut, ConfigError, EaseError
from ease_lib.evaluation.judge import Judge, read_rubric
from ease_lib.lineage.attestation import check_signing
from ease_lib.prompts.baseline import read_baseline
from ease_lib.prompts.instructions import read_instruction_file
from ease_lib.prompts.template import read_template
from ease_lib.running.run import Run
from ease_lib.running.run_context import in_container, in_pod
from ease_lib.running.task_data import check_data
from ease_lib.running.trial import Trial, ask, trial_question, with_patience
from ease_lib.tasks.base import Exemplar, TaskData
from ease_lib.urls import is_url

logger = logging.getLogger("ease")

TRIAL_DEADLINE_SECONDS = 5.0
FIRST_SECONDS = 30.0
"""Time for which a pod tolerates that nothing can be reached: its network policies apply after its start."""
PROBE_PROMPTS = (
    "Input: The delivery was late and the box was broken.\nOutput: negative\n\nInput: Great service!\nOutput:",
    "Input: dog\nOutput: animal\n\nInput: rose\nOutput: plant\n\nInput: salmon\nOutput:",
    "Input: 12 + 30\nOutput: 42\n\nInput: 17 + 5\nOutput:",
    "Input: cold\nOutput: hot\n\nInput: early\nOutput:",
)
"""Short questions with one good answer, whose answers change when the model does."""
PROBE_SAMPLING = Sampling(max_tokens=16, stop="\n")


def with_service_for_local(parameters: Parameters, sources: Sources) -> Parameters:
    """`llm_base_url=local`, the default, in an image without that LLM: the cluster's service of it, if it answers."""
    if not parameters.endpoint.is_local or local.is_installed():
        return parameters
    url = _until_it_answers(local.answering_service)
    if not url and in_container():
        raise ConfigError(
            f"llm_base_url=local: no service answers at {local.SERVICE}, and this image does not contain the LLM. "
            "Set llm_base_url to your endpoint in the form, or permanently with `python -m pipelines compile --set "
            "llm_base_url=... --output-dir build/pipelines` and `upload`; or deploy manifests/components/local-llm"
        )
    if not url:
        return parameters  # what to do instead is said by the check of the endpoint
    logger.info("notice: this image does not contain the LLM of llm_base_url=local; %s answers instead", url)
    served = replace(parameters.endpoint, llm_base_url=url, llm_api=api_of_local(parameters, sources))
    return replace(parameters, endpoint=served)


def _patience(usual: float) -> float:
    """Seconds for the first answer of an endpoint or store."""
    return FIRST_SECONDS if in_container() or in_pod() else usual


def _until_it_answers(service: Callable[[], str]) -> str:
    end = time.monotonic() + _patience(0)
    while not (url := service()) and time.monotonic() < end:
        time.sleep(1)
    return url


def api_of_local(parameters: Parameters, sources: Sources) -> str:
    """Settings for `local` at its own address: `llm_api`, where `auto` has the same meaning as with `local`."""
    if parameters.endpoint.llm_api != "auto":
        return parameters.endpoint.llm_api
    baseline = read_baseline(parameters.task.baseline, sources)
    is_chat = read_template(parameters.task.prompt, sources).is_chat or (baseline is not None and baseline.is_chat)
    return "chat" if is_chat else "completions"


@dataclass(frozen=True)
class CheckResult:
    """Name of a check, and its problems: none, or messages with their remedies.

    `notice` is what should be known of it, though a run may begin, and `cause` the error that the problems are of.
    """

    what: str
    which: str
    problems: tuple[str, ...] = ()
    notice: str = ""
    cause: EaseError | None = None


Trials = dict[EndpointConfig, Trial]


def check(*runs: Parameters, run: Run) -> Trials:
    """Answers of the endpoints to the trial question; notices are logged.

    Raises:
        ConfigError: with every problem of `findings`.
    """
    trials: Trials = {}
    found = list(findings(*runs, run=run, trials=trials))
    for notice in filter(None, (finding.notice for finding in found)):
        logger.info("notice: %s", notice)
    problems = [problem for finding in found for problem in finding.problems]
    if problems:
        raise ConfigError(*dict.fromkeys(problems)) from next(filter(None, (finding.cause for finding in found)))
    return trials


def current_answers(parameters: Parameters, trials: Trials, run: Run) -> str:
    """The generation of kept answers for a run that begins now; `llm_refresh` may start a new one, which is logged.

    A built-in endpoint changes only with its packages; unless it is to be refreshed, its newest note is used as it is.
    """
    endpoint = parameters.endpoint
    if not is_url(endpoint.llm_base_url) and endpoint.llm_refresh == "never":
        return ""
    with run.trial(replace(endpoint, llm_failures="skip"), PROBE_SAMPLING) as black_box:
        notes, model = EndpointNotes(run.store, black_box.asked, run.notes), black_box.asked.model
        probe: dict[str, str] = {}
        if endpoint.llm_refresh == "probe":
            probe = black_box.loop.run(_probed(black_box.client))
        named = trials[endpoint].model
        revision = named if named != model else ""
    before = notes.read()
    now = notes.refreshed(endpoint.llm_refresh, revision, probe)
    if now.answers != before.current.answers:
        is_known = any(now.answers == each.answers for each in before.earlier)
        which = f"{model} is {now.revision} again" if is_known and now.revision else f"{model} is as it was once"
        what = f"{which}, and what that one answered is used" if is_known else f"kept answers of {model} are put aside"
        logger.info("notice: %s%s", what, "" if is_known else ", and everything is asked again")
    return now.answers


async def _probed(client: LLMClient) -> dict[str, str]:
    """Answers to the fixed prompts, without those that were cut before they contained anything."""

    async def answer(prompt: str) -> str | AnswerCut:
        try:
            return (await client.complete(prompt)).text.strip()
        except AnswerCut as error:
            return error

    answers = await all_answers([partial(answer, prompt) for prompt in PROBE_PROMPTS])
    for cut in [each for each in answers if isinstance(each, AnswerCut)][:1]:
        logger.info("notice: llm_refresh=probe learns nothing from a prompt that is cut: %s", cut)
    pairs = zip(PROBE_PROMPTS, answers, strict=True)
    return {prompt: answer for prompt, answer in pairs if isinstance(answer, str)}


def findings(*runs: Parameters, run: Run, trials: Trials | None = None) -> Iterator[CheckResult]:
    """Check data, embedder, instructions, store and endpoint, one by one; what several runs share is checked once."""
    data: dict[TaskConfig, TaskData | None] = {}
    first_with: dict[EndpointConfig, Parameters] = {}
    for each in runs:
        first_with.setdefault(each.endpoint, each)
    endpoints = list(first_with.values()), lambda each: str(each.endpoint.evaluate or each.endpoint.llm_base_url)
    sections: list[tuple[str, Callable[[Any], str | None], list[Any], Callable[[Any], str]]] = [
        (
            "task data",
            partial(_check_data, run, data),
            [each.task for each in runs],
            lambda task: task.task_uri or task.task,
        ),
        (
            "prompt",
            partial(_check_prompt, run.sources),
            [(each.task.prompt, each.task.baseline, each.endpoint.llm_api) for each in runs],
            _shown,
        ),
        ("embedder", _check_embedder, [each.embedding for each in runs], lambda embedding: embedding.embedder),
        (
            "instructions",
            partial(_check_instructions, run.sources),
            [each.instructions.instructions_uri for each in runs],
            str,
        ),
        ("store", partial(_check_store, "store_uri"), [each.run.store_uri for each in runs], str),
        ("lineage", partial(_check_store, "lineage_uri"), [each.lineage.lineage_uri for each in runs], str),
        ("publishing", _check_published, [each.publishing.publish_uri for each in runs], str),
        ("signing", _check_signing, [each.publishing.publish_signed for each in runs], _shown_signing),
        (
            "judge",
            partial(_check_judge, run),
            [(each.task, each.endpoint, each.judge) for each in runs if each.task.is_judged],
            lambda tried: tried[2].endpoint(tried[1]).llm_base_url,
        ),
        ("endpoint", partial(_check_endpoint, run, data, {} if trials is None else trials), *endpoints),
    ]
    for what, check_one, tried, described in sections:
        for section in dict.fromkeys(tried):
            problems: tuple[str, ...] = ()
            notice = cause = None
            try:
                notice = check_one(section)
            except EaseError as error:
                problems, cause = error.problems if isinstance(error, ConfigError) else (str(error),), error
            yield CheckResult(what, described(section) or "none", problems, notice or "", cause)


def _check_data(run: Run, found: dict[TaskConfig, TaskData | None], task: TaskConfig) -> None:
    found[task] = check_data(task, run.sources, run.caller.metric)


def _check_prompt(sources: Sources, tried: tuple[str, str, str]) -> None:
    prompt, baseline, api = tried
    given = {
        f"prompt={prompt}": read_template(prompt, sources),
        f"baseline={baseline}": read_baseline(baseline, sources),
    }
    chat = next((name for name, each in given.items() if each and each.is_chat), "")
    if chat and api == "completions":
        raise ConfigError(f"llm_api=completions takes no messages, and {chat} has some; leave llm_api at auto")


def _shown(tried: tuple[str, str, str]) -> str:
    return ", ".join(filter(None, tried[:2]))


def _check_embedder(embedding: EmbeddingConfig) -> None:
    check_embedder(embedding, _patience(TRIAL_DEADLINE_SECONDS))


def _check_instructions(sources: Sources, instructions_uri: str) -> None:
    if instructions_uri:
        read_instruction_file(instructions_uri, sources)


def _check_store(parameter: str, store_uri: str) -> None:
    if not store_uri:
        return
    if is_s3(store_uri):
        S3Store(store_uri, patience_seconds=_patience(0)).check()
        return
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
        S3Store(publish_uri, patience_seconds=_patience(0)).check_swap()


def _check_signing(publish_signed: bool) -> None:
    check_signing(is_needed=publish_signed)


def _shown_signing(publish_signed: bool) -> str:
    return "required" if publish_signed else "where there is a key"


def _check_judge(run: Run, tried: tuple[TaskConfig, EndpointConfig, JudgeConfig]) -> str:
    """Check that a verdict of the judge can be parsed; return a notice if it was cut."""
    task, endpoint, judge = tried
    rubric = read_rubric(task.judge_rubric, run.sources)
    row = Exemplar(-1, "2 + 2", ("4",), fields=tuple((column, "2 + 2") for column in rubric.columns))
    patience = _patience(TRIAL_DEADLINE_SECONDS)
    with run.trial(with_patience(endpoint, patience), PROBE_SAMPLING, judge) as black_box:
        assert black_box.judge is not None
        verdict = black_box.loop.run(Judge(black_box.judge.client, rubric).verdict(row, "4", ""))
    is_cut = verdict.completion.cut if verdict.completion else verdict.refused.cut_answers
    if verdict.failure and not is_cut:
        raise ConfigError(f"{verdict.failure}; change judge_rubric or its scale")
    return verdict.failure


def _check_endpoint(
    run: Run, data: Mapping[TaskConfig, TaskData | None], trials: Trials, parameters: Parameters
) -> str:
    """Send the trial question; return notices about the answer. A program is only loaded if no row is known yet."""
    found = data.get(parameters.task)
    question = trial_question(parameters, found, run.sources)
    if parameters.task.of_program and found is None:
        with run.trial(parameters.endpoint, question.sampling) as black_box:
            trials[parameters.endpoint] = Trial(black_box.asked.model, 0.0)
        return ""
    trials[parameters.endpoint], notice = ask(parameters, question, run, _patience(TRIAL_DEADLINE_SECONDS))
    return notice
