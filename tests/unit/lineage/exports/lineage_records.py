"""Records of a run as the stages write them, and the chain through them, made without running anything."""

import copy
import hashlib
from datetime import UTC, datetime, timedelta

from ease_lib.artifacts.contracts import TABLES
from ease_lib.lineage.chain import Chain, Place, Step
from ease_lib.lineage.record import encode

COMMIT = "4863f718b68c12d842988d0132c58fcf53fe9b59"
IMAGE = f"registry.test:5000/ease@sha256:{'ab' * 32}"
LLM = {
    "endpoint": "https://llm.test/v1",
    "model": "modèle-7b",
    "api": "chat",
    "answered_by": [{"model": "modèle-7b-0613", "system_fingerprint": "fp_1", "answers": 12}],
    "new_answers": 12,
    "cached_answers": 3,
    "prompt_tokens": 400,
    "completion_tokens": 24,
}
EMBEDDER = {"name": "bundled-minilm", "files_sha256": "cd" * 32, "revision": "r1"}
PARAMETERS = {
    "task": 'd\'accord "für" 猫\n',
    "task_uri": "s3://data/raw",
    "k": 5,
    "warm_start": False,
    "nu": 0.1,
    "seed": 7,
}
RESULT_FILES = ("best_sequence.json", "history.parquet", "messages.json", "prompt.txt", "report.html", "report.json")
_OUTPUTS = {
    "build_dataset": {
        "pool": "exemplar_pool/3",
        "validation": "validation_set/3",
        "test": "test_set/3",
        "summary": "dataset_summary/4",
    },
    "embed": {"embeddings": "exemplar_embeddings/1"},
    "optimize": {"best_sequence": "best_sequence/1", "history": "history/1", "summary": "search_summary/1"},
    "evaluate": {"predictions": "predictions/1", "summary": "test_summary/1"},
    "report": {"numbers": "report/1", "results": ""},
}
_INPUTS = {
    "embed": [("build_dataset", "pool"), ("build_dataset", "validation")],
    "optimize": [("build_dataset", "pool"), ("embed", "embeddings")],
    "evaluate": [("build_dataset", "test"), ("optimize", "best_sequence")],
    "report": [("optimize", "history"), ("evaluate", "predictions"), ("evaluate", "summary")],
}


class RecordedRun:
    """A run whose stages took a second each.

    Args:
        artifacts: where its artifacts lie, a folder or s3://.
        root: where its records lie; empty when only the pipeline keeps them.
    """

    def __init__(self, artifacts="s3://bucket/ease run", root="s3://bucket/lineage", run_id="run-ü 1", **changed):
        self.artifacts, self.root, self.run_id = artifacts, root, run_id
        self.changed = changed
        self._clock = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
        self.steps, self.beside = [], []

    def record(self, stage, **fields):
        """One attempt at a stage; the fields given replace the usual ones."""
        started, self._clock = self._clock, self._clock + timedelta(seconds=1)
        number = len(self.steps) + len(self.beside)
        attempt = f"00000000-0000-4000-8000-{number:012}"
        record = {
            "stage": stage,
            "state": "complete",
            "run": {"id": self.run_id, "name": "", "scheduled": ""},
            "attempt": {
                "id": attempt,
                "work": digest(stage)[:32],
                "record": f"{self.root}/runs/{self.run_id}/{stage}-{attempt}.json" if self.root else "",
                "copies": {"lineage": f"{self.artifacts}/{stage}/lineage"},
                "retry": 0,
                "pod": f"pod-{number}",
                "earlier": [],
            },
            "started": started.isoformat(timespec="milliseconds"),
            "ended": (started + timedelta(seconds=0.5)).isoformat(timespec="milliseconds"),
            "error": None,
            "inputs": [self._part(*made) for made in _INPUTS.get(stage, [])],
            "outputs": [self._part(stage, name) for name in _OUTPUTS.get(stage, {})],
            "parameters": dict(PARAMETERS),
            "defaults": ["k", "warm_start"],
            "software": {
                "ease": "0.1.0",
                "revision": COMMIT,
                "image": IMAGE,
                "python": "3.11.7",
                "packages": {"numpy": "2.4.6", "kfp": "2.17.0"},
            },
            "files_read": [],
            "embedder": EMBEDDER if stage == "embed" else None,
            "llm": LLM if stage in ("check_prerequisites", "optimize", "evaluate") else None,
            "entries": {},
            "written": {},
        }
        if stage == "build_dataset":
            uri = f"{self.artifacts}/raw data/tâche.csv"
            record["files_read"] = [{"uri": uri, "sha256": digest("raw"), "bytes": 9}]
        return copy.deepcopy({**record, **self.changed, **fields})

    def add(self, stage, *, beside=False, **fields):
        """Record an attempt, as one that the result rests on or as another one of the run."""
        record = self.record(stage, **fields)
        uri = record["attempt"]["record"] or record["attempt"]["copies"]["lineage"]
        (self.beside if beside else self.steps).append(Step(uri=uri, content=encode(record), record=record))
        return record

    def chain(self):
        return Chain(place=Place(), steps=self.steps[::-1], beside=list(self.beside))

    def _part(self, stage, name):
        uri, contract = f"{self.artifacts}/{stage}/{name}", _OUTPUTS[stage][name]
        rows = {"rows": 3} if contract.partition("/")[0] in TABLES else {}
        files = {"files": result_files()} if name == "results" else {}
        return {"name": name, "contract": contract, "uri": uri, "sha256": digest(uri), "bytes": 100, **rows, **files}


def recorded_run(*, without=(), **where):
    """A whole run from `check_prerequisites` to `report`; the fields of stages may be given by name."""
    changes = {stage: where.pop(stage) for stage in ("check_prerequisites", *_OUTPUTS) if stage in where}
    run = RecordedRun(**where)
    for stage in ("check_prerequisites", *_OUTPUTS):
        if stage not in without:
            run.add(stage, beside=stage == "check_prerequisites", **changes.get(stage, {}))
    return run


def result_files():
    return {name: {"sha256": digest(name), "bytes": len(name)} for name in RESULT_FILES}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()
