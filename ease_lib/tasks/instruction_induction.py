"""Adapter for the Instruction Induction format (Honovich et al., 2022): one JSON file per split.

`{"metadata": ..., "examples": {"1": {"input": ..., "output": ...}, ...}}`; `induce` is the pool, `valid` the validation
set, `execute` the test set. Its authors publish no `valid`; without it the pool is the first four fifths of `induce`,
and the validation set the rest, as the authors of EASE have dealt it. `possible_translations` and `other_rhymes` are
further accepted outputs. Two of its tasks have fields of their own: `cause`, `effect` (cause_and_effect) and `items`,
`all_common_concepts` (common_concept).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ease_lib.config.sections import AS_PUBLISHED
from ease_lib.errors import DataError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Readable, Row, TaskSource
from ease_lib.tasks.missing import is_missing

SPLIT_FOLDERS = {"pool": "induce", "validation": "valid", "test": "execute"}
FURTHER_OUTPUTS = ("possible_translations", "other_rhymes", "all_common_concepts")
_METRICS = {
    "orthography_starts_with": "exact_set",
    "taxonomy_animal": "exact_set",
    "synonyms": "contains",
    "common_concept": "token_f1",
    "informal_to_formal": "token_f1",
}
_VARIANT = re.compile(r"(_v\d+|_\d+_noisy|_large|_redirect\d*|_textlabel|_reverse|_remap\w*)+$")


def instruction_induction(
    name: str, locate: Callable[[str], Readable], list_files: Callable[[str], list[str]]
) -> TaskSource:
    """Read a task; which of its pool rows are noisy is unknown.

    Args:
        name: file name without `.json`.
        locate: gives a file of the data folder, e.g. `induce/sum_v1.json`.
        list_files: the names of the files in a folder of it, none where there is no such folder.

    Raises:
        DataError: naming file and example.
    """
    notices = []
    splits = {
        split: _read(locate(f"{folder}/{name}.json"), folder)
        for split, folder in SPLIT_FOLDERS.items()
        if split != "validation" or list_files(folder)
    }
    if "validation" not in splits:
        rows = splits["pool"]
        first = len(rows) * 4 // 5
        splits |= {"pool": rows[:first], "validation": rows[first:]}
        notices.append(f"valid/ is missing: of {len(rows)} rows in induce/ the last {len(rows) - first} are its rows")
    return TaskSource(
        name=name,
        metric=metric_of(name),
        rows=splits["pool"],
        validation=splits["validation"],
        test=splits["test"],
        notices=tuple(notices),
    )


def metric_of(name: str) -> str:
    """The metric Instruction Induction defines for a task; noisy, renamed, large and versioned variants included."""
    return _METRICS.get(_VARIANT.sub("", name), "exact_match")


def published_metric(name: str) -> str:
    """The authors' own scoring of a task: by its exact name; all other tasks compare whole answers."""
    plain = name.removesuffix("_v1")
    kinds = {"exact_set": "_set", "contains": "_contains", "token_f1": "_f1"}
    return AS_PUBLISHED + kinds[_METRICS[plain]] if plain in _METRICS else AS_PUBLISHED


def _read(path: Readable, folder: str) -> list[Row]:
    try:
        with path.open("rb") as file:
            content = json.loads(file.read().decode())
        examples = content["examples"]
        return [
            replace(_row(example, path, number), origin=f"{folder}/{path.name}, example {number}")
            for number, example in examples.items()
        ]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not UTF-8 JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f'{path} is not in the Instruction Induction format {{"examples": {{"1": {{"input", "output"}}}}}}; '
            "use task=table for other formats"
        ) from error


def _row(example: dict[str, Any], path: Readable, number: str) -> Row:
    example = _with_input_and_output(example, number)
    missing = [
        field
        for field in ("input", "output")
        if is_missing(example.get(field)) or not isinstance(example[field], str | int | float)
    ]
    if missing:
        raise DataError(f"{path}, example {number}: no text in field {missing[0]!r}; add it or remove the example")
    outputs = [str(example["output"])]
    for field in FURTHER_OUTPUTS:
        outputs += [str(output) for output in example.get(field, ()) if not is_missing(output)]
    if not str(example["input"]).strip() or not outputs[0].strip():
        raise DataError(f"{path}, example {number}: input or output is empty; fill or remove the example")
    return Row(str(example["input"]), tuple(dict.fromkeys(outputs)))


def _with_input_and_output(example: dict[str, Any], number: str) -> dict[str, Any]:
    """The example in the usual form; for cause and effect, chance decides which comes first."""
    if {"cause", "effect"} <= example.keys():
        pair = [example["cause"], example["effect"]]
        first, second = pair if rng(0, "cause_and_effect", number).integers(2) else pair[::-1]
        return {"input": f"Sentence 1: {first} Sentence 2: {second}", "output": example["cause"]}
    if {"items", "all_common_concepts"} <= example.keys() and example["all_common_concepts"]:
        concept, *others = example["all_common_concepts"]
        return {"input": ", ".join(example["items"]), "output": concept, "all_common_concepts": others}
    return example
