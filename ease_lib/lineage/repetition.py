"""The commands that give the same history again, from what a run's records say."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from ease_lib.config.parsing import declared_parameters
from ease_lib.lineage.chain import Chain

NOT_REPEATED = ("publish_uri", "publish_if", "publish_signed", "openlineage_url", "llm_refresh", "ledger")
"""Parameters that a repetition leaves out: it shall prove something, not publish it or ask it again."""


def rerun_commands(chain: Chain) -> str:
    """Shell commands that run the same again: with the same store nothing is asked that was answered before."""
    search = chain.step_of("optimize")
    answers = str(search.record["parameters"].get("answers", "")) if search else ""
    options = " ".join(run_options(chain, **({"answers": answers} if answers else {})))
    again = f"runs/again-{short_run_id(chain)}"
    software = chain.head.record["software"]
    lines = []
    if software["revision"]:
        lines.append(f"git checkout {software['revision'].removesuffix('-dirty')} && make install")
        if software["revision"].endswith("-dirty"):
            lines.append("# the source had changes that were not committed: the result may differ")
    if software["image"]:
        lines.append(f"# it ran in {software['image']}")
    lines.append(f".venv/bin/ease run {options} --output-dir {again}")
    lines.append(f".venv/bin/ease lineage diff {shlex.quote(chain.head.uri)} {again}")
    return "\n".join(lines)


def run_options(chain: Chain, *, leave_out: Sequence[str] = NOT_REPEATED, **more: str) -> list[str]:
    """Options of `ease run` that repeat a run, with other values for some.

    Args:
        leave_out: parameters that the repetition shall not have.
        more: values that are added to a parameter that is a list, by name.
    """
    checked = chain.step_of("check_prerequisites")
    source = checked.record if checked else _all_parameters(chain)
    given = {name: source["parameters"][name] for name in declared_parameters() if name in source["parameters"]}
    changed = [name for name in given if name not in source["defaults"] and name not in leave_out]
    for name, value in more.items():
        listed = [part.strip() for part in str(given.get(name, "")).split(",")]
        given[name] = ",".join(dict.fromkeys(filter(None, (*listed, value))))
    wanted = [name for name in given if name in changed or name in more]
    return [f"--{name.replace('_', '-')} {shlex.quote(str(given[name]))}" for name in wanted]


def short_run_id(chain: Chain) -> str:
    return str(chain.head.record["run"]["id"])[:8]


def _all_parameters(chain: Chain) -> dict[str, Any]:
    """What the stages received, where the record of the form cannot be reached."""
    parameters: dict[str, Any] = {}
    defaults: set[str] = set()
    for step in chain.steps:
        parameters.update(step.record["parameters"])
        defaults.update(step.record["defaults"])
    return {"parameters": {name: parameters[name] for name in sorted(parameters)}, "defaults": defaults}
