"""The gate: a new prompt becomes the latest only if it is significantly better on rows that are new to both."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ease_lib.artifacts.result_files import BEST_SEQUENCE
from ease_lib.artifacts.store import Store
from ease_lib.evaluation.statistics import mean_interval, paired_gain
from ease_lib.lineage.publishing.versions import Latest, read_latest, read_version, version_suffix
from ease_lib.tasks.base import Exemplar, row_hash

_SEQUENCE = ("exemplars", "instruction", "template")


def first_refusal(report: Mapping[str, Any]) -> str:
    """Reason why a prompt should not be the first that applications use; empty if there is none."""
    for name, gain in {"the baseline is": report["baseline"], "random exemplars are": report["gain"]}.items():
        if gain and not gain["evidence"]:
            return f"{name} not beaten: {gain['mean']:+.3f} on the test set (p = {gain['p']:.2g})"
    without = report["zero_shot"]
    if without and without["mean"] < 0:
        return f"it scores {-without['mean']:.3f} less than no exemplars on the test set"
    return ""


def broken(requirement: Mapping[str, Any]) -> str:
    """Reason if too few test answers meet the requirement; empty if enough do, or without a requirement."""
    if not requirement:
        return ""
    rows, kept = requirement["rows"], requirement["kept"]
    least = max(1, math.ceil(requirement["share"] * rows - 1e-9))
    if rows and kept >= least:
        return ""
    return f"{kept} of {rows} test answers keep require={requirement['text']}; {least} or more must"


def latest_of_others(store: Store, run_id: str) -> Latest | None:
    """The latest version; if an earlier attempt of this run published it, the one before.

    Raises:
        StoreError, LineageError: when it cannot be read.
    """
    latest = read_latest(store)
    if latest is None or not latest.version.endswith(version_suffix(run_id)):
        return latest
    before = latest.manifest["previous"]
    found = read_version(store, before["version"]) if before else None
    if found is None:
        return None
    return Latest(content=b"", version=before["version"], manifest=found[0], manifest_sha256=found[1])


def rival(store: Store, latest: Latest, best: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The sequence of the latest version, and the reason if the new one (`best`) cannot be compared with it."""
    stored = store.read(f"versions/{latest.version}/{BEST_SEQUENCE}")
    if stored is None:
        remedy = "run `ease forget` again if it was stopped, or see `ease lineage verify`"
        return {}, f"{latest.version} is the latest and has no {BEST_SEQUENCE} to compare with; {remedy}"
    current: dict[str, Any] = json.loads(stored)
    if [current[name] for name in _SEQUENCE] == [best[name] for name in _SEQUENCE]:
        return current, f"{latest.version} is the same prompt"
    return current, ""


def fresh_rows(
    test: Sequence[Exemplar], latest: Latest, current: Mapping[str, Any], best: Mapping[str, Any]
) -> list[int]:
    """Positions of test rows that played no part in choosing either prompt: no exemplars, no old validation rows."""
    used = {row_hash(entry["input"]) for entry in [*current["exemplars"], *best["exemplars"]]}
    used |= set(latest.manifest["validation_rows"])
    return [position for position, row in enumerate(test) if row_hash(row.input) not in used]


def compared(new: Sequence[float | None], old: Sequence[float | None], latest: Latest) -> tuple[str, dict[str, Any]]:
    """Reason why the new prompt is not better than the latest (empty if it is), and the measurement.

    Args:
        new, old: scores of both on the same rows; None of a row that the endpoint refused.
    """
    gain = paired_gain(new, old)
    if not gain:
        return f"no row that is fresh to {latest.version} too has an answer of both", {}
    pairs = [(one, other) for one, other in zip(new, old, strict=True) if one is not None and other is not None]
    measured = {
        "against": latest.version,
        **gain,
        "score": sum(one for one, _ in pairs) / len(pairs),
        "latest_score": gain["score"],
        "latest_interval": mean_interval([other for _, other in pairs]),
    }
    difference = f"{gain['mean']:+.3f} on {gain['rows']} fresh rows (p = {gain['p']:.2g})"
    return "" if gain["evidence"] else f"{latest.version} is not beaten: {difference}", measured
