"""Axes of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig(Section):
    """Parameters that a comparison varies, and figures shown next to its results.

    An empty axis is what the other parameters say (`comparison.py` has the syntax).
    """

    tasks: str = param("", "Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...")
    methods: str = param(
        "", "Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty compares all of them."
    )
    noise_ratios: str = param("", "Noise ratios of every task: 0, 0.1, 0.5, ...")
    endpoints: str = param("", "Endpoints: local, {llm_base_url: https://..., llm_model: small-1}, ...")
    repeats: int = param(
        3,
        "Runs of each combination, each with its own seed (also for data and noise if repeat_data=drawn).",
        low=1,
        high=1000,
    )
    figures: str = param(
        "", "Published scores to show next to yours: scores.csv, or tables of the paper: Tab. 2, Tab. 2 test."
    )
