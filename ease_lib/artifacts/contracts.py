"""The contracts: every file that crosses a stage border, declared once.

Writing an artifact checks it and stamps it with name and version; reading checks again. A table that is written row by
row has its columns from the type of its rows. An embedding file's vectors have as many columns as its embedder gives;
`dimension` is in the file's metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired, get_args, get_type_hints

import pyarrow as pa
from typing_extensions import TypedDict

from ease_lib.documents import Misfit, check
from ease_lib.errors import ContractError

Document = dict[str, Any]
TableCheck = Callable[[pa.Table], str | None]
"""Function that returns the problem of a table, or None."""


@dataclass(frozen=True, kw_only=True)
class TableContract:
    """A Parquet file with exactly these columns, in this order."""

    name: str
    version: int
    schema: pa.Schema
    checks: tuple[TableCheck, ...] = ()

    @property
    def stamp(self) -> str:
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, kw_only=True)
class DocumentContract:
    """A JSON file with the fields of a `TypedDict`; others may be next to them."""

    name: str
    version: int
    fields: type[Any]

    @property
    def stamp(self) -> str:
        return f"{self.name}/{self.version}"

    def check(self, document: dict[str, Any], where: str) -> None:
        """Raises `ContractError` naming the file, the field, expected and found."""
        try:
            check(self.fields, document)
        except Misfit as error:
            raise ContractError(f"{where} ({self.stamp}): {error}") from None


_COLUMN_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    list[int]: pa.list_(pa.int64()),
    list[float]: pa.list_(pa.float64()),
    list[float | None]: pa.list_(pa.float64()),
    list[str]: pa.list_(pa.string()),
}


def schema_of(row: type) -> pa.Schema:
    """The columns of a table whose rows are of this type; `| None` is a column that may have empty values."""
    columns = []
    for name, hint in get_type_hints(row).items():
        kinds = [kind for kind in get_args(hint) if kind is not type(None)] if type(None) in get_args(hint) else [hint]
        columns.append(pa.field(name, _COLUMN_TYPES[kinds[0]], nullable=kinds != [hint]))
    return pa.schema(columns)


class HistoryRow(NamedTuple):
    """An observation: its candidate, its score, what it cost."""

    iteration: int
    phase: str
    instruction_id: int
    exemplar_ids: list[int]
    score: float
    incumbent_score: float
    validation_rows: int
    failed_rows: int
    row_ids: list[int]
    row_scores: list[float | None]
    acquisition: float | None
    seconds: float
    llm_seconds: float
    llm_requests: int
    cached_responses: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float


class PredictionRow(NamedTuple):
    """A row of the test set as a sequence answered it; without a score where the endpoint refused it.

    `is_kept`: whether the answer keeps what `require` asks, which else scores 0.
    """

    sequence: str
    exemplar_id: int
    prompt_sha256: str
    prediction: str
    outputs: list[str]
    score: float | None
    is_kept: bool | None
    failure: str


class InstructionRow(NamedTuple):
    """An instruction and its index; 0 is the empty one."""

    instruction_id: int
    text: str


class ComparisonRow(NamedTuple):
    """A cell of a comparison that finished; `input` and `outputs` are those of its winner's exemplars."""

    task: str
    noise_ratio: float
    endpoint: str
    method: str
    repeat: int
    seed: int
    answered_by_function: bool
    validation_score: float
    test_score: float
    test_interval: list[float]
    estimate: float
    estimate_interval: list[float]
    exemplars: int
    instruction: str
    input: list[str]
    outputs: list[str]
    prompt: str
    random_test_score: float | None
    gain_over_random: float | None
    gain_over_random_interval: list[float]
    better_than_random: bool
    baseline_test_score: float | None
    evaluations: int
    llm_requests: int
    cached_responses: int
    cost_usd: float
    search_seconds: float
    stopped: str
    incumbent_scores: list[float]
    failed_rows: int


def _not_empty(table: pa.Table) -> str | None:
    return None if table.num_rows else "has no rows"


def _unique_ids(table: pa.Table) -> str | None:
    ids = table["exemplar_id"]
    return None if len(ids.unique()) == len(ids) else "column exemplar_id has repeated values"


def _has_outputs(table: pa.Table) -> str | None:
    lengths = [len(outputs) for outputs in table["outputs"].to_pylist()]
    return None if all(lengths) else f"column outputs is empty in row {lengths.index(0) + 1}"


def _first_is_empty(table: pa.Table) -> str | None:
    first = table.slice(0, 1).to_pylist()[0]
    return None if first == {"instruction_id": 0, "text": ""} else "does not begin with instruction 0, the empty one"


_ROW = [
    pa.field("exemplar_id", pa.int64(), nullable=False),
    pa.field("input", pa.string(), nullable=False),
    pa.field("outputs", pa.list_(pa.string()), nullable=False),
    pa.field("fields", pa.map_(pa.string(), pa.string()), nullable=False),
    pa.field("origin", pa.string(), nullable=False),
]
_ROW_CHECKS = (_not_empty, _unique_ids, _has_outputs)

EXEMPLAR_POOL = TableContract(
    name="exemplar_pool", version=3, schema=pa.schema([*_ROW, pa.field("is_noisy", pa.bool_())]), checks=_ROW_CHECKS
)
POOL_TOPS = TableContract(
    name="pool_tops",
    version=1,
    schema=pa.schema(
        [
            pa.field("validation_row", pa.int32(), nullable=False),
            pa.field("position", pa.int64(), nullable=False),
            pa.field("similarity", pa.float64(), nullable=False),
        ]
    ),
)
VALIDATION_SET = TableContract(name="validation_set", version=3, schema=pa.schema(_ROW), checks=_ROW_CHECKS)
TEST_SET = TableContract(name="test_set", version=3, schema=pa.schema(_ROW), checks=_ROW_CHECKS)

INSTRUCTIONS = TableContract(
    name="instructions", version=1, schema=schema_of(InstructionRow), checks=(_not_empty, _first_is_empty)
)
EXEMPLAR_EMBEDDINGS = TableContract(
    name="exemplar_embeddings",
    version=1,
    schema=pa.schema(
        [
            pa.field("exemplar_id", pa.int64(), nullable=False),
            pa.field("split", pa.string(), nullable=False),
            pa.field("part", pa.string(), nullable=False),
            pa.field("vector", pa.list_(pa.float32()), nullable=False),
        ]
    ),
    checks=(_not_empty,),
)

HISTORY = TableContract(name="history", version=3, schema=schema_of(HistoryRow), checks=(_not_empty,))

COMPARISON = TableContract(name="comparison", version=6, schema=schema_of(ComparisonRow), checks=(_not_empty,))
PREDICTIONS = TableContract(name="predictions", version=3, schema=schema_of(PredictionRow), checks=(_not_empty,))


class _DatasetSummary(TypedDict):
    task: str
    metric: str
    metric_sha256: str
    pool: int
    validation: int
    test: int
    noisy: int | None
    unused: int
    classes: Document
    notices: list[str]
    template: Document
    baseline: Document
    rubric: Document
    requirement: Document


class _BestSequence(TypedDict):
    exemplars: list[Document]
    exemplar_ids: list[int]
    instruction: str
    validation_score: float
    estimate: float
    estimate_interval: list[float]
    validation_rows: int
    k: int
    metric: str
    task: str
    template: str
    prompt: Document
    llm_model: str
    llm_endpoint: str
    llm_api: str
    request: Document


class _Seconds(TypedDict):
    total: float
    llm: float
    search: float


class _Requests(TypedDict):
    requests: int


class _SearchRequests(_Requests):
    new_requests: int
    cost_usd: float


class _SearchSummary(TypedDict):
    method: str
    seed: int
    evaluations: int
    stopped: str
    token_front: list[Document]
    share_as_good: float
    harmful_exemplars: list[Document]
    mislabelled_exemplars: list[Document]
    labels: NotRequired[Document | None]
    resumed: bool
    answered_by_function: bool
    seconds: _Seconds
    llm: _SearchRequests
    planned: Document


class _TestSummary(TypedDict):
    best: Document
    random: Document
    zero_shot: Document
    baseline: Document
    judge: Document
    requirement: Document
    llm: _Requests


class _Gate(TypedDict):
    latest: str
    refusal: str
    measured: Document
    oldest_answer: str
    llm: _Requests


class _Winner(TypedDict):
    validation_score: float
    test_score: float
    estimate: float
    estimate_interval: list[float]
    exemplar_ids: list[int]


class _RunRequests(_Requests):
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float


class _Report(TypedDict):
    method: str
    task: str
    seed: int
    best: _Winner
    verdict: Document
    baseline: Document
    published: Document
    judge: Document
    requirement: Document
    planned: Document
    evaluations: int
    llm: _RunRequests
    seconds: _Seconds
    answered_by_function: bool
    resumed: bool


class _Publication(TypedDict):
    state: str
    reason: str
    version: str
    uri: str
    gate: Document | None


class _ComparisonPlan(TypedDict):
    place: str
    started: str
    requests: int
    cells: list[Document]
    figures: Document | None


class _ComparisonCell(TypedDict):
    """Fields of a cell that failed; all others are missing."""

    task: str
    noise_ratio: float
    endpoint: str
    method: str
    repeat: int
    seed: int
    failure: str
    parameters: Document


DATASET_SUMMARY = DocumentContract(name="dataset_summary", version=5, fields=_DatasetSummary)
BEST_SEQUENCE = DocumentContract(name="best_sequence", version=3, fields=_BestSequence)
SEARCH_SUMMARY = DocumentContract(name="search_summary", version=5, fields=_SearchSummary)
TEST_SUMMARY = DocumentContract(name="test_summary", version=5, fields=_TestSummary)
GATE = DocumentContract(name="gate", version=1, fields=_Gate)
REPORT = DocumentContract(name="report", version=5, fields=_Report)
PUBLICATION = DocumentContract(name="publication", version=1, fields=_Publication)
COMPARISON_PLAN = DocumentContract(name="comparison_plan", version=3, fields=_ComparisonPlan)
COMPARISON_CELL = DocumentContract(name="comparison_cell", version=3, fields=_ComparisonCell)

TABLES = {
    each.name: each
    for each in (
        EXEMPLAR_POOL,
        POOL_TOPS,
        VALIDATION_SET,
        TEST_SET,
        INSTRUCTIONS,
        EXEMPLAR_EMBEDDINGS,
        HISTORY,
        PREDICTIONS,
        COMPARISON,
    )
}
DOCUMENTS = {
    each.name: each
    for each in (
        DATASET_SUMMARY,
        BEST_SEQUENCE,
        SEARCH_SUMMARY,
        TEST_SUMMARY,
        GATE,
        REPORT,
        PUBLICATION,
        COMPARISON_PLAN,
        COMPARISON_CELL,
    )
}
