"""A spreadsheet as people keep it, searched from a program: customers stay in one split, two columns are the answer."""

import json

import openpyxl
import pytest

import ease_lib
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

KINDS = {"broken": ("support", True), "invoice": ("billing", False), "price": ("sales", False)}
EMPTY_ROWS = 4


@pytest.fixture
def tickets(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["Customer", "Text", "team", "urgent"])
    for number in range(90):
        word = list(KINDS)[number % 3]
        book.active.append([f"Customer-{number // 6}", f"{word} {number}", *KINDS[word]])
    for number in range(EMPTY_ROWS):
        book.active.append([f"Customer-{number}", f"nobody sorted {number}", None, False])
    book.create_sheet("Notes").append(["none"])
    book.save(tmp_path / "tickets.xlsx")
    return str(tmp_path / "tickets.xlsx")


def learner(prompt):
    """Answers right where an exemplar of the same word is in the prompt."""
    shown, _, query = prompt.rpartition("Input: ")
    team, is_urgent = KINDS.get(query.split()[0], ("none", False))
    return json.dumps({"urgent": is_urgent, "team": team}) if f'"team": "{team}"' in shown else "{}"


def test_a_spreadsheet_with_customers_and_two_columns_to_answer(tickets, tmp_path):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return learner(prompt)

    with faulty_endpoint(answer) as server:
        result = ease_lib.optimize(
            None,
            server.base_url,
            llm_model=MODEL,
            task="table",
            task_uri=tickets,
            input_columns="Text",
            output_column="team,urgent",
            group_column="Customer",
            test_size=18,
            k=3,
            max_llm_requests=400,
            output_dir=tmp_path / "out",
            progress=False,
        )
    assert result.test_score == 1.0, "by fields, in whatever order the model writes them"
    assert result.exemplars[0]["outputs"][0].startswith('{"team": "')
    assert result.exemplars[0]["outputs"][0].endswith(("true}", "false}"))
    assert not any("Customer" in prompt for prompt in asked)
    tested = {int(row.input.split()[1]) // 6 for row in result.test_rows}
    assert len(tested) == 3, "18 rows of customers with six each"
    assert not tested & {int(row["input"].split()[1]) // 6 for row in result.exemplars}
    left_out = "4 of 94 rows of tickets.xlsx were left out: column &#39;team&#39; is empty"
    assert f"{left_out} (first at sheet &#39;Sheet&#39;, row 92)" in result.page
    assert "Reading the first of 2 sheets of tickets.xlsx" in result.page
