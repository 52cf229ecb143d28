"""Stage `publish`: publish the prompt as a new version, and make it the latest if it should be.

With `publish_if=better` the new prompt becomes the latest only if it is significantly better (two-sided p < 0.05 of the
paired differences that the stage `gate` measured), and if as many of its test answers meet the requirement as `require`
demands. If nothing is published yet, it must beat random exemplars, and the baseline if there is one, significantly on
the test set, and no exemplars on average.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.result_files import REPORT
from ease_lib.artifacts.store import joined
from ease_lib.artifacts.tables import read_document, read_exemplars, write_document
from ease_lib.config.sections import ContinuationConfig, LineageConfig, PublishingConfig
from ease_lib.digests import sha256_of
from ease_lib.errors import LineageError
from ease_lib.lineage.attestation import Signer, named_file, named_records, signer
from ease_lib.lineage.chain import Chain, chain_behind, record_copies
from ease_lib.lineage.exports.slsa import exports_of
from ease_lib.lineage.publishing import improvement
from ease_lib.lineage.publishing.versions import (
    Latest,
    Version,
    has_prompt,
    make_latest,
    read_latest,
    version_suffix,
    write_version,
)
from ease_lib.lineage.record import Record
from ease_lib.lineage.recording import Attempt
from ease_lib.reporting.result_text import found_by
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.running.under_way import ended
from ease_lib.tasks.base import row_hash


@dataclass(frozen=True, kw_only=True)
class Inputs:
    validation: str = reads("build_dataset.validation")
    best_sequence: str = reads("optimize.best_sequence")
    results: str = reads("report.results")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    publication: str = makes(contracts.PUBLICATION, at="result/publication.json")


@dataclass(frozen=True, kw_only=True)
class Config:
    publishing: PublishingConfig
    lineage: LineageConfig
    continuation: ContinuationConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Publish, or give the reason why not.

    Raises:
        LineageError: when the records behind the prompt cannot be read: what cannot be explained is not published.
        ConfigError: when `publish_signed` asks for a signature and there is no key.
    """
    key = signer(is_needed=config.publishing.publish_signed)
    attempt = run.attempt
    if attempt is None:
        raise LineageError("publishing needs a recorded stage; run it in the pipeline")
    if key and not attempt.link:  # a run in a cluster uploads its records after this stage
        logger.warning("not signed, because no record outlives this run; set store_uri or lineage_uri")
        key = None
    work = _under_way(attempt) if key or config.publishing.publish_uri else None
    if key and work:
        attempt.sign = partial(_signed_end, key, work.chain)
    if work and config.publishing.publish_uri:
        published = _publish(inputs, config, key, work, run)
    else:
        published = {"state": "not published", "reason": "publish_uri is empty", "version": "", "uri": "", "gate": None}
    write_document(output_path(outputs.publication), contracts.PUBLICATION, published)
    attempt.found = found_by(json.loads((Path(inputs.results) / REPORT).read_text(encoding="utf-8")))
    ended(run.store, config.continuation)
    logger.info("%s: %s", published["state"], published["reason"])
    return StageReport(metrics={"is_latest": published["state"] == "published"})


@dataclass(frozen=True, kw_only=True)
class _UnderWay:
    """This attempt, its input `results`, and the chain behind them."""

    attempt: Attempt
    results: Record
    chain: Chain


def _under_way(attempt: Attempt) -> _UnderWay:
    results = next(part for part in attempt.inputs if part["name"] == "results")
    return _UnderWay(attempt=attempt, results=results, chain=chain_behind(results, "publish"))


def _signed_end(key: Signer, chain: Chain, name: str, uri: str, content: bytes) -> bytes:
    """The envelope that names the record of this attempt, which has ended, and all others of the run."""
    return key.sign_files([named_file(name, uri, sha256_of(content)), *named_records(chain)])


def _publish(inputs: Inputs, config: Config, key: Signer | None, work: _UnderWay, run: Run) -> dict[str, Any]:
    store = run.sources.store(config.publishing.publish_uri)
    results, chain = work.results, work.chain
    version = _version_name(chain)
    before = read_latest(store)
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    written = Version(
        name=version,
        files=_files(Path(inputs.results), results, chain),
        head={name: results[name] for name in ("record", "record_sha256")},
        published_by=work.attempt.link,
        rows=[row_hash(entry["input"]) for entry in best["exemplars"]],
        validation_rows=[row_hash(row.input) for row in validation],
        facts=_facts(chain, best, Path(inputs.results)),
    )
    sha256 = write_version(store, written, previous=before, notes=run.notes, key=key)
    at: dict[str, Any] = {"version": version, "uri": joined(store.uri, "versions", version), "gate": None}
    if not has_prompt(store, version):
        return {**at, "state": "kept", "reason": f"the prompt of {version} was removed since an earlier attempt"}
    if before and before.version == version:
        return {**at, "state": "published", "reason": f"{version} is the latest since an earlier attempt"}
    if config.publishing.publish_if == "better":
        own = store.read(f"versions/{version}/{REPORT}") or (Path(inputs.results) / REPORT).read_bytes()
        refusal, at["gate"] = _refusal(before, json.loads(own))
        if refusal:
            return {**at, "state": "kept", "reason": refusal}
    if not make_latest(store, version, sha256, before):
        now = read_latest(store)
        other = now.version if now else "another version"
        return {**at, "state": "kept", "reason": f"{other} became the latest while this run published {version}"}
    why = f", better than {before.version}" if before and at["gate"] else ""
    return {**at, "state": "published", "reason": f"{version} is the latest{why}"}


def _version_name(chain: Chain) -> str:
    """Name of the version, from the start of the run and its id: equal for every attempt, even if report and test were
    repeated."""
    run = chain.head.record["run"]["id"]
    started = min(step.record["started"] for step in chain.everything if step.record["run"]["id"] == run)
    return f"{started[:19].replace('-', '').replace(':', '')}{version_suffix(run)}"


def _files(folder: Path, results: Record, chain: Chain) -> dict[str, bytes]:
    """All files of a version: the results, the exports, and the records of the chain."""
    files = {name: (folder / name).read_bytes() for name in results["files"]}
    own = [step for step in chain.everything if step.stage == "publish" and step.record["state"] == "started"]
    records = {f"{step.stage}-{step.id}": step.content for step in chain.everything if step not in own}
    return {**files, **exports_of(chain), **record_copies(records)}


def _facts(chain: Chain, best: dict[str, Any], results: Path) -> dict[str, Any]:
    report = json.loads((results / REPORT).read_text(encoding="utf-8"))
    return {
        "run": chain.head.record["run"],
        "made": chain.head.record["ended"],
        "task": best["task"],
        "llm_model": best["llm_model"],
        "validation_score": report["best"]["validation_score"],
        "test_score": report["best"]["test_score"],
        "verdict": report["verdict"]["text"],
    }


def _refusal(latest: Latest | None, report: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Reason why the new prompt is not better than the latest (empty if it is), and the measurement.

    Args:
        report: the version's own, which an earlier attempt may have written: what it says of the latest decides.
    """
    refusal = improvement.broken(report["requirement"])
    if refusal:
        return refusal, None
    if latest is None:
        return improvement.first_refusal(report), None
    found = report["published"]
    if not found:
        return f"{latest.version} was published while this run was under way, and was not compared", None
    if found["latest"] and found["latest"] != latest.version:
        return f"{latest.version} became the latest while this run was under way, and was not compared", None
    return found["refusal"], found["measured"] or None
