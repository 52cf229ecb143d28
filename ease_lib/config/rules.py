"""Rules between parameters whose single values are valid: within a section, and between sections.

Each problem is a sentence that names the parameter, its value and a remedy.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from functools import singledispatch
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ease_lib.config.methods import CHOOSE_ROWS, FLEXIBLE, METHODS
from ease_lib.config.requirement_terms import MEASURES
from ease_lib.config.sections import (
    AS_PUBLISHED,
    ENDPOINT_EMBEDDER,
    EVALUATED,
    FILE_ORDER,
    FOLLOW_FROM_EVALUATE,
    FUNCTION,
    INSTRUCTION_SOURCES,
    JUDGE,
    METRIC_NAMES,
    ROWS,
    S3_SCHEMES,
    EmbeddingConfig,
    EndpointConfig,
    InstructionConfig,
    JudgeConfig,
    LineageConfig,
    Only,
    OptimizerConfig,
    Parameters,
    PublishingConfig,
    RunConfig,
    Section,
    ShardConfig,
    TaskConfig,
)
from ease_lib.errors import ConfigError
from ease_lib.urls import is_url, problems_of_url

OWN_FIELDS = frozenset({"model", "messages", "prompt", "stream", "n"})
"""Fields of a request that the client sets itself."""
OF_LLMS = (
    *("llm_base_url", "llm_api", "llm_max_tokens", "llm_thinking_tokens", "llm_extra", "llm_headers"),
    *("llm_timeout_seconds", "llm_tokens_per_minute", "prompt", "baseline", "metric", "judge_rubric", "judge_base_url"),
    *("require", "instructions", "instructions_uri", "instruction_share", "max_prompt_tokens"),
)
"""Parameters that a program does not read."""
_SECRET_NAME = re.compile(r"(?:api|access|auth)[_-]?(?:key|token)|authorization|secret|password", re.IGNORECASE)


@singledispatch
def problems_of(section: Section) -> Iterator[str]:
    """Yield the problems that the parameters of a section have with each other."""
    yield from ()


@problems_of.register
def _problems_of_task(task: TaskConfig) -> Iterator[str]:
    if task.metric not in ("auto", JUDGE, EVALUATED) and not _is_metric(task.metric):
        yield (
            f"metric={task.metric} is not one of auto, {', '.join(METRIC_NAMES)}, {JUDGE}; "
            "a function of your own is FILE.py:NAME or MODULE:NAME, a matrix of costs FILE.csv"
        )
    if task.metric == AS_PUBLISHED and task.task in ("gsm8k", "aqua", "math"):
        yield (
            f"metric={AS_PUBLISHED} compares whole answers, but task={task.task} has reasoning before the answer; "
            "set auto"
        )
    if not task.validation_size:
        yield "validation_size=0 leaves no rows for the search; set a number of rows, or -1"
    if not task.test_size:
        yield "test_size=0 leaves no rows for the test; set a number of rows, or -1"
    if task.task == "instruction_induction" and not task.task_uri:
        yield f"task={task.task} needs task_uri: the folder with induce/, valid/ and execute/"
    if task.task in ("gsm8k", "aqua", "math") and not task.task_uri:
        yield f"task={task.task} needs task_uri: its file of JSON lines, or a folder of files by split"
    if task.task == "instruction_induction" and not task.task_name:
        yield "task=instruction_induction needs task_name: the file name without .json, e.g. antonyms_v1"
    if task.task == "table" and not (task.task_uri or task.task_name):
        yield "task=table needs task_uri (a file, folder or s3://) or task_name (a hub data set)"
    yield from _problems_of_requirement(task)
    yield from _problems_of_table(task)


def _problems_of_requirement(task: TaskConfig) -> Iterator[str]:
    try:
        requirement = task.requirement
    except ConfigError as error:
        yield str(error)
        return
    measures = requirement.measures if requirement else ()
    for measure in measures:
        if measure not in (*MEASURES, JUDGE) and not _is_metric(measure):
            known = ", ".join((*MEASURES, *METRIC_NAMES, JUDGE))
            yield (
                f"require={task.require}: {measure} is not one of {known}; "
                "a function of your own is FILE.py:NAME or MODULE:NAME"
            )
    if JUDGE in measures and task.metric == JUDGE:
        yield (
            f"metric={JUDGE} and require={task.require} both use the judge, which has only one rubric; keep one of them"
        )


def _problems_of_table(task: TaskConfig) -> Iterator[str]:
    for name in ("group_column", "time_column"):
        if getattr(task, name) and task.split_order == FILE_ORDER:
            yield f"{name} and split_order={FILE_ORDER} both define the splits; keep one of them"
    if task.split_column and task.time_column:
        yield "split_column and time_column both define the test set; keep one of them"
    for name in ("validation_uri", "test_uri"):
        if getattr(task, name) and not task.task_uri:
            yield f"{name} needs task_uri, the file with the other rows"
        if getattr(task, name) and task.split_column:
            yield f"{name} and split_column both define the splits; keep one of them"
    if not _is_text_encoding(task.encoding):
        yield f"encoding={task.encoding} is unknown; use e.g. utf-8, cp1252, latin-1, utf-16 or shift_jis"


def _is_metric(name: str) -> bool:
    return name in METRIC_NAMES or ":" in name or name.endswith(".csv")


def _is_text_encoding(name: str) -> bool:
    try:
        "".encode(name or "utf-8")
    except (LookupError, ValueError):
        return False
    return True


@problems_of.register
def _problems_of_shard(shard: ShardConfig) -> Iterator[str]:
    if shard.shard >= shard.shards:
        yield f"shard={shard.shard} is not below shards={shard.shards}"


@problems_of.register
def _problems_of_instructions(instructions: InstructionConfig) -> Iterator[str]:
    if instructions.instructions and instructions.instructions_uri:
        yield "instructions and instructions_uri are both set; keep one of them"


@problems_of.register
def _problems_of_embedding(embedding: EmbeddingConfig) -> Iterator[str]:
    name, url = embedding.embedder, embedding.embedder_base_url
    if name == ENDPOINT_EMBEDDER:
        yield f"embedder={name} names no model; use e.g. {ENDPOINT_EMBEDDER}text-embedding-3-small"
    if not url:
        return
    if "@" in url:
        yield "embedder_base_url holds a user or password; remove it and put the key into EASE_EMBEDDER_API_KEY"
    else:
        yield from (f"embedder_base_url={url} {problem}" for problem in problems_of_url(url))
    if not name.startswith(ENDPOINT_EMBEDDER):
        yield (
            f"embedder_base_url has no effect with embedder={name}; remove it, or set embedder={ENDPOINT_EMBEDDER}MODEL"
        )


@problems_of.register
def _problems_of_search(search: OptimizerConfig) -> Iterator[str]:
    if search.k_min > search.k:
        yield f"k_min={search.k_min} exceeds k={search.k}; lower k_min or raise k"
    wanted = {
        "k_min=0 does not work with method={}; set 1 or more, or": not search.k_min,
        "warm_start does not work with method={};": search.warm_start,
        "budget=0 does not work with method={}; set 1 or more, or": not search.budget,
    }
    for problem in (text for text, is_wanted in wanted.items() if is_wanted and not search.chooses_rows):
        yield f"{problem.format(search.method)} choose one of {CHOOSE_ROWS}"
    if search.method in ("cosine", "bm25") and search.k > search.nearest:
        yield f"k={search.k} exceeds nearest={search.nearest}; lower k or raise nearest"
    if search.method == "ease" and search.shortlist_size > search.sampled_candidates:
        yield (
            f"shortlist_size={search.shortlist_size} exceeds sampled_candidates={search.sampled_candidates}; "
            "lower shortlist_size or raise sampled_candidates"
        )


@problems_of.register
def _problems_of_endpoint(endpoint: EndpointConfig) -> Iterator[str]:
    yield from _problems_of_url("llm_base_url", endpoint.llm_base_url, "EASE_LLM_API_KEY")
    yield from _problems_of_extra("llm_extra", endpoint.llm_extra)
    for name, variable in endpoint.headers.items():
        if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            yield "llm_headers must be a list of HEADER=VARIABLE, with names of environment variables, not their values"
            break
    if not re.fullmatch(r"never|always|probe|[1-9]\d*", endpoint.llm_refresh):
        yield f"llm_refresh={endpoint.llm_refresh} must be never, always, probe, or a number of days like 7"


@problems_of.register
def _problems_of_judge(judge: JudgeConfig) -> Iterator[str]:
    yield from _problems_of_url("judge_base_url", judge.judge_base_url, "EASE_JUDGE_API_KEY")
    yield from _problems_of_extra("judge_extra", judge.judge_extra)


@problems_of.register
def _problems_of_run(run: RunConfig) -> Iterator[str]:
    yield from _problems_of_place("store_uri", run.store_uri)


@problems_of.register
def _problems_of_publishing(publishing: PublishingConfig) -> Iterator[str]:
    yield from _problems_of_place("publish_uri", publishing.publish_uri)


@problems_of.register
def _problems_of_lineage(lineage: LineageConfig) -> Iterator[str]:
    yield from _problems_of_place("lineage_uri", lineage.lineage_uri)


def unread(parameters: Parameters) -> Iterator[tuple[str, Only]]:
    """Parameters that are set although nothing in this run reads them, and the settings that would read them."""
    for section in (getattr(parameters, field.name) for field in dataclasses.fields(parameters)):
        for field in dataclasses.fields(section):
            only: Only | None = field.metadata["only"]
            if (
                only
                and getattr(section, field.name) != field.default
                and _value(parameters, only.name) not in only.values
            ):
                yield field.name, only


def _value(parameters: Parameters, name: str) -> Any:
    sections = (getattr(parameters, field.name) for field in dataclasses.fields(parameters))
    return next(getattr(section, name) for section in sections if hasattr(section, name))


def problems_of_run(parameters: Parameters) -> Iterator[str]:
    """Problems within each section, and between sections."""
    for field in dataclasses.fields(parameters):
        yield from problems_of(getattr(parameters, field.name))
    search = parameters.optimizer
    for name, only in unread(parameters):
        why = f"because {only.others}" if only.others else f"with {only.name}={_value(parameters, only.name)}"
        yield f"{name} has no effect {why} (only with {only}); remove it"
    if 0 < parameters.task.pool_size < search.k:
        yield f"k={search.k} exceeds pool_size={parameters.task.pool_size}; lower k or raise pool_size"
    if parameters.prefilter.prefilter != "none" and search.k > parameters.prefilter.retained:
        yield f"k={search.k} exceeds retained={parameters.prefilter.retained}; lower k or raise retained"
    if not METHODS[search.method].is_flexible:
        wanted = {name: getattr(parameters.instructions, name) for name in INSTRUCTION_SOURCES} | {
            "k_min": max(0, search.k_min)
        }
        for name, value in wanted.items():
            if value:
                yield f"{name}={value} does not work with method={search.method}; choose one of {FLEXIBLE}"
    if parameters.publishing.publish_signed and not parameters.publishing.publish_uri:
        yield "publish_signed has no effect without publish_uri; set it"
    if search.warm_start and not parameters.run.store_uri:
        yield "warm_start needs store_uri, where searches keep their answers"
    if not search.budget and not parameters.caps.max_llm_requests:
        yield "budget=0 takes the budget from max_llm_requests, which is 0 too; set one of them"
    if (
        parameters.caps.max_cost_usd
        and not any(parameters.endpoint.prices.values())
        and not parameters.endpoint.evaluate  # it may say itself what it cost
    ):
        yield f"max_cost_usd={parameters.caps.max_cost_usd} needs prices; set llm_prompt_usd and llm_completion_usd"
    yield from _problems_between_judge_and_run(parameters)
    yield from _problems_of_program(parameters)


def _problems_of_program(parameters: Parameters) -> Iterator[str]:
    """Yield the problems of LLM parameters that are set next to a program that replaces the LLM."""
    if not parameters.endpoint.evaluate:
        if parameters.task.of_program or parameters.task.prompt == ROWS:
            yield f"metric={EVALUATED} and prompt={ROWS} only work with evaluate; set it, or remove them"
        return
    given = {
        field.name: (getattr(section, field.name), field.default)
        for section in (getattr(parameters, each.name) for each in dataclasses.fields(parameters))
        for field in dataclasses.fields(section)
    }
    for name in OF_LLMS:
        value, default = given[name]
        if value not in (default, FOLLOW_FROM_EVALUATE.get(name, default)):
            yield f"{name} has no effect with evaluate, which replaces endpoint, prompt and metric; remove it"
    task = parameters.task
    if task.task == "table" and (task.noise_ratio or task.label_remapping) and set("{,") & set(task.output_column):
        yield (
            f"output_column={task.output_column} is several columns, in which a program would not see noise_ratio or "
            "label_remapping; name one column, or remove these"
        )
    if parameters.endpoint.llm_refresh == "probe":
        yield "llm_refresh=probe asks fixed prompts, which a program cannot read; set never, always, or days"
    if parameters.optimizer.method == "llm_select":
        yield "method=llm_select asks an LLM, which evaluate replaces; choose another method"
    program = parameters.endpoint.program
    if program != FUNCTION and not re.fullmatch(r"[^:]+(://[^:]+)?:\w+", program):
        yield f"evaluate={parameters.endpoint.evaluate} is not a function; use FILE.py:NAME or python:MODULE:NAME"


def _problems_between_judge_and_run(parameters: Parameters) -> Iterator[str]:
    if not parameters.task.is_judged:
        return
    url = parameters.judge.endpoint(parameters.endpoint).llm_base_url
    asking = f"metric={JUDGE}" if parameters.task.metric == JUDGE else f"require={parameters.task.require}"
    if not is_url(url):
        yield f"{asking} needs a judge, which {url} cannot be; set judge_base_url"
    if parameters.caps.max_cost_usd and not any(parameters.judge.prices.values()):
        yield f"max_cost_usd={parameters.caps.max_cost_usd} needs the judge's prices; set judge_prompt_usd"


def _problems_of_url(name: str, url: str, variable: str) -> Iterator[str]:
    if "@" in url.partition("://")[2].partition("/")[0]:
        yield f"{name} holds a user or password; remove it and put the key into {variable}"
    secret = _secret_in_query(url)
    if secret:
        yield f"{name} holds {secret}=..., which is a key; remove it and put the key into {variable}"


def _problems_of_place(name: str, uri: str) -> Iterator[str]:
    scheme, separator, place = uri.partition("://")
    if separator and scheme not in ("file", *S3_SCHEMES):
        yield f"{name}={uri}: unknown scheme; use a folder or s3://bucket/prefix"
    if scheme == "minio":
        yield f"{name}={uri}: only Kubeflow understands minio://; write s3://{place}"


def _problems_of_extra(name: str, text: str) -> Iterator[str]:
    """Yield the problems of JSON that is merged into requests."""
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        yield f"{name} is not JSON: {error}"
        return
    if not isinstance(extra, dict):
        yield f'{name} is not a JSON object; write {{"name": value}}'
    elif taken := sorted(OWN_FIELDS & set(extra)):
        yield f"{name} names {taken[0]}, which EASE sets; remove it"
    elif keys := [key for key in extra if _SECRET_NAME.search(key)]:
        yield f"{name} names {keys[0]}, which looks like a key; send it by llm_headers from a variable"


def _secret_in_query(url: str) -> str | None:
    """A field of a URL's query that is a secret, by its name: parameters end up where everybody reads them."""
    names = [name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)]
    return next((name for name in names if re.search(r"key|token|secret|passw|sig|auth", name, re.IGNORECASE)), None)
