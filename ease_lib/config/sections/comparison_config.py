"""What a comparison varies."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig(Section):
    """What a comparison varies, and what is shown beside it.

    An empty axis is what the other parameters say (`comparison.py` has the syntax).
    """

    tasks: str = param("", "Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...")
    methods: str = param("", "Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty is all of them.")
    noise_ratios: str = param("", "Noise ratios of every task: 0, 0.1, 0.5, ...")
    endpoints: str = param("", "Endpoints: local, {llm_base_url: https://..., llm_model: small-1}, ...")
    repeats: int = param(
        3, "Runs of everything, each with a seed of its own (repeat_data: for data and noise too).", low=1, high=1000
    )
    figures: str = param("", "Published scores beside ours: scores.csv, or tables of the paper: Tab. 2, Tab. 2 test.")
