"""Exemplars whose label is contradicted by the validation rows that are like them."""

import numpy as np
import pytest

from ease_lib.search.mislabelled import checked_labels

LABELS = ("billing", "shipping", "returns")


def task(*, wrong=0, apart=3.0, pool=80, validation=90, seed=0, labels=LABELS):
    """Pool and validation set whose classes are clouds so far apart, and the ids of exemplars with a changed label."""
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
    problem = {"pool": points, "outputs": outputs, "validation": others, "validation_outputs": expected}
    return problem, {1000 + place for place in changed}


def listed(problem):
    found = checked_labels(**problem, ids=[1000 + place for place in range(len(problem["outputs"]))])
    return found.listed if found else []


def test_changed_labels_are_found_with_the_one_that_rows_like_them_have():
    problem, changed = task(wrong=12)
    found = listed(problem)
    assert len(changed & {each["exemplar_id"] for each in found}) >= 11
    assert len(found) <= 14
    for each in found:
        if each["exemplar_id"] in changed:
            given = problem["outputs"][each["exemplar_id"] - 1000]
            assert LABELS.index(each["suggested"]) == (LABELS.index(given) - 1) % len(LABELS)
    probabilities = [each["probability"] for each in found]
    assert probabilities == sorted(probabilities, reverse=True)


@pytest.mark.parametrize(("pool", "validation"), [(60, 50), (60, 90), (100, 90), (500, 50), (500, 200)])
def test_half_of_the_wrong_labels_are_found_in_small_tables_too(pool, validation):
    """Conformal p-values end at 1 in so many validation rows, which no list of a small table can pass."""
    found, false = [], []
    for seed in range(12):
        problem, changed = task(wrong=pool * 15 // 100, apart=2.0, pool=pool, validation=validation, seed=seed)
        ids = {each["exemplar_id"] for each in listed(problem)}
        found.append(len(ids & changed) / len(changed))
        false.append(len(ids - changed) / max(1, len(ids)))
    assert np.mean(found) >= 0.5
    assert np.mean(false) <= 0.1


@pytest.mark.parametrize("apart", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("wrong", [8, 24])
def test_of_those_listed_a_tenth_at_most_are_right_on_average(apart, wrong):
    """However well embeddings tell the labels apart."""
    shares = []
    for seed in range(20):
        problem, changed = task(wrong=wrong, apart=apart, seed=seed)
        found = {each["exemplar_id"] for each in listed(problem)}
        shares.append(len(found - changed) / max(1, len(found)))
    assert np.mean(shares) <= 0.1 + 2 * np.std(shares) / len(shares) ** 0.5


def test_nothing_is_listed_that_is_as_likely_right():
    """If many labels are surely wrong, a tenth of the list is free, and was once filled with surely right ones."""
    for seed in range(5):
        problem, _ = task(wrong=78, pool=300, seed=seed)
        for each in listed(problem):
            assert each["probability"] > 0.5
            assert each["suggested"] != problem["outputs"][each["exemplar_id"] - 1000]


def test_where_nothing_is_wrong_the_list_is_mostly_empty():
    assert np.mean([len(listed(task(seed=seed)[0])) == 0 for seed in range(20)]) >= 0.75


def test_how_many_are_wrong_is_estimated_where_they_cannot_be_listed():
    problem, _ = task(wrong=24, apart=1.0)
    found = checked_labels(**problem, ids=range(80))
    assert 12 < found.expected_wrong < 40
    assert 0.5 < found.told_apart < 1
    assert found.judged == 80


def test_nothing_is_said_of_outputs_that_are_no_classes_and_of_labels_that_hardly_any_validation_row_has():
    texts = tuple(f"answer {number}" for number in range(80))
    assert listed(task(labels=texts)[0]) == []
    problem, _ = task(wrong=12, validation=9)
    assert listed(problem) == []
    problem, _ = task(labels=("only",))
    assert listed(problem) == []
