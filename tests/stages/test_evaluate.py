"""The test set is answered by several sequences at once: what ends one is told, not what that does to the others."""

import pytest

from ease_lib.black_box.client import Sampling
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import ContentRefused
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective
from ease_lib.stages.evaluate import BEST, RANDOM, _evaluated
from ease_lib.tasks.base import Exemplar
from tests.support.faulty_endpoint import MODEL, faulty_endpoint, status
from tests.support.runs import open_black_box


def test_a_row_that_random_exemplars_fail_at_is_named_where_the_winner_waits_to_ask_again():
    rows = [Exemplar(number, f"row {number}", ("1",)) for number in range(4)]
    flagged, busy = Exemplar(9, "flagged", ("1",)), [status(503, "no room")]
    with faulty_endpoint("1") as server:

        def fail(prompt):
            if "flagged" in prompt:
                server.script.faults.insert(0, status(400, "flagged by moderation"))
            elif busy:
                server.script.faults.insert(0, busy.pop())

        server.script.on_request = fail
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, llm_concurrency=8)
        with open_black_box(config, sampling=Sampling(max_tokens=8, stop="\n")) as black_box:
            evaluator = Evaluator(black_box.client, rows, metric=exact_match, failures=black_box.failures)
            objectives = {name: Objective(evaluator, black_box.loop) for name in (BEST, RANDOM)}
            questions = {
                BEST: Question(exemplars=[], rows=range(4), whole=True),
                RANDOM: Question(exemplars=[flagged], rows=range(4), whole=True),
            }
            with pytest.raises(ContentRefused, match=r"row \d.*: flagged by moderation"):
                _evaluated(objectives, questions, one_by_one=False)
