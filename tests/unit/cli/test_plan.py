"""`ease plan`: what a run will ask."""

import math
from pathlib import Path

import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.black_box.local_llm import worker_count
from ease_lib.cli import __main__ as cli
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ConfigError
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.running.planning import in_words
from ease_lib.stages import optimize
from tests.simulation.models import SIMULATED
from tests.support.runs import planned, run_stages

SMALL = {
    "pool_size": 20,
    "validation_size": 12,
    "test_size": 9,
    "budget": 6,
    "evaluation_rows": 10,
    "llm_base_url": SIMULATED,
}


def requests(**values):
    return {part: usage.requests for part, usage in planned(parse_parameters({**SMALL, **values})).items()}


def test_a_run_asks_what_was_planned(tmp_path):
    at = Workspace(tmp_path)
    parameters = parse_parameters({**SMALL, "method": "best_of_n", "order_report": 2})
    run_stages(at, parameters, *modules_between("", "optimize"), optimize, *modules_between("optimize", "publish"))
    report = read_document(Path(at.numbers), contracts.REPORT)
    plan = requests(method="best_of_n", order_report=2)
    assert plan == {"trial questions": 1, "search": 60, "order report": 30, "test set": 45}
    assert plan["search"] + plan["test set"] <= report["llm"]["requests"] <= sum(plan.values()) - 1


def test_a_comparison_is_planned_as_the_sum_of_its_runs(capsys):
    options = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    axes = ["--methods", "best_of_n, dpp", "--tasks", "lr, lp_variant", "--noise-ratios", "0, 0.5", "--repeats", "3"]
    assert cli.main(["plan", *options, *axes]) == 0
    shown = capsys.readouterr().out.splitlines()
    one = {method: sum(requests(method=method, task="lr").values()) for method in ("best_of_n", "dpp")}
    asked = {line.split()[0]: int(line[18:30].replace(" ", "")) for line in shown[1:3]}
    assert asked == {method: 12 * count for method, count in one.items()}
    assert "24 runs: 2 methods x 4 tasks x 3 repeats, counting shared answers twice" in shown


def test_methods_caps_and_stages_change_what_is_asked(tmp_path):
    assert requests()["search"] == 60
    assert requests(method="dpp")["search"] == 10
    assert requests(evaluation_rows=0)["search"] == 72
    assert requests(max_llm_requests=80)["search"] == 80 - 45
    assert requests(budget=0, max_llm_requests=100)["search"] == 100 - 45
    assert requests(instructions=7)["instructions"] == 7
    assert requests(llm_refresh="probe")["trial questions"] == 5
    assert requests(publish_uri=str(tmp_path), publish_if="better")["gate"] == 9


def test_longer_prompts_and_thinking_cost_more_tokens():
    def search(**values):
        return planned(parse_parameters({**SMALL, "method": "best_of_n", **values}))["search"]

    assert search(k=5).prompt_tokens > 2 * search(k=1).prompt_tokens
    assert search(llm_thinking_tokens=100).completion_tokens == search().completion_tokens + 100 * 60


def test_it_says_that_nothing_was_sent_and_what_it_would_cost(capsys):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert cli.main(["plan", *options, "--llm-prompt-usd=1000", "--llm-completion-usd=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "nothing was sent"
    total = next(line.split() for line in lines if line.startswith("at most"))
    assert float(total[-1]) > 0
    assert cli.main(["plan", *options]) == 0
    assert "to see the cost" in capsys.readouterr().out


def test_requests_to_the_local_llm_wait_for_cores():
    """Twenty at once would be a tenth of the time that two cores need."""
    for url, at_once in {SIMULATED: 20, "local": worker_count()}.items():
        parameters = parse_parameters({**SMALL, "llm_base_url": url})
        parts = planned(parameters)
        asked = sum(usage.requests for usage in parts.values())
        assert f"; {math.ceil(asked / at_once)} s at 1 s an answer and {at_once} at once" in in_words(
            parameters, parts, 1.0
        )


def test_it_warns_where_the_default_method_has_few_answers(capsys):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, "validation_size": 20}.items()]
    warning = "the result may be no better than random search with the same budget"
    assert cli.main(["plan", *options]) == 0
    assert warning in capsys.readouterr().out
    for enough in (["--budget", "200"], ["--method", "best_of_n"]):
        assert cli.main(["plan", *options, *enough]) == 0
        assert warning not in capsys.readouterr().out


def test_a_cap_is_shared_out_before_anything_is_spent(capsys):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert cli.main(["plan", *options, "--max-llm-requests", "70"]) == 0
    assert "of max_llm_requests=70, 45 are for the test set and 25 for the search" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "least"),
    [
        ({"method": "best_of_n"}, 45 + 10),
        ({"method": "adaptive"}, 45 + 2),
        ({"method": "best_of_n", "order_report": 2}, 45 + 30 + 10),
    ],
)
def test_a_cap_that_leaves_no_search_is_refused_with_the_smallest_that_does(values, least):
    with pytest.raises(ConfigError, match=rf"max_llm_requests={least - 1} leaves \d+ requests.* at least {least},"):
        requests(**values, max_llm_requests=least - 1)
    assert requests(**values, max_llm_requests=least)["search"] > 0


def test_a_cap_on_cost_that_the_test_set_takes_is_refused():
    prices = {"llm_prompt_usd": 1000, "llm_completion_usd": 1000}
    with pytest.raises(ConfigError, match=r"max_cost_usd=0\.5 leaves nothing for the search: .* set at least"):
        requests(**prices, max_cost_usd=0.5)
    assert requests(**prices, max_cost_usd=500)["search"]


def test_more_exemplars_than_the_pool_has_are_refused():
    with pytest.raises(ConfigError, match=r"k=500 exceeds the pool's \d+ exemplars; lower k"):
        requests(k=500, pool_size=0)
