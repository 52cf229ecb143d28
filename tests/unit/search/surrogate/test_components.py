"""Components that sequences share."""

import itertools

import numpy as np
import pytest

from ease_lib.search.candidates.prompts import Prompts
from ease_lib.search.surrogate.components import CODED, Components, pair_codes, sequence_codes, set_codes

N, K = 7, 3
LABELS = np.array([0, 1, 2, 0, 1, 2, 0])
COMPONENTS = Components(
    k=K, pool=np.random.default_rng(0).normal(size=(N, 4)), labels=LABELS, instructions=3, left_out=()
)
SEQUENCES = [sequence for length in range(K + 1) for sequence in itertools.permutations(range(N), length)][::3]
PROMPTS = [(place % 3, sequence) for place, sequence in enumerate(SEQUENCES)]


def described(prompts=PROMPTS):
    return COMPONENTS.described(Prompts.of(prompts, K))


def feature(name, prompt):
    """How much of each weight of a component a prompt has, written out."""
    instruction, sequence = prompt
    weights = {}

    def give(key, value=1.0):
        weights[key] = weights.get(key, 0.0) + value

    if name == "length" and sequence:
        give(len(sequence))
    elif name == "none" and not sequence:
        give("none")
    elif name == "instruction":
        give(instruction)
    elif name == "coverage":
        give(len({*LABELS[list(sequence)].tolist()}))
    elif name == "pattern" and sequence:
        give(tuple(LABELS[list(sequence)].tolist()))
    elif name == "set" and sequence:
        give(frozenset(sequence))
    elif name == "pair":
        for pair in itertools.combinations(sequence, 2):
            give(pair)
    elif " " in name:
        kind, base = name.split()
        late = [1 / place for place in range(len(sequence), 0, -1)]
        for place, exemplar in enumerate(sequence):
            value = {
                "present": 1.0,
                "late": late[place] - np.mean(late),
                "share": 1 / len(sequence),
                "first": float(place == 0),
                "last": float(place == len(sequence) - 1),
            }[kind]
            if base == "text":
                for direction, size in enumerate(COMPONENTS.bases["text"][exemplar]):
                    give(direction, value * size)
            else:
                give(exemplar if base == "exemplar" else int(LABELS[exemplar]), value)
    return weights


@pytest.mark.parametrize("name", COMPONENTS.names)
def test_a_kernel_is_the_product_of_the_features(name):
    features = [feature(name, prompt) for prompt in PROMPTS]
    kernel = COMPONENTS.kernels(described(), described()[np.arange(20)])[name]
    expected = [[sum(one[key] * other.get(key, 0.0) for key in one) for other in features[:20]] for one in features]
    np.testing.assert_allclose(kernel, expected, atol=1e-9)
    own = COMPONENTS.own_kernels(described())[name]
    np.testing.assert_allclose(own, [sum(value**2 for value in one.values()) for one in features], atol=1e-9)


@pytest.mark.parametrize("name", CODED)
def test_codes_are_equal_where_features_are(name):
    from_end = Prompts.of(PROMPTS, K).reversed()
    codes = [{*row.tolist()} - {-1} for row in COMPONENTS.codes(name, from_end)]
    features = [{*feature(name, prompt)} for prompt in PROMPTS]
    assert list(map(len, codes)) == list(map(len, features))
    for (code, key), (other, key_too) in itertools.combinations(zip(codes, features, strict=True), 2):
        assert len(code & other) == len(key & key_too)


def test_without_components_nothing_is_in_common():
    alone = COMPONENTS.without_components()
    assert alone.names == []
    assert alone.kernels(alone.described(Prompts.of(PROMPTS, K)), alone.described(Prompts.of(PROMPTS, K))) == {}


def test_outputs_that_are_no_classes_have_no_components():
    names = Components(k=K, pool=COMPONENTS.pool).names
    assert not [name for name in names if "label" in name or name in ("coverage", "pattern", "instruction")]


def test_kernels_of_a_thousand_prompts_are_those_of_parts_of_them(monkeypatch):
    monkeypatch.setattr("ease_lib.search.surrogate.components.NUMBERS_PER_BLOCK", 1)
    parts = COMPONENTS.kernels(described(), described())
    monkeypatch.undo()
    for name, kernel in COMPONENTS.kernels(described(), described()).items():
        np.testing.assert_allclose(kernel, parts[name], atol=1e-12)


def test_codes_of_nothing_are_none():
    nothing = np.full((1, K), -1)
    assert (pair_codes(nothing, N) == -1).all()
    assert (set_codes(nothing) == -1).all()
    assert sequence_codes(nothing).min() >= 0
