"""Differences between two runs, which explain why the prompt changed; commands that repeat a run."""

from __future__ import annotations

import difflib
import itertools
import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ease_lib.config.parsing import declared_parameters, parameters_of
from ease_lib.config.sections import FOLLOW_FROM_EVALUATE
from ease_lib.errors import EaseError
from ease_lib.lineage.chain import Chain, Step
from ease_lib.lineage.record import Record
from ease_lib.lineage.record_summary import SHORT
from ease_lib.prompts.messages import as_text
from ease_lib.prompts.winner import blank_prompt

ANSWERED = "answered by"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Differences between two runs.

    Args:
        changes: lines `name: before → after` by kind: data, parameters, code, models.
        scores: what the runs found, by name, of each; None if a run ended before or the name is the other's alone.
        prompts: the winning ones; None of a run that has none, or whose artifact is gone.
        texts: what of these may be a row of the data.
        conclusion: the first stage whose results differ, and why.
    """

    changes: Mapping[str, Sequence[str]]
    scores: Mapping[str, tuple[str | None, str | None]]
    prompts: tuple[str | None, str | None]
    texts: Sequence[str]
    conclusion: str


def difference(one: Chain, other: Chain) -> Difference:
    """Data, parameters, code, models, scores, prompts, and the first stage whose results differ."""
    first, second = _models(one), _models(other)
    both_asked = ANSWERED in first and ANSWERED in second  # else all answers of one of them were there
    changes = {
        "data": _changes(_read_files(one), _read_files(other), lambda sha256: sha256[:SHORT] if sha256 else "not read"),
        "parameters": _changes(_parameters(one), _parameters(other), repr, leave_out=parameters_of("place")),
        "code": _changes(_code(one), _code(other)),
        "models": _changes(first, second, leave_out=() if both_asked else (ANSWERED,)),
    }
    before, after = _scores(one), _scores(other)
    winners = [_winner(chain) for chain in (one, other)]
    prompts = [as_text(blank_prompt(winner)) if winner else None for winner in winners]
    return Difference(
        changes=changes,
        scores={name: (before.get(name), after.get(name)) for name in {**before, **after}},
        prompts=(prompts[0], prompts[1]),
        texts=[text for winner in winners if winner for text in _texts_of(winner)],
        conclusion=_conclusion(one, other, prompts, [kind for kind, found in changes.items() if found]),
    )


def difference_text(found: Difference) -> str:
    """The differences for terminals; prompt lines with `-` are the first's, and with `+` the second's."""
    lines = []
    for kind, changed in found.changes.items():
        lines += [f"{kind}:", *(f"  {line}" for line in changed)] if changed else [f"{kind}: the same"]
    scores = [f"  {name}: {before or 'none'} → {after or 'none'}" for name, (before, after) in found.scores.items()]
    lines += ["scores:", *scores] if scores else []
    before, after = found.prompts
    if before is None or after is None:
        lines.append(f"prompt: {'neither' if before == after else 'one'} of the runs has one that can be read")
    elif before == after:
        lines.append("prompt: the same")
    else:
        lines.append("prompt:")
        for one, other in paragraphs_of(before, after):
            sides = [("  ", one)] if one == other else [("- ", one), ("+ ", other)]
            lines += [f"  {mark}{line}" for mark, side in sides if side is not None for line in side]
            lines.append("")
        lines.pop()
    return "\n".join([*lines, "", found.conclusion])


def paragraphs_of(before: str, after: str) -> Iterator[tuple[list[str] | None, list[str] | None]]:
    """Paragraphs of two prompts side by side, mostly exemplars, by their lines; None for a missing one."""
    first, second = before.split("\n\n"), after.split("\n\n")
    for _, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        for one, other in itertools.zip_longest(first[a:b], second[c:d]):
            yield one.split("\n") if one is not None else None, other.split("\n") if other is not None else None


def _scores(chain: Chain) -> Record:
    step = chain.step_of("publish")
    return dict(step.record.get("found", {}).get("scores", {})) if step else {}


def _winner(chain: Chain) -> Record:
    """The chain's `best_sequence`; empty if there is none."""
    step = chain.step_of("optimize")
    try:
        return dict(json.loads(chain.output(step, "best_sequence"))) if step else {}
    except (EaseError, ValueError):
        return {}


def _texts_of(winner: Record) -> list[str]:
    shown = [text for exemplar in winner["exemplars"] for text in (exemplar["input"], *exemplar["outputs"])]
    return [winner["instruction"], *shown]


def _changes(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    shown: Callable[[Any], object] = lambda value: value or "none",
    *,
    leave_out: Collection[str] = (),
) -> list[str]:
    """Entries that have another value in the second, or exist in one of them only."""
    names = sorted({*first, *second} - {*leave_out})
    pairs = [(name, first.get(name), second.get(name)) for name in names]
    return [f"{name}: {shown(before)} → {shown(after)}" for name, before, after in pairs if before != after]


def _conclusion(one: Chain, other: Chain, prompts: Sequence[str | None], changed: list[str]) -> str:
    ends = [_end(chain) for chain, prompt in zip((one, other), prompts, strict=True) if prompt is None]
    if ends:
        which = "first" if prompts[0] is None else "second"
        also = f", and the second {ends[1]}" if ends[1:] else ""
        return f"The {which} run {ends[0]}{also}: there are not two prompts to compare."
    for stage, deciding in _DECIDING.items():
        first, second = one.step_of(stage), other.step_of(stage)
        if first is None or second is None:
            continue
        differing = [
            name for name, sha256 in _parts(first, "outputs").items() if _parts(second, "outputs").get(name) != sha256
        ]
        lasting = [name for name in differing if name in deciding]
        if lasting:
            why = (
                _why(one, other, stage)
                or ", ".join(changed)
                or ("no recorded cause: an endpoint may answer differently each time")
            )
            return f"The first difference is in {stage} ({', '.join(lasting)}), because of: {why}."
    if prompts[0] != prompts[1]:
        return "The prompts differ, but no stage recorded in both runs explains why."
    return "The prompts are equal: every stage that decides the prompt gave the same result."


def _end(chain: Chain) -> str:
    """Reason why the prompt of a run cannot be read."""
    ended = [step for step in chain.everything if step.record["state"] != "complete"]
    if ended:
        state = {"started": "was killed in", "stopped": "was stopped in"}.get(ended[0].record["state"], "failed in")
        return f"{state} {ended[0].stage}"
    return "has no prompt that can be read" if chain.step_of("optimize") else "has no search on record"


_DECIDING = {
    "build_dataset": ("pool", "validation", "test"),
    "prefilter": ("kept",),
    "propose_instructions": ("instructions",),
    "embed": ("embeddings",),
    "optimize": ("best_sequence",),
}
"""Results of each stage that affect the prompt, in the order of the stages; other results hold times and costs."""


def _why(one: Chain, other: Chain, stage: str) -> str:
    """Causes at the first stage whose results differ: its files, parameters, models and code.

    An input may differ that does not decide the prompt by itself, as `summary` does where a baseline is messages: it
    counts with the parameters of its stage. What limits pace and cost is named where nothing else differs.
    """
    first, second = one.step_of(stage), other.step_of(stage)
    if first is None or second is None:
        return ""
    causes = []
    if _reads(first) != _reads(second):
        causes.append("other raw data")
    given = _parts(second, "inputs").items()
    differing = {sha256 for name, sha256 in _parts(first, "inputs").items() if (name, sha256) not in given}
    stages = [stage, *(step.stage for step in one.everything if differing & {*_parts(step, "outputs").values()})]
    ignored = parameters_of("place")
    limits = parameters_of("speed", "cap", "tolerance", internal=True)
    before, after = _parameters(one, stages), _parameters(other, stages)
    causes += _as_causes(_changes(before, after, repr, leave_out=ignored | limits))
    if _answering(first) and _answering(second) and _answering(first) != _answering(second):
        causes.append("another model or fingerprint")
    if first.record.get("embedder") != second.record.get("embedder"):
        causes.append("another embedder")
    if not causes:
        old, new = first.record["software"], second.record["software"]
        causes += [f"other {name}" for name in ("ease", "revision", "packages") if old[name] != new[name]]
        causes += _as_causes(_changes(before, after, repr, leave_out=ignored))
    return ", ".join(causes)


def _as_causes(changes: list[str]) -> list[str]:
    return [change.replace(": ", " ", 1) for change in changes]


def _reads(step: Step) -> dict[str, str]:
    return {read["uri"]: read["sha256"] for read in step.record.get("files_read", [])}


def _read_files(chain: Chain) -> dict[str, str]:
    return {uri: sha256 for step in chain.everything for uri, sha256 in _reads(step).items()}


def _parts(step: Step, kind: str) -> dict[str, str]:
    """SHA-256 of the `inputs` or `outputs` by name."""
    return {part["name"]: part["sha256"] for part in step.record[kind]}


def _parameters(chain: Chain, stages: Collection[str] = ()) -> Record:
    """The parameters of these stages; of all when none is named."""
    steps = [step for step in chain.everything if not stages or step.stage in stages]
    return {name: value for step in steps for name, value in step.record["parameters"].items()}


def _code(chain: Chain) -> Record:
    software = chain.head.record["software"]
    return {**{name: software[name] for name in ("ease", "revision", "image", "python")}, **software["packages"]}


def _models(chain: Chain) -> Record:
    models: Record = {}
    for step in chain.everything:
        if step.record.get("embedder"):
            embedder = step.record["embedder"]
            models["embedder"] = " ".join(str(value)[:40] for value in embedder.values())
        for model in _answering(step):
            models.setdefault(ANSWERED, model)
        if step.record.get("llm"):
            models["LLM"] = f"{step.record['llm']['model']} at {step.record['llm']['endpoint']}"
    return models


def _answering(step: Step) -> list[str]:
    answers = (step.record.get("llm") or {}).get("answered_by", [])
    return sorted(f"{answer['model']} {answer['system_fingerprint']}".strip() for answer in answers)


NOT_REPEATED = ("publish_uri", "publish_if", "publish_signed", "openlineage_url", "llm_refresh", "ledger")
"""Parameters that a repetition omits, because it should prove a result and not publish it or request answers again."""


def rerun_commands(chain: Chain) -> str:
    """Shell commands that repeat a run; with the same store, kept answers are reused."""
    search = chain.step_of("optimize")
    answers = str(search.record["parameters"].get("answers", "")) if search else ""
    options = " ".join(run_options(chain, **({"answers": answers} if answers else {})))
    again = f"runs/again-{str(chain.head.record['run']['id'])[:8]}"
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


def run_options(chain: Chain, *, leave_out: Collection[str] = NOT_REPEATED, **more: str) -> list[str]:
    """Options of `ease run` that repeat a run, with other values for some.

    Args:
        leave_out: parameters that the repetition shall not have.
        more: values that are added to a parameter that is a list, by name.
    """
    checked = chain.step_of("check_prerequisites")
    source = checked.record if checked else _received(chain)
    given = {name: source["parameters"][name] for name in declared_parameters() if name in source["parameters"]}
    left_out = {*leave_out, *(FOLLOW_FROM_EVALUATE if given.get("evaluate") else ())}
    changed = [name for name in given if name not in source["defaults"] and name not in left_out]
    for name, value in more.items():
        listed = [part.strip() for part in str(given.get(name, "")).split(",")]
        given[name] = ",".join(dict.fromkeys(filter(None, (*listed, value))))
    wanted = [name for name in given if name in changed or name in more]
    return [f"--{name.replace('_', '-')} {shlex.quote(str(given[name]))}" for name in wanted]


def _received(chain: Chain) -> dict[str, Any]:
    """Parameters that the stages received, for runs whose form record cannot be read."""
    parameters = {name: value for step in chain.steps for name, value in step.record["parameters"].items()}
    defaults = {name for step in chain.steps for name in step.record["defaults"]}
    return {"parameters": parameters, "defaults": defaults}
