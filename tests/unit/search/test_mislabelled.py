"""Exemplars whose label is contradicted by the validation rows that are like them."""

import numpy as np
import pytest

from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.mislabelled import mislabelled_exemplars
from ease_lib.search.optimizers.problem import Problem

LABELS = ("billing", "shipping", "returns")


def task(*, wrong=0, apart=3.0, pool=80, validation=90, seed=0, labels=LABELS):
    """A problem whose classes are clouds so far apart, and the ids of the exemplars whose label was changed."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(len(labels), 20))

    def rows(count):
        number = np.arange(count) % len(labels)
        points = apart * centres[number] / np.linalg.norm(centres[number], axis=1, keepdims=True)
        points += draw.normal(size=(count, 20)) * 0.5
        return points / np.linalg.norm(points, axis=1, keepdims=True), [labels[each] for each in number]

    (points, outputs), (others, expected) = rows(pool), rows(validation)
    changed = sorted(draw.choice(pool, wrong, replace=False).tolist())
    for place in changed:
        outputs[place] = labels[(labels.index(outputs[place]) + 1) % len(labels)]
    problem = Problem(
        space=SequenceSpace(pool, 3),
        representation=None,
        pool=points,
        validation=others,
        exemplars=[],
        inputs=[],
        validation_inputs=[],
        outputs=outputs,
        validation_outputs=expected,
        seed=seed,
    )
    return problem, {1000 + place for place in changed}


def listed(problem):
    return mislabelled_exemplars(problem, [1000 + place for place in range(len(problem.outputs))])


def test_changed_labels_are_found_with_the_one_that_rows_like_them_have():
    problem, changed = task(wrong=12)
    found = listed(problem)
    assert changed <= {each["exemplar_id"] for each in found}
    assert len(found) <= 16
    for each in found:
        if each["exemplar_id"] in changed:
            given = problem.outputs[each["exemplar_id"] - 1000]
            assert LABELS.index(each["suggested"]) == (LABELS.index(given) - 1) % len(LABELS)
    p_values = [each["p_value"] for each in found]
    assert p_values == sorted(p_values)


@pytest.mark.parametrize("apart", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("wrong", [8, 24])
def test_of_those_listed_a_fifth_at_most_are_right_in_the_mean(apart, wrong):
    """However well embeddings tell the labels apart."""
    shares = []
    for seed in range(30):
        problem, changed = task(wrong=wrong, apart=apart, seed=seed)
        found = {each["exemplar_id"] for each in listed(problem)}
        shares.append(len(found - changed) / max(1, len(found)))
    assert np.mean(shares) <= 0.2 + 2 * np.std(shares) / len(shares) ** 0.5


def test_where_nothing_is_wrong_the_list_is_mostly_empty():
    assert np.mean([len(listed(task(seed=seed)[0])) == 0 for seed in range(30)]) >= 0.75


def test_nothing_is_said_of_outputs_that_are_no_classes_and_of_labels_that_hardly_any_validation_row_has():
    texts = tuple(f"answer {number}" for number in range(80))
    assert listed(task(labels=texts)[0]) == []
    problem, _ = task(wrong=12, validation=9)
    assert listed(problem) == []
    problem, _ = task(labels=("only",))
    assert listed(problem) == []
