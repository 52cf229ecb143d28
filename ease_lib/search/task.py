"""Questions to an LLM and scoring of its answers, the same for search, test set and gate; the searched space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars, read_table
from ease_lib.black_box.client import Sampling, estimated_tokens
from ease_lib.black_box.layers import BlackBox
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import EVALUATED, JUDGE, EndpointConfig, OptimizerConfig
from ease_lib.digests import key_of
from ease_lib.documents import parsed
from ease_lib.embedding.embedder import Embedder
from ease_lib.embedding.exemplar_embeddings import ExemplarEmbeddings, read_embeddings
from ease_lib.errors import ConfigError
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.judge import Judge, Rubric, rubric_of
from ease_lib.evaluation.metrics import LABEL, Metric, label_metric
from ease_lib.evaluation.objective import Objective, answer_sampling
from ease_lib.evaluation.own_metric import LoadedMetric
from ease_lib.evaluation.requirement import LoadedRequirement, load_requirement
from ease_lib.evaluation.rows import passes_of_test_set
from ease_lib.prompts.baseline import Baseline, baseline_of
from ease_lib.prompts.template import PromptTemplate, exemplar_text, instruction_text
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.surrogate.representations import Representation, SequenceRepresentation, precomputed_representation
from ease_lib.search.warm_start import Names
from ease_lib.tasks.base import Exemplar

MetricOf = Callable[[str, str, str], LoadedMetric]
"""Function that loads a metric from its name, the SHA-256 of its file, and the parameter that names it."""


@dataclass(frozen=True, kw_only=True)
class ScoringIdentity:
    """Everything that decides an answer's score; part of the keys of a search and of its memory.

    Args:
        judge: None if no LLM judges.
        metric: name, and SHA-256 of its file or rubric.
        requirement: what answers must keep, as the data's summary has it; empty if nothing is required.
        failures: what becomes of rows that the endpoint refuses (`llm_failures`).
    """

    asked: LLMIdentity
    judge: LLMIdentity | None
    metric: str
    metric_sha256: str
    requirement: Mapping[str, Any]
    template: PromptTemplate
    failures: str

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the task in keys: the fields sent, the form of prompts and the scoring of answers."""
        return {
            "sent": self.asked.sent,
            "template": self.template.identity,
            "metric": [self.metric, self.metric_sha256],
            **({"judge": self.judge.sent} if self.judge else {}),
            **({"requirement": self.requirement} if self.requirement else {}),
            **({"failures": "zero"} if self.failures == "zero" else {}),  # the others leave the same scores
        }

    def subject(self, task: str) -> str:
        """Digest under which searches of a task keep their answers for the next search."""
        return key_of([task, self.identity])


@dataclass(frozen=True, kw_only=True)
class ScoredTask:
    """A task with its prompt, metric and rows.

    Args:
        pool: exemplars that prompts may show.
        summary: what `build_dataset` says of the data.
    """

    pool: list[Exemplar]
    summary: Mapping[str, Any]
    metric: Metric
    requirement: LoadedRequirement | None = None

    @cached_property
    def template(self) -> PromptTemplate:
        return PromptTemplate.of(self.summary["template"])

    @property
    def of_program(self) -> bool:
        """Whether a program receives rows, in place of an LLM that receives prompts."""
        return bool(self.summary["metric"] == EVALUATED)

    @cached_property
    def baseline(self) -> Baseline | None:
        return baseline_of(self.summary)

    @cached_property
    def rubric(self) -> Rubric | None:
        """Rubric of the judge that reads answers; None without a judge."""
        return rubric_of(self.summary)

    @property
    def answer_requests(self) -> int:
        """Number of requests for one answer: the LLM's, and the judge's if one reads it."""
        return 2 if self.rubric else 1

    @property
    def test_requests(self) -> int:
        """Requests that the stage `evaluate` will send."""
        return passes_of_test_set(self.baseline) * int(self.summary["test"]) * self.answer_requests

    def sampling(self, endpoint: EndpointConfig, template: PromptTemplate | None = None) -> Sampling:
        """Sampling of answers."""
        return answer_sampling(self.pool, endpoint, template or self.template, self.baseline)

    def objective(
        self,
        black_box: BlackBox,
        rows: Sequence[Exemplar],
        template: PromptTemplate | Baseline | None = None,
        *,
        most_zeros: int = 0,
        on_row: Callable[[], None] = lambda: None,
    ) -> Objective:
        """F on these rows, by default with prompts written by the task's own template."""
        evaluator = Evaluator(
            black_box.client,
            rows,
            metric=self.metric,
            failures=black_box.failures,
            template=template or self.template,
            requirement=self.requirement,
            judge=Judge(black_box.judge.client, self.rubric) if black_box.judge and self.rubric else None,
            judge_scores=self.summary["metric"] == JUDGE,
            most_zeros=most_zeros,
            on_row=on_row,
        )
        return Objective(evaluator, black_box.loop)

    def scored(self, black_box: BlackBox) -> ScoringIdentity:
        """All that decides the score of an answer of this LLM."""
        return ScoringIdentity(
            asked=black_box.asked,
            judge=black_box.judge.asked if black_box.judge else None,
            metric=self.summary["metric"],
            metric_sha256=self.summary["metric_sha256"],
            requirement=self.summary["requirement"],
            template=self.template,
            failures=black_box.failures.kind,
        )

    def exemplar_tokens(self, exemplar: Exemplar) -> int:
        """Estimated tokens that an exemplar adds to a prompt."""
        return estimated_tokens(self.template.exemplar(exemplar) + self.template.between)

    def query_tokens(self, row: Exemplar, instruction: str) -> int:
        """Estimated tokens of a row's prompt without exemplars."""
        return estimated_tokens(self.template.render([], row, instruction))

    def exemplars(self, positions: Sequence[int]) -> list[Exemplar]:
        """The exemplars at these positions of the pool, in their order."""
        return [self.pool[position] for position in positions]


def read_task(pool: str, summary: str, metric_of: MetricOf) -> ScoredTask:
    """Read a task from the files of these artifacts.

    Raises:
        ConfigError: when a file of metric or requirement is not the one that the data was made with.
    """
    said = read_document(Path(summary), contracts.DATASET_SUMMARY)
    exemplars = read_exemplars(Path(pool), contracts.EXEMPLAR_POOL)

    def of_this_task(name: str, sha256: str, parameter: str) -> LoadedMetric:
        if name == LABEL:
            return LoadedMetric(label_metric((*said["classes"], *(each for row in exemplars for each in row.outputs))))
        return metric_of(name, sha256, parameter)

    required = said["requirement"]
    return ScoredTask(
        pool=exemplars,
        summary=said,
        metric=of_this_task(said["metric"], said["metric_sha256"], "metric").score,
        requirement=load_requirement(required["text"], of_this_task, required["sha256"]) if required else None,
    )


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The instructions of a run, the empty one first, and what their proposal cost."""

    texts: list[str]
    usage: Usage
    new_requests: int


def read_instructions(path: Path) -> Instructions:
    """Read the instructions that the stage `propose_instructions` wrote."""
    table = read_table(path, contracts.INSTRUCTIONS)
    metadata = table.schema.metadata or {}
    return Instructions(
        texts=table["text"].to_pylist(),
        usage=parsed(Usage, metadata[b"usage"]),
        new_requests=int(metadata[b"new_requests"]),
    )


@dataclass(frozen=True, kw_only=True)
class SearchTask:
    """Pool that a search chooses from, and the rows that guide it.

    Args:
        files: pool and validation set, whose content is part of the search's key.
    """

    asked: ScoredTask
    validation: list[Exemplar]
    instructions: Instructions
    embeddings: ExemplarEmbeddings
    files: tuple[Path, ...]

    @property
    def pool(self) -> list[Exemplar]:
        return self.asked.pool

    @property
    def name(self) -> str:
        return str(self.asked.summary["task"])

    @property
    def ids(self) -> list[int]:
        return [row.exemplar_id for row in self.pool]

    @property
    def row_ids(self) -> list[int]:
        return [row.exemplar_id for row in self.validation]

    @property
    def names(self) -> Names:
        """Digests of all texts on which answers of a search depend."""
        return Names.of(self.pool, self.validation, self.instructions.texts)

    def space(self, settings: OptimizerConfig) -> SequenceSpace:
        """The sequences that the search chooses from.

        Raises:
            ConfigError: when k exceeds the pool, or `max_prompt_tokens` leaves no place for exemplars.
        """
        if not settings.max_prompt_tokens:
            return SequenceSpace(len(self.pool), settings.k, settings.shortest)
        tokens = np.array([self.asked.exemplar_tokens(row) for row in self.pool])
        longest = max(
            self.asked.query_tokens(row, instruction)
            for row in self.validation
            for instruction in self.instructions.texts
        )
        most = settings.max_prompt_tokens - longest
        if most < (np.sort(tokens)[: settings.shortest].sum() if settings.shortest else 0):
            raise ConfigError(
                f"max_prompt_tokens={settings.max_prompt_tokens} leaves {most} tokens for {settings.shortest} "
                f"exemplars next to a query of {longest}; raise it, or lower k or k_min"
            )
        return SequenceSpace(len(self.pool), settings.k, settings.shortest, tokens, most)

    def representation(self, settings: OptimizerConfig, open_embedder: Callable[[], Embedder]) -> Representation:
        """h: the representation of a sequence for the surrogate.

        Args:
            open_embedder: the embedder, which whole sequences alone need.
        """
        if settings.representation == "sequence":
            texts = [exemplar_text(row) for row in self.pool]
            return SequenceRepresentation(open_embedder(), texts, list(map(instruction_text, self.instructions.texts)))
        return precomputed_representation(
            settings.representation,
            self.embeddings.pool,
            self.embeddings.pool_outputs,
            self.embeddings.instructions,
            varies_length=settings.shortest < settings.k,
        )

    def problem(self, space: SequenceSpace, representation: Representation | None, **more: Any) -> Problem:
        """The problem for an optimizer; `more` are other fields of `Problem`."""
        return Problem(
            space=space,
            representation=representation,
            pool=self.embeddings.pool,
            validation=self.embeddings.validation,
            exemplars=[exemplar_text(row) for row in self.pool],
            inputs=[row.input for row in self.pool],
            validation_inputs=[row.input for row in self.validation],
            outputs=[row.output for row in self.pool],
            validation_outputs=[row.output for row in self.validation],
            instructions=len(self.instructions.texts),
            **more,
        )

    def question(self, prompt: Prompt, rows: Sequence[int], account: str) -> Question:
        """Questions of a prompt for the validation rows at these positions."""
        instruction, sequence = prompt
        return Question(
            exemplars=self.asked.exemplars(sequence),
            instruction=self.instructions.texts[instruction],
            account=account,
            rows=rows,
        )

    def prompt_tokens(self, prompt: Prompt) -> int:
        """Estimated number of tokens in a prompt without the texts of its query."""
        instruction, sequence = prompt
        template = self.asked.template
        blank = Exemplar(-1, "", (), fields=tuple((column, "") for column in template.columns))
        shown = self.asked.exemplars(sequence)
        return estimated_tokens(template.render(shown, blank, self.instructions.texts[instruction]))


def read_search_task(
    pool: str, validation: str, summary: str, instructions: str, embeddings: str, metric_of: MetricOf
) -> SearchTask:
    """Read a search task from the files of these artifacts; raises the errors of `read_task`."""
    asked = read_task(pool, summary, metric_of)
    rows = read_exemplars(Path(validation), contracts.VALIDATION_SET)
    texts = read_instructions(Path(instructions))
    pool_ids, row_ids = ([row.exemplar_id for row in each] for each in (asked.pool, rows))
    return SearchTask(
        asked=asked,
        validation=rows,
        instructions=texts,
        embeddings=read_embeddings(Path(embeddings), pool_ids, row_ids, len(texts.texts)),
        files=(Path(pool), Path(validation)),
    )
