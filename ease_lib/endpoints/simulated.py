"""`simulated`: an in-context learner behind a real HTTP endpoint, for studies of thousands of evaluations.

It knows no answer keys; see `in_context_learner`. Everything that shows its numbers says "simulated".
"""

from __future__ import annotations

import os
import threading

from ease_lib.endpoints.child import announce, wait_for_parent
from ease_lib.endpoints.in_context_learner import answer
from ease_lib.endpoints.openai_routes import OpenAIRoutesServer

MODEL = "simulated-in-context-learner"


def main() -> None:
    server = OpenAIRoutesServer(MODEL, answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(int(server.server_address[1]))
    wait_for_parent()
    os._exit(0)


if __name__ == "__main__":
    main()
