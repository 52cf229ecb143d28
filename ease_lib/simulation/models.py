"""The models of the endpoint `simulated`: in-context learners, for studies of thousands of evaluations.

They are asked in the process that searches (`black_box/in_process.py`). The first knows no answer keys; see
`in_context_learner`. The others know a share of the answers of two tasks beforehand; see `prior_knowledge`. Everything
that shows their numbers says "simulated".
"""

from __future__ import annotations

from collections.abc import Callable

from ease_lib.simulation.in_context_learner import answer
from ease_lib.simulation.prior_knowledge import knowing_model

MODEL = "simulated-in-context-learner"
KNOWLEDGE = {f"simulated-knowledge-{percent}": percent / 100 for percent in (25, 50, 75, 100)}
MODELS: dict[str, Callable[[str], str]] = {MODEL: answer} | {
    name: knowing_model(share) for name, share in KNOWLEDGE.items()
}
"""What each answers to a prompt; the first is asked where none is named."""
