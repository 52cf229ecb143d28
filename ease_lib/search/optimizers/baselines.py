"""The one question of `llm_select` to the black-box, paid for by the run."""

from __future__ import annotations

import time

from ease_lib.black_box.asking import complete_all
from ease_lib.black_box.chain import BlackBox
from ease_lib.evaluation.usage import Usage, usage_of
from ease_lib.search.ledger import SELECTION, Ledger


class Selection:
    """Asks it; `usage` is what it cost."""

    def __init__(self, black_box: BlackBox, account: str, ledger: Ledger) -> None:
        self._black_box = black_box
        self._account = account
        self._ledger = ledger
        self.usage = Usage()

    def ask(self, prompt: str) -> str:
        start = time.perf_counter()
        answers = self._black_box.loop.run(complete_all(self._black_box.client, [prompt], self._account))
        self.usage += usage_of([prompt], answers, time.perf_counter() - start)
        self._ledger.book(SELECTION, self.usage)
        return answers[0].text
