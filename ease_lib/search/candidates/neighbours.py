"""Prompts one step away from another, and the best prompt that steps lead to.

A step replaces an exemplar by one that is not in the sequence, puts one in, takes one out, swaps two, moves one to
another place, reverses the order, or changes the instruction. Local search by such steps is how acquisitions over
combinatorial spaces are maximised (COMBO: Oh et al., 2019; CASMOPOLITAN: Wan et al., 2021): random candidates, however
many, are a speck of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.search.candidates.sampling import SequenceSpace, as_rows

MOST_STEPS = 50
"""Largest number of steps in one climb, which ends earlier if no step improves."""


def neighbours(
    prompt: Prompt, space: SequenceSpace, exemplars: NDArray[np.integer], *, instructions: int = 1
) -> Prompts:
    """All prompts one step away.

    Args:
        exemplars: positions in the pool that steps may put in.
        instructions: how many there are.
    """
    given, sequence = prompt
    k, length = space.k, len(sequence)
    new = exemplars[~np.isin(exemplars, sequence)]
    parts = [_with_new(sequence, place, new, k) for place in range(length) if len(new)]
    if length < k:
        parts += [_with_new((*sequence[:p], -1, *sequence[p:]), p, new, k) for p in range(length + 1) if len(new)]
    parts += [as_rows(sorted(_rearranged(sequence, shorten=length > space.lengths.start)), k)]
    sequences = np.concatenate(parts)
    sequences = sequences[space.allows(sequences)]
    others = np.array([other for other in range(instructions) if other != given], dtype=np.int64)
    stay = Prompts(sequences, np.full(len(sequences), given))
    changed = Prompts(np.repeat(as_rows([sequence], k), len(others), axis=0), others)
    return Prompts(
        np.concatenate([stay.sequences, changed.sequences]), np.concatenate([stay.instructions, changed.instructions])
    )


def climb(
    value: Callable[[Prompts], NDArray[np.floating]],
    start: Prompt,
    space: SequenceSpace,
    exemplars: NDArray[np.integer],
    *,
    instructions: int = 1,
) -> tuple[Prompt, float]:
    """The prompt at the end of the best steps, and its value: a local maximum, unless it took `MOST_STEPS`."""
    prompt, best = start, float(value(Prompts.of([start], space.k))[0])
    for _ in range(MOST_STEPS):
        around = neighbours(prompt, space, exemplars, instructions=instructions)
        if not len(around):
            break
        values = value(around)
        step = int(np.argmax(values))
        if values[step] <= best + 1e-12:
            break
        prompt, best = around[step : step + 1].tuples()[0], float(values[step])
    return prompt, best


def _with_new(sequence: Sequence[int], place: int, new: NDArray[np.integer], k: int) -> NDArray[np.int64]:
    """The sequence with each of the new ones in this place."""
    rows = np.repeat(as_rows([tuple(sequence)], k), len(new), axis=0)
    rows[:, place] = new
    return rows


def _rearranged(sequence: tuple[int, ...], *, shorten: bool) -> set[tuple[int, ...]]:
    found = {sequence[::-1]}
    for place, exemplar in enumerate(sequence):
        rest = sequence[:place] + sequence[place + 1 :]
        if shorten:
            found.add(rest)
        found |= {(*rest[:other], exemplar, *rest[other:]) for other in range(len(sequence))}
        for other in range(place + 1, len(sequence)):
            swapped = list(sequence)
            swapped[place], swapped[other] = sequence[other], exemplar
            found.add(tuple(swapped))
    return found - {sequence}
