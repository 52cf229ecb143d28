"""The task: where rows come from, how they are split, changed and scored."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.requirement_terms import Requirement, requirement_of
from ease_lib.config.sections.declaration import (
    DRAWN_OUTPUTS,
    EVALUATED,
    FILE_ORDER,
    FIXED_DATA,
    JUDGE,
    JUDGED,
    KEEP_LEAKS,
    METRIC_NAMES,
    TABLE,
    TABLES,
    TASKS_OF_FILES,
    Only,
    Section,
    param,
)


@dataclass(frozen=True, kw_only=True)
class TaskConfig(Section):
    """Source of the exemplars, the validation set and the test set."""

    task: str = param(
        "customer_feedback",
        "Task: customer_feedback (included), lr, lp_variant, instruction_induction, gsm8k, aqua, math or table.",
        choices=("customer_feedback", "lr", "lp_variant", "instruction_induction", "gsm8k", "aqua", "math", "table"),
        form=True,
    )
    task_uri: str = param(
        "",
        "The task's file or folder: a path or s3://bucket/key.",
        form=True,
        only=TASKS_OF_FILES,
    )
    task_name: str = param(
        "",
        "Task inside an instruction_induction folder, or a hub data set when task=table has no task_uri.",
        form=True,
        only=Only("task", ("instruction_induction", "table")),
    )
    input_columns: str = param(
        "input", "Input columns: a,b or a template such as {a} versus {b}.", form=True, only=TABLE
    )
    output_column: str = param(
        "output",
        "Output column; a,b for a JSON object; or a template such as {a} The answer is {b}.",
        form=True,
        only=TABLE,
    )
    output_lists: str = param(
        "alternatives",
        "Meaning of a list in the output column: accepted alternatives, or a set as JSON (metric json_set).",
        choices=("alternatives", "set"),
        only=TABLE,
    )
    validation_uri: str = param("", "Validation rows in a separate file: a path or s3://bucket/key.", only=TABLE)
    test_uri: str = param("", "Test rows in a separate file: a path or s3://bucket/key.", only=TABLE)
    split_column: str = param("", "Column that holds train, validation or test for each row.", only=TABLE)
    group_column: str = param("", "Column whose equal values must stay in one split, e.g. customer.", only=TABLE)
    time_column: str = param(
        "",
        "Column of dates or numbers; the newest rows become the test set, the next newest the validation set.",
        only=TABLE,
    )
    encoding: str = param(
        "",
        "Encoding of the table's text, e.g. cp1252; empty: UTF-8, or as the file's byte order mark says.",
        only=TABLE,
    )
    max_left_out: float = param(
        0.5,
        "Stop if more than this share of a table's rows must be left out (empty cells, rows merged by a stray quote).",
        low=0,
        high=1,
        role="tolerance",
        only=TABLES,
    )
    prompt: str = param(
        "",
        "Prompt template: a YAML file, a path or s3://; empty: the paper's template.",
    )
    baseline: str = param(
        "",
        "Your current prompt, to compare with: text or YAML messages with {column} for the query; a path or s3://.",
    )
    metric: str = param(
        "auto",
        f"Score of an answer: {', '.join(METRIC_NAMES)}, judge; "
        "a function (metric.py:score); a cost matrix (costs.csv); auto: the task's.",
        form=True,
    )
    judge_rubric: str = param(
        "",
        "Question to the judge: text or YAML with {input}, {output} and {answer}; empty: the default rubric.",
        only=JUDGED,
    )
    require: str = param(
        "",
        "Conditions that an answer must meet or it scores 0: characters<=200; json>=1; any metric, FILE.py:NAME "
        "or judge; in 95%.",
    )
    pool_size: int = param(
        -1,
        "Number of exemplars to choose from (n); 0: all; -1: all if there are up to 500, else 100 as in the paper.",
        low=-1,
        high=10_000_000,
        form=True,
    )
    validation_size: int = param(
        -1,
        "Number of rows that guide the search (|D_V|); -1: a third of what the test set leaves, at most 200.",
        low=-1,
        high=10_000,
        form=True,
    )
    test_size: int = param(
        -1, "Number of rows used only for the final score; -1: a third, at most 100.", low=-1, high=100_000, form=True
    )
    split_order: str = param(
        "drawn",
        "How splits are made: drawn by seed with classes in proportion, or file: in file order (as in the paper).",
        choices=("drawn", FILE_ORDER),
    )
    leaks: str = param(
        "drop",
        "Rows whose input also occurs in another of the source's splits: drop, or keep (as in the paper).",
        choices=("drop", KEEP_LEAKS),
    )
    repeat_data: str = param(
        "drawn",
        "Splits and noise: drawn by the run's seed, or fixed (by seed 0, so that repeats differ only in the search).",
        choices=("drawn", FIXED_DATA),
    )
    shown_outputs: str = param(
        "first",
        "Which of several accepted outputs an exemplar shows: the first, or one drawn by seed (as in the paper).",
        choices=("first", DRAWN_OUTPUTS),
    )
    noise_ratio: float = param(
        0.0, "Share of pool rows whose output is deliberately corrupted.", low=0, high=1, form=True
    )
    label_remapping: str = param(
        "",
        "How to rename labels: shift, reverse, reverse:a,b,c (in this order), or a mapping 1=World;2=Sports.",
        form=True,
    )
    exclude_rows: str = param(
        "", "Rows to leave out of every split, by the SHA-256 of their input text: a,b (`ease forget` prints them)."
    )

    @property
    def requirement(self) -> Requirement | None:
        """The parsed requirement; raises `ConfigError` if `require` cannot be parsed."""
        return requirement_of(self.require)

    @property
    def of_program(self) -> bool:
        """Whether a program receives rows and returns their scores, in place of an LLM that receives prompts."""
        return self.metric == EVALUATED

    @property
    def is_judged(self) -> bool:
        """Whether a second LLM reads the answers."""
        return self.metric == JUDGE or (self.requirement is not None and JUDGE in self.requirement.measures)

    def data_seed(self, seed: int) -> int:
        """The seed of splits, noise and shown outputs in a run of this seed."""
        return 0 if self.repeat_data == FIXED_DATA else seed
