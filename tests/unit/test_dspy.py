"""The optimizer for DSPy, with DSPy itself and an endpoint that answers by the demonstrations in the prompt."""

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from ease_lib import errors
from tests.support.dspy_endpoint import MODEL, answer_of, chance, dspy_endpoint, query_of, shown

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the internet
dspy = pytest.importorskip("dspy", reason="DSPy is not installed: pip install 'ease-pipelines[dspy]'")

from dspy.utils.callback_context import ACTIVE_CALL_ID  # noqa: E402

from ease_lib.dspy import EASE, Found, score_of  # noqa: E402

QUICK = {"k": 3, "calls": 40, "num_threads": 4, "method": "halving"}


def example(number, **more):
    question = f"ticket {number}"
    return dspy.Example(question=question, answer=answer_of(question), **more).with_inputs("question")


TRAIN = [example(number) for number in range(12)]
ROWS = [example(number) for number in range(100, 124)]


def right(example, prediction, trace=None):
    return example.answer == prediction.answer


def anything(example, prediction, trace=None):
    return True if trace is not None else right(example, prediction)


class TwoSteps(dspy.Module):
    def __init__(self):
        super().__init__()
        self.search = dspy.Predict("question -> query")
        self.respond = dspy.Predict("question, query -> answer")

    def forward(self, question):
        return self.respond(question=question, query=self.search(question=question).query)


class Awaited(dspy.Module):
    """A program that can only be awaited."""

    def __init__(self):
        super().__init__()
        self.respond = dspy.Predict("question -> answer")

    async def aforward(self, question):
        return await self.respond.acall(question=question)


def one_step():
    return dspy.Predict("question -> answer")


@pytest.fixture
def server():
    with dspy_endpoint("other") as running, dspy.context(lm=lm_of(running)):
        yield running


def lm_of(server, model=MODEL, **more):
    return dspy.LM(f"openai/{model}", api_base=server.base_url, api_key="none", cache=False, num_retries=0, **more)


def compiled(program=None, metric=right, trainset=TRAIN, valset=ROWS, teacher=None, **parameters):
    optimizer = EASE(metric, **QUICK | parameters)
    return optimizer.compile(program or one_step(), trainset=trainset, valset=valset, teacher=teacher)


def demos_of(program):
    return {name: [dict(demo.items()) for demo in each.demos] for name, each in program.named_predictors()}


# --- what is found ----------------------------------------------------------------------------------------------------


def test_the_program_found_shows_examples_that_help_in_the_order_of_the_trial(server):
    student = one_step()
    better = compiled(student, calls=250)
    asked = [messages for messages in server.seen.requests if shown(messages)]
    best = better.ease.exemplars
    assert better.demos == list(best)
    assert [each.question for each in best] in [[demo["question"] for demo in shown(messages)] for messages in asked]
    helped = chance([each.question for each in best])
    assert helped > 0.6, "at random it is 0.4 on average"
    assert better.ease.interval[0] <= helped <= better.ease.interval[1]
    assert (student.demos, student._compiled, better._compiled) == ([], False, True)


@pytest.mark.parametrize("method", ["best_of_n", "halving"])
def test_every_trial_shows_its_demonstrations_in_its_order(server, method):
    more = {"evaluation_rows": 10} if method == "best_of_n" else {}
    better = compiled(method=method, **more)
    asked = {
        (tuple(demo["question"] for demo in shown(messages)), question)
        for messages, question in zip(server.seen.requests, server.seen.questions, strict=True)
    }
    told = {
        (tuple(TRAIN[place].question for place in trial["positions"]), ROWS[row].question)
        for trial in better.ease.history
        for row in trial["row_numbers"]
    }
    assert asked == told
    orders = {names for names, _ in asked}
    assert len({frozenset(names) for names in orders}) > 1


def test_the_same_call_finds_the_same_however_fast_rows_are_answered(server):
    first = compiled()
    server.seen.on_request = lambda messages: time.sleep(len(messages[-1]["content"]) % 3 / 100)
    again = compiled()
    assert (again.ease.history, again.ease.expected) == (first.ease.history, first.ease.expected)
    assert demos_of(again) == demos_of(first)


@pytest.mark.rooms("ease_lib/dspy.py", "ease_lib/trials.py", "ease_lib/search/ask_tell.py")
def test_the_default_method_embeds_examples_and_needs_no_parameters(server):
    better = EASE(right, calls=20).compile(one_step(), trainset=TRAIN[:8], valset=ROWS)
    assert len(better.demos) <= 5
    assert better.ease.calls == len(server.seen.requests) <= 20


def test_without_valset_half_of_the_trainset_is_scored_on_and_never_shown(server):
    compiled(valset=None)
    asked = {*server.seen.questions}
    displayed = {demo["question"] for messages in server.seen.requests for demo in shown(messages)}
    assert asked <= {each.question for each in TRAIN}
    assert not asked & displayed
    assert (len(asked), len(displayed) <= 6) == (6, True)


def test_an_example_that_is_in_both_sets_is_not_shown(server, caplog):
    compiled(trainset=[*TRAIN, *ROWS[:2]])
    displayed = {demo["question"] for messages in server.seen.requests for demo in shown(messages)}
    assert not displayed & {each.question for each in ROWS}
    assert "2 examples of trainset will not be shown, because rows to score on have the same inputs" in caplog.text
    with pytest.raises(errors.DataError, match="every example of trainset has the inputs of a row that is scored on"):
        compiled(trainset=ROWS[:3])


def test_an_example_is_the_same_whatever_the_order_of_its_fields_and_its_other_fields(server):
    twins = [dspy.Example(answer=answer_of("ticket 100"), question="ticket 100"), example(101, id=7)]
    compiled(trainset=[*TRAIN, *(each.with_inputs("question") for each in twins)])
    displayed = {demo["question"] for messages in server.seen.requests for demo in shown(messages)}
    assert not displayed & {"ticket 100", "ticket 101"}


# --- bootstrapping ----------------------------------------------------------------------------------------------------


def test_a_program_of_two_steps_shows_whole_traces(server):
    better = compiled(TwoSteps())
    numbers = [each.question for each in better.ease.exemplars]
    right_traces = [{"augmented": True, "question": each, "query": query_of(each)} for each in numbers]
    assert demos_of(better) == {
        "search": right_traces,
        "respond": [{**each, "answer": answer_of(each["question"])} for each in right_traces],
    }
    assert better.ease.bootstrapping == 12
    assert better.ease.calls <= 40
    assert len(server.seen.requests) == 2 * better.ease.calls, "two requests a call"


def test_a_teacher_is_not_shown_the_example_that_it_solves(server):
    compiled(TwoSteps())
    bootstrapping = [each for each in server.seen.questions if each in {row.question for row in TRAIN}]
    assert bootstrapping
    for messages, question in zip(server.seen.requests, server.seen.questions, strict=True):
        assert question not in [demo["question"] for demo in shown(messages)]


def test_a_given_teacher_bootstraps_as_it_is(server):
    teacher = TwoSteps()
    teacher.set_lm(lm_of(server, "other"))
    better = compiled(TwoSteps(), teacher=teacher)
    assert server.seen.models.count("other") == 2 * better.ease.bootstrapping > 0
    with pytest.raises(errors.ConfigError, match=r"teacher has the predictors self\(answer, question\), the"):
        compiled(TwoSteps(), teacher=one_step())
    teacher.respond = dspy.Predict("question, query -> response")
    with pytest.raises(errors.ConfigError, match=r"respond\(query, question, response\), the program"):
        compiled(TwoSteps(), teacher=teacher)


def test_a_compiled_teacher_is_not_shown_the_example_that_it_solves(server):
    first = compiled(TwoSteps(), metric=anything)
    server.seen.requests.clear()
    compiled(first, metric=anything)
    for messages, question in zip(server.seen.requests, server.seen.questions, strict=True):
        assert question not in [demo["question"] for demo in shown(messages)]


def test_examples_with_arrays_are_bootstrapped(server):
    given = [example(number, vector=np.arange(3)) for number in range(12)]
    assert compiled(TwoSteps(), trainset=given).ease.bootstrapping == 12


class Renaming(dspy.Module):
    """A program of one predictor, whose input is called otherwise than the examples'."""

    def __init__(self):
        super().__init__()
        self.respond = dspy.Predict("question, hint -> answer")

    def forward(self, question):
        return self.respond(question=question, hint="count")


def test_examples_that_lack_an_input_are_bootstrapped(server, caplog):
    better = compiled(Renaming())
    assert better.ease.bootstrapping > 0
    assert all({"question", "hint", "answer"} <= {*demo} for demo in demos_of(better)["respond"])
    compiled(Renaming(), bootstrap=False)
    assert "some examples lack hint; DSPy shows those first, or not at all" in caplog.text


def test_a_module_that_hides_its_calls_is_refused_by_name_of_the_cause(server):
    hiding = dspy.BestOfN(dspy.Predict("question, hint -> answer"), N=1, reward_fn=lambda *given: 1.0, threshold=0.5)
    hiding.forward = lambda question: dspy.BestOfN.forward(hiding, question=question, hint="count")
    with pytest.raises(
        errors.DataError, match=r"12 were accepted, but no predictor of the program made a call.*BestOfN"
    ):
        compiled(hiding, metric=anything)


def test_examples_that_lack_an_output_are_bootstrapped(server):
    thinking = compiled(dspy.ChainOfThought("question -> answer"))
    assert thinking.ease.bootstrapping > 0
    assert all({"reasoning", "answer"} <= {*demo} for demo in demos_of(thinking)["predict"])
    plain = compiled(dspy.ChainOfThought("question -> answer"), bootstrap=False)
    assert plain.ease.bootstrapping == 0
    assert compiled(bootstrap=True).ease.bootstrapping > 0


def test_where_nothing_is_accepted_the_message_says_what_to_do(server):
    with pytest.raises(
        errors.DataError, match=r"for 12 examples can be shown; the metric accepted none of 12; give a teacher that"
    ):
        compiled(TwoSteps(), metric=lambda example, prediction, trace=None: trace is None)
    assert len(server.seen.requests) == 24


def test_where_all_of_a_few_examples_raised_the_message_says_what(server):
    server.seen.fails = lambda question: True
    with pytest.raises(errors.DataError, match=r"3 raised an exception, the last .*this question is refused"):
        compiled(TwoSteps(), trainset=TRAIN[:3])


@pytest.mark.parametrize("value", [None, "", 3, "yes", dspy.Prediction(score=0), dspy.Prediction(score=2)])
def test_while_bootstrapping_a_metric_may_return_anything_true_or_false(server, value):
    metric = lambda example, prediction, trace=None: value if trace is not None else right(example, prediction)  # noqa: E731
    is_true = bool(getattr(value, "score", value))
    if is_true:
        assert compiled(TwoSteps(), metric=metric).ease.calls == 40
    else:
        with pytest.raises(errors.DataError, match="the metric accepted none of 12"):
            compiled(TwoSteps(), metric=metric)


def test_where_few_are_accepted_fewer_are_shown(server, caplog):
    def only_two(example, prediction, trace=None):
        return right(example, prediction) if trace is None else example.question in ("ticket 1", "ticket 2")

    better = compiled(TwoSteps(), metric=only_two, k_min=3)
    assert {each.question for each in better.ease.exemplars} == {"ticket 1", "ticket 2"}
    assert "only 2 examples could be bootstrapped, fewer than k=3" in caplog.text


# --- calls and threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [2, 7, 33])
@pytest.mark.parametrize("program", [one_step, TwoSteps])
def test_there_are_never_more_calls_than_allowed(server, calls, program):
    if program is TwoSteps and calls == 2:
        with pytest.raises(
            errors.ConfigError, match="calls=2 does not allow a bootstrapped example and one evaluation"
        ):
            compiled(TwoSteps(), calls=2)
        return
    better = compiled(program(), calls=calls, metric=lambda *given: True if len(given) == 3 else right(*given))
    asked = len(server.seen.requests) / len(better.predictors())
    assert better.ease.calls == asked <= calls


def test_rows_are_asked_in_all_threads_at_once(server):
    server.seen.latency_seconds = 0.2
    started = time.monotonic()
    better = compiled(calls=80, num_threads=8)
    busy = better.ease.calls * 0.2 / (time.monotonic() - started)
    assert server.seen.most_running == 8
    assert busy > 4, "rows under way on average; one trial after the other has its two"


def test_settings_of_the_caller_hold_in_every_thread(server):
    seen = set()

    def metric(example, prediction, trace=None):
        seen.add((dspy.settings.lm.model, threading.get_ident()))
        return right(example, prediction)

    server.seen.latency_seconds = 0.01
    with dspy.context(lm=lm_of(server, "other")):
        compiled(metric=metric)
    assert {model for model, _ in seen} == {"openai/other"} == {f"openai/{model}" for model in server.seen.models}
    assert len({thread for _, thread in seen}) == 4


def test_the_number_of_threads_is_the_one_of_the_settings_by_default(server):
    server.seen.latency_seconds = 0.02
    with dspy.context(num_threads=3):
        compiled(num_threads=None)
    assert server.seen.most_running == 3


def test_one_thread_is_the_callers(server):
    threads = set()

    def metric(example, prediction, trace=None):
        threads.add(threading.get_ident())
        return right(example, prediction)

    compiled(metric=metric, num_threads=1, calls=20)
    assert threads == {threading.get_ident()}
    assert server.seen.most_running == 1


def test_the_lm_of_a_predictor_stays(server):
    student = one_step()
    student.set_lm(lm_of(server, "other"))
    better = compiled(student)
    assert {*server.seen.models} == {"other"}
    assert better.get_lm() is student.get_lm(), "a copy would have a history of its own"


def test_a_program_that_can_only_be_awaited_is(server):
    better = compiled(Awaited())
    assert better.ease.calls == len(server.seen.requests) == 40
    assert better.ease.failed == 0


def test_callbacks_see_one_compilation_that_all_calls_are_of(server):
    class Calls(dspy.utils.callback.BaseCallback):
        def __init__(self):
            self.compilations, self.parents = [], []

        def on_compile_start(self, call_id, instance, inputs):
            self.compilations.append((call_id, type(instance)))

        def on_module_start(self, call_id, instance, inputs):
            self.parents.append(ACTIVE_CALL_ID.get())

    callback = Calls()
    with dspy.context(callbacks=[callback]):
        compiled(calls=10)
    ((call_id, kind),) = callback.compilations
    assert kind is EASE
    assert callback.parents == [call_id] * 10


def test_a_program_that_holds_what_cannot_be_copied_is_searched(server):
    program = TwoSteps()
    program.lock = threading.Lock()
    lm = program.respond.lm = lm_of(server)
    program.judge = lm_of(server)
    better = compiled(program)
    assert better.ease.calls == 40
    assert program.respond.demos == []
    assert better.respond.lm is lm


def test_lms_that_a_program_holds_are_not_copied(server):
    program = one_step()
    program.strong = lm_of(server)
    assert compiled(program, calls=20).strong is program.strong


class Hop(dspy.Module):
    def __init__(self):
        super().__init__()
        self.respond = dspy.Predict("question -> answer")
        self.lock = threading.Lock()

    def forward(self, question):
        return self.respond(question=question)


class Hops(dspy.Module):
    def __init__(self):
        super().__init__()
        self.hops = [Hop()]

    def forward(self, question):
        return self.hops[0](question=question)


def test_a_program_whose_copies_would_share_predictors_is_refused(server):
    program = Hops()
    program.hops[0].respond.demos = ["mine"]
    with pytest.raises(errors.ConfigError, match=r"the program cannot be copied \(TypeError: cannot pickle"):
        compiled(program)
    assert program.hops[0].respond.demos == ["mine"]
    assert server.seen.requests == []


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_row_that_fails_counts_as_0_and_is_logged(server, caplog):
    server.seen.fails = lambda question: question == "ticket 101"
    better = compiled(max_errors=1000)
    scores = [
        (ROWS[row].question, score)
        for trial in better.ease.history
        for row, score in zip(trial["row_numbers"], trial["scores"], strict=True)
    ]
    failed = [score for question, score in scores if question == "ticket 101"]
    assert failed == [0.0] * better.ease.failed != []
    assert caplog.text.count("Error for Example({'question': 'ticket 101'") == better.ease.failed
    assert "Set `provide_traceback=True` for traceback." in caplog.text


@pytest.mark.parametrize("number_of_threads", [1, 4])
def test_after_max_errors_the_exception_ends_the_search(server, number_of_threads):
    def metric(example, prediction, trace=None):
        raise ZeroDivisionError("of the metric")

    with pytest.raises(ZeroDivisionError, match="of the metric"):
        compiled(metric=metric, max_errors=3, num_threads=number_of_threads)
    assert 3 <= len(server.seen.requests) < 3 + number_of_threads
    with dspy.context(max_errors=5), pytest.raises(ZeroDivisionError):
        compiled(TwoSteps(), metric=metric, num_threads=number_of_threads)


def test_a_few_failures_among_many_calls_do_not_end_a_long_search(server):
    count = itertools.count()

    def metric(example, prediction, trace=None):
        if next(count) % 20 == 0:
            raise ZeroDivisionError("of the metric")
        return right(example, prediction)

    assert compiled(metric=metric, max_errors=3, calls=200, num_threads=1).ease.failed == 10


@pytest.mark.parametrize("value", [None, "yes", 67.3, -1, float("nan"), dspy.Prediction(), dspy.Prediction(score=2)])
def test_what_is_no_score_ends_the_search_at_once(server, value):
    with pytest.raises(errors.ConfigError) as caught:
        compiled(metric=lambda example, prediction, trace=None: value)
    assert f"metric returned {value!r}; return a bool, an int or float from 0 (wrong) to 1 (right)" in str(caught.value)
    assert len(server.seen.requests) <= 4


def test_scores_come_in_all_forms_of_dspy():
    class Feedback:
        score = 0.25

    given = [True, 0, 0.5, dspy.Prediction(score=1, feedback="good"), Feedback(), 0.2 + 0.4 + 0.3 + 0.1, -1e-17]
    assert [score_of(value) for value in given] == [1.0, 0.0, 0.5, 1.0, 0.25, 1.0, 0.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pallel": 3}, "unknown parameter pallel; did you mean parallel?"),
        ({"llm_model": "m"}, "llm_model is not used by Search; remove it"),
        ({"nu": 0.2}, "nu has no effect with method="),
        ({"answers": 100}, "answers is set by EASE; remove it"),
        ({"calls": None}, "calls=None is not a whole number above 0"),
        ({"calls": 0}, "calls=0 is not a whole number above 0; pass 1 or more"),
        ({"k": "3"}, "k='3' is not a whole number above 0"),
        ({"num_threads": True}, "num_threads=True is not a whole number above 0"),
        ({"journal": "s3://bucket/search.jsonl"}, "journal=s3://bucket/search.jsonl is not a file on this machine"),
        ({"journal": "/"}, "journal=/ is not a file on this machine"),
        ({"bootstrap": "yes"}, "bootstrap='yes' is unknown; give 'auto', True or False"),
        ({"metric": 3}, "metric=3 cannot be called"),
    ],
)
def test_parameters_are_checked_when_the_optimizer_is_made(parameters, message):
    with pytest.raises(errors.ConfigError, match=message.replace("?", r"\?")):
        EASE(**{"metric": right, "method": "halving"} | parameters)


class Named(dspy.Module):
    def __init__(self):
        super().__init__()
        self.ease = dspy.Predict("question -> answer")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 21}, "k=21 exceeds the 12 items of the pool; lower k"),
        ({"calls": 1}, "calls=1 does not allow one evaluation of 2 rows; raise it"),
        ({"calls": 19, "method": "best_of_n"}, "calls=19 does not allow one evaluation of 20 rows; raise it"),
        (
            {"program": TwoSteps(), "bootstrap": False},
            "bootstrap=False needs a program of one predictor, and this has 2",
        ),
        ({"program": dspy.Module()}, "the program has no predictor that can show demonstrations"),
        ({"program": Named()}, "the program has an attribute `ease`, where the result is put; rename it"),
        (
            {"metric": lambda example, prediction: True, "bootstrap": True},
            r"metric is called as metric\(example, prediction, trace\), and takes \(example, prediction\); change it",
        ),
    ],
)
def test_what_does_not_fit_program_or_examples_is_refused_before_anything_is_asked(server, parameters, message):
    with pytest.raises(errors.ConfigError, match=message):
        compiled(**parameters)
    assert server.seen.requests == []


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"trainset": []}, "trainset is empty"),
        ({"valset": []}, "valset is empty"),
        ({"trainset": TRAIN[:1], "valset": None}, "trainset has 1 example, too few to split; pass valset"),
    ],
)
def test_too_few_examples_are_refused(sets, message):
    with pytest.raises(errors.DataError, match=message):
        compiled(**sets)


def test_examples_have_to_say_what_their_inputs_are():
    with pytest.raises(ValueError, match="Inputs have not been set for this example"):
        compiled(valset=[dspy.Example(question="ticket 1", answer="b")])
    with pytest.raises(errors.DataError, match=r"trainset holds a dict; make each row a dspy.Example\(\*\*row\)"):
        compiled(trainset=[{"question": "ticket 1", "answer": "b"}])


# --- what users do with the program -----------------------------------------------------------------------------------


def test_a_saved_program_asks_the_same_prompts(server, tmp_path):
    better = compiled(TwoSteps())
    better.save(tmp_path / "better.json")
    loaded = TwoSteps()
    loaded.load(tmp_path / "better.json")
    better.save(tmp_path / "whole", save_program=True, modules_to_serialize=[sys.modules[__name__]])
    whole = dspy.load(tmp_path / "whole", allow_pickle=True)
    asked = []
    for each in (better, loaded, whole, better.deepcopy()):
        server.seen.requests.clear()
        each(question="ticket 500")
        asked.append(list(server.seen.requests))
    assert asked[0][0]
    assert asked[1:] == asked[:1] * 3
    assert shown(asked[0][0])
    assert whole.ease.expected == better.ease.expected
    assert "ease" not in json.loads((tmp_path / "better.json").read_text())


def test_dspy_evaluates_the_program(server):
    better = compiled()
    rows = [example(number) for number in range(500, 550)]
    score = dspy.Evaluate(devset=rows, metric=right, num_threads=4)(better).score
    assert abs(score / 100 - chance([each.question for each in better.ease.exemplars])) < 0.25


def test_a_program_found_may_be_searched_again(server):
    better = compiled(calls=20)
    again = compiled(better)
    assert isinstance(again.ease, Found)
    assert again.ease is not better.ease
    assert len(again.ease.history) > len(better.ease.history)


def test_what_was_found_is_one_line(server):
    found = compiled(calls=20).ease
    assert f"{found.expected:.3f}" in str(found)
    assert "after 20 calls" in str(found)
    assert "history" not in repr(found)


# --- journal ----------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from tests.support.dspy_endpoint import MODEL
import tests.unit.test_dspy as cases
from types import SimpleNamespace
with cases.dspy.context(lm=cases.lm_of(SimpleNamespace(base_url=sys.argv[1]))):
    cases.compiled(cases.TwoSteps(), journal=sys.argv[2])
"""


@pytest.mark.rooms("ease_lib/dspy.py", "ease_lib/trials.py", "ease_lib/search/ask_tell.py")
def test_a_killed_search_continues_and_asks_nothing_again_that_was_told(server, tmp_path):
    journal = tmp_path / "search.jsonl"
    whole = compiled(TwoSteps())
    server.seen.requests.clear()
    enough = threading.Event()
    server.seen.on_request = lambda messages: (
        (enough.set(), time.sleep(60)) if len(server.seen.requests) > 50 else time.sleep(0.01)
    )
    command = [sys.executable, "-c", PROGRAM, server.base_url, str(journal)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert enough.wait(60), process.stderr.read()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    before = len(server.seen.requests)
    server.seen.on_request = lambda messages: None
    better = compiled(TwoSteps(), journal=journal)
    assert better.ease.history == whole.ease.history
    assert demos_of(better) == demos_of(whole)
    bootstrapping = [question for question in server.seen.questions if question in {row.question for row in TRAIN}]
    assert len(bootstrapping) == 2 * 12, "not again"
    assert len(server.seen.requests) - before < 2 * (40 - 12)
    assert len(server.seen.requests) <= 2 * (40 + 8), "rows of four trials of two may not have been told"
    asked = len(server.seen.requests)
    again = compiled(TwoSteps(), journal=journal)
    assert len(server.seen.requests) == asked, "all was told"
    assert demos_of(again) == demos_of(better)
    assert again.ease.calls == better.ease.calls


def test_what_was_bootstrapped_before_a_kill_is_not_asked_again(server, tmp_path):
    whole = compiled(TwoSteps(), journal=tmp_path / "search.jsonl")
    pool = tmp_path / "search.jsonl.pool.jsonl"
    header, *lines = pool.read_bytes().splitlines(keepends=True)
    pool.write_bytes(header + b"".join(lines[:7]) + lines[7][:-5])
    (tmp_path / "search.jsonl").unlink()
    server.seen.requests.clear()
    again = compiled(TwoSteps(), journal=tmp_path / "search.jsonl")
    assert again.ease.history == whole.ease.history
    assert sum(each in {row.question for row in TRAIN} for each in server.seen.questions) == 2 * (12 - 7)


@pytest.mark.parametrize("method", ["halving", "best_of_n"])
def test_a_search_continues_where_enough_was_accepted_before_all_was_tried(server, tmp_path, method):
    more = {"metric": anything, "method": method, "k": 2, "calls": 60}
    first = compiled(TwoSteps(), journal=tmp_path / "search.jsonl", **more)
    asked = len(server.seen.requests)
    again = compiled(TwoSteps(), journal=tmp_path / "search.jsonl", **more)
    assert len(server.seen.requests) == asked
    assert (again.ease.bootstrapping, again.ease.history) == (first.ease.bootstrapping, first.ease.history)


def test_what_an_outage_failed_is_asked_again(server, tmp_path):
    whole, journal = compiled(TwoSteps()), tmp_path / "search.jsonl"
    most = len(server.seen.requests) // 3
    for _ in range(2):  # once while bootstrapping, once while searching
        server.seen.requests.clear()
        server.seen.fails = lambda question: len(server.seen.requests) > most
        with pytest.raises(Exception, match="this question is refused"):
            compiled(TwoSteps(), journal=journal, max_errors=4)
    server.seen.fails = lambda question: False
    better = compiled(TwoSteps(), journal=journal)
    assert better.ease.history == whole.ease.history
    assert better.ease.failed == 0


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"trainset": TRAIN[1:]},
        {"metric": lambda example, prediction, trace=None: not right(example, prediction)},
        {"program": dspy.Predict("question -> answer", temperature=0.9)},
        {"program": dspy.Predict(dspy.Signature("question -> answer", "Be brief."))},
        {"k": 2},
        {"method": "capo"},
    ],
)
def test_a_journal_of_another_search_is_refused(server, tmp_path, change):
    compiled(journal=tmp_path / "search.jsonl", calls=20)
    asked = len(server.seen.requests)
    with pytest.raises(errors.JournalError, match=r"move it .*away or choose another journal"):
        compiled(journal=tmp_path / "search.jsonl", calls=20, **change)
    assert len(server.seen.requests) == asked


def test_more_calls_continue_a_search_where_the_method_does(server, tmp_path):
    more = {"method": "best_of_n", "evaluation_rows": 5, "journal": tmp_path / "search.jsonl"}
    shorter = compiled(calls=15, **more)
    longer = compiled(calls=30, **more)
    assert len(server.seen.requests) == longer.ease.calls == 30
    assert longer.ease.history[:3] == shorter.ease.history


def test_a_journal_is_refused_while_another_search_uses_it(server, tmp_path):
    def metric(example, prediction, trace=None):
        with pytest.raises(errors.JournalInUse, match="is in use by another search"):
            compiled(journal=tmp_path / "search.jsonl")
        return True

    compiled(metric=metric, journal=tmp_path / "search.jsonl", calls=2, num_threads=1)


class Carrying(TwoSteps):
    """A program that hands on what no file can hold."""

    def forward(self, question):
        return self.respond(question=question, query=self.search(question=question).query, thing=threading.Lock())


def test_what_a_journal_cannot_hold_is_refused_where_there_is_one(server, tmp_path):
    with pytest.raises(errors.DataError, match="field thing of a demonstration is a lock, which a journal cannot hold"):
        compiled(Carrying(), journal=tmp_path / "search.jsonl")
    assert compiled(Carrying(), calls=20).ease.calls == 20


def test_a_damaged_pool_is_refused(server, tmp_path):
    (tmp_path / "search.jsonl.pool.jsonl").write_bytes(b"no json\n")
    with pytest.raises(errors.JournalError, match="is damaged; move it and its journal away"):
        compiled(journal=tmp_path / "search.jsonl")


def test_an_interrupt_ends_the_search_promptly(server, tmp_path):
    journal = tmp_path / "search.jsonl"
    server.seen.latency_seconds = 0.2
    main = threading.main_thread().ident

    def interrupt(messages):
        if len(server.seen.requests) == 12:
            signal.pthread_kill(main, signal.SIGINT)

    server.seen.on_request = interrupt
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compiled(journal=journal, calls=2000)
    assert time.monotonic() - started < 10
    time.sleep(0.5)
    assert len(server.seen.requests) <= 12 + 4, "threads end after the row that they have"
    server.seen.on_request, server.seen.latency_seconds = lambda messages: None, 0.0


# --- imports ----------------------------------------------------------------------------------------------------------


def run_python(code):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)


@pytest.mark.rooms("ease_lib/dspy.py", "ease_lib/trials.py", "ease_lib/search/ask_tell.py")
@pytest.mark.parametrize(
    "imports",
    ["import dspy, ease_lib.trials", "import ease_lib, dspy"],
)
def test_dspy_and_the_search_are_imported_in_either_order(imports):
    done = run_python(f"{imports}\nfrom ease_lib.dspy import EASE\nimport numpy.typing; print(EASE)")
    assert done.stdout == "<class 'ease_lib.dspy.EASE'>\n", done.stderr


def test_without_dspy_the_message_says_how_to_install_it():
    done = run_python("""
        import sys
        sys.modules["dspy"] = None
        try:
            from ease_lib.dspy import EASE
        except ImportError as error:
            print(error)
    """)
    assert done.stdout == 'DSPy is not installed; install it: pip install "ease-pipelines[dspy]"\n', done.stderr
