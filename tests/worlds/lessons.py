"""Worlds in which exemplars teach skills, and must fit to the one before them.

They owe nothing to the components of our model of answers: what a prompt is worth is no sum, and depends on its order
through who stands beside whom.

An exemplar teaches one skill, more or less clearly. It opens in a style and closes in one; where its opening is the
closing of the exemplar before it, the reader follows, else much of what it teaches is lost. What was read last is
remembered best. Of a skill one masters 1 - prod(1 - taught) over its exemplars. A row needs one skill, is easy or not,
and is answered rightly with the probability LEAST + (MOST - LEAST) * mastery * ease. The texts tell the skill, with
noise, and nothing of style and clarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ease_lib.arrays import Floats
from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.seeding import rng
from tests.worlds.world import World, normals, prompt_codes, unit

POOL, ROWS, K, TEXT, STYLES = 50, 160, 5, 8, 5
LEAST, MOST = 0.03, 0.97
EASE = (0.7, 1.0)
"""Ease of rows, at least and at most."""
REMEMBERED = 0.93
"""Share of an exemplar's effect that remains after each one that follows it."""
FIRST = 0.8
"""Share understood of the first exemplar, which has none before it."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A kind of world.

    Args:
        needed: how often rows need each skill.
        lost: what is understood of an exemplar that does not fit to the one before it.
    """

    needed: Sequence[float] = (0.3, 0.27, 0.23, 0.2)
    lost: float = 0.35


LESSONS = {
    "lessons": Lesson(),
    "loose lessons": Lesson(lost=0.7),
    "six lessons": Lesson(needed=(0.25, 0.2, 0.17, 0.15, 0.13, 0.1)),
}


@dataclass(frozen=True, kw_only=True)
class LessonWorld(World):
    """One draw.

    Args:
        skill, opens, closes: (n,) of the exemplars; clarity: (n,) in (0, 1).
        needed: (S,) share of new rows that need each skill.
        row_skill, row_ease: (R,) of the validation rows.
    """

    skill: NDArray[np.int64]
    clarity: Floats
    opens: NDArray[np.int64]
    closes: NDArray[np.int64]
    needed: Floats
    lost: float
    row_skill: NDArray[np.int64]
    row_ease: Floats

    def mastery(self, sequence: Sequence[int]) -> Floats:
        """(S,) of each skill, in [0, 1)."""
        missed = np.ones(len(self.needed))
        for place, each in enumerate(sequence):
            fits = FIRST if place == 0 else 1.0 if self.closes[sequence[place - 1]] == self.opens[each] else self.lost
            taught = self.clarity[each] * fits * REMEMBERED ** (len(sequence) - 1 - place)
            missed[self.skill[each]] *= 1 - taught
        return 1 - missed

    def scores(self, prompts: Prompts) -> Floats:
        mastered = np.array([self.mastery(sequence) for _, sequence in prompts.tuples()]).reshape(-1, len(self.needed))
        return np.asarray(LEAST + (MOST - LEAST) * sum(EASE) / 2 * (mastered @ self.needed))

    def answers(self, prompt: Prompt, rows: Sequence[int]) -> tuple[float, ...]:
        asked = np.array(rows, dtype=np.int64)
        code = prompt_codes(Prompts.of([prompt], self.k))
        chance = ndtr(normals(code + asked * 7919, self.seed, "answer"))
        likely = LEAST + (MOST - LEAST) * self.mastery(prompt[1])[self.row_skill[asked]] * self.row_ease[asked]
        return tuple((chance < likely).astype(float).tolist())


def lesson(name: str, seed: int) -> LessonWorld:
    kind, draw = LESSONS[name], rng(seed, "world", name)
    skills = len(kind.needed)
    skill = draw.permutation(np.arange(POOL) % skills)
    row_skill = draw.choice(skills, size=ROWS, p=kind.needed)
    meanings = unit(draw.normal(size=(skills, TEXT)))
    pool, validation = (
        unit(meanings[which] + draw.normal(size=(len(which), TEXT)) * 0.35) for which in (skill, row_skill)
    )
    opens, closes = draw.integers(STYLES, size=(2, POOL))
    return LessonWorld(
        name=name,
        k=K,
        pool=pool,
        validation=validation,
        labels=[-1] * POOL,
        validation_labels=[-1] * ROWS,
        seed=seed,
        skill=skill,
        clarity=draw.beta(2, 2, size=POOL),
        opens=opens,
        closes=closes,
        needed=np.array(kind.needed),
        lost=kind.lost,
        row_skill=row_skill,
        row_ease=draw.uniform(*EASE, size=ROWS),
    )
