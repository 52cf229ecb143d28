"""The winning prompt as `best_sequence` holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar


def exemplar_of(entry: Mapping[str, Any]) -> Exemplar:
    """An exemplar of the winning sequence."""
    fields = tuple(entry.get("fields", {}).items())
    return Exemplar(entry["exemplar_id"], entry["input"], tuple(entry["outputs"]), fields=fields)


def blank_prompt(best: Mapping[str, Any]) -> str:
    """The prompt with the names of the query's fields in braces in place of the query."""
    template, exemplars = PromptTemplate.of(best["prompt"]), list(map(exemplar_of, best["exemplars"]))
    return template.render(exemplars, template.placeholder(exemplars), best["instruction"])
