"""Zero-shot: no exemplars at all. The floor that every comparison shows."""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib.search.optimizers.history import Candidate, Observation


class ZeroShot:
    """Proposes the empty sequence once."""

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        return None if iteration else Candidate(sequence=(), phase="search")

    def tell(self, observation: Observation) -> None:
        """There is nothing to learn for a second proposal."""

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False
