"""All worlds by their names."""

from tests.worlds.lessons import LESSONS, lesson
from tests.worlds.summed import KINDS, from_recording, parametric, recorded_names
from tests.worlds.world import World

NAMES = (*KINDS, *LESSONS, *recorded_names())


def world(name: str, seed: int) -> World:
    """A draw of a kind of world, or of what was recorded."""
    if name in LESSONS:
        return lesson(name, seed)
    return parametric(name, seed) if name in KINDS else from_recording(name, seed)
