"""Identity of a run, and the settings its stages share."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class RunConfig(Section):
    """Identity of the run, and the stores that hold its data."""

    seed: int = param(
        0, "Seed of all randomness: splits, noise, initial design, candidates, network.", low=0, high=2**53, form=True
    )
    store_uri: str = param(
        "",
        "Folder or s3:// for journal and answers; a run with the same store_uri continues a killed run.",
        form=True,
        role="place",
    )


@dataclass(frozen=True, kw_only=True)
class ContinuationConfig(Section):
    """Values that the first stage of a run or comparison determines for the later ones; not set by hand."""

    ledger: str = param(
        "",
        "Ledger in store_uri in which the stages of a run share its caps; a pipeline sets it.",
        role="place",
        internal=True,
    )
    answers: str = param(
        "", "Generation of kept answers that a run uses; empty is the newest; a pipeline sets it.", internal=True
    )
