"""The search for callers that evaluate themselves."""

import asyncio
import dataclasses
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ease_lib
from ease_lib import errors
from ease_lib.config.methods import METHODS
from ease_lib.trials import text_of

POOL = [{"text": f"exemplar {number}", "team": "ab"[number % 2]} for number in range(12)]
ROWS = [{"text": f"row {number}", "team": "ab"[number % 2]} for number in range(24)]
WORTH = {item["text"]: random.Random(item["text"]).random() for item in POOL}
QUICK = {"sampled_candidates": 300, "shortlist_size": 40, "initial_design": 4}


def vectors(items):
    return np.random.default_rng(len(items)).normal(size=(len(items), 6))


def right(exemplars, row):
    """Whether an answer is, by chance that grows with what is shown, late exemplars most."""
    shown = [WORTH[item["text"]] * (place + 1) for place, item in enumerate(exemplars)]
    chance = 0.05 + 0.9 * sum(shown) / max(1, sum(range(1, len(shown) + 1)))
    return float(random.Random(f"{[item['text'] for item in exemplars]} {row['text']}").random() < chance)


def open_search(method="halving", **more):
    """A small search with vectors of its own, where the method needs any."""
    given = {"k": 3, "answers": 120} | more
    if method == "ease":
        given = QUICK | given
    if METHODS[method].embeds:
        given = {"embeddings": (vectors(POOL), vectors(ROWS))} | given
    if method in ("cosine", "bm25"):
        given = {"nearest": 6} | given
    return ease_lib.Search(POOL, ROWS, method=method, **given)


def scores_of(trial):
    return [right(trial.exemplars, row) for row in trial.rows]


def run(search):
    for trial in search:
        search.tell(trial, scores_of(trial))
    return search


@pytest.mark.parametrize("method", sorted({*METHODS} - {"llm_select"}))
def test_every_method_that_asks_rows_alone_ends_within_its_answers(method):
    more = {"sampled_candidates": 300} if method in ("dpp", "mmd", "ot") else {}
    search = run(open_search(method, **more | ({"answers": 60, "evaluation_rows": 10} if method == "active" else {})))
    assert 0 < search.answers <= 120
    assert search.ended in ("budget", "every sequence evaluated")
    best = search.best
    assert best.exemplars == tuple(POOL[position] for position in best.positions)
    assert best.interval[0] <= best.expected <= best.interval[1]
    assert search.ask() == []


def test_a_search_finds_what_random_sequences_do_not():
    found = run(open_search(answers=600)).best
    worth = [np.mean([right(found.exemplars, {"text": f"new {number}"}) for number in range(400)])]
    shown = [random.Random(seed).sample(POOL, 3) for seed in range(60)]
    at_random = [np.mean([right(each, {"text": f"new {number}"}) for number in range(100)]) for each in shown]
    assert worth[0] > np.mean(at_random) + 0.1


def test_a_trial_holds_items_of_the_caller_in_order():
    (trial,) = open_search("best_of_n").ask()
    assert trial.number == 0
    assert [id(item) for item in trial.exemplars] == [id(POOL[position]) for position in trial.positions]
    assert [id(row) for row in trial.rows] == [id(ROWS[number]) for number in trial.row_numbers]
    assert len(trial.rows) == 20, "evaluation_rows"


def test_history_has_a_row_for_each_trial_in_the_order_of_asking():
    search = open_search("best_of_n", evaluation_rows=2)
    first, second, third = search.ask(3)
    search.tell(third, [1, 0])
    assert search.history == [], "it comes when those before it are told"
    assert search.answers == 2
    search.tell(first, [0.5, None])
    search.tell(second.number, [None, None])
    assert [(row["number"], row["score"], row["scores"]) for row in search.history] == [
        (0, 0.5, (0.5, None)),
        (1, None, (None, None)),
        (2, 0.5, (1.0, 0.0)),
    ]
    assert search.history[0]["positions"] == first.positions
    assert search.answers == 6


@pytest.mark.parametrize("method", ["halving", "ease"])
@pytest.mark.parametrize("parallel", [2, 5])
def test_with_parallel_a_search_does_not_depend_on_who_answers_first(method, parallel):
    def told(choose):
        search = open_search(method, parallel=parallel)
        under_way = []
        while not search.ended:
            under_way += search.ask(parallel)
            assert 0 < len(under_way) <= parallel
            trial = under_way.pop(choose(len(under_way)))
            search.tell(trial, scores_of(trial))
        return search.history

    assert told(lambda count: 0) == told(lambda count: count - 1)


def test_as_many_trials_are_given_as_are_asked_for():
    search = open_search("best_of_n", evaluation_rows=10)
    trials = search.ask(8)
    assert [trial.number for trial in trials] == list(range(8))
    assert len({trial.positions for trial in trials}) == 8
    assert [trial.number for trial in search.ask(100)] == [8, 9, 10, 11], "120 answers are 12 evaluations"
    assert search.ended == "", "they are under way"


def test_a_loop_that_tells_nothing_is_told_so():
    search = open_search("best_of_n", evaluation_rows=20)
    with pytest.raises(ValueError, match="the next trial needs the scores of trial 0, 1, 2, 3, 4, 5; tell it"):
        list(search)


def test_a_search_ends_at_a_perfect_score():
    search = open_search("best_of_n")
    trial = next(iter(search))
    search.tell(trial, [1.0] * len(trial.rows))
    assert (search.ended, search.ask()) == ("perfect score", [])


def test_with_parallel_a_perfect_score_ends_the_search_where_it_stands_in_the_order_of_asking():
    def told(reverse):
        search = open_search("best_of_n", evaluation_rows=2, parallel=6)
        for trial in sorted(search.ask(6), key=lambda trial: trial.number, reverse=reverse):
            search.tell(trial, [1.0, float(trial.number in (2, 4))])
        return search.history, search.ended, search.answers

    assert told(reverse=True) == told(reverse=False)
    history, ended, answers = told(reverse=True)
    assert (len(history), ended) == (3, "perfect score")
    assert answers == 12, "those after it were asked too"


def test_best_is_there_from_the_first_score_on():
    search = open_search("best_of_n")
    with pytest.raises(ValueError, match="no score has been told yet; tell a row that was evaluated"):
        search.best  # noqa: B018
    trial = next(iter(search))
    search.tell(trial, [True, False] * 10)
    assert (search.best.exemplars, search.best.score, search.best.evaluations) == (trial.exemplars, 0.5, 20)
    assert 0 < search.best.expected < 1


def test_where_no_row_could_be_evaluated_nothing_is_best():
    search = open_search("best_of_n", evaluation_rows=2)
    search.tell(next(iter(search)), [None, None])
    with pytest.raises(ValueError, match="no score has been told yet; tell a row that was evaluated"):
        search.best  # noqa: B018


# --- journal ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["halving", "ease", "adaptive"])
def test_a_killed_search_continues_as_if_it_had_not_been(tmp_path, method):
    whole = run(open_search(method))
    before = open_search(method, journal=tmp_path / "search.jsonl")
    for _, trial in zip(range(5), before, strict=False):
        before.tell(trial, scores_of(trial))
    (untold,) = before.ask()
    before.close()
    after = open_search(method, journal=str(tmp_path / "search.jsonl"))
    assert len(after.history) == 5
    assert after.best.evaluations
    (again,) = after.ask()
    assert (again.number, again.positions, again.row_numbers) == (5, untold.positions, untold.row_numbers)
    after.tell(again, scores_of(again))
    assert run(after).history == whole.history
    assert dataclasses.astuple(after.best) == dataclasses.astuple(whole.best)


def test_what_was_told_out_of_turn_before_a_kill_is_not_asked_again(tmp_path):
    search = open_search("best_of_n", evaluation_rows=2, journal=tmp_path / "search.jsonl")
    trials = search.ask(3)
    search.tell(trials[2], [1, 0])
    search.close()
    again = open_search("best_of_n", evaluation_rows=2, journal=tmp_path / "search.jsonl")
    assert [trial.number for trial in again.ask(3)] == [0, 1, 3]
    again.tell(0, [0, 0])
    again.tell(1, [0, 1])
    assert [row["score"] for row in again.history] == [0, 0.5, 0.5]


def test_more_answers_continue_a_search_of_evaluations(tmp_path):
    run(open_search("best_of_n", answers=60, journal=tmp_path / "search.jsonl")).close()
    longer = run(open_search("best_of_n", answers=120, journal=tmp_path / "search.jsonl"))
    assert longer.history == run(open_search("best_of_n", answers=120)).history


def test_a_journal_of_another_search_is_refused(tmp_path):
    open_search(journal=tmp_path / "search.jsonl").close()
    with pytest.raises(errors.JournalError, match="move it away or choose another journal"):
        open_search(journal=tmp_path / "search.jsonl", seed=1)
    with pytest.raises(errors.JournalError, match="move it away or choose another journal"):
        ease_lib.Search(POOL[:-1], ROWS, method="halving", k=3, answers=120, journal=tmp_path / "search.jsonl")


def test_a_journal_in_use_is_refused(tmp_path):
    with open_search(journal=tmp_path / "search.jsonl") as search:
        assert search.ask()
        with pytest.raises(errors.JournalInUse, match="close it, or choose another journal"):
            open_search(journal=tmp_path / "search.jsonl")
    open_search(journal=tmp_path / "search.jsonl").close()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0], "trial 0 has 2 rows and was told 1 scores"),
        ([1.0, 1.5], "a score of trial 0 is 1.5; pass 0"),
        ([1.0, float("nan")], "a score of trial 0 is nan; pass 0"),
    ],
)
def test_scores_that_do_not_fit_are_refused_and_may_be_told_again(scores, message):
    search = open_search("best_of_n", evaluation_rows=2)
    (trial,) = search.ask()
    with pytest.raises(ValueError, match=message):
        search.tell(trial, scores)
    search.tell(trial, [1.0, 0.0])
    assert len(search.history) == 1


def test_a_trial_is_told_once():
    search = open_search("best_of_n", evaluation_rows=2)
    (trial,) = search.ask()
    search.tell(trial, [1.0, 0.0])
    for number in (trial, 0, 7):
        with pytest.raises(ValueError, match="was already told, or was never asked for"):
            search.tell(number, [1.0, 0.0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"llm_model": "m"}, "llm_model is not used by Search; remove it"),
        ({"max_prompt_tokens": 10}, "max_prompt_tokens is not used by Search; remove it"),
        ({"pallel": 3}, "unknown parameter pallel; did you mean parallel?"),
        ({"nu": 0.2}, "nu has no effect with method=halving"),
        ({"method": "llm_select"}, "method=llm_select asks an LLM"),
        ({"budget": 20}, "answers and budget both limit the search"),
        ({"answers": 0}, "answers=0 is not a number of rows"),
        ({"answers": None, "budget": 0}, "budget=0 does not limit the search; pass answers"),
        ({"answers": 1}, "answers=1 does not allow one evaluation of 2 rows; raise it"),
        ({"answers": 19, "method": "best_of_n"}, "answers=19 does not allow one evaluation of 20 rows"),
        ({"k": 13}, "k=13 exceeds the 12 items of the pool; lower k"),
    ],
)
def test_parameters_that_nothing_reads_or_that_do_not_fit_are_refused(given, message):
    with pytest.raises(errors.ConfigError, match=message.replace("?", r"\?")):
        ease_lib.Search(POOL, ROWS, **{"k": 3, "answers": 120, "method": "halving"} | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((vectors(POOL)[1:], vectors(ROWS)), r"embeddings of the pool have the shape \(11, 6\); give \(12, d\)"),
        ((vectors(POOL), vectors(ROWS)[:, 1:]), "embeddings: pool has 6 dimensions, validation 5"),
        ((np.zeros((12, 6)), vectors(ROWS)), "row 0 is zero or not a number"),
        ((np.where(np.arange(12)[:, None] == 3, np.nan, 1.0), vectors(ROWS)), "row 3 is zero or not a number"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(given, message):
    with pytest.raises(errors.DataError, match=message):
        open_search("adaptive", embeddings=given)


@pytest.mark.parametrize(("pool", "rows", "empty"), [([], ROWS, "pool"), (POOL, [], "validation")])
def test_empty_data_is_refused(pool, rows, empty):
    with pytest.raises(errors.DataError, match=f"{empty} is empty"):
        ease_lib.Search(pool, rows, k=1, method="halving")


# --- items ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Ticket:
    text: str
    team: str


class Plain:
    def __init__(self, text):
        self.text = text


class Silent:
    __slots__ = ()


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("as it is", "as it is"),
        ({"text": "a", "rows": [1, None]}, "text: a\nrows: 1\nNone"),
        (Ticket("a", "b"), "text: a\nteam: b"),
        (Plain("a"), "text: a"),
        ((1, 2.5), "1\n2.5"),
    ],
)
def test_the_text_of_an_item_is_its_values(item, text):
    assert text_of(item) == text


def test_arrays_differ_in_text_where_they_differ_anywhere():
    one = np.zeros((200, 200))
    other = one.copy()
    other[100, 100] = 1e-9
    assert text_of(one) == text_of(one.copy()) != text_of(other)
    assert text_of({"image": one}) != text_of({"image": other})


def test_an_item_that_says_nothing_of_itself_needs_a_text():
    with pytest.raises(errors.DataError, match="a Silent has no text; pass text="):
        ease_lib.Search([Silent(), Silent()], ROWS, k=1, method="halving")
    search = ease_lib.Search([Silent(), Silent()], ROWS, k=1, method="halving", text=lambda item: str(type(item)))
    assert search.ask()


def test_labels_are_texts():
    with pytest.raises(errors.DataError, match="label= gives 3, which is not a str"):
        open_search(label=lambda item: 3)


def test_with_labels_every_stretch_of_rows_has_all_classes():
    (trial,) = open_search("best_of_n", evaluation_rows=4, label=lambda item: item["team"]).ask()
    assert sorted(row["team"] for row in trial.rows) == ["a", "a", "b", "b"]


# --- where it is used -------------------------------------------------------------------------------------------------


def test_a_search_that_embeds_nothing_loads_neither_torch_nor_a_client():
    code = """
import sys, ease_lib
search = ease_lib.Search(list("abcdefgh"), list("uvwxyz"), k=2, method="halving", answers=40)
for trial in search:
    search.tell(trial, [0.5] * len(trial.rows))
assert search.best.exemplars is not None
print(sorted({"torch", "sentence_transformers", "openai", "ot", "boto3", "pyarrow", "kfp"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_threads_may_ask_and_tell_at_once():
    search = open_search("halving", answers=200)

    def work():
        while trials := search.ask():
            search.tell(trials[0], scores_of(trials[0]))

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(work) for _ in range(6)]:
            done.result()
    assert [row["number"] for row in search.history] == list(range(len(search.history)))
    assert search.answers == 200


def test_coroutines_evaluate_side_by_side():
    search = open_search("halving")

    async def answered(exemplars, row):
        await asyncio.sleep(0)
        return right(exemplars, row)

    async def evaluate(trial):
        search.tell(trial, await asyncio.gather(*(answered(trial.exemplars, row) for row in trial.rows)))

    async def main():
        while trials := search.ask(8):
            await asyncio.gather(*map(evaluate, trials))

    asyncio.run(main())
    assert search.ended == "budget"


@pytest.mark.parametrize("representation", ["auto", "sequence", "average"])
def test_texts_are_embedded_by_the_embedder_where_no_vectors_are_given(representation):
    given = {} if representation == "auto" else {"representation": representation}
    search = ease_lib.Search(
        POOL, ROWS, k=2, k_min=1, method="ease", answers=120, label=lambda item: item["team"], **QUICK | given
    )
    assert run(search).answers == 120


# --- where it is used otherwise than meant ----------------------------------------------------------------------------


def test_what_was_asked_for_while_the_journal_could_not_be_written_is_asked_for_again(monkeypatch):
    search = open_search("best_of_n", evaluation_rows=10)
    journal, fails = search._asked._journal, [True, True]

    def propose(candidates):
        if fails:
            fails.pop()
            raise errors.JournalError("the disk is full")

    monkeypatch.setattr(journal, "propose", propose)
    for _ in range(2):
        with pytest.raises(errors.JournalError):
            search.ask(3)
    assert run(search).answers == 120
    assert [row["number"] for row in search.history] == list(range(12))


def test_a_loop_that_was_broken_goes_on_with_the_trial_that_was_not_told():
    search = open_search("best_of_n", evaluation_rows=10)

    def broken():
        for _ in search:
            raise LookupError

    with pytest.raises(LookupError):
        broken()
    assert run(search).answers == 120


def test_after_close_nothing_is_asked_for_or_told():
    search = open_search("ease")
    (trial,) = search.ask()
    search.close()
    for call in (search.ask, lambda: search.tell(trial, [1.0] * 20)):
        with pytest.raises(ValueError, match="this Search is closed; open it again with its journal"):
            call()


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("a text", "pool is one str; give a sequence of items"),
        ({"a": 1}, "pool is one dict; give a sequence of items"),
        (
            type("Frame", (list,), {"columns": ()})(),
            r'pool is a Frame; of a pandas DataFrame give df.to_dict\("records"\)',
        ),
    ],
)
def test_what_is_no_sequence_of_items_is_refused(pool, message):
    with pytest.raises(errors.DataError, match=message):
        ease_lib.Search(pool, ROWS, k=1, method="halving")


def test_a_journal_is_a_file_of_this_machine():
    with pytest.raises(errors.ConfigError, match="journal=s3://bucket/x is not a file on this machine"):
        open_search(journal="s3://bucket/x")


def test_texts_are_the_same_in_every_process():
    items = "[{'a', 'b', 'c'}, np.array(['x', None]), np.int64(3)]"
    code = f"import numpy as np; from ease_lib.trials import text_of; print(repr(text_of({items})))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "123"
    }
    assert said == {b"'a\\nb\\nc\\nx\\nNone\\n3'\n"}


def test_scores_may_be_numbers_of_numpy_and_are_no_texts():
    search = open_search("best_of_n", evaluation_rows=2)
    first, second = search.ask(2)
    search.tell(np.int64(first.number), np.array([1.0, 0.5]))
    with pytest.raises(ValueError, match="a score of trial 1 is a str"):
        search.tell(second, "01")
