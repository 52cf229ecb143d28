"""Is every object that a run wrote protected? `.venv/bin/python -m tests.tamper [--data FOLDER]`

Runs the whole pipeline (AG News with renamed labels where FOLDER has it, else a made table) with task data, journal,
answers, embeddings, records and publication on a real S3 server. Then, for each object that the run wrote or read, one
after another: flip a byte, delete it, cut it in half, swap it with the next of its kind; `ease lineage verify` must
name it, and nothing else, with the first stage affected. Prints the table of objects x tampering x found.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from ease_lib.artifacts.store import open_store
from ease_lib.lineage.verification import verify_place
from ease_lib.running.graph import RUN, STAGES, address, folder_of
from ease_lib.running.inline import outputs_of_run
from tests.recorded_run import RecordedRun
from tests.s3_server import S3Server

BUCKET = "s3://tamper"
TAMPERINGS = ("flip", "delete", "truncate", "swap")
KINDS = {
    "artifacts": ("artifacts/", None),
    "raw data": ("raw/", "build_dataset"),
    "journal": ("store/journals/", "optimize"),
    "answers": ("store/responses/", None),
    "embeddings": ("store/embeddings/", "embed"),
    "records": ("store/lineage/runs/", None),
    "attempt marks": ("store/lineage/attempts/", None),
    "published files": ("prompts/versions/", "publish"),
    "row and prompt marks": ("prompts/", "publish"),
}


def stage_at(path):
    """The stage that made a file, by where it lies below the folder of a run."""
    if path.endswith("/verdict"):
        return RUN[-1].name
    made = {f"{folder_of(stage.component)}/{stage.record}": stage.name for stage in STAGES.values()}
    made |= {address(source): source.partition(".")[0] for source in outputs_of_run().values()}
    return next(stage for place, stage in made.items() if f"{path}/".startswith(f"{place}/"))


class Scene:
    """A finished run, half on S3 and half in a folder, whose objects can be changed and put back.

    Args:
        folder: for the artifacts, which a pipeline would keep.
        task: parameters that name the task data, with `{raw}` for their folder.
    """

    def __init__(self, folder, prefix, raw, **task):
        self.bucket = open_store(prefix)
        self.local = open_store(str(folder))
        for name, content in raw.items():
            self.bucket.write(f"raw/{name}", content)
        places = {name: f"{prefix}/{path}" for name, path in (("store_uri", "store"), ("publish_uri", "prompts"))}
        task = {name: str(value).format(raw=f"{prefix}/raw") for name, value in task.items()}
        self.run = RecordedRun(folder / "artifacts", **places, **task)()
        self.place = f"{prefix}/prompts"

    def objects(self):
        """(kind, store, name) of everything, in a fixed order."""
        for store in (self.local, self.bucket):
            for name in store.walk_names():
                yield self.kind(name), store, name

    @staticmethod
    def kind(name):
        return next(kind for kind, (prefix, _) in KINDS.items() if name.startswith(prefix))

    def stage(self, name):
        """Stages that may be called the first affected."""
        content_stage = {
            "artifacts": lambda: {stage_at(name.partition("/")[2])},
            "answers": lambda: {"optimize", "evaluate", "publish"},
            "records": lambda: {name.split("/")[-1].split("-")[0]},
            "attempt marks": lambda: {self._marked_stage(name)},
        }
        kind = self.kind(name)
        return content_stage[kind]() if kind in content_stage else {KINDS[kind][1]}

    def _marked_stage(self, name):
        return self.marks[name]

    def remember_marks(self):
        self.marks = {
            name: json.loads(self.bucket.read(name))["record"].split("/")[-1].split("-")[0]
            for name in self.bucket.walk_names()
            if self.kind(name) == "attempt marks"
        }


def tampered(scene, store, name, how, other):
    """Change an object; the contents to put back, by name."""
    content = store.read(name)
    before = {name: content}
    if how == "flip":
        middle = len(content) // 2
        store.write(name, content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif how == "delete":
        store.delete(name)
    elif how == "truncate":
        store.write(name, content[: len(content) // 2])
    else:
        before[other] = store.read(other)
        store.write(name, before[other])
        store.write(other, content)
    return before


def outcome(scene, store, touched):
    """`found`, or what verification said instead."""
    problems = verify_place(scene.place).problems
    wanted = {f"{store.uri.rstrip('/')}/{name}": scene.stage(name) for name in touched}
    named = {problem.uri: problem.stage for problem in problems}
    if set(named) != set(wanted):
        return f"named {sorted(set(named) - set(wanted))}, missed {sorted(set(wanted) - set(named))}"
    wrong = [f"{uri} is of {named[uri]}" for uri, stages in wanted.items() if named[uri] not in stages]
    return "; ".join(wrong) or "found"


def tamper_all(scene, tamperings_of, on_done=lambda done: None):
    """{(kind, tampering): Counter of outcomes} over all objects.

    Args:
        tamperings_of: number of an object to the tamperings tried on it.
    """
    scene.remember_marks()
    objects = list(scene.objects())
    results = {}
    for number, (kind, store, name) in enumerate(objects):
        for how in tamperings_of(number):
            alike = [each for each_kind, where, each in objects if each_kind == kind and where is store]
            other = next(
                (each for each in alike[alike.index(name) + 1 :] if store.read(each) != store.read(name)), None
            )
            if how == "swap" and other is None:
                continue
            before = tampered(scene, store, name, how, other)
            result = outcome(scene, store, before)
            results.setdefault((kind, how), Counter())[result if result == "found" else f"{name}: {result}"] += 1
            for each, content in before.items():
                store.write(each, content)
        on_done(number + 1)
    return results, len(objects)


def show_progress(done):
    if sys.stderr.isatty():
        print(f"\r{done} objects", end="", file=sys.stderr, flush=True)


def table(results):
    lines = ["| Objects | " + " | ".join(TAMPERINGS) + " |", "|---|" + "--:|" * len(TAMPERINGS)]
    for kind in KINDS:
        counts = [results.get((kind, how), Counter()) for how in TAMPERINGS]
        if any(counts):
            cells = [f"{count['found']} of {count.total()}" if count else "–" for count in counts]
            lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds ag_news/")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "s3").mkdir()
        server = S3Server(folder / "s3")
        server.start()
        try:
            with patch.dict(os.environ, server.environment):
                raw, task = ag_news(arguments.data) if arguments.data else made_table()
                scene = Scene(folder / "run", f"{BUCKET}/run", raw, **task)
                results, count = tamper_all(scene, lambda number: TAMPERINGS, show_progress)
        finally:
            server.kill()
    print(f"\n{count} objects\n\n{table(results)}")
    missed = [outcome for counts in results.values() for outcome in counts if outcome != "found"]
    for each in missed:
        print(each)
    return 1 if missed else 0


def ag_news(folder):
    """AG News with its classes 1 to 4 renamed: each has the name of the next."""
    task = {"task": "table", "task_uri": "{raw}/test.csv", "input_columns": "2,3", "output_column": "1"}
    return {"test.csv": (folder / "ag_news" / "test.csv").read_bytes()}, {**task, "label_remapping": "shift"}


def made_table():
    labels = itertools.cycle(("good", "bad", "odd"))
    lines = [f"text number {number} is {label},{label}" for number, label in zip(range(60), labels, strict=False)]
    task = {"task": "table", "task_uri": "{raw}/reviews.csv", "input_columns": "text", "output_column": "label"}
    return {"reviews.csv": "\n".join(["text,label", *lines]).encode()}, {**task, "label_remapping": "shift"}


if __name__ == "__main__":
    sys.exit(main())
