"""Instructions: proposed through a real endpoint, or read from a file; searched, counted and capped."""

import json
from pathlib import Path

import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.tables import read_document, read_table
from ease_lib.config.parsing import parse_parameters, without_unread
from ease_lib.errors import ConfigError, DataError
from ease_lib.prompts.instructions import read_instruction_file
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.search.task import read_instructions
from ease_lib.stages import build_dataset, evaluate, gate, optimize, prefilter, propose_instructions, report
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.runs import run_stages

SMALL = {
    "method": "ease",
    "pool_size": 20,
    "validation_size": 5,
    "test_size": 5,
    "budget": 6,
    "initial_design": 4,
    "sampled_candidates": 200,
    "shortlist_size": 40,
    "llm_model": MODEL,
    "llm_api": "completions",
    "instructions": 6,
}
RIGHT = "Instruction: Name the kind\n\n"


def answer(prompt):
    """Proposes one of two instructions; answers well only behind one of them."""
    if prompt.endswith("The instruction was to"):
        return " name the kind" if len(prompt) % 2 else " name the kind.\n\nInput: x"
    return "praise" if prompt.startswith(RIGHT) else "nothing"


def run(at, server, *stages, **changes):
    parameters = parse_parameters(
        without_unread(
            {**SMALL, "llm_base_url": server.base_url, "store_uri": str(at.folder / "store"), **changes}, kept=changes
        )
    )
    return run_stages(at, parameters, *stages)


def test_proposals_are_deduplicated_counted_and_never_paid_for_twice(tmp_path):
    at = Workspace(tmp_path)
    with faulty_endpoint(answer) as server:
        run(at, server, build_dataset, prefilter, propose_instructions)
        proposed = read_instructions(at.instructions)
        again = Workspace(tmp_path, instructions=str(tmp_path / "again"))
        run(again, server, propose_instructions)
        assert server.script.requests == 6
    assert proposed.texts == ["", "Name the kind"] or proposed.texts == ["", "Name the kind."]
    assert proposed.usage.requests == proposed.new_requests == 6
    repeated = read_instructions(tmp_path / "again")
    assert repeated.texts == proposed.texts
    assert (repeated.usage.requests, repeated.new_requests) == (6, 0)


def test_the_winning_instruction_is_in_the_prompt_the_sequence_and_the_history(tmp_path):
    at = Workspace(tmp_path)
    instructions = tmp_path / "mine.txt"
    instructions.write_text("Name the kind\nDance\n\n", encoding="utf-8")
    with faulty_endpoint(answer) as server:
        file = {"instructions": 0, "instructions_uri": str(instructions), "budget": 12}
        run(at, server, *modules_between("", "optimize"), optimize, evaluate, gate, report, **file)
    best = read_document(Path(at.best_sequence), contracts.BEST_SEQUENCE)
    assert best["instruction"] == "Name the kind"
    assert (Path(at.results) / "prompt.txt").read_text().startswith(RIGHT)
    history = read_table(Path(at.history), contracts.HISTORY).to_pylist()
    assert {row["instruction_id"] for row in history} == {0, 1, 2}
    assert all((row["score"] > 0) == (row["instruction_id"] == 1) for row in history if row["score"])
    assert "Name the kind" in Path(at.page).read_text()
    tested = read_document(Path(at.test_scores), contracts.TEST_SUMMARY)
    assert tested["random"]["score"] > 0, "random exemplars stand behind the instruction too"


def test_what_proposals_cost_counts_against_the_cap_and_in_the_summary(tmp_path):
    at = Workspace(tmp_path)
    with faulty_endpoint(answer) as server:
        cap = 6 + 3 * 5 + 5 * 5  # the proposals, three evaluations, the test set
        run(at, server, *modules_between("", "optimize"), optimize, max_llm_requests=cap)
        assert server.script.requests <= cap - 5 * 5
    summary = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
    assert summary["stopped"] == f"max_llm_requests={cap}"
    assert summary["evaluations"] == 3
    assert summary["llm"]["requests"] == 6 + 15


def test_a_method_that_chooses_rows_plans_for_what_proposals_leave_of_the_cap(tmp_path):
    at = Workspace(tmp_path)
    with faulty_endpoint(answer) as server:
        cap = 6 + 15 + 5 * 5
        values = {"method": "adaptive", "budget": 0, "max_llm_requests": cap}
        run(at, server, *modules_between("", "optimize"), optimize, **values)
        assert server.script.requests == 6 + 15
    summary = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
    history = read_table(Path(at.history), contracts.HISTORY).to_pylist()
    assert (summary["stopped"], summary["llm"]["requests"]) == ("budget", 6 + 15)
    assert sum(len(row["row_ids"]) for row in history) == 15


def test_a_cap_that_leaves_nothing_is_refused_before_the_first_request(tmp_path):
    at = Workspace(tmp_path)
    with faulty_endpoint(answer) as server:
        run(at, server, build_dataset, prefilter)
        with pytest.raises(ConfigError, match="instructions=6 leaves nothing of max_llm_requests=5 for the search"):
            run(at, server, propose_instructions, max_llm_requests=5)
        assert server.script.requests == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", "\n \n", "holds no instruction; write one a line"),
        ("list.json", json.dumps({"a": 1}), "a JSON list of strings is needed"),
        ("broken.json", "[", "is not YAML or JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_instruction_file(str(tmp_path / name), Sources())


def test_instructions_are_for_methods_that_search_them():
    with pytest.raises(
        ConfigError, match="instructions=5 does not work with method=dpp; choose one of adaptive, halving"
    ):
        parse_parameters({"instructions": 5, "method": "dpp"})
    with pytest.raises(ConfigError, match="k_min=2 does not work with method=active"):
        parse_parameters({"k_min": 2, "method": "active"})
    with pytest.raises(ConfigError, match="both set; keep one"):
        parse_parameters({"instructions": 5, "instructions_uri": "a.txt"})
