"""The method and its settings."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.methods import METHODS
from ease_lib.config.sections.declaration import EASE, EVALUATIONS_UNDER_WAY, LATEST, Only, Section, param


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Section):
    """The search method and its settings; those of `ease` are the paper's (Sec. 4) unless the help says otherwise."""

    method: str = param(
        "adaptive",
        "Search method: adaptive, halving, capo; from the paper ease, best_of_n, evolution, influence, active, "
        "cosine, bm25, dpp, mmd, ot, llm_select or zero_shot.",
        choices=tuple(METHODS),
        form=True,
    )
    k: int = param(
        5, "Number of exemplars in the prompt; the maximum if k_min is smaller.", low=1, high=1000, form=True
    )
    k_min: int = param(
        -1,
        "Minimum number of exemplars in the prompt; -1: 0 for adaptive, halving and capo, k for all others.",
        low=-1,
        high=1000,
    )
    ties: str = param(
        "earliest",
        "Which sequence wins a tie for the best score: the earliest, or the latest (the authors' code).",
        choices=("earliest", LATEST),
        only=Only("method", tuple(name for name, method in METHODS.items() if not method.chooses_rows)),
    )
    max_prompt_tokens: int = param(
        0,
        "Maximum number of tokens in a prompt, by estimate; 0: no limit.",
        low=0,
        high=10_000_000,
        only=Only("method", ("adaptive", "halving", "capo", "ease", "best_of_n", "dpp", "mmd", "ot")),
    )
    budget: int = param(
        165,
        "Number of evaluations (T), each on evaluation_rows rows; 0: as many as max_llm_requests allows.",
        low=0,
        high=100_000,
        form=True,
    )
    evaluation_rows: int = param(
        20,
        "Validation rows per evaluation, 0 for all; adaptive, halving and capo distribute budget x rows as they need.",
        low=0,
        high=10_000,
    )
    initial_design: int = param(
        40,
        "Random sequences before the surrogate guides the search (T_init); fewer for a small budget.",
        low=1,
        high=100_000,
        only=Only("method", ("ease", "evolution")),
    )
    representation: str = param(
        "auto",
        "Features of a sequence: sequence (the paper's), average, positional; auto: positional.",
        choices=("auto", "sequence", "average", "positional"),
        only=EASE,
    )
    sampled_candidates: int = param(
        50_000,
        "Sequences sampled per iteration (q).",
        low=1,
        high=10_000_000,
        only=Only("method", ("ease", "dpp", "mmd", "ot")),
    )
    shortlist_size: int = param(
        1_000, "Sampled sequences kept by optimal transport (q').", low=1, high=1_000_000, only=EASE
    )
    shortlist: str = param(
        "ot",
        "How to reduce q samples to q': ot (optimal transport), random (ablation: NeuralUCB alone), none (keep all).",
        choices=("ot", "random", "none"),
        only=EASE,
    )
    fixed_candidates: int = param(
        0,
        "Ablation: number of sequences sampled once for the whole search; 0: sample q in every iteration.",
        low=0,
        high=10_000_000,
        only=EASE,
    )
    nu: float = param(
        0.1,
        "Exploration weight of NeuralUCB; the authors' 0.01, under a square root, is 0.1 here.",
        low=0,
        high=1000,
        only=EASE,
    )
    ridge: float = param(
        0.1, "Ridge lambda of NeuralUCB and of the network's weight decay.", low=1e-9, high=1000, only=EASE
    )
    nearest: int = param(
        10,
        "Number of exemplars to draw sequences from (R).",
        low=1,
        high=1_000_000,
        only=Only("method", ("cosine", "bm25")),
    )
    instruction_share: float = param(
        0.1,
        "Share of the instructions to pair with the shortlist in an iteration (r).",
        low=0,
        high=1,
        only=EASE,
    )
    parallel: int = param(
        0,
        "Evaluations in flight (b), to hide latency; 0: 8 for adaptive, halving and capo, else 1.",
        low=0,
        high=256,
    )
    warm_start: bool = param(
        False,
        "Start from the answers of the last search of this task and endpoint in store_uri (adaptive, halving, capo).",
    )
    order_report: int = param(
        0,
        "Permutations of the winner to score on evaluation_rows rows each, to report how much its order matters.",
        low=0,
        high=1000,
    )

    @property
    def chooses_rows(self) -> bool:
        """Whether the method chooses the rows of every evaluation."""
        return METHODS[self.method].chooses_rows

    @property
    def shortest(self) -> int:
        """Fewest exemplars of a sequence."""
        if self.k_min >= 0:
            return self.k_min
        return 0 if self.chooses_rows else self.k

    @property
    def under_way(self) -> int:
        """b, evaluations at once."""
        return self.parallel or (EVALUATIONS_UNDER_WAY if self.chooses_rows else 1)
