from ease_lib.evaluation.objective import Evaluation, Usage
from ease_lib.optimizers.best_of_n import BestOfN
from ease_lib.study.journal import open_journal
from ease_lib.study.loop import search
from ease_lib.testing.objectives import ordered_sum


def run(tmp_path, scores, budget):
    remaining = iter(scores)

    def evaluate(sequence):
        score = next(remaining)
        return Evaluation(score=score, scores=(score,), answers=("",), prompts=("",), usage=Usage(requests=1))

    with open_journal(tmp_path, "key") as journal:
        return search(BestOfN(ordered_sum().problem), evaluate, journal, budget=budget)


def test_stops_at_a_perfect_score(tmp_path):
    study = run(tmp_path, [0.2, 1.0, 0.5], budget=10)
    assert (len(study.history), study.stopped) == (2, "perfect score")


def test_a_larger_budget_continues_and_a_smaller_one_replays_a_part(tmp_path):
    run(tmp_path, [0.2, 0.4, 0.3], budget=3)
    longer = run(tmp_path, [0.6], budget=4)
    assert longer.history.scores.tolist() == [0.2, 0.4, 0.3, 0.6]
    assert (longer.replayed, longer.usage.requests) == (3, 4)
    assert run(tmp_path, [], budget=2).history.scores.tolist() == [0.2, 0.4]
