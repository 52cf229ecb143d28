"""Somebody who may write everything, and recomputes every digest: records, links, manifests, marks, pages, exports.

What this attacker leaves verifies without signatures. The key that signs is all that is missing.
"""

import base64
import hashlib
import json
import re
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from ease_lib.black_box.cache import entry_bytes
from ease_lib.lineage import record as lineage_record
from ease_lib.lineage.chain import MANIFEST_CONTRACT
from ease_lib.lineage.record_summary import summary_page
from ease_lib.lineage.recording import mark_content, mark_name

_DIGEST = re.compile(rb"[0-9a-f]{64}")
CONTRACTS = (lineage_record.CONTRACT, MANIFEST_CONTRACT)


class Forger:
    """Changes below one folder, and what follows from them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._before = {path: path.read_bytes() for path in self._files()}
        self._open = []
        self.changed = {}
        """Digests that were, with those that took their place."""

    def paths(self, pattern):
        found = sorted(path for path in self.folder.glob(pattern) if path.is_file())
        assert found, pattern
        return found

    def write(self, path, content):
        """Put other content into a file; every digest of it follows at the next `settle`."""
        path = Path(path)
        if path.exists():
            self.replaced(path.read_bytes(), content)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def change(self, pattern, edit):
        """Change files, and all that have the same content."""
        for path in self.paths(pattern):
            content = path.read_bytes()
            assert edit(content) != content, path
            for copy in [each for each in self._files() if each.read_bytes() == content]:
                self.write(copy, edit(content))

    def edit(self, pattern, edit):
        """Change JSON documents, and all that have the same content."""

        def edited(content):
            document = json.loads(content)
            edit(document)
            return self._encoded(document)

        self.change(pattern, edited)

    def replaced(self, old, new):
        """Parts of files count too: lines of journals, answers."""
        self._open.append((_sha256(old), _sha256(new)))

    def change_line(self, pattern, edit):
        """Change the last line of a file of lines."""
        (path,) = self.paths(pattern)
        lines = path.read_bytes().split(b"\n")
        number = max(number for number, line in enumerate(lines) if line)
        new = edit(lines[number])
        assert new != lines[number]
        self.replaced(lines[number], new)
        lines[number] = new
        self.write(path, b"\n".join(lines))

    def change_answers(self, pattern, edit):
        """Change kept answers in a database."""
        (path,) = self.paths(pattern)
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT key, content, sha256 FROM responses").fetchall()
            for key, content, digest in rows:
                new = edit(content)
                self.replaced(entry_bytes(content, digest), entry_bytes(new, _sha256(new.encode())))
                database.execute(
                    "UPDATE responses SET content = ?, sha256 = ? WHERE key = ?", (new, _sha256(new.encode()), key)
                )
            database.commit()

    def settle(self):
        """Recompute whatever names what was changed, until nothing does."""
        while any(old != new for old, new in self._open):
            changes = dict(self._open)
            self.changed.update(self._open)
            self._open = []
            follow = partial(_followed, changes)
            for path in self._files():
                target = Path(_DIGEST.sub(follow, str(path).encode()).decode())
                if target != path:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(target)
                content = target.read_bytes()
                new = _DIGEST.sub(follow, content)
                if new != content:
                    self.write(target, self._recomputed(new, target))
        records = {path: json.loads(path.read_bytes()) for path in self.folder.glob("run*/store/lineage/runs/*/*.json")}
        for path, record in sorted(records.items(), key=lambda item: item[1]["started"]):  # the last one's copies stay
            name, root = f"runs/{path.parent.name}/{path.name}", path.parents[2]
            (root / mark_name(record)).write_bytes(mark_content(record, name))
            if record["state"] == "complete" and record["attempt"]["copies"]:
                Path(record["attempt"]["copies"]["lineage"]).write_bytes(path.read_bytes())
                if "verdict" in record["attempt"]["copies"]:
                    Path(record["attempt"]["copies"]["verdict"]).write_text(summary_page(record))

    def strip(self):
        """Take all signatures away."""
        for path in self._envelopes():
            self._forget(path)
        self.settle()

    def sign(self, key):
        """Sign everything anew, with another key."""
        for path in self._envelopes():  # versions before the ends of runs, which name them
            statement = json.dumps(_statement(path.read_bytes())).encode()
            self.write(path, key.sign(json.loads(_DIGEST.sub(self._newest, statement))))
            self.settle()

    def remove(self, path):
        """Remove a file, and its line in whatever lists it by name and digest."""
        self._forget(Path(path))

    def restore(self):
        """Everything as it was."""
        for path in self._files():
            if path not in self._before:
                path.unlink()
        for path, content in self._before.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        for folder in sorted(self.folder.glob("**/"), reverse=True):
            if folder != self.folder and not any(folder.iterdir()):
                folder.rmdir()
        self._open, self.changed = [], {}

    def _forget(self, path):
        for manifest in (each for each in self._files() if json_of(each).get("contract") in CONTRACTS):
            document = json.loads(manifest.read_bytes())
            for holder, names in document.get("written", {}).items():
                for name in [name for name in names if Path(holder) / name == path]:
                    del names[name]
            self.write(manifest, self._encoded(document))
        path.unlink()

    def _envelopes(self):
        return [path for path in sorted(self._files()) if json_of(path).get("payloadType")]

    def _newest(self, found):
        digest = found[0].decode()
        while self.changed.get(digest, digest) != digest:
            digest = self.changed[digest]
        return digest.encode()

    def _recomputed(self, content, path):
        document = json_of(path)
        if document.get("contract") not in CONTRACTS:
            return content
        document = json.loads(content)
        for output in document.get("outputs", []):
            if "files" in output:
                digest = lineage_record.digest_of_files(output["files"])
                self._open.append((output["sha256"], digest))
                output["sha256"] = digest
        return self._encoded(document)

    def _encoded(self, document):
        contract = document.get("contract") if isinstance(document, dict) else None
        if contract in CONTRACTS:
            return lineage_record.encode(document, contract)
        return json.dumps(document).encode()

    def _files(self):
        return [path for path in self.folder.rglob("*") if path.is_file()]


def json_of(path):
    try:
        document = json.loads(Path(path).read_bytes())
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _followed(changes, found):
    digest = found[0].decode()
    return changes.get(digest, digest).encode()


def _statement(envelope):
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]))


def _sha256(content):
    return hashlib.sha256(content).hexdigest()
