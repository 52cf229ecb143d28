"""Which representation lets the surrogate predict scores best? `.venv/bin/python -m tests.benchmarks.representations`

Scores random sequences of a task on its validation set, trains the surrogate on the first 40, 100 and 160 of them, and
prints the rank correlation (Spearman) of its predictions with the scores of the rest, for `sequence` (the paper's),
`average` and `positional`, as a Markdown table. Scores are kept in `runs/representations`, so the command can be
stopped and started again.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars
from ease_lib.black_box.opening import open_black_box
from ease_lib.candidates.sampling import SequenceSpace
from ease_lib.config.parsing import parse_parameters
from ease_lib.embedding.opening import open_embedder
from ease_lib.evaluation.evaluator import Question
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.prompt import exemplar_text
from ease_lib.evaluation.sampling import answer_sampling
from ease_lib.running.graph import modules_between
from ease_lib.running.one_process import Artifacts
from ease_lib.seeding import rng
from ease_lib.stages.embed import read_embeddings
from ease_lib.surrogate.network import ScoreNetwork
from ease_lib.surrogate.representations import AverageRepresentation, PositionalRepresentation, SequenceRepresentation

TASKS = {
    "lr, 10 % noise": {"task": "lr", "noise_ratio": 0.1},
    "lr, 50 % noise": {"task": "lr", "noise_ratio": 0.5},
    "lp_variant, 10 % noise": {"task": "lp_variant", "noise_ratio": 0.1},
    "lp_variant, 50 % noise": {"task": "lp_variant", "noise_ratio": 0.5},
    "customer_feedback": {"task": "customer_feedback", "noise_ratio": 0.15},
}
FROM_DATA = ("sentiment_v1", "larger_animal_v1", "object_counting_v1", "ag_news_textlabel_redirect1_10_noisy")
LOCAL = ("customer_feedback", "sentiment_v1", "larger_animal_v1")
TRAINED_ON = (40, 100, 160)
MOST_TOKENS = 16
STORE = "runs/representations"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder in the Instruction Induction format, for four more tasks")
    parser.add_argument("--sequences", type=int, default=300, help="random sequences of each task (default: 300)")
    parser.add_argument("--seeds", type=int, default=2, help="seeds 0, 1, ... (default: 2)")
    parser.add_argument("--local-seeds", type=int, default=1, help="of the tasks with the slow local LLM (default: 1)")
    parser.add_argument("--precision", default="auto", help="`embedder_precision` (default: auto)")
    parser.add_argument("--no-local-llm", action="store_true", help="leave out the tasks with the local LLM")
    arguments = parser.parse_args()
    print("| Task | endpoint | " + " | ".join(f"{name}, {t}" for name in NAMES for t in TRAINED_ON) + " |")
    print("|---|---|" + "--:|" * len(NAMES) * len(TRAINED_ON))
    rows = []
    for name, values, endpoint in studied(arguments):
        seeds = arguments.local_seeds if endpoint == "local" else arguments.seeds
        values = {**values, "embedder_precision": arguments.precision}
        found = [correlations(values, endpoint, seed, arguments.sequences) for seed in range(seeds)]
        rows.append(np.mean(found, axis=0).ravel())
        print(f"| {name} | {endpoint} | " + " | ".join(f"{value:.2f}" for value in rows[-1]) + " |", flush=True)
    print("| **mean** | | " + " | ".join(f"**{value:.2f}**" for value in np.mean(rows, axis=0)) + " |")
    return 0


NAMES = ("sequence", "average", "positional")


def studied(arguments):
    """Name, parameters and endpoint of every task."""
    tasks = dict(TASKS)
    if arguments.data:
        source = {"task": "instruction_induction", "task_uri": arguments.data}
        tasks |= {name: {**source, "task_name": name} for name in FROM_DATA}
    for name, values in tasks.items():
        yield name, values, "simulated"
    for name in LOCAL if not arguments.no_local_llm else ():
        if name in tasks:
            yield name, tasks[name], "local"


def correlations(values, endpoint, seed, count):
    """(representations, sizes of training) rank correlation on unseen sequences."""
    parameters = parse_parameters({"validation_size": 20, **values, "llm_base_url": endpoint, "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        at = Artifacts(Path(folder))
        at.run(parameters, *modules_between("", "optimize"))
        pool = read_exemplars(Path(at.kept), contracts.EXEMPLAR_POOL)
        validation = read_exemplars(Path(at.validation), contracts.VALIDATION_SET)
        metric = read_document(Path(at.dataset), contracts.DATASET_SUMMARY)["metric"]
        ids = [row.exemplar_id for row in pool]
        embeddings = read_embeddings(Path(at.embeddings), ids, [row.exemplar_id for row in validation], 1)
    sequences = SequenceSpace(len(pool), 5).sample(rng(seed, "representations"), count)
    sampling = answer_sampling(pool, MOST_TOKENS)
    with open_black_box(parameters.endpoint, sampling=sampling, store_uri=STORE) as black_box:
        objective = Objective.of(black_box, validation, metric)
        asked = [Question(exemplars=[pool[position] for position in sequence]) for sequence in sequences]
        scores = np.array([objective.evaluate(question).score for question in asked])
    representations = (
        SequenceRepresentation(
            open_embedder(parameters.embedding, parameters.hardware), [exemplar_text(row) for row in pool]
        ),
        AverageRepresentation(embeddings.pool),
        PositionalRepresentation(embeddings.pool, embeddings.pool_outputs),
    )
    return [
        [correlation(representation(sequences), scores, trained_on) for trained_on in TRAINED_ON]
        for representation in representations
    ]


def correlation(features, scores, trained_on):
    network = ScoreNetwork(features.shape[1], seed=0)
    network.fit(features[:trained_on], scores[:trained_on], ridge=0.1)
    unseen = slice(max(TRAINED_ON), None)
    return np.nan_to_num(spearmanr(network.predict(features[unseen]).numpy(), scores[unseen]).statistic)


if __name__ == "__main__":
    sys.exit(main())
