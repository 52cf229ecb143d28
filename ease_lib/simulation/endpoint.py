"""`simulated`: an in-context learner behind a real HTTP endpoint, for studies of thousands of evaluations.

The first model it serves knows no answer keys; see `in_context_learner`. The others know a share of the answers of two
tasks beforehand; see `prior_knowledge`. Everything that shows their numbers says "simulated".
"""

from __future__ import annotations

import os
import threading

from ease_lib.endpoints.child import announce, wait_for_parent
from ease_lib.simulation.in_context_learner import answer
from ease_lib.simulation.openai_routes import Answer, OpenAIRoutesServer
from ease_lib.simulation.prior_knowledge import knowing_model

MODEL = "simulated-in-context-learner"
KNOWLEDGE = {f"simulated-knowledge-{percent}": percent / 100 for percent in (25, 50, 75, 100)}
MODELS: dict[str, Answer] = {MODEL: answer} | {name: knowing_model(share) for name, share in KNOWLEDGE.items()}


def main() -> None:
    server = OpenAIRoutesServer(MODELS)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(int(server.server_address[1]))
    wait_for_parent()
    os._exit(0)


if __name__ == "__main__":
    main()
