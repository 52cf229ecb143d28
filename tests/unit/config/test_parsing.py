import pytest

from ease_lib.cli.__main__ import main
from ease_lib.config.parsing import (
    checked_values,
    declared_parameters,
    flat_parameters,
    parse_parameters,
    read_by,
    read_parameter_file,
    stage_config,
)
from ease_lib.config.sections import EmbeddingConfig, HardwareConfig, OnlyLineage, RunConfig
from ease_lib.errors import ConfigError
from ease_lib.running.graph import RUN, STAGES


def test_defaults_of_ease_are_the_papers():
    search = parse_parameters({"method": "ease"}).optimizer
    assert (search.budget, search.evaluation_rows, search.initial_design, search.k) == (165, 20, 40, 5)
    assert (search.shortest, search.under_way) == (5, 1)
    assert (search.sampled_candidates, search.shortlist_size, search.nu, search.ridge) == (50_000, 1_000, 0.1, 0.1)


def test_by_default_rows_and_the_number_of_exemplars_are_chosen():
    parameters = parse_parameters({})
    search, task = parameters.optimizer, parameters.task
    assert (search.method, search.budget, search.evaluation_rows, search.k) == ("adaptive", 165, 20, 5)
    assert (search.shortest, search.under_way) == (0, 8)
    assert (task.pool_size, task.validation_size, task.test_size) == (-1, -1, -1)


TABLE = {"task": "table", "task_uri": "t.csv"}


@pytest.mark.parametrize("method", ["adaptive", "ease"])
def test_what_is_asked_for_holds_for_every_method(method):
    search = parse_parameters({"method": method, "k_min": 2, "parallel": 3}).optimizer
    assert (search.shortest, search.under_way) == (2, 3)


def test_numbers_arrive_as_strings_and_floats():
    parameters = parse_parameters({"k": "3", "budget": 50.0, "noise_ratio": "0.5", "seed": "7"})
    assert (parameters.optimizer.k, parameters.optimizer.budget) == (3, 50)
    assert (parameters.task.noise_ratio, parameters.run.seed) == (0.5, 7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"noise_ratio": 1.3}, "noise_ratio=1.3 is above 1, the most allowed"),
        ({"k": 0}, "k=0 is below 1, the least allowed"),
        ({"k": "many"}, "k='many' is not a whole number; its default is 5"),
        ({"k": 2.5}, "k=2.5 is not a whole number"),
        ({"k": True}, "k=True is not a whole number"),
        ({"nu": float("nan")}, "nu=nan is not a number"),
        ({"budget": float("inf")}, "budget=inf is not a whole number"),
        ({"task": "poetry"}, "task=poetry is not one of customer_feedback, lr"),
        ({"buget": 5}, "unknown parameter buget; did you mean budget?"),
        ({"k": 101, "pool_size": 100}, "k=101 exceeds pool_size=100; lower k or raise pool_size"),
        ({"prefilter": "bm25", "retained": 3}, "k=5 exceeds retained=3"),
        ({"task": "table"}, "task=table needs task_uri"),
        ({"task": "aqua"}, "task=aqua needs task_uri: its file of JSON lines, or a folder"),
        ({"llm_base_url": "http://user:secret@host/v1"}, "llm_base_url holds a user or password"),
        ({"llm_base_url": "https://host/v1?api_key=secret"}, "llm_base_url holds api_key=..., which is a key"),
        ({"embedder": "openai:m", "embedder_base_url": "http://user:secret@host"}, "embedder_base_url holds a user"),
        ({"embedder": "openai:m", "embedder_base_url": "host/v1"}, "embedder_base_url=host/v1 is not an http(s) URL"),
        ({"embedder": "openai:"}, "embedder=openai: names no model; use e.g. openai:text-embedding-3-small"),
        (
            {"embedder_base_url": "http://host/v1"},
            "embedder_base_url has no effect with embedder=bundled-minilm; remove it",
        ),
        ({"task": "instruction_induction", "task_uri": "x"}, "needs task_name"),
        ({"max_cost_usd": 5}, "max_cost_usd=5.0 needs prices; set llm_prompt_usd"),
        ({"warm_start": "perhaps"}, "warm_start='perhaps' is neither true nor false; its default is False"),
        (
            {"k_min": 0, "method": "ease"},
            "k_min=0 does not work with method=ease; set 1 or more, or choose one of adaptive",
        ),
        ({"k_min": 6}, "k_min=6 exceeds k=5; lower k_min or raise k"),
        ({"k_min": 3, "method": "dpp"}, "k_min=3 does not work with method=dpp; choose one of adaptive, halving"),
        ({"budget": 0}, "budget=0 takes the budget from max_llm_requests, which is 0 too; set one of them"),
        (
            {"budget": 0, "method": "ease", "max_llm_requests": 9},
            "budget=0 does not work with method=ease; set 1 or more",
        ),
        ({"validation_size": 0}, "validation_size=0 leaves no rows for the search; set a number of rows, or -1"),
        ({"warm_start": True, "method": "ease", "store_uri": "s"}, "warm_start does not work with method=ease"),
        ({**TABLE, "encoding": "utf-99"}, "encoding=utf-99 is unknown; use e.g. utf-8, cp1252"),
        ({**TABLE, "encoding": "rot13"}, "encoding=rot13 is unknown"),
        (
            {**TABLE, "store_uri": "minio://bucket/runs"},
            "only Kubeflow understands minio://; write s3://bucket/runs",
        ),
        ({**TABLE, "split_column": "a", "time_column": "b"}, "split_column and time_column both define the test set"),
        ({**TABLE, "split_column": "a", "test_uri": "b.csv"}, "test_uri and split_column both define the splits"),
        ({"task": "table", "task_name": "a", "test_uri": "b.csv"}, "test_uri needs task_uri"),
        ({"group_column": "a"}, "group_column has no effect with task="),
        ({"output_lists": "set"}, "output_lists has no effect with task="),
        ({**TABLE, "output_lists": "both"}, "output_lists=both is not one of alternatives, set"),
    ],
)
def test_bad_values_are_named_with_their_limit_and_remedy(values, message):
    with pytest.raises(ConfigError) as caught:
        parse_parameters(values)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), ("True", True), ("false", False), (1.0, True), ("0", False)]
)
def test_booleans_arrive_in_many_spellings(value, expected):
    assert parse_parameters({"publish_signed": value, "publish_uri": "p"}).publishing.publish_signed is expected


def test_all_problems_are_listed_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_parameters({"noise_ratio": -1, "k": "x", "wrong": 1})
    assert len(caught.value.problems) == 3


def test_a_stage_gets_the_parameters_of_its_sections_and_no_others():
    parameters = parse_parameters({"method": "ease", "nu": 0.7, "seed": 3})
    of_a_shard = {"shard", "shards"}
    for config in (stage.module.Config for stage in RUN):
        values = read_by([config], parameters)
        wrapper = set(declared_parameters(OnlyLineage))
        assert set(values) == (set(declared_parameters(config)) - of_a_shard) | wrapper
        for name, value in flat_parameters(stage_config(config, values)).items():
            assert name in of_a_shard or value == flat_parameters(parameters)[name]


def test_a_stage_takes_numbers_as_kubeflow_carries_them():
    """Every number of a struct is a double, on the cluster a whole one is an int."""
    config = STAGES["optimize"].module.Config
    for budget, nu in ((60.0, 1), ("60.0", "1.0")):
        built = stage_config(config, {"budget": budget, "nu": nu, "seed": float(2**53), "warm_start": 0.0})
        assert (built.optimizer.budget, built.optimizer.nu, built.run.seed) == (60, 1.0, 2**53)
        assert type(built.optimizer.budget) is int
        assert type(built.optimizer.nu) is float
        assert built.optimizer.warm_start is False


def test_what_a_component_is_not_given_has_its_default():
    assert stage_config(STAGES["embed"].module.Config, {}) == STAGES["embed"].module.Config(
        embedding=EmbeddingConfig(), hardware=HardwareConfig(), run=RunConfig()
    )


def test_a_component_refuses_what_is_no_parameter_and_values_that_break_a_rule():
    with pytest.raises(ConfigError, match="unknown parameter budgett; did you mean budget"):
        checked_values({"budgett": 60})
    with pytest.raises(ConfigError, match="llm_extra is not JSON"):
        stage_config(STAGES["optimize"].module.Config, {"llm_extra": "{"})


def test_records_lie_in_the_store_unless_they_have_a_place_of_their_own():
    assert checked_values({"store_uri": "s3://b/store/"})["lineage_uri"] == "s3://b/store/lineage"
    assert checked_values({"store_uri": "s3://b/store", "lineage_uri": "s3://b/l"})["lineage_uri"] == "s3://b/l"
    assert checked_values({})["lineage_uri"] == ""


def test_every_parameter_has_one_line_of_help():
    for parameter in declared_parameters().values():
        assert parameter.help
        assert "\n" not in parameter.help


def test_parameter_files_must_map_names_to_values(tmp_path):
    path = tmp_path / "set.yaml"
    path.write_text("- budget")
    with pytest.raises(ConfigError, match="must map parameter names to values"):
        read_parameter_file(path)
    path.write_text("k: [")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_parameter_file(path)


def test_a_version_in_the_address_is_no_secret():
    url = "https://host/openai?api-version=2024-10-21"
    assert parse_parameters({"llm_base_url": url}).endpoint.llm_base_url == url


def test_what_a_run_sets_by_itself_is_in_no_list_for_people(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help-all"])
    shown = capsys.readouterr().out
    assert "--store-uri" in shown
    assert not [name for name in ("--ledger", "--run-name", "--answers ") if name in shown]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nu": 1.0}, "nu has no effect with method=adaptive"),
        (
            {"initial_design": 5},
            "initial_design has no effect with method=adaptive",
        ),
        (
            {"task": "lr", "task_uri": "x"},
            "task_uri has no effect with task=lr",
        ),
        ({"split_column": "part"}, "split_column has no effect with task="),
        ({"retained": 7}, "retained has no effect with prefilter=none"),
        ({"judge_model": "m"}, "judge_model has no effect because this run asks no"),
        (
            {"method": "cosine", "max_prompt_tokens": 900},
            "max_prompt_tokens has no effect with method=cosine",
        ),
    ],
)
def test_an_option_that_nothing_reads_is_refused_with_who_would(values, message):
    with pytest.raises(ConfigError, match=message):
        parse_parameters(values)


def test_fields_of_a_form_at_their_defaults_are_for_every_run():
    assert parse_parameters({name: each.default for name, each in declared_parameters().items()})


def test_help_says_who_reads_an_option(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help-all"])
    assert "Exploration weight of NeuralUCB" in (shown := " ".join(capsys.readouterr().out.split()))
    assert "is 0.1 here (method=ease)." in shown


def test_what_a_set_has_for_another_method_than_the_options_name_is_left_out(capsys):
    assert main(["plan", "--params", "paper", "--method", "best_of_n"]) == 0
    assert main(["plan", "--params", "paper", "--method", "best_of_n", "--nu", "1"]) == 2
    assert "nu has no effect with method=" in capsys.readouterr().err
