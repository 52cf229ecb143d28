"""The result of a run for programs: the winning prompt for any query, its scores, and its origin."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.result_files import BEST_SEQUENCE, HARMFUL, HISTORY, MISLABELLED, PAGE, REPORT
from ease_lib.artifacts.store import Store, open_store
from ease_lib.artifacts.tables import read_exemplars, table_of
from ease_lib.black_box.client import content_of
from ease_lib.digests import sha256_of
from ease_lib.errors import DataError, EaseError
from ease_lib.lineage.chain import Chain, Step, follow
from ease_lib.lineage.publishing.versions import read_latest
from ease_lib.prompts.messages import Handed, as_text, messages_of
from ease_lib.prompts.template import INPUT, PromptTemplate
from ease_lib.prompts.winner import blank_prompt, exemplar_of
from ease_lib.tasks.base import Exemplar

Query = str | Mapping[str, Any]
"""The text of an input, or the columns of a row that the prompt names."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The winner of a run.

    Args:
        best: `best_sequence.json`.
        report: `report.json`; all numbers. Scores are in [0, 1], times in seconds, costs in USD.
        history: an entry for every evaluation, in order.
        harmful: rows of the pool that make prompts worse, the surest first.
        mislabelled: rows of the pool whose label rows like them contradict, the surest first.
        page: the report as HTML.
        test_rows: those that the test score is of; none where they cannot be found any more.
        lineage_sha256: of the record of the stage that the result is of; empty if there is none.
        dataset: the summary of the data, as the records say it; empty if they cannot be followed.
    """

    best: Mapping[str, Any]
    report: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    harmful: Sequence[Mapping[str, Any]]
    mislabelled: Sequence[Mapping[str, Any]]
    page: str
    test_rows: Sequence[Exemplar] = ()
    lineage_sha256: str = ""
    dataset: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The verdict and the scores; the prompt is `prompt`, all numbers are in `report`."""
        low, high = self.test_interval
        scores = f"test score {self.test_score:.3f} ({low:.3f} to {high:.3f}), expected {self.expected_score:.3f}"
        return f"{self.verdict}\n{scores}, {len(self.best['exemplars'])} exemplars"

    def __repr__(self) -> str:
        return f"<Result of {self.best['task']}: test score {self.test_score:.3f}, {len(self.history)} evaluations>"

    @classmethod
    def read(cls, place: str | Path) -> Result:
        """Read the result of a run, of a published version, or of the latest of several published versions.

        Args:
            place: a path or s3://.

        Raises:
            DataError: when no result is there.
            StoreError: when it cannot be read.
        """
        uri = str(place)
        store = open_store(uri)
        folder = "" if store.read(BEST_SEQUENCE) is not None else _version_folder(store)
        if folder is None:
            raise DataError(f"{uri} holds no result: there is no {BEST_SEQUENCE}; name the folder of a finished run")
        files = {name: store.read(folder + name) for name in (BEST_SEQUENCE, REPORT, HISTORY, HARMFUL, PAGE)}
        missing = [name for name, content in files.items() if content is None]
        if missing:
            raise DataError(f"{uri} is not a complete result: {missing[0]} is missing; run it again")
        best = _document(files, BEST_SEQUENCE, uri)
        contracts.BEST_SEQUENCE.check(best, f"{uri}/{BEST_SEQUENCE}")
        report = _document(files, REPORT, uri)
        if not isinstance(report.get("best"), dict) or not isinstance(report.get("verdict"), dict):
            raise DataError(f"{uri}/{REPORT} is damaged; run it again")
        test_rows, dataset, sha256 = _recorded(f"{store.uri.rstrip('/')}/{folder}".rstrip("/"))
        return cls(
            best=best,
            report=report,
            history=table_of(files[HISTORY] or b"").to_pylist(),
            harmful=json.loads(files[HARMFUL] or b""),
            mislabelled=json.loads(store.read(folder + MISLABELLED) or b"[]"),  # older results have none
            page=(files[PAGE] or b"").decode(),
            test_rows=test_rows,
            lineage_sha256=sha256,
            dataset=dataset,
        )

    def messages(self, query: Query) -> list[dict[str, str]]:
        """Messages for a chat endpoint for a query, as they were sent in the search.

        Raises:
            DataError: when the query lacks a column that the prompt names.
        """
        return messages_of(self.rendered(query))

    def prompt(self, query: Query) -> str:
        """The prompt as one text: for a completions endpoint, or for people if it is several messages."""
        return as_text(self.rendered(query))

    def request(self, query: Query) -> dict[str, Any]:
        """The whole request, as keyword arguments of `openai`, with the sampling that the scores were measured with."""
        return {**content_of(self.rendered(query), self.best["llm_api"]), **self.best["request"]}

    @property
    def exemplars(self) -> list[dict[str, Any]]:
        """Exemplars in their order: `input`, `outputs`, and `fields` for columns that the prompt names.

        Of a program (`evaluate`) they are what it is given.
        """
        blank = blank_prompt(self.best)
        if isinstance(blank, Handed):
            return blank.given[0]
        return [dict(entry) for entry in self.best["exemplars"]]

    @property
    def instruction(self) -> str:
        return str(self.best["instruction"])

    @property
    def verdict(self) -> str:
        """Sentence that tells whether the winner is better than random exemplars and no exemplars."""
        return str(self.report["verdict"]["text"])

    @property
    def test_score(self) -> float:
        """Mean score on rows that no part of the search has seen."""
        return float(self.report["best"]["test_score"])

    @property
    def test_interval(self) -> tuple[float, float]:
        """95 % of it."""
        low, high = self.report["best"]["test_interval"]
        return low, high

    @property
    def expected_score(self) -> float:
        """Score that the search expects on new rows, corrected for selection."""
        return float(self.best["estimate"])

    @property
    def expected_interval(self) -> tuple[float, float]:
        """95 % of it."""
        low, high = self.best["estimate_interval"]
        return low, high

    def query(self, row: Exemplar) -> dict[str, str]:
        """A row of the test set, in the form for `messages`."""
        return {INPUT: row.input, **dict(row.fields)}

    @cached_property
    def _template(self) -> PromptTemplate:
        return PromptTemplate.of(self.best["prompt"])

    @property
    def query_fields(self) -> tuple[str, ...]:
        """Fields that a query must have."""
        return self._template.query_fields

    def rendered(self, query: Query) -> str:
        """The prompt in the form of the search: a text, or a `Chat`.

        Raises:
            DataError: when the query lacks a column, or the run wrote no prompts.
        """
        if self._template.of_program:
            raise DataError("this run searched for a program, which writes its own prompts; pass `exemplars` to it")
        columns = {INPUT: query} if isinstance(query, str) else {name: str(value) for name, value in query.items()}
        missing = [name for name in self.query_fields if name not in columns]
        if missing:
            raise DataError(f"the query lacks {missing[0]}; the prompt needs {', '.join(self.query_fields)}")
        fields = tuple((name, columns.get(name, "")) for name in self._template.columns)
        row = Exemplar(-1, columns.get(INPUT, ""), (), fields=fields)
        return self._template.render(list(map(exemplar_of, self.best["exemplars"])), row, self.instruction)

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        low, high = self.test_interval
        return (
            f"<p><b>{escape(self.verdict)}</b><br>test score {self.test_score:.3f} ({low:.3f} to {high:.3f}), "
            f"expected {self.expected_score:.3f}</p><pre>{escape(as_text(blank_prompt(self.best)))}</pre>"
        )


def _document(files: Mapping[str, bytes | None], name: str, uri: str) -> dict[str, Any]:
    try:
        read = json.loads(files[name] or b"")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{uri}/{name} is damaged; run it again") from error
    if not isinstance(read, dict):
        raise DataError(f"{uri}/{name} is damaged; run it again")
    return read


def _version_folder(store: Store) -> str | None:
    latest = read_latest(store)
    return f"versions/{latest.version}/" if latest else None


def _recorded(folder: str) -> tuple[list[Exemplar], dict[str, Any], str]:
    """The test set, the summary of the data, and the digest of the report's record, as far as they can be found."""
    try:
        chain = follow(folder)
    except EaseError:
        return [], {}, ""
    report, dataset = chain.step_of("report"), chain.step_of("build_dataset")
    summary = _made(chain, dataset, "summary")
    recorded = [part["sha256"] for part in dataset.record["outputs"] if part["name"] == "summary"] if dataset else []
    said = json.loads(summary) if sha256_of(summary) in recorded else {}
    if said:  # all labels that the search knew
        kept = _rows_of(_made(chain, chain.step_of("prefilter"), "kept"), contracts.EXEMPLAR_POOL)
        said["labels"] = sorted({*said["classes"], *(output for row in kept for output in row.outputs)})
    return _rows_of(_made(chain, dataset, "test"), contracts.TEST_SET), said, report.sha256 if report else ""


def _made(chain: Chain, step: Step | None, name: str) -> bytes:
    """An artifact; empty if it is gone."""
    try:
        return chain.output(step, name) if step else b""
    except EaseError:
        return b""


def _rows_of(content: bytes, contract: contracts.TableContract) -> list[Exemplar]:
    if not content:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        path.write_bytes(content)
        return list(read_exemplars(path, contract))
