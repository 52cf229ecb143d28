"""Every parameter of a run, declared once: name, default, bounds, one line of help, and the rules of its section.

The pipeline's run form, the components, the command-line options, the parameter files, the table of all parameters and
the messages of `ConfigError` are made from these fields. A stage's own `Config` is a dataclass whose fields are
sections of this file; only the parameters of those sections travel to it, so that its record says what it read and no
more.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from ease_lib.config.methods import CHOOSE_ROWS, FLEXIBLE, METHODS
from ease_lib.config.requirement_terms import MEASURES, Requirement, requirement_of
from ease_lib.errors import ConfigError

AS_PUBLISHED = "instruction_induction"
"""The metric that scores as the authors of Instruction Induction do; the task says by which of its rules."""
EVALUATIONS_UNDER_WAY = 8
"""Of methods that choose rows, unless `parallel` says otherwise: each is a few requests only."""
METRIC_NAMES = (
    *("exact_match", "case_sensitive_match", "label", "exact_set", "contains", "token_f1", "rouge_l"),
    "edit_similarity",
    *("regex", "json_equal", "json_fields", "json_set", "number", "option_letter", "boxed", AS_PUBLISHED),
)
JUDGE = "judge"
"""The metric that asks a second LLM."""
PYTHON = "python:"
"""Before a function that `llm_base_url` names."""
OWN_FIELDS = frozenset({"model", "messages", "prompt", "stream", "n"})
"""Fields of a request that the client sets itself."""
_SECRET_NAME = re.compile(r"(?:api|access|auth)[_-]?(?:key|token)|authorization|secret|password", re.IGNORECASE)
S3_SCHEMES = ("s3", "minio")
"""Schemes of object stores; the second is what Kubeflow calls its own."""
ENDPOINT_EMBEDDER = "openai:"
"""Before the name of an embedder behind an endpoint."""
FILE_ORDER, KEEP_LEAKS, FIXED_DATA, DRAWN_OUTPUTS, LATEST = "file", "keep", "fixed", "drawn", "latest"
"""Values of parameters that are the paper's, or its authors' code's, and not the default."""
INSTRUCTION_SOURCES = ("instructions", "instructions_uri")


Role = Literal["result", "place", "speed", "cap", "tolerance"]
"""What a parameter decides: the result; where something lies; how fast it goes; what the run may cost, and what costs
are counted by; which failures end it. A run that is continued may change all but the first."""


@dataclass(frozen=True)
class Only:
    """Runs of which a parameter has one of these values.

    Args:
        name: of that parameter, or of a property of its section.
        text, others: who they are, and who the others are, where the name and its value do not say it.
    """

    name: str
    values: tuple[Any, ...]
    text: str = ""
    others: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.name}={' or '.join(self.values)}"


TABLE = Only("task", ("table",))
TASKS_OF_FILES = Only("task", ("instruction_induction", "gsm8k", "aqua", "math", "table"))
EASE = Only("method", ("ease",))
JUDGED = Only("is_judged", (True,), "metric=judge and require=judge", "this run asks no judge")


def param(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    form: bool = False,
    role: Role = "result",
    internal: bool = False,
    only: Only | None = None,
) -> Any:
    """Declare a parameter.

    Args:
        default: its one default.
        help: one line for `--help`, the run form and the table of parameters.
        low, high: inclusive bounds of a number.
        choices: the only strings allowed, when given.
        form: whether it is a field of the pipeline's run form; the others travel in the form's `advanced` field.
        role: what it decides, by which keys are made.
        internal: a run sets it for its stages; `--help` and tables do not list it.
        only: who reads it, where that is not every run; any other value than its default is refused of others.
    """
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "form": form}
    return dataclasses.field(default=default, metadata={**metadata, "role": role, "internal": internal, "only": only})


class Section:
    """Parameters that belong together."""

    def problems(self) -> Iterator[str]:
        """What is wrong with values that are allowed one by one."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class TaskConfig(Section):
    """Where the exemplars, the validation set and the test set come from."""

    task: str = param(
        "customer_feedback",
        "customer_feedback (shipped), lr, lp_variant, instruction_induction, gsm8k, aqua, math or table.",
        choices=("customer_feedback", "lr", "lp_variant", "instruction_induction", "gsm8k", "aqua", "math", "table"),
        form=True,
    )
    task_uri: str = param(
        "",
        "The task's file or folder: a path or s3://bucket/key.",
        form=True,
        only=TASKS_OF_FILES,
    )
    task_name: str = param(
        "",
        "Task inside an instruction_induction folder, or a hub data set when task=table has no task_uri.",
        form=True,
        only=Only("task", ("instruction_induction", "table")),
    )
    input_columns: str = param(
        "input", "Columns that form the input: a,b or a template like {a} versus {b}.", form=True, only=TABLE
    )
    output_column: str = param(
        "output",
        "Column with the output, a,b for a JSON object, or a template like {a} The answer is {b}.",
        form=True,
        only=TABLE,
    )
    output_lists: str = param(
        "alternatives",
        "A list in the output column holds accepted alternatives, or is one answer: a set, as JSON (metric json_set).",
        choices=("alternatives", "set"),
        only=TABLE,
    )
    validation_uri: str = param("", "Validation rows in a file apart: a path or s3://bucket/key.", only=TABLE)
    test_uri: str = param("", "Test rows in a file apart: a path or s3://bucket/key.", only=TABLE)
    split_column: str = param("", "Column that says train, validation or test of each row.", only=TABLE)
    group_column: str = param("", "Column whose equal values stay in one split, e.g. customer.", only=TABLE)
    time_column: str = param(
        "", "Column of dates or numbers; the newest rows are the test set, those before them validation.", only=TABLE
    )
    encoding: str = param(
        "", "Encoding of the table's text, e.g. cp1252; empty is UTF-8, or what the file's mark says.", only=TABLE
    )
    prompt: str = param(
        "",
        "How prompts are written: a YAML file, a path or s3://; empty is the paper's template.",
    )
    baseline: str = param(
        "",
        "The prompt in use now, to be beaten: a text or YAML messages with {column} for the query; a path or s3://.",
    )
    metric: str = param(
        "auto",
        f"Score of one answer: {', '.join(METRIC_NAMES)}, judge; metric.py:score, costs.csv; auto the task's.",
        form=True,
    )
    judge_rubric: str = param(
        "",
        "What the judge is asked: a text or YAML with {input}, {output} and {answer}; empty is ours.",
        only=JUDGED,
    )
    require: str = param(
        "",
        "What answers must keep, or score 0: characters<=200; json>=1, any metric, FILE.py:NAME, judge; in 95%.",
    )
    pool_size: int = param(
        -1,
        "Exemplars to choose from (n); 0 takes all there are, -1 all of up to 500, of more the paper's 100.",
        low=-1,
        high=10_000_000,
        form=True,
    )
    validation_size: int = param(
        -1,
        "Rows that guide the search (|D_V|); -1 takes a third of what the test set leaves, at most 200.",
        low=-1,
        high=10_000,
        form=True,
    )
    test_size: int = param(
        -1, "Rows that are only reported; -1 takes a third, at most 100.", low=-1, high=100_000, form=True
    )
    split_order: str = param(
        "drawn",
        "Which rows a split gets: drawn by seed, classes in proportion, or file: the first ones (the paper's).",
        choices=("drawn", FILE_ORDER),
    )
    leaks: str = param(
        "drop",
        "Rows of a source's own splits whose inputs are drawn for another: drop, or keep (the paper's).",
        choices=("drop", KEEP_LEAKS),
    )
    repeat_data: str = param(
        "drawn",
        "Splits and noise: drawn by the run's seed, or fixed: those of seed 0, so repeats differ in the search alone.",
        choices=("drawn", FIXED_DATA),
    )
    shown_outputs: str = param(
        "first",
        "Of several accepted outputs an exemplar shows the first, or one drawn by seed (the paper's).",
        choices=("first", DRAWN_OUTPUTS),
    )
    noise_ratio: float = param(
        0.0, "Share of pool rows whose output is corrupted on purpose.", low=0, high=1, form=True
    )
    label_remapping: str = param(
        "",
        "Rename labels: shift, reverse (optionally :a,b,c for the order), or a mapping 1=World;2=Sports.",
        form=True,
    )
    exclude_rows: str = param(
        "", "Rows to leave out of every split, by the SHA-256 of their input text: a,b (`ease forget` prints them)."
    )

    @property
    def requirement(self) -> Requirement | None:
        """Raises `ConfigError` where `require` is not understood."""
        return requirement_of(self.require)

    @property
    def is_judged(self) -> bool:
        """Whether a second LLM reads the answers."""
        return self.metric == JUDGE or (self.requirement is not None and JUDGE in self.requirement.measures)

    def problems(self) -> Iterator[str]:
        if self.metric not in ("auto", JUDGE) and not _is_metric(self.metric):
            yield (
                f"metric={self.metric} is not one of auto, {', '.join(METRIC_NAMES)}, {JUDGE}; "
                "a function of your own is FILE.py:NAME or MODULE:NAME, a matrix of costs FILE.csv"
            )
        if self.metric == AS_PUBLISHED and self.task in ("gsm8k", "aqua", "math"):
            yield f"metric={AS_PUBLISHED} compares whole answers, and those of task={self.task} end chains; set auto"
        if not self.validation_size:
            yield "validation_size=0 leaves nothing to search by; set a number of rows, or -1"
        if not self.test_size:
            yield "test_size=0 leaves nothing to test the winner on; set a number of rows, or -1"
        if self.task == "instruction_induction" and not self.task_uri:
            yield f"task={self.task} needs task_uri: the folder with induce/, valid/ and execute/"
        if self.task in ("gsm8k", "aqua", "math") and not self.task_uri:
            yield f"task={self.task} needs task_uri: its file of JSON lines, or a folder of files by split"
        if self.task == "instruction_induction" and not self.task_name:
            yield "task=instruction_induction needs task_name: the file name without .json, e.g. antonyms_v1"
        if self.task == "table" and not (self.task_uri or self.task_name):
            yield "task=table needs task_uri (a file, folder or s3://) or task_name (a hub data set)"
        yield from self._problems_of_requirement()
        yield from self._table_problems()

    def _problems_of_requirement(self) -> Iterator[str]:
        try:
            requirement = self.requirement
        except ConfigError as error:
            yield str(error)
            return
        measures = requirement.measures if requirement else ()
        for measure in measures:
            if measure not in (*MEASURES, JUDGE) and not _is_metric(measure):
                known = ", ".join((*MEASURES, *METRIC_NAMES, JUDGE))
                yield (
                    f"require={self.require}: {measure} is not one of {known}; "
                    "a function of your own is FILE.py:NAME or MODULE:NAME"
                )
        if JUDGE in measures and self.metric == JUDGE:
            yield f"metric={JUDGE} and require={self.require} both ask the judge, who has one rubric; ask one of them"

    def data_seed(self, seed: int) -> int:
        """The seed of splits, noise and shown outputs in a run of this seed."""
        return 0 if self.repeat_data == FIXED_DATA else seed

    def _table_problems(self) -> Iterator[str]:
        for name in ("group_column", "time_column"):
            if getattr(self, name) and self.split_order == FILE_ORDER:
                yield f"{name} and split_order={FILE_ORDER} both say which rows are in a split; keep one of them"
        if self.split_column and self.time_column:
            yield "split_column and time_column both say which rows are the test set; keep one of them"
        for name in ("validation_uri", "test_uri"):
            if getattr(self, name) and not self.task_uri:
                yield f"{name} needs task_uri, the file with the other rows"
            if getattr(self, name) and self.split_column:
                yield f"{name} and split_column both say which rows are in a split; keep one of them"
        if not _is_text_encoding(self.encoding):
            yield f"encoding={self.encoding} is unknown; name one like utf-8, cp1252, latin-1, utf-16 or shift_jis"


def _is_metric(name: str) -> bool:
    return name in METRIC_NAMES or ":" in name or name.endswith(".csv")


def _is_text_encoding(name: str) -> bool:
    try:
        "".encode(name or "utf-8")
    except (LookupError, ValueError):
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class PrefilterConfig(Section):
    """Retrieval over large pools before the search."""

    prefilter: str = param(
        "none",
        "Keep only the exemplars most similar to the validation set: none, cosine or bm25.",
        choices=("none", "cosine", "bm25"),
        form=True,
    )
    retained: int = param(
        100,
        "Exemplars kept by the prefilter.",
        low=1,
        high=1_000_000,
        form=True,
        only=Only("prefilter", ("cosine", "bm25")),
    )


@dataclass(frozen=True, kw_only=True)
class ShardConfig(Section):
    """The part of the pool that a container ranks; set by the pipeline, and no parameter of a run."""

    shards: int = param(1, "Parts into which the pool is divided.", low=1, high=1000)
    shard: int = param(0, "Which of them this is, from 0.", low=0, high=999)

    def problems(self) -> Iterator[str]:
        if self.shard >= self.shards:
            yield f"shard={self.shard} is not below shards={self.shards}"


@dataclass(frozen=True, kw_only=True)
class InstructionConfig(Section):
    """Instructions searched together with the exemplars; the empty one is always among them."""

    instructions: int = param(
        0, "Instructions that the LLM proposes from exemplars (|P|); 0 is none.", low=0, high=10_000
    )
    instructions_uri: str = param(
        "", "Instructions from a file instead: .txt with one a line, or .json with a list; a path or s3://."
    )

    def problems(self) -> Iterator[str]:
        if self.instructions and self.instructions_uri:
            yield "instructions and instructions_uri are both set; keep one of them"


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(Section):
    """The sentence-embedding model h."""

    embedder: str = param(
        "bundled-minilm",
        "bundled-minilm, a sentence-transformers name or path (paper: all-mpnet-base-v2), or openai:MODEL.",
        form=True,
    )
    embedder_base_url: str = param(
        "",
        "OpenAI-compatible URL of openai:MODEL (key: EASE_EMBEDDER_API_KEY); empty is OpenAI's (OPENAI_API_KEY).",
    )

    def problems(self) -> Iterator[str]:
        name, url = self.embedder, self.embedder_base_url
        if name == ENDPOINT_EMBEDDER:
            yield f"embedder={name} names no model; give e.g. {ENDPOINT_EMBEDDER}text-embedding-3-small"
        if not url:
            return
        parts = urlsplit(url)
        if "@" in url:
            yield "embedder_base_url holds a user or password; remove it and put the key into EASE_EMBEDDER_API_KEY"
        elif parts.scheme not in ("http", "https") or not parts.hostname:
            yield f"embedder_base_url={url} is not an http(s) URL like https://host/v1"
        if not name.startswith(ENDPOINT_EMBEDDER):
            yield f"embedder_base_url is not for embedder={name}; remove it, or set embedder={ENDPOINT_EMBEDDER}MODEL"


@dataclass(frozen=True, kw_only=True)
class HardwareConfig(Section):
    """Where the embedder and the surrogate compute. Numbers differ in their last digits between CPU and GPU."""

    device: str = param(
        "auto",
        "Where embedder and surrogate compute: cpu, cuda, or auto, a GPU where there is one.",
        choices=("auto", "cpu", "cuda"),
    )
    embedder_precision: str = param(
        "auto",
        "In which the embedder computes: float32, bfloat16, or auto, bfloat16 on GPUs and CPUs made for it.",
        choices=("auto", "float32", "bfloat16"),
    )


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Section):
    """The search method and its settings; those of `ease` are the paper's (Sec. 4) unless the help says otherwise."""

    method: str = param(
        "adaptive",
        "adaptive, halving, capo; of the paper ease, best_of_n, evolution, influence, active, cosine, bm25, "
        "dpp, mmd, ot, llm_select or zero_shot.",
        choices=tuple(METHODS),
        form=True,
    )
    k: int = param(5, "Exemplars in the prompt; at most so many where k_min is less.", low=1, high=1000, form=True)
    k_min: int = param(
        -1,
        "Fewest exemplars in the prompt; -1 is 0 for adaptive, halving and capo, and k for all others.",
        low=-1,
        high=1000,
    )
    ties: str = param(
        "earliest",
        "Of sequences with the best score, which wins: the earliest, or the latest (the authors' code).",
        choices=("earliest", LATEST),
        only=Only("method", tuple(name for name, method in METHODS.items() if not method.chooses_rows)),
    )
    max_prompt_tokens: int = param(
        0,
        "Longest prompt in tokens, as far as they can be estimated; 0 is no limit.",
        low=0,
        high=10_000_000,
        only=Only("method", ("adaptive", "halving", "capo", "ease", "best_of_n", "dpp", "mmd", "ot")),
    )
    budget: int = param(
        165,
        "Evaluations of a sequence (T), of evaluation_rows rows each; 0 plans by max_llm_requests alone.",
        low=0,
        high=100_000,
        form=True,
    )
    evaluation_rows: int = param(
        20,
        "Validation rows of an evaluation, 0 for all; adaptive, halving and capo spread them as they like.",
        low=0,
        high=10_000,
    )
    initial_design: int = param(
        40,
        "Random sequences before the model guides the search (T_init); fewer for a small budget.",
        low=1,
        high=100_000,
        only=Only("method", ("ease", "evolution")),
    )
    representation: str = param(
        "auto",
        "Features of a sequence: sequence (the paper's), average, positional; auto takes positional.",
        choices=("auto", "sequence", "average", "positional"),
        only=EASE,
    )
    sampled_candidates: int = param(
        50_000,
        "Sequences sampled per iteration (q).",
        low=1,
        high=10_000_000,
        only=Only("method", ("ease", "dpp", "mmd", "ot")),
    )
    shortlist_size: int = param(
        1_000, "Sampled sequences kept by optimal transport (q').", low=1, high=1_000_000, only=EASE
    )
    shortlist: str = param(
        "ot",
        "What keeps q' of q: ot, random (ablation: NeuralUCB alone), or none (all q are compared).",
        choices=("ot", "random", "none"),
        only=EASE,
    )
    fixed_candidates: int = param(
        0,
        "Ablation: this many sequences, sampled once for the whole search; 0 samples q anew.",
        low=0,
        high=10_000_000,
        only=EASE,
    )
    nu: float = param(
        0.1,
        "Exploration weight of NeuralUCB; the authors' 0.01 under the root is 0.1 here.",
        low=0,
        high=1000,
        only=EASE,
    )
    ridge: float = param(
        0.1, "Ridge lambda of NeuralUCB and of the network's weight decay.", low=1e-9, high=1000, only=EASE
    )
    nearest: int = param(
        10,
        "Exemplars that sequences are drawn from (R).",
        low=1,
        high=1_000_000,
        only=Only("method", ("cosine", "bm25")),
    )
    instruction_share: float = param(
        0.1,
        "Share of the instructions that an iteration pairs with the shortlisted sequences (r).",
        low=0,
        high=1,
        only=EASE,
    )
    parallel: int = param(
        0,
        "Evaluations under way at once (b), against latency; 0 is 8 where the method chooses rows, else 1.",
        low=0,
        high=256,
    )
    warm_start: bool = param(
        False,
        "Begin with what the last search of this task and endpoint in store_uri was answered (where rows are chosen).",
    )
    order_report: int = param(
        0,
        "Permutations of the winner that are asked evaluation_rows rows each, to tell how much its order matters.",
        low=0,
        high=1000,
    )

    @property
    def chooses_rows(self) -> bool:
        """Whether the method chooses the rows of every evaluation."""
        return METHODS[self.method].chooses_rows

    @property
    def shortest(self) -> int:
        """Fewest exemplars of a sequence."""
        if self.k_min >= 0:
            return self.k_min
        return 0 if self.chooses_rows else self.k

    @property
    def under_way(self) -> int:
        """b, evaluations at once."""
        return self.parallel or (EVALUATIONS_UNDER_WAY if self.chooses_rows else 1)

    def answers(self, validation_rows: int, affordable: float) -> int:
        """Answers that the search plans for.

        Args:
            affordable: those that max_llm_requests leaves it; infinite without that cap.
        """
        evaluation = min(self.evaluation_rows or validation_rows, validation_rows)
        planned = self.budget * evaluation or affordable
        return int(max(0, min(planned, affordable)))

    @property
    def scaled_design(self) -> int:
        """T_init; where that would leave nothing of the budget for the search, the paper's share of it (40 of 165)."""
        if self.initial_design < self.budget or not self.budget:
            return self.initial_design
        return max(1, self.budget * OptimizerConfig.initial_design // OptimizerConfig.budget)

    def problems(self) -> Iterator[str]:
        if self.k_min > self.k:
            yield f"k_min={self.k_min} exceeds k={self.k}; lower k_min or raise k"
        wanted = {
            "k_min=0 is not for method={}; set 1 or more, or": not self.k_min,
            "warm_start is not for method={};": self.warm_start,
            "budget=0 is not for method={}; set 1 or more, or": not self.budget,
        }
        for problem in (text for text, is_wanted in wanted.items() if is_wanted and not self.chooses_rows):
            yield f"{problem.format(self.method)} take one of {CHOOSE_ROWS}"
        if self.method in ("cosine", "bm25") and self.k > self.nearest:
            yield f"k={self.k} exceeds nearest={self.nearest}; lower k or raise nearest"
        if self.method == "ease" and self.shortlist_size > self.sampled_candidates:
            yield (
                f"shortlist_size={self.shortlist_size} exceeds sampled_candidates={self.sampled_candidates}; "
                "lower shortlist_size or raise sampled_candidates"
            )


@dataclass(frozen=True, kw_only=True)
class CapsConfig(Section):
    """What the run may cost. A cap stops the search with its incumbent as result; 0 is no cap."""

    max_llm_requests: int = param(
        0,
        "LLM requests of the run at most, retries too, trial questions aside; 0 is no cap.",
        low=0,
        high=10**12,
        form=True,
        role="cap",
    )
    max_cost_usd: float = param(
        0.0,
        "Cost of the run in USD at most, trial questions aside (needs prices); 0 is no cap.",
        low=0,
        high=1e9,
        role="cap",
    )
    max_zero_answers: int = param(
        100,
        "Answers that may all score 0 and fit no row (mostly it is the format) before the search stops; 0 is no limit.",
        low=0,
        high=10**9,
        role="tolerance",
    )
    max_seconds: float = param(
        0.0, "Duration of the search at most, over all attempts; 0 is no cap.", low=0, high=1e9, role="cap"
    )


@dataclass(frozen=True, kw_only=True)
class EndpointConfig(Section):
    """The black-box LLM. Its key comes from EASE_LLM_API_KEY, for OpenAI's own hosts also from OPENAI_API_KEY."""

    llm_base_url: str = param(
        "local",
        "OpenAI-compatible URL, local (small LLM shipped), or a function: python:MODULE:NAME or python:FILE.py:NAME.",
        form=True,
    )
    llm_model: str = param("", "Model name; empty takes the endpoint's only one.", form=True)
    llm_api: str = param(
        "auto",
        "chat or completions; auto is completions for local, else chat.",
        choices=("auto", "chat", "completions"),
    )
    llm_concurrency: int = param(20, "Requests in flight at most.", low=1, high=1000, form=True, role="speed")
    llm_requests_per_minute: int = param(
        0,
        "Requests a minute at most, of all processes with this store_uri; 0 is no limit.",
        low=0,
        high=10**7,
        role="speed",
    )
    llm_tokens_per_minute: int = param(
        0, "Prompt and answer tokens a minute at most, likewise; 0 is no limit.", low=0, high=10**10, role="speed"
    )
    llm_max_tokens: int = param(
        0, "Longest answer in tokens; 0 takes 64, or twice the longest output of the pool.", low=0, high=32_768
    )
    llm_thinking_tokens: int = param(
        0,
        "Tokens that a model may think before it answers, on top of the limit of every request.",
        low=0,
        high=1_000_000,
    )
    llm_extra: str = param(
        "", 'JSON that is merged into every request: {"reasoning_effort": "low"}, {"response_format": {...}}, ...'
    )
    llm_headers: str = param(
        "", "Headers with values from environment variables: X-Team=TEAM_TOKEN,X-Trace=TRACE; the names alone."
    )
    llm_timeout_seconds: float = param(60.0, "Time limit of one request.", low=0.1, high=3600, role="speed")
    llm_deadline_seconds: float = param(
        300.0, "Time limit of one answer, retries included.", low=0, high=86_400, role="speed"
    )
    llm_failures: str = param(
        "stop",
        "A row that the endpoint refuses or leaves without text: stop the run, skip (no score, counted), zero (wrong).",
        choices=("stop", "skip", "zero"),
        role="tolerance",
    )
    llm_coverage: float = param(
        0.9,
        "Least share of rows that must be answered where llm_failures is skip or zero.",
        low=0,
        high=1,
        role="tolerance",
    )
    llm_refresh: str = param(
        "never",
        "When kept answers are asked anew: never, always, probe (a few fixed prompts get other answers), or days.",
    )
    llm_prompt_usd: float = param(0.0, "Price of a million prompt tokens in USD.", low=0, high=1e6, role="cap")
    llm_completion_usd: float = param(0.0, "Price of a million completion tokens in USD.", low=0, high=1e6, role="cap")

    @property
    def extra(self) -> dict[str, Any]:
        """`llm_extra`, read."""
        return dict(json.loads(self.llm_extra)) if self.llm_extra else {}

    @property
    def headers(self) -> dict[str, str]:
        """Environment variables by header."""
        pairs = (entry.partition("=") for entry in self.llm_headers.split(",") if entry.strip())
        return {name.strip(): variable.strip() for name, _, variable in pairs}

    @property
    def prices(self) -> dict[str, float]:
        """USD for a million tokens, by the names that `Usage.cost_usd` takes."""
        return {"prompt_usd": self.llm_prompt_usd, "completion_usd": self.llm_completion_usd}

    def problems(self) -> Iterator[str]:
        yield from _problems_of_url("llm_base_url", self.llm_base_url, "EASE_LLM_API_KEY")
        yield from _problems_of_extra("llm_extra", self.llm_extra)
        for name, variable in self.headers.items():
            if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
                yield "llm_headers is a list of HEADER=VARIABLE, of names of environment variables, not their values"
                break
        if not re.fullmatch(r"never|always|probe|[1-9]\d*", self.llm_refresh):
            yield f"llm_refresh={self.llm_refresh} is none of never, always, probe, or a number of days like 7"


@dataclass(frozen=True, kw_only=True)
class JudgeConfig(Section):
    """The LLM that reads answers where `metric` or `require` names the judge. Its key comes from EASE_JUDGE_API_KEY."""

    judge_base_url: str = param(
        "",
        "OpenAI-compatible URL of the judge (key: EASE_JUDGE_API_KEY); empty is the LLM's own, with its key.",
        only=JUDGED,
    )
    judge_model: str = param(
        "", "Its model; empty takes llm_model, of an endpoint of its own the only one.", only=JUDGED
    )
    judge_extra: str = param("", 'JSON that is merged into its requests: {"reasoning_effort": "low"}, ...', only=JUDGED)
    judge_prompt_usd: float = param(
        0.0, "Price of a million of its prompt tokens in USD.", low=0, high=1e6, role="cap", only=JUDGED
    )
    judge_completion_usd: float = param(
        0.0, "Price of a million of its completion tokens in USD.", low=0, high=1e6, role="cap", only=JUDGED
    )

    @property
    def prices(self) -> dict[str, float]:
        """As `EndpointConfig.prices`, the judge's."""
        return {"judge_prompt_usd": self.judge_prompt_usd, "judge_completion_usd": self.judge_completion_usd}

    def endpoint(self, llm: EndpointConfig) -> EndpointConfig:
        """Where and how the judge is asked: as the LLM, but for what is said here."""
        return dataclasses.replace(
            llm,
            llm_base_url=self.judge_base_url or llm.llm_base_url,
            llm_model=self.judge_model or ("" if self.judge_base_url else llm.llm_model),
            llm_headers="" if self.judge_base_url else llm.llm_headers,
            llm_extra=self.judge_extra,
            llm_requests_per_minute=0 if self.judge_base_url else llm.llm_requests_per_minute,
            llm_tokens_per_minute=0 if self.judge_base_url else llm.llm_tokens_per_minute,
            llm_api="chat",
        )

    def problems(self) -> Iterator[str]:
        yield from _problems_of_url("judge_base_url", self.judge_base_url, "EASE_JUDGE_API_KEY")
        yield from _problems_of_extra("judge_extra", self.judge_extra)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Section):
    """What identifies and carries the run."""

    def problems(self) -> Iterator[str]:
        yield from _problems_of_place("store_uri", self.store_uri)

    seed: int = param(
        0, "Seed of every draw: splits, noise, initial design, candidates, network.", low=0, high=2**53, form=True
    )
    store_uri: str = param(
        "",
        "Folder or s3:// that outlives a killed run, with its journal and answers; the same one continues it.",
        form=True,
        role="place",
    )


@dataclass(frozen=True, kw_only=True)
class ContinuationConfig(Section):
    """What the first stage of a run or comparison finds out for those behind it; nobody sets these by hand."""

    ledger: str = param(
        "",
        "Ledger in store_uri in which the stages of a run share its caps; a pipeline sets it.",
        role="place",
        internal=True,
    )
    answers: str = param(
        "", "Generation of kept answers that a run uses; empty is the newest; a pipeline sets it.", internal=True
    )


@dataclass(frozen=True, kw_only=True)
class PublishingConfig(Section):
    """Where the winning prompt is published, and when it becomes the latest."""

    def problems(self) -> Iterator[str]:
        yield from _problems_of_place("publish_uri", self.publish_uri)

    publish_uri: str = param(
        "",
        "Folder or s3:// for versions of the prompt, with latest.json; empty publishes nothing.",
        form=True,
        role="place",
    )
    publish_if: str = param(
        "always",
        "When a version becomes the latest: always, or better (it beats the latest on rows neither was chosen by; the "
        "first one, random exemplars on the test set).",
        choices=("always", "better"),
    )
    publish_signed: bool = param(False, "Refuse to start and to publish without a key that signs (EASE_SIGNING_KEY).")


@dataclass(frozen=True, kw_only=True)
class LineageConfig(Section):
    """Where every stage records what it did; sent to every stage."""

    def problems(self) -> Iterator[str]:
        yield from _problems_of_place("lineage_uri", self.lineage_uri)

    lineage_uri: str = param(
        "",
        "Folder or s3:// for the lineage records; empty is lineage/ in store_uri, else in publish_uri.",
        role="place",
    )
    openlineage_url: str = param(
        "", "Endpoint that is sent OpenLineage events too; its failures stop nothing.", role="place"
    )
    run_name: str = param(
        "",
        "What the run is called in its records; a pipeline sets it to its name in the dashboard.",
        role="place",
        internal=True,
    )


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig(Section):
    """What a comparison varies; an empty axis is what the other parameters say (`comparison.py` has the syntax)."""

    tasks: str = param("", "Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...")
    methods: str = param("", "Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty is all of them.")
    noise_ratios: str = param("", "Noise ratios of every task: 0, 0.1, 0.5, ...")
    endpoints: str = param("", "Endpoints: local, {llm_base_url: https://..., llm_model: small-1}, ...")
    repeats: int = param(
        3, "Runs of everything, each with a seed of its own (repeat_data: for data and noise too).", low=1, high=1000
    )


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All sections together: one run."""

    task: TaskConfig = TaskConfig()
    prefilter: PrefilterConfig = PrefilterConfig()
    instructions: InstructionConfig = InstructionConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    hardware: HardwareConfig = HardwareConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    endpoint: EndpointConfig = EndpointConfig()
    judge: JudgeConfig = JudgeConfig()
    caps: CapsConfig = CapsConfig()
    run: RunConfig = RunConfig()
    continuation: ContinuationConfig = ContinuationConfig()
    publishing: PublishingConfig = PublishingConfig()
    lineage: LineageConfig = LineageConfig()

    @property
    def lineage_root(self) -> str:
        return lineage_root(self.lineage.lineage_uri, self.run.store_uri, self.publishing.publish_uri)

    def unread(self) -> Iterator[tuple[str, Only]]:
        """Parameters that have another value than their default, and that nothing of this run reads, with who does."""
        for section in (getattr(self, field.name) for field in dataclasses.fields(self)):
            for field in dataclasses.fields(section):
                only: Only | None = field.metadata["only"]
                if only and getattr(section, field.name) != field.default and self._value(only.name) not in only.values:
                    yield field.name, only

    def _value(self, name: str) -> Any:
        sections = (getattr(self, field.name) for field in dataclasses.fields(self))
        return next(getattr(section, name) for section in sections if hasattr(section, name))

    def problems(self) -> Iterator[str]:
        """What is wrong within each section, and between sections."""
        for field in dataclasses.fields(self):
            yield from getattr(self, field.name).problems()
        search = self.optimizer
        for name, only in self.unread():
            others = only.others or f"this is {only.name}={self._value(only.name)}"
            yield f"{name} is read by {only} only, and {others}; leave it out"
        if 0 < self.task.pool_size < search.k:
            yield f"k={search.k} exceeds pool_size={self.task.pool_size}; lower k or raise pool_size"
        if self.prefilter.prefilter != "none" and search.k > self.prefilter.retained:
            yield f"k={search.k} exceeds retained={self.prefilter.retained}; lower k or raise retained"
        if not METHODS[search.method].is_flexible:
            wanted = {name: getattr(self.instructions, name) for name in INSTRUCTION_SOURCES} | {
                "k_min": max(0, search.k_min)
            }
            for name, value in wanted.items():
                if value:
                    yield f"{name}={value} is not for method={search.method}; take one of {FLEXIBLE}"
        if self.publishing.publish_signed and not self.publishing.publish_uri:
            yield "publish_signed is about what is published; set publish_uri"
        if search.warm_start and not self.run.store_uri:
            yield "warm_start needs store_uri, where searches leave what they were answered"
        if not search.budget and not self.caps.max_llm_requests:
            yield "budget=0 plans by max_llm_requests, which is 0 too; set one of them"
        if self.caps.max_cost_usd and not any(self.endpoint.prices.values()):
            yield f"max_cost_usd={self.caps.max_cost_usd} needs prices; set llm_prompt_usd and llm_completion_usd"
        yield from self._problems_of_judge()

    def _problems_of_judge(self) -> Iterator[str]:
        if not self.task.is_judged:
            return
        url = self.judge.endpoint(self.endpoint).llm_base_url
        asking = f"metric={JUDGE}" if self.task.metric == JUDGE else f"require={self.task.require}"
        if urlsplit(url).scheme not in ("http", "https"):
            yield f"{asking} needs a judge, which {url} is not; set judge_base_url"
        if self.caps.max_cost_usd and not any(self.judge.prices.values()):
            yield f"max_cost_usd={self.caps.max_cost_usd} needs the judge's prices; set judge_prompt_usd"


def lineage_root(lineage_uri: str, store_uri: str = "", publish_uri: str = "") -> str:
    """Where records lie: `lineage_uri` or its default; empty when nothing of the run outlives it."""
    kept = store_uri or publish_uri
    return lineage_uri or (f"{kept.rstrip('/')}/lineage" if kept else "")


@dataclass(frozen=True, kw_only=True)
class Asks:
    """The sections of every stage that asks the black-box."""

    endpoint: EndpointConfig
    judge: JudgeConfig
    caps: CapsConfig
    run: RunConfig
    continuation: ContinuationConfig


@dataclass(frozen=True, kw_only=True)
class OnlyLineage:
    """The parameters of every stage's record, which the stage itself does not read."""

    lineage: LineageConfig


@dataclass(frozen=True, kw_only=True)
class ComparisonAxes:
    """The options of `ease compare` beside those of a run."""

    comparison: ComparisonConfig


def _problems_of_url(name: str, url: str, variable: str) -> Iterator[str]:
    if "@" in url.partition("://")[2].partition("/")[0]:
        yield f"{name} holds a user or password; remove it and put the key into {variable}"
    secret = _secret_in_query(url)
    if secret:
        yield f"{name} holds {secret}=..., which is a key; remove it and put the key into {variable}"


def _problems_of_place(name: str, uri: str) -> Iterator[str]:
    scheme, separator, _ = uri.partition("://")
    if separator and scheme not in ("file", *S3_SCHEMES):
        yield f"{name}={uri}: unknown scheme; give a folder or s3://bucket/prefix"


def _problems_of_extra(name: str, text: str) -> Iterator[str]:
    """Of JSON that is merged into requests."""
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        yield f"{name} is not JSON: {error}"
        return
    if not isinstance(extra, dict):
        yield f'{name} is no JSON object; write {{"name": value}}'
    elif taken := sorted(OWN_FIELDS & set(extra)):
        yield f"{name} names {taken[0]}, which we set; leave it out"
    elif keys := [key for key in extra if _SECRET_NAME.search(key)]:
        yield f"{name} names {keys[0]}, which looks like a key; send it by llm_headers from a variable"


def _secret_in_query(url: str) -> str | None:
    """A field of a URL's query that is a secret, by its name: parameters end up where everybody reads them."""
    names = [name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)]
    return next((name for name in names if re.search(r"key|token|secret|passw|sig|auth", name, re.IGNORECASE)), None)
