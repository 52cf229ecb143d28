"""Study of the causes of differences between a task's sequences, and of what can be learnt from answers.

Random sequences are asked many validation rows, once and through the cache. Everything is then compared by replay, on
sequences and rows that it was not told of: half of the rows are for learning, the others for judging.
"""

from __future__ import annotations

import logging
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars
from ease_lib.black_box.budget_ledger import SEARCH
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import Parameters
from ease_lib.embedding.exemplar_embeddings import ExemplarEmbeddings, read_embeddings
from ease_lib.embedding.opening import open_embedder
from ease_lib.errors import ConfigError
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.judge import Judge, rubric_of
from ease_lib.evaluation.objective import Objective, answer_sampling
from ease_lib.evaluation.rows import row_order
from ease_lib.prompts.template import PromptTemplate, exemplar_text, instruction_text
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.running.run import Run, open_host, open_run, run_of
from ease_lib.search.candidates.prompts import Prompts
from ease_lib.search.candidates.sampling import Positions, SequenceSpace, as_tuples
from ease_lib.search.optimizers.adaptive import Halving, components_of
from ease_lib.search.optimizers.history import Observation
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.surrogate.answer_model import AnswerModel
from ease_lib.search.surrogate.answers import Answers, fitted_model
from ease_lib.search.surrogate.network import ScoreNetwork
from ease_lib.search.surrogate.representations import Representation, SequenceRepresentation, precomputed_representation
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar
from ease_lib.tasks.splits import classes_of

logger = logging.getLogger("ease")

FEWEST_ROWS = 20
LEARNT_FROM = (40, 80)
"""Sequences that a surrogate is told of."""
ROWS_OF_AN_EVALUATION = 20
SPLITS = 5
"""Into sequences to learn from and to judge by."""
SEARCHES = 20
"""Replayed searches, of whose winners the mean is shown."""
Z_90 = 1.644854


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Sequences and what they were answered.

    Args:
        scores: (s, r) of each sequence and row; NaN where a row was refused.
    """

    problem: Problem
    representations: dict[str, Representation]
    sequences: tuple[Positions, ...]
    scores: NDArray[np.float64]
    model: str
    task: str

    @property
    def learning(self) -> list[int]:
        """Rows to learn from: every other one of each class."""
        return self._halves[0]

    @property
    def judging(self) -> list[int]:
        """The others."""
        return self._halves[1]

    @cached_property
    def _halves(self) -> tuple[list[int], list[int]]:
        outputs = self.problem.validation_outputs
        classes = classes_of(outputs)
        halves: tuple[list[int], list[int]] = ([], [])
        seen: Counter[str] = Counter()
        for row, output in enumerate(outputs):
            label = output if output in classes else ""
            halves[seen[label] % 2].append(row)
            seen[label] += 1
        return halves


def answered(parameters: Parameters, sequences: int, rows: int) -> Answered:
    """Ask random sequences of one exemplar or more that many validation rows, at most those there are.

    Raises:
        ConfigError: when the validation set is too small.
        EndpointError: when an answer could not be had.
    """
    with open_host() as host, open_run(host, *run_of(parameters)) as run:
        return _answered(parameters, sequences, rows, run)


def _answered(parameters: Parameters, sequences: int, rows: int, run: Run) -> Answered:
    settings, seed = parameters.optimizer, parameters.run.seed
    data = prepared(parameters, run)
    rows = min(rows, len(data.validation))
    if rows < FEWEST_ROWS:
        raise ConfigError(f"{rows} validation rows are too few for a study; raise validation_size to {FEWEST_ROWS}")
    rubric, cap = rubric_of(data.dataset), parameters.caps.max_llm_requests
    asked_for = sequences * rows * (2 if rubric else 1)
    if cap and asked_for > cap:
        raise ConfigError(
            f"max_llm_requests={cap} is fewer than the {asked_for} of {sequences} sequences and {rows} rows; raise it, "
            "or lower --sequences or --rows"
        )
    space = SequenceSpace(len(data.pool), settings.k, max(1, settings.shortest))
    drawn = tuple(dict.fromkeys(as_tuples(space.sample(rng(seed, "study"), sequences))))
    order = row_order([row.output for row in data.validation], seed)[:rows]
    asked = [data.validation[position] for position in order]
    template = PromptTemplate.of(data.dataset["template"])
    metric = run.metric(data.dataset["metric"], data.dataset["metric_sha256"]).score
    sampling = answer_sampling(data.pool, parameters.endpoint, template)
    with run.llm(parameters, sampling, SEARCH, judged=rubric) as black_box:
        black_box.meter.allow_beside(Usage())
        judge = Judge(black_box.judge.client, rubric) if black_box.judge and rubric else None
        evaluator = Evaluator(
            black_box.client, asked, metric=metric, failures=black_box.failures, template=template, judge=judge
        )
        objective = Objective(evaluator, black_box.loop)
        scores = np.full((len(drawn), rows), math.nan)
        for number, sequence in enumerate(drawn):
            evaluation = objective.evaluate(
                Question(exemplars=[data.pool[position] for position in sequence], rows=range(rows), whole=True)
            )
            scores[number] = [math.nan if score is None else score for score in evaluation.scores]
            if (number + 1) % max(1, len(drawn) // 20) == 0:
                logger.info("%d of %d sequences asked %d rows each", number + 1, len(drawn), rows)
        model = black_box.asked.model
    representations = _representations(parameters, data, space, run)
    return Answered(
        problem=_problem(data, space, representations["network, positional"], asked, seed),
        representations=representations,
        sequences=drawn,
        scores=scores,
        model=model,
        task=data.dataset["task"],
    )


@dataclass(frozen=True, kw_only=True)
class Data:
    """Outputs of the stages before the search."""

    pool: list[Exemplar]
    validation: list[Exemplar]
    dataset: dict[str, Any]
    embeddings: ExemplarEmbeddings


def prepared(parameters: Parameters, run: Run) -> Data:
    with tempfile.TemporaryDirectory() as folder:
        at = Workspace(Path(folder))
        at.run(parameters, run, *modules_between("", "optimize"))
        pool = read_exemplars(Path(at.kept), contracts.EXEMPLAR_POOL)
        validation = read_exemplars(Path(at.validation), contracts.VALIDATION_SET)
        pool_ids, validation_ids = ([row.exemplar_id for row in split] for split in (pool, validation))
        return Data(
            pool=pool,
            validation=validation,
            dataset=read_document(Path(at.summary), contracts.DATASET_SUMMARY),
            embeddings=read_embeddings(Path(at.embeddings), pool_ids, validation_ids, 1),
        )


def _representations(parameters: Parameters, data: Data, space: SequenceSpace, run: Run) -> dict[str, Representation]:
    """Representations by the name that tables show."""
    embedder = open_embedder(parameters.embedding, parameters.hardware, notes=run.notes)
    whole = SequenceRepresentation(embedder, [exemplar_text(row) for row in data.pool], [instruction_text("")])
    precomputed = {
        f"network, {name}": precomputed_representation(
            name,
            data.embeddings.pool,
            data.embeddings.pool_outputs,
            data.embeddings.instructions,
            varies_length=space.lengths.start < space.k,
        )
        for name in ("positional", "average")
    }
    return {"network, sequence": whole, **precomputed}


def _problem(
    data: Data, space: SequenceSpace, representation: Representation, asked: Sequence[Exemplar], seed: int
) -> Problem:
    return Problem(
        space=space,
        representation=representation,
        pool=data.embeddings.pool,
        validation=data.embeddings.validation,
        exemplars=[exemplar_text(row) for row in data.pool],
        inputs=[row.input for row in data.pool],
        validation_inputs=[row.input for row in asked],
        outputs=[row.output for row in data.pool],
        validation_outputs=[row.output for row in asked],
        seed=seed,
    )


def study_text(data: Answered) -> str:
    """All tables, as Markdown."""
    logger.info("computing what can be learnt from the answers")
    s, r = data.scores.shape
    parts = [
        f"# {data.task}, {data.model}: {s} random sequences x {r} rows\n",
        f"Mean score {np.nanmean(data.scores):.3f}; the sequences' means have a standard deviation of "
        f"{np.nanmean(data.scores, axis=1).std():.3f}, of which {_luck(data):.3f} is luck.\n",
        *_variance_table(data),
        *_prediction_table(data),
        *_search_table(data),
    ]
    return "\n".join(parts) + "\n"


def _luck(data: Answered) -> float:
    """Standard deviation of a mean over so many rows, by the rows of each sequence."""
    return float(np.sqrt(np.nanmean(np.nanvar(data.scores, axis=1, ddof=1)) / data.scores.shape[1]))


def _variance_table(data: Answered) -> Iterator[str]:
    answers = _told(data, range(len(data.sequences)), [range(data.scores.shape[1])] * len(data.sequences))
    variances = fitted_model(components_of(data.problem), answers).variances
    yield "## What makes answers differ\n"
    yield "| Component | standard deviation | share of the variance between sequences |\n|---|--:|--:|"
    for name, variance in sorted(variances.components.items(), key=lambda each: -each[1]):
        yield f"| {name} | {variance**0.5:.3f} | {100 * variance / variances.sequences:.0f} % |"
    yield f"| **sequences** | **{variances.sequences**0.5:.3f}** | |"
    yield f"| rows | {variances.rows**0.5:.3f} | |"
    yield f"| noise of an answer | {variances.noise**0.5:.3f} | |\n"


def _prediction_table(data: Answered) -> Iterator[str]:
    """Rank correlation on sequences and rows that were not told, and how often 90 % intervals hold there."""
    told = [count for count in LEARNT_FROM if count < len(data.sequences) - FEWEST_ROWS] or [len(data.sequences) // 2]
    yield "## Rank correlation on unseen sequences and unseen rows\n"
    yield f"| Surrogate | {' | '.join(f'{count} sequences' for count in told)} |\n|---|{'--:|' * len(told)}"
    for name in data.representations:
        yield _row(name, [_mean(_by_network(data, name, count, split) for split in range(SPLITS)) for count in told])
    for rows in (ROWS_OF_AN_EVALUATION, 4):
        found = [[_by_model(data, count, rows, split) for split in range(SPLITS)] for count in told]
        yield _row(f"answers, {rows} rows of each", [_mean(rank for rank, _ in each) for each in found])
        if rows == ROWS_OF_AN_EVALUATION:
            inside = [_mean(share for _, share in each) for each in found]
    yield _row("90 % intervals of answers that hold", inside) + "\n"


def _split(data: Answered, told: int, split: int) -> tuple[list[int], list[int]]:
    order = rng(data.problem.seed, "study split", split).permutation(len(data.sequences)).tolist()
    return order[:told], order[told:]


def _by_network(data: Answered, name: str, told: int, split: int) -> float:
    learnt, judged = _split(data, told, split)
    rows = data.learning[:ROWS_OF_AN_EVALUATION]
    prompts = Prompts.of([(0, sequence) for sequence in data.sequences], data.problem.space.k)
    features = data.representations[name](prompts.sequences, prompts.instructions)
    network = ScoreNetwork(features.shape[1], seed=0)
    network.fit(features[learnt], np.nanmean(data.scores[np.ix_(learnt, rows)], axis=1), ridge=0.1)
    return _rank(network.predict(features[judged]).numpy(), _judged(data, judged))


def _by_model(data: Answered, told: int, rows: int, split: int) -> tuple[float, float]:
    """Rank correlation, and the share of 90 % intervals that hold."""
    learnt, judged = _split(data, told, split)
    half = data.learning
    rows = min(rows, len(half))
    windows = [[half[(number * rows + step) % len(half)] for step in range(rows)] for number in range(told)]
    model = _model(data, learnt, windows)
    means, variances = model.predict([(0, data.sequences[number]) for number in judged])
    unseen = data.scores[np.ix_(judged, data.judging)]
    luck = np.nanvar(unseen, axis=1) / unseen.shape[1] + model.variances.rows / unseen.shape[1]
    truth = _judged(data, judged)
    return _rank(means, truth), float(np.mean(np.abs(means - truth) < Z_90 * np.sqrt(variances + luck)))


def _search_table(data: Answered) -> Iterator[str]:
    """Mean score on unseen rows of what searches among these sequences end with."""
    best = float(np.nanmean(data.scores[:, data.judging], axis=1).max())
    budgets = [budget for budget in (400, 800, 1600) if budget <= len(data.sequences) * len(data.learning)]
    if not budgets:
        return
    yield "## Searches among these sequences: score of the winner on unseen rows\n"
    yield f"| Search | {' | '.join(f'{budget} answers' for budget in budgets)} |\n|---|{'--:|' * len(budgets)}"
    methods = {"best of n, 20 rows": _best_of_n, "halving": _halving}
    for name, search in methods.items():
        found = [[search(data, budget, seed) for seed in range(SEARCHES)] for budget in budgets]
        yield _row(name, [_mean(_judged(data, winners)) for winners in found])
    yield _row("random", [_mean(_judged(data, range(len(data.sequences))))] * len(budgets))
    yield f"\nThe best of all on those rows, by chance too, has {best:.3f}."


def _best_of_n(data: Answered, budget: int, seed: int) -> int:
    drawn = rng(seed, "best of n").permutation(len(data.sequences))[: budget // ROWS_OF_AN_EVALUATION].tolist()
    rows = data.learning[:ROWS_OF_AN_EVALUATION]
    return int(drawn[np.argmax(np.nanmean(data.scores[np.ix_(drawn, rows)], axis=1))])


def _halving(data: Answered, budget: int, seed: int) -> int:
    space = _Listed(data.problem.space.n, data.problem.space.k, 1, listed=data.sequences)
    outputs = [data.problem.validation_outputs[row] for row in data.learning]
    problem = replace(data.problem, space=space, validation_outputs=outputs, seed=seed, answers=budget)
    optimizer, numbers = Halving(problem, challenged=False), {each: n for n, each in enumerate(data.sequences)}
    iteration = 0
    while (candidate := optimizer.ask(iteration)) is not None:
        row = data.scores[numbers[candidate.sequence]]
        scores = tuple(
            None if math.isnan(score) else score for score in row[[data.learning[p] for p in candidate.rows]]
        )
        known = [score for score in scores if score is not None]
        optimizer.tell(
            Observation(
                candidate=candidate,
                score=sum(known) / max(1, len(known)),
                validation_rows=len(known),
                rows=candidate.rows,
                scores=scores,
            )
        )
        iteration += 1
    recommended = optimizer.recommend()
    return numbers[recommended.candidate.sequence] if recommended else 0


@dataclass(frozen=True)
class _Listed(SequenceSpace):
    """Nothing but the sequences that were asked."""

    listed: tuple[Positions, ...] = ()

    def draw(self, seed: int, iteration: int, seen: object) -> Positions | None:
        order = rng(seed, "listed").permutation(len(self.listed))
        return next((self.listed[number] for number in order if self.listed[number] not in seen), None)  # type: ignore[operator]


def _model(data: Answered, numbers: Sequence[int], rows: Sequence[Sequence[int]]) -> AnswerModel:
    return fitted_model(components_of(data.problem), _told(data, numbers, rows))


def _told(data: Answered, numbers: Sequence[int], rows: Sequence[Sequence[int]]) -> Answers:
    answers = Answers()
    for number, asked in zip(numbers, rows, strict=True):
        scores = [None if math.isnan(score) else float(score) for score in data.scores[number, list(asked)]]
        answers.add((0, data.sequences[number]), list(asked), scores)
    return answers


def _judged(data: Answered, numbers: Sequence[int]) -> NDArray[np.float64]:
    """Mean scores on the rows that nothing was learnt from."""
    return np.asarray(np.nanmean(data.scores[np.ix_(list(numbers), data.judging)], axis=1))


def _rank(predicted: NDArray[np.floating], truth: NDArray[np.floating]) -> float:
    return float(np.nan_to_num(spearmanr(predicted, truth).statistic))


def _mean(values: Iterator[float] | NDArray[np.float64]) -> float:
    return float(np.mean(list(values)))


def _row(name: str, values: Sequence[float]) -> str:
    logger.info("computed: %s", name)
    return f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |"
