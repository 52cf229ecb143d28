"""All stages in one process, on the shipped task with the simulated black-box."""

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from ease_lib.artifacts import contracts
from ease_lib.artifacts.result_files import REPORT, RESULT_FILES
from ease_lib.artifacts.tables import read_document, read_exemplars, read_table, write_exemplars
from ease_lib.black_box.client import estimated_tokens
from ease_lib.config.parsing import parse_parameters, without_unread
from ease_lib.digests import sha256_of_text
from ease_lib.errors import AuthenticationFailed, ConfigError, ContractError, DataError, StoreError
from ease_lib.prompts.messages import Chat
from ease_lib.prompts.template import PromptTemplate
from ease_lib.reporting.result_text import result_text
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import build_dataset, check_prerequisites, optimize, prefilter, rank_pool
from ease_lib.tasks.base import Exemplar
from tests.simulation.models import SIMULATED
from tests.support.faulty_endpoint import MODEL, faulty_endpoint, status
from tests.support.runs import checked, run_stages

SMOKE = {
    "method": "ease",
    "noise_ratio": 0.15,
    "pool_size": 40,
    "validation_size": 10,
    "test_size": 20,
    "budget": 9,
    "initial_design": 6,
    "sampled_candidates": 500,
    "shortlist_size": 50,
    "llm_base_url": SIMULATED,
}


def render_prompt(exemplars, query, instruction=""):
    return PromptTemplate().render(exemplars, Exemplar(-1, query, ("",)), instruction)


def run(at, *stages, **changes):
    return run_stages(at, parse_parameters(without_unread({**SMOKE, **changes}, kept=changes)), *stages)


def run_optimize(at, **changes):
    return run(at, optimize, **changes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    at = Workspace(tmp_path_factory.mktemp("run"))
    run(at, *modules_between("", "optimize"), optimize, store_uri=str(at.folder / "store"))
    run(at, *modules_between("optimize", "publish"))
    return at


@pytest.fixture
def prepared(finished, tmp_path):
    """The artifacts before the search, with places of its own for the search's."""
    names = ("pool", "kept", "validation", "summary", "instructions", "embeddings")
    return Workspace(tmp_path, **{name: getattr(finished, name) for name in names})


def test_report_holds_the_numbers_of_the_run(finished):
    numbers = read_document(Path(finished.numbers), contracts.REPORT)
    history = read_table(Path(finished.history), contracts.HISTORY).to_pylist()
    assert numbers["best"]["validation_score"] == max(row["score"] for row in history)
    assert numbers["evaluations"] == len(history) == 9
    assert numbers["llm"]["requests"] == 9 * 10 + 5 * 20
    assert (numbers["answered_by_function"], numbers["resumed"], numbers["dataset"]["noisy"]) == (True, False, 6)
    assert numbers["seconds"]["total"] >= numbers["seconds"]["llm"] > 0
    assert (numbers["answers"], numbers["sequences"], numbers["best"]["validation_rows"]) == (9 * 10, 9, 10)
    low, high = numbers["best"]["estimate_interval"]
    assert low < numbers["best"]["estimate"] < high
    assert numbers["best"]["estimate"] < numbers["best"]["validation_score"], "the best of nine was lucky too"


def test_what_a_row_was_asked_and_scored_is_in_the_history(finished):
    validation = {row.exemplar_id for row in read_exemplars(Path(finished.validation), contracts.VALIDATION_SET)}
    for row in read_table(Path(finished.history), contracts.HISTORY).to_pylist():
        assert set(row["row_ids"]) == validation
        assert sum(row["row_scores"]) / len(row["row_scores"]) == pytest.approx(row["score"])


def test_the_winner_is_compared_with_no_exemplars_on_the_same_rows(finished):
    rows = read_table(Path(finished.predictions), contracts.PREDICTIONS).to_pylist()
    best, without = (
        [row["score"] for row in rows if row["sequence"] == sequence] for sequence in ("best", "zero_shot")
    )
    report = read_document(Path(finished.numbers), contracts.REPORT)
    assert len(best) == len(without) == 20
    assert report["zero_shot"]["score"] == pytest.approx(sum(without) / 20)
    assert report["zero_shot"]["mean"] == pytest.approx((sum(best) - sum(without)) / 20)
    assert report["verdict"]["text"] in Path(finished.page).read_text()
    assert result_text(Path(finished.results), 1.0).startswith(f"\n{report['verdict']['text']}\n")


def test_a_test_score_that_was_not_expected_is_said_on_the_terminal(finished, tmp_path):
    results = shutil.copytree(finished.results, tmp_path / "results")
    report = json.loads((results / REPORT).read_text())
    report["best"] |= {"test_score": 0.2, "test_interval": [0.1, 0.3], "estimate": 0.6, "estimate_interval": [0.5, 0.7]}
    (results / REPORT).write_text(json.dumps(report))
    verdict, sentence, _ = result_text(results, 1.0).strip().split("\n", 2)
    assert verdict == report["verdict"]["text"]
    assert sentence.startswith("The test score is 40.0 points below what the search expected")


@pytest.mark.parametrize(("method", "sequences"), [("adaptive", 10), ("halving", 10), ("capo", 9)])
def test_a_method_that_chooses_rows_gets_to_the_report(finished, prepared, method, sequences):
    """It asks no row of a sequence twice, and its winner has the confirmed score."""
    prepared.place(test=finished.test)
    run(prepared, optimize, *modules_between("optimize", "publish"), method=method)
    report, history = read_document(Path(prepared.numbers), contracts.REPORT), history_of(prepared)
    asked = [(row["instruction_id"], *row["exemplar_ids"], row_id) for row in history for row_id in row["row_ids"]]
    assert report["answers"] == len(asked) == len(set(asked)) == 9 * 10
    assert report["sequences"] >= sequences
    tested = read_table(Path(prepared.predictions), contracts.PREDICTIONS).num_rows
    assert report["llm"]["requests"] == 9 * 10 + tested
    assert report["best"]["estimate"] == report["best"]["validation_score"] == history[-1]["incumbent_score"]
    low, high = report["best"]["estimate_interval"]
    assert 0 <= low <= report["best"]["estimate"] <= high <= 1
    assert (Path(prepared.results) / "prompt.txt").read_text().endswith("Input: {input}\nOutput:")


def test_a_method_that_chooses_rows_is_continued_and_asks_nothing_again(prepared, tmp_path):
    values = {"method": "adaptive", "store_uri": str(tmp_path / "store")}
    run_optimize(prepared, **values)
    before = Path(prepared.history).read_bytes(), Path(prepared.best_sequence).read_bytes()
    run_optimize(prepared, **values)
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert (summary["replayed"], summary["llm"]["new_requests"]) == (summary["evaluations"], 0)
    assert (Path(prepared.history).read_bytes(), Path(prepared.best_sequence).read_bytes()) == before


def test_evaluations_of_a_method_of_the_paper_ask_the_same_part_of_the_validation_rows(prepared):
    run_optimize(prepared, evaluation_rows=4)
    history = history_of(prepared)
    assert {tuple(row["row_ids"]) for row in history} == {tuple(history[0]["row_ids"])}
    assert [len(row["row_ids"]) for row in history] == [4] * 9


def test_no_prompt_is_longer_than_max_prompt_tokens(finished, prepared):
    """Five exemplars average about 90 tokens before the query; the ones here fit into 60 with it."""
    prepared.place(test=finished.test)
    run(prepared, optimize, *modules_between("optimize", "publish"), method="adaptive", max_prompt_tokens=60)
    pool = {row.exemplar_id: row for row in read_exemplars(Path(prepared.kept), contracts.EXEMPLAR_POOL)}
    queries = [row.input for row in read_exemplars(Path(prepared.validation), contracts.VALIDATION_SET)]
    for row in history_of(prepared):
        sequence = [pool[exemplar_id] for exemplar_id in row["exemplar_ids"]]
        assert max(estimated_tokens(render_prompt(sequence, query)) for query in queries) <= 60
    with pytest.raises(ConfigError, match=r"max_prompt_tokens=20 leaves .* tokens for 5 exemplars next to a query of"):
        run_optimize(prepared, max_prompt_tokens=20)


def test_the_order_of_the_winner_is_asked_where_that_is_wanted(finished, prepared):
    prepared.place(test=finished.test)
    run(prepared, optimize, *modules_between("optimize", "publish"), order_report=6, evaluation_rows=5)
    report = read_document(Path(prepared.numbers), contracts.REPORT)
    order = report["order"]
    assert (order["permutations"], order["rows"]) == (1 + 6, 5)
    assert order["lowest"] <= order["mean"] + 1e-9 <= order["highest"] + 2e-9
    assert report["llm"]["requests"] == 9 * 5 + 7 * 5 + 5 * 20, "the winner too, on rows that did not choose it"
    assert "Does its order matter?" in Path(prepared.page).read_text()
    assert read_document(Path(finished.numbers), contracts.REPORT)["order"] is None


def test_results_folder_is_complete_and_consistent(finished):
    folder = Path(finished.results)
    assert sorted(path.name for path in folder.iterdir()) == sorted(RESULT_FILES)
    best = json.loads((folder / "best_sequence.json").read_text())
    pool = {row.exemplar_id: row for row in read_exemplars(Path(finished.kept), contracts.EXEMPLAR_POOL)}
    prompt = (folder / "prompt.txt").read_text()
    assert prompt == render_prompt([pool[exemplar_id] for exemplar_id in best["exemplar_ids"]], "{input}")
    messages = json.loads((folder / "messages.json").read_text())
    assert messages == [{"role": "user", "content": prompt}]
    request = json.loads((folder / "request.json").read_text())
    assert request == {"messages": messages, "model": best["llm_model"]}, "a function takes no parameters"
    assert pq.read_table(folder / "history.parquet").num_rows == 9


def test_a_prompt_of_ones_own_is_searched_tested_and_shown_as_it_is_sent(tmp_path):
    rows = [(f"{kind} {number} {{body}}", f"about {kind}", kind) for number in range(30) for kind in ("bug", "praise")]
    lines = ["subject,body,label", *(",".join(row) for row in rows)]
    (tmp_path / "mail.csv").write_text("\n".join(lines), encoding="utf-8")
    template = {"exemplars": "turns", "system": "Sort mail.", "query": "Input: {subject}: {body}\nOutput:"}
    (tmp_path / "prompt.yaml").write_text(yaml.safe_dump(template), encoding="utf-8")
    at = Workspace(tmp_path / "run")
    table = {"task": "table", "task_uri": str(tmp_path / "mail.csv"), "output_column": "label"}
    run(at, *modules_between("", "publish"), **table, noise_ratio=0, pool_size=20, prompt=str(tmp_path / "prompt.yaml"))
    messages = json.loads((Path(at.results) / "messages.json").read_text())
    assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * 5, "user"]
    assert messages[-1]["content"] == "Input: {subject}: {body_}\nOutput:", "{body} stands in the exemplars"
    test = {row.exemplar_id: row for row in read_exemplars(Path(at.test), contracts.TEST_SET)}
    first = read_table(Path(at.predictions), contracts.PREDICTIONS).to_pylist()[0]
    for column, mark in (("subject", "{subject}"), ("body", "{body_}")):
        messages[-1]["content"] = messages[-1]["content"].replace(mark, dict(test[first["exemplar_id"]].fields)[column])
    assert first["prompt_sha256"] == sha256_of_text(Chat.of((each["role"], each["content"]) for each in messages))


def test_columns_in_the_prompt_need_a_table(tmp_path):
    (tmp_path / "prompt.yaml").write_text("query: 'Q: {question}'", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"prompt names \{question\}, and rows of task=customer_feedback"):
        run(Workspace(tmp_path), build_dataset, prompt=str(tmp_path / "prompt.yaml"))


def test_equal_parameters_give_equal_artifacts(finished, prepared, tmp_path):
    again = Workspace(tmp_path)
    run(again, *modules_between("", "optimize"))
    for name in ("pool", "kept", "validation", "test", "summary", "instructions"):
        assert Path(getattr(again, name)).read_bytes() == Path(getattr(finished, name)).read_bytes(), name
    run_optimize(prepared)
    assert Path(prepared.best_sequence).read_bytes() == Path(finished.best_sequence).read_bytes()


def test_a_second_run_on_the_same_store_asks_nothing(finished, prepared):
    run_optimize(prepared, store_uri=str(finished.folder / "store"))
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert (summary["resumed"], summary["replayed"]) == (True, 9)
    assert Path(prepared.history).read_bytes() == Path(finished.history).read_bytes()


def test_another_method_on_the_same_store_asks_nothing_twice(prepared, tmp_path):
    """Best-of-N draws the same initial design as EASE at the same seed."""
    store = {"store_uri": str(tmp_path / "store")}
    run_optimize(prepared, **store)
    run_optimize(prepared, method="best_of_n", **store)
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert (summary["llm"]["cached"], summary["llm"]["requests"]) == (6 * 10, 3 * 10)


def test_flipping_is_noisy_changes_no_proposal(finished, prepared, tmp_path):
    pool = read_exemplars(Path(finished.kept), contracts.EXEMPLAR_POOL)
    flipped = [replace(row, is_noisy=not row.is_noisy) for row in pool]
    write_exemplars(tmp_path / "flipped", contracts.EXEMPLAR_POOL, flipped)
    prepared.place(kept=str(tmp_path / "flipped"))
    run_optimize(prepared)
    sequences = [
        read_table(Path(path), contracts.HISTORY)["exemplar_ids"] for path in (prepared.history, finished.history)
    ]
    assert sequences[0].equals(sequences[1])


@pytest.mark.parametrize(("method", "replayed"), [("ease", 3), ("adaptive", 17)])
def test_failure_in_the_search_keeps_what_was_paid(prepared, tmp_path, method, replayed):
    """34 answers are three evaluations of ten rows, or seventeen first looks at two; the last may not be noted yet."""
    endpoint = {"llm_model": MODEL, "llm_concurrency": 1, "store_uri": str(tmp_path / "store"), "method": method}
    with faulty_endpoint(lambda prompt: "praise") as server:
        answered = [0]

        def answer(prompt):
            answered[0] += 1
            if answered[0] == 35:
                server.script.faults.append(status(401, "key expired"))
            return "praise"

        server.script.answer = answer
        with pytest.raises(Exception, match="key expired; check EASE_LLM_API_KEY"):
            run_optimize(prepared, llm_base_url=server.base_url, **endpoint)
        run_optimize(prepared, llm_base_url=server.base_url, **endpoint)
        assert set(server.script.finished.values()) == {1}
    assert 0 < read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)["replayed"] <= replayed


def test_the_key_reaches_the_endpoint_and_no_artifact(prepared, monkeypatch, tmp_path):
    monkeypatch.setenv("EASE_LLM_API_KEY", "sk-canary-123")
    seen = set()
    with faulty_endpoint(lambda prompt: "praise") as server:
        original = server.RequestHandlerClass.do_POST

        class Watching(server.RequestHandlerClass):
            def do_POST(self):
                seen.add(self.headers["authorization"])
                original(self)

        server.RequestHandlerClass = Watching
        run_optimize(prepared, llm_base_url=server.base_url, store_uri=str(tmp_path / "store"), budget=7)
    assert seen == {"Bearer sk-canary-123"}
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"canary-123" in content for content in written)


def history_of(at):
    return read_table(Path(at.history), contracts.HISTORY).to_pylist()


def test_a_run_on_s3_continues_on_a_node_with_an_empty_disk(prepared, s3_prefix):
    """Journal and answers lie on a real S3 server; nothing else is shared by the two attempts."""
    with faulty_endpoint(lambda prompt: "praise") as server:
        endpoint = {"llm_base_url": server.base_url, "llm_concurrency": 4, "store_uri": s3_prefix}
        server.script.on_request = lambda prompt: (
            server.script.faults.append(status(401, "key expired")) if server.script.requests == 35 else None
        )
        with pytest.raises(AuthenticationFailed, match="key expired"):
            run_optimize(prepared, **endpoint)
        run_optimize(prepared, **endpoint)
        assert set(server.script.finished.values()) == {1}
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert (summary["replayed"], summary["evaluations"], summary["llm"]["requests"]) == (3, 9, 90)


def test_a_cap_leaves_the_test_set_its_part_and_is_reported(prepared, caplog):
    """Test set: 5 x 20 requests; an evaluation: 10. 145 - 100 allow four evaluations."""
    with caplog.at_level("INFO", "ease"):
        run_optimize(prepared, max_llm_requests=145)
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert (summary["evaluations"], summary["stopped"]) == (4, "max_llm_requests=145")
    assert "at most 9 x 10 = 90 requests, about" in caplog.text
    with pytest.raises(ConfigError, match="max_llm_requests=100 does not allow a single evaluation of 10 requests"):
        run_optimize(prepared, max_llm_requests=100)


def test_a_cap_that_retries_reach_leaves_the_order_report_its_part(prepared):
    """Test set: 5 x 20 requests; orders: 3 x 5; ten evaluations of 5, of which some are tried again."""
    with faulty_endpoint(lambda prompt: "praise" if len(prompt) % 3 else "request", *[status(429)] * 12) as server:
        endpoint = {"llm_base_url": server.base_url, "method": "best_of_n", "budget": 20, "order_report": 2}
        run_optimize(prepared, max_llm_requests=100 + 15 + 50, evaluation_rows=5, **endpoint)
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert summary["stopped"] == "max_llm_requests=165"
    assert summary["order"]["permutations"] == 3


def test_costs_are_estimated_capped_and_kept_by_evaluation(prepared, caplog):
    prices = {"llm_prompt_usd": 10.0, "llm_completion_usd": 30.0}
    with caplog.at_level("INFO", "ease"):
        run_optimize(prepared, **prices)
    costs = [row["cost_usd"] for row in history_of(prepared)]
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert sum(costs) == pytest.approx(summary["llm"]["cost_usd"])
    assert re.search(r"completion tokens, about \$0\.\d\d; then 100 for the test set", caplog.text)
    run_optimize(prepared, max_cost_usd=0.11, **prices)
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert summary["stopped"] == "max_cost_usd=0.11"
    spent, test_set = summary["llm"]["cost_usd"], 10 * summary["llm"]["cost_usd"] / summary["evaluations"]
    assert 0.1 < spent + test_set <= 0.11


def test_parallel_evaluations_hide_latency(prepared):
    """Six sequences of ten rows at 50 ms: 3 s one query at a time, less than half of that at once."""
    with faulty_endpoint(lambda prompt: "praise", latency_seconds=0.05) as server:
        endpoint = {"llm_base_url": server.base_url, "llm_concurrency": 60, "method": "best_of_n", "budget": 6}
        run_optimize(prepared, parallel=6, **endpoint)
        assert server.script.most_running > 15, "one evaluation alone has 10"
    assert len(history_of(prepared)) == 6


def test_what_the_report_says_was_waited_for_took_no_longer_than_the_run(finished, prepared):
    """Evaluations overlap, of the search and of the test set, and the order report comes behind the search."""
    prepared.place(test=finished.test)
    with faulty_endpoint(lambda prompt: "praise", latency_seconds=0.2) as server:
        begun = time.monotonic()
        values = {"llm_base_url": server.base_url, "method": "best_of_n", "evaluation_rows": 5, "order_report": 6}
        run(prepared, optimize, *modules_between("optimize", "publish"), **values)
        took = time.monotonic() - begun
    numbers = read_document(Path(prepared.numbers), contracts.REPORT)
    assert numbers["order"]["permutations"] == 1 + 6
    seconds = numbers["seconds"]
    assert 0 <= seconds["search"] < seconds["total"] <= took
    assert 0.3 < seconds["llm"] <= seconds["total"]


@pytest.mark.parametrize(
    ("method", "evaluations"),
    [
        ("influence", 9),
        ("cosine", 9),
        ("bm25", 9),
        ("dpp", 1),
        ("mmd", 1),
        ("ot", 1),
        pytest.param("active", 9, marks=pytest.mark.rooms("ease_lib/search", "ease_lib/stages")),
        ("llm_select", 1),
        ("zero_shot", 1),
    ],
)
def test_every_baseline_gets_to_the_report(finished, prepared, method, evaluations):
    prepared.place(test=finished.test)
    run(prepared, optimize, *modules_between("optimize", "publish"), method=method)
    numbers = read_document(Path(prepared.numbers), contracts.REPORT)
    assert (numbers["method"], numbers["evaluations"]) == (method, evaluations)
    if method != "active":  # the beginning of a sequence may win
        assert len(numbers["best"]["exemplar_ids"]) == (0 if method == "zero_shot" else 5)
    own, reference = other_predictions(prepared), other_predictions(finished)
    assert ("zero_shot" in own) == (method != "zero_shot")
    assert own.keys() - {"zero_shot"} == {"random 1", "random 2", "random 3"}
    assert all(own[name] == reference[name] for name in own if name in reference), "the same for every method"
    assert result_text(Path(prepared.results), 1.0)


def other_predictions(at):
    """Digests of the prompts asked without exemplars, and with random ones."""
    rows = read_table(Path(at.predictions), contracts.PREDICTIONS).to_pylist()
    prompts = {}
    for row in rows:
        if row["sequence"] != "best":
            prompts.setdefault(row["sequence"], []).append(row["prompt_sha256"])
    return prompts


@pytest.mark.parametrize("representation", ["sequence", "average"])
def test_other_representations_run_too(prepared, representation):
    run_optimize(prepared, representation=representation, budget=8)
    summary = read_document(Path(prepared.search), contracts.SEARCH_SUMMARY)
    assert (summary["truncated_sequences"] is not None) == (representation == "sequence")


def test_embeddings_of_another_pool_are_refused(finished, prepared, tmp_path):
    pool = read_exemplars(Path(finished.kept), contracts.EXEMPLAR_POOL)
    write_exemplars(
        tmp_path / "other", contracts.EXEMPLAR_POOL, [replace(row, exemplar_id=row.exemplar_id + 999) for row in pool]
    )
    prepared.place(kept=str(tmp_path / "other"))
    with pytest.raises(ContractError, match="embed this pool again"):
        run_optimize(prepared)


def test_k_above_the_retained_pool_is_refused(finished, prepared, tmp_path):
    pool = read_exemplars(Path(finished.kept), contracts.EXEMPLAR_POOL)
    write_exemplars(tmp_path / "few", contracts.EXEMPLAR_POOL, pool[:3])
    prepared.place(kept=str(tmp_path / "few"))
    with pytest.raises(ConfigError, match="k=5 exceeds the pool's 3 exemplars"):
        run_optimize(prepared)


@pytest.mark.parametrize("kind", ["cosine", "bm25"])
def test_prefilter_keeps_as_many_as_asked(finished, tmp_path, kind):
    at = Workspace(tmp_path, pool=finished.pool, validation=finished.validation)
    run(at, rank_pool, prefilter, prefilter=kind, retained=12)
    kept = read_exemplars(Path(at.kept), contracts.EXEMPLAR_POOL)
    assert len(kept) == 12
    assert set(kept) <= set(read_exemplars(Path(finished.pool), contracts.EXEMPLAR_POOL))


def check(**values):
    checked(parse_parameters(without_unread({**SMOKE, **values}, kept=values)))


def test_prerequisites_list_every_problem(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        check(
            task="table",
            task_uri=str(tmp_path / "none.csv"),
            embedder="/no/such/folder",
            store_uri=str(tmp_path / "file"),
            llm_base_url="http://127.0.0.1:9/v1",
        )
    text = str(caught.value)
    for part in (
        "none.csv: no such file",
        "embedder=/no/such/folder",
        "store_uri=",
        "127.0.0.1:9/v1 cannot be reached",
    ):
        assert part in text


def test_prerequisites_of_the_endpoint():
    with pytest.raises(ConfigError, match="llm_base_url=nonsense is not an http"):
        check(llm_base_url="nonsense")
    with faulty_endpoint(lambda prompt: "x", status(401, "wrong key")) as server:
        with pytest.raises(ConfigError, match="wrong key; check EASE_LLM_API_KEY"):
            check(llm_base_url=server.base_url)
        check(llm_base_url=server.base_url)
        with pytest.raises(ConfigError, match="check llm_model=gpt-9"):
            check(llm_base_url=server.base_url, llm_model="gpt-9")


def test_the_forms_advanced_field():
    form = SMOKE | {"sampled_candidates": 500, "shortlist_size": 50}
    assert check_prerequisites.read_form(form | {"advanced": "{nu: 0.7}"}).optimizer.nu == 0.7
    with pytest.raises(ConfigError, match="advanced repeats budget"):
        check_prerequisites.read_form(SMOKE | {"advanced": "budget: 3"})
    with pytest.raises(ConfigError, match="advanced is not valid YAML"):
        check_prerequisites.read_form(SMOKE | {"advanced": "{"})


def build(tmp_path, **values):
    at = Workspace(tmp_path)
    run(at, build_dataset, **values)
    return [
        read_exemplars(Path(path), contract)
        for path, contract in (
            (at.pool, contracts.EXEMPLAR_POOL),
            (at.validation, contracts.VALIDATION_SET),
            (at.test, contracts.TEST_SET),
        )
    ]


def test_ag_news_remap_is_two_lines_of_parameters(real_data, tmp_path):
    table = {
        "task": "table",
        "task_uri": str(real_data / "ag_news/test.csv"),
        "input_columns": "2,3",
        "output_column": "1",
    }
    pool, *_ = build(tmp_path, **table, label_remapping="1=Sports;2=Business;3=Technology;4=World")
    assert {row.output for row in pool} == {"World", "Sports", "Business", "Technology"}


def test_task_data_from_s3(s3, tmp_path, write_csv):
    s3.create_bucket(Bucket="stage-data")
    path = write_csv("rows.csv", ["text", "label"], [[f"text {n}", "ab"[n % 2]] for n in range(80)])
    s3.upload_file(str(path), "stage-data", "deep/rows.csv")
    s3.upload_file(str(path), "stage-data", "split/train.csv")
    other = write_csv("others.csv", ["text", "label"], [[f"other {n}", "ab"[n % 2]] for n in range(20)])
    s3.upload_file(str(other), "stage-data", "split/test.csv")
    columns = {"task": "table", "input_columns": "text", "output_column": "label", "noise_ratio": 0}
    one = build(tmp_path, task_uri="s3://stage-data/deep/rows.csv", **columns)
    assert [len(split) for split in one] == [40, 10, 20]
    pool, _, test = build(tmp_path, task_uri="s3://stage-data/split", **columns)
    assert (len(pool), len(test)) == (40, 20)
    with pytest.raises(StoreError, match="no such object"):
        build(tmp_path, task_uri="s3://stage-data/none.csv", **columns)


def test_an_empty_file_leaves_nothing_half_written(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match=r"empty\.csv has no rows"):
        build(tmp_path, task="table", task_uri=str(tmp_path / "empty.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["empty.csv"]
