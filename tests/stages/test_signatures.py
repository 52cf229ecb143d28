"""Signed lineage of real runs: what holds, what is told apart, and what an attacker without the key cannot do."""

import hashlib
import json
import shutil
import time
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts.store import FileStore, open_store
from ease_lib.cli import __main__ as cli
from ease_lib.errors import StoreUnavailable
from ease_lib.lineage.attestation import open_envelope, read_public_key
from ease_lib.lineage.chain import follow
from ease_lib.lineage.deletion.tombstones import DONE, Tombstone
from ease_lib.lineage.difference import rerun_commands
from ease_lib.lineage.record import encode
from ease_lib.lineage.verification import verify_place
from ease_lib.stages import build_dataset, publish, rank_pool
from tests.forger import Forger
from tests.recorded_run import STAGES, RecordedRun
from tests.signing_keys import KeyPair
from tests.tamper import made_table
from tests.unit.lineage.test_attestation import signer_with

SIGNATURE_MISSING, NOT_AS_SIGNED = 4, 3


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return KeyPair(tmp_path_factory.mktemp("keys"))


def in_the_next_second():
    """Versions are named by the second, so that those of one second would not sort by their age."""
    time.sleep(1 - time.time() % 1)


@pytest.fixture(scope="module")
def signed(tmp_path_factory, pair):
    """Three signed versions; the last run has a failed attempt too. Tests put back what they change."""
    folder = tmp_path_factory.mktemp("signed")
    raw, task = made_table()
    (folder / "raw").mkdir()
    (folder / "raw" / "reviews.csv").write_bytes(raw["reviews.csv"])
    task = {name: value.format(raw=folder / "raw") for name, value in task.items()}
    with patch.dict("os.environ", EASE_SIGNING_KEY=pair.private):
        for seed in (1, 2, 3):
            values = {**task, "seed": seed, "publish_uri": str(folder / "prompts")}
            in_the_next_second()
            run = RecordedRun(folder / f"run{seed}", **values)
            if seed == 3:
                with patch.object(rank_pool, "run", side_effect=StoreUnavailable("away")), pytest.raises(SystemExit):
                    run(build_dataset, rank_pool)
            run()
    return folder


@pytest.fixture
def one(tmp_path, pair, monkeypatch):
    """A signed version that a test may change."""
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    return RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()


def verified(place, *keys, required=True, more=()):
    """Exit code of the command."""
    options = [word for key in keys for word in ("--public-key", str(getattr(key, "file", key)))]
    return cli.main(["lineage", "verify", str(place), *options, *(["--require-signature"] if required else []), *more])


def prompts_of(run):
    return Path(run.parameters.publishing.publish_uri)


def test_a_signed_run_holds_wherever_it_is_asked_for(signed, pair, capsys):
    (version, *_) = sorted((signed / "prompts" / "versions").iterdir(), reverse=True)
    for place in ("prompts", "run3", "run3/store/lineage", "run3/evaluate/lineage", version):
        assert verified(signed / place, pair) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[-1].endswith("signatures hold, 0 do not, 0 are missing"), place
        assert any(f"signed by {pair.file} (" in line for line in said)
    assert verified(signed / "prompts", pair, more=["--all"]) == 0
    assert verified(signed / "prompts", required=False) == 0


def test_unsigned_and_wrongly_signed_are_told_apart(tmp_path, pair, capsys):
    """Unsigned is no fault unless a signature is asked for."""
    RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    assert verified(tmp_path / "prompts", pair, required=False) == 0
    assert "not signed: " in capsys.readouterr().out
    assert verified(tmp_path / "prompts", pair) == SIGNATURE_MISSING
    assert verified(tmp_path / "prompts", required=False) == 0


def test_the_wrong_key_and_a_key_of_another_time_hold_nothing(signed, pair, tmp_path, capsys):
    other = KeyPair(tmp_path, "other")
    for key in (other, f"{pair.file}@..2020-01-01"):
        assert verified(signed / "prompts", key, required=False) == NOT_AS_SIGNED
        assert "wrongly signed: " in capsys.readouterr().out
    assert verified(signed / "prompts", other, f"{pair.file}@2020-01-01..") == 0


def test_a_signature_cannot_be_required_without_a_key(signed, capsys):
    assert verified(signed / "prompts") == 2
    assert "--require-signature needs a key" in capsys.readouterr().err


def test_versions_signed_by_an_old_key_and_a_new_one_hold_together(one, pair, tmp_path, monkeypatch):
    new = KeyPair(tmp_path, "new", "ecdsa-p256")
    monkeypatch.setenv("EASE_SIGNING_KEY", new.private)
    later = [
        RecordedRun(tmp_path / f"run{seed}", seed=seed, publish_uri=str(prompts_of(one))).remembered()
        for seed in (2, 3)
    ]
    assert verified(prompts_of(one), pair, new, more=["--all"]) == 0
    assert verified(prompts_of(one), new, more=["--all"]) == NOT_AS_SIGNED
    versions = [json.loads(run.path("publication").read_text())["version"] for run in (one, *later)]
    first, second, third = (
        read(prompts_of(one) / f"versions/{version}/version.dsse.json", pair, new).files for version in versions
    )
    assert {name.split("/")[1] for name in first} == {versions[0]}
    assert {name.split("/")[1] for name in second} == {versions[0], versions[1]}
    assert {name.split("/")[1] for name in third} == {versions[1], versions[2]}


def read(envelope, *pairs):
    return open_envelope(envelope.read_bytes(), [read_public_key(str(pair.file)) for pair in pairs])


def test_the_first_signature_names_all_unsigned_versions_before_it(tmp_path, pair, monkeypatch, capsys):
    prompts = tmp_path / "prompts"
    for seed in (1, 2, 3):
        if seed == 3:
            monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
        in_the_next_second()
        RecordedRun(tmp_path / f"run{seed}", seed=seed, publish_uri=str(prompts)).remembered()
    assert verified(prompts, pair) == 0
    assert verified(prompts, pair, more=["--all"]) == SIGNATURE_MISSING
    first, *_ = sorted((prompts / "versions").iterdir())
    shutil.rmtree(first)
    assert verified(prompts, pair) == NOT_AS_SIGNED
    assert f"missing: {first}/version.json" in capsys.readouterr().out


def test_a_version_that_an_earlier_attempt_signed_is_taken_over_and_no_other(one, pair, capsys):
    one(publish)
    assert verified(prompts_of(one), pair) == 0
    (version,) = (prompts_of(one) / "versions").iterdir()
    (version / "version.dsse.json").unlink()
    capsys.readouterr()
    with pytest.raises(SystemExit):
        one(publish)
    assert "exists already, and its signature is not by this key" in capsys.readouterr().err


@pytest.mark.parametrize("written", range(4))
def test_a_killed_publication_is_signed_by_the_next_attempt(written, pair, tmp_path, monkeypatch):
    """Killed before or after the signature of the version, or before that of the record."""
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    run = RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered(*STAGES[:-1])
    names = ("version.dsse.json", "version.json", "latest.json", "signatures/runs")
    whole = FileStore.write, FileStore.swap

    def killed_at(real):
        def write(self, name, *content):
            if names[written] in name:
                raise KeyboardInterrupt
            return real(self, name, *content)

        return write

    monkeypatch.setattr(FileStore, "write", killed_at(whole[0]))
    monkeypatch.setattr(FileStore, "swap", killed_at(whole[1]))
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        run(publish)
    monkeypatch.setattr(FileStore, "write", whole[0])
    monkeypatch.setattr(FileStore, "swap", whole[1])
    run(publish)
    assert verified(tmp_path / "prompts", pair, required=False) == 0


def test_a_run_that_publishes_nothing_is_signed_too(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    run = RecordedRun(tmp_path / "run").remembered()
    (envelope,) = (tmp_path / "run" / "store" / "lineage" / "signatures" / "runs" / run.run_id).iterdir()
    assert f"runs/{run.run_id}/{envelope.name}" in read(envelope, pair).files
    assert verified(tmp_path / "run", pair) == 0
    (record,) = (tmp_path / "run" / "store" / "lineage" / "runs").glob("*/optimize-*")
    record.unlink()
    assert verified(tmp_path / "run", pair) == NOT_AS_SIGNED


def test_a_run_whose_records_lie_nowhere_but_in_its_own_folders_is_not_signed_and_says_so(
    pair, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    RecordedRun(tmp_path / "run", store_uri="")()
    assert envelopes_in(tmp_path) == []
    assert "[ease] not signed, because no record outlives this run; set store_uri" in capsys.readouterr().err


def test_a_signed_run_that_was_moved_as_a_whole_holds(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    RecordedRun(tmp_path / "old" / "run", publish_uri=str(tmp_path / "old" / "prompts")).remembered()
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert verified(tmp_path / "new", pair) == NOT_AS_SIGNED, "nobody said that it was moved"
    moved = ["--moved-from", str(tmp_path / "old")]
    assert verified(tmp_path / "new", pair, more=moved) == 0
    (record,) = (tmp_path / "new" / "run" / "store" / "lineage" / "runs").glob("*/publish-*")
    record.write_bytes(encode({**json.loads(record.read_bytes()), "started": "2020-01-01T00:00:00.000+00:00"}))
    assert verified(tmp_path / "new", pair, more=moved) == NOT_AS_SIGNED


def test_a_signed_version_in_a_folder_where_it_was_never_published_is_none(pair, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts-a")).remembered()
    shutil.copytree(tmp_path / "prompts-a", tmp_path / "prompts-b")
    assert verified(tmp_path / "prompts-a", pair) == 0
    capsys.readouterr()
    assert verified(tmp_path / "prompts-b", pair) == NOT_AS_SIGNED
    said = capsys.readouterr().out
    assert f"wrongly signed: {tmp_path}/prompts-b/versions/" in said
    assert f"signed as file://{tmp_path}/prompts-a/versions/" in said
    assert verified(tmp_path / "prompts-b", pair, more=["--moved-from", str(tmp_path / "prompts-a")]) == 0
    shutil.rmtree(tmp_path / "prompts-a")
    assert verified(tmp_path / "prompts-b", pair, more=["--moved-from", str(tmp_path / "prompts-a"), "--all"]) == 0


@pytest.mark.rooms("ease_lib/lineage", "ease_lib/stages", "ease_lib/artifacts")
def test_a_signed_run_in_a_bucket_holds_and_what_is_taken_from_it_shows(s3_prefix, pair, tmp_path, monkeypatch):
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    for seed in (1, 2):
        values = {"publish_uri": f"{s3_prefix}/prompts", "store_uri": f"{s3_prefix}/store", "seed": seed}
        RecordedRun(tmp_path / str(seed), **values)()
    assert verified(f"{s3_prefix}/prompts", pair, more=["--all"]) == 0
    prompts = open_store(f"{s3_prefix}/prompts")
    first = min(name for name in prompts.walk_names() if name.endswith("version.dsse.json"))
    content = prompts.read(first)
    prompts.delete(first)
    assert verified(f"{s3_prefix}/prompts", pair) == NOT_AS_SIGNED
    prompts.write(first, content[:-9])
    assert verified(f"{s3_prefix}/prompts", pair) == NOT_AS_SIGNED


def test_without_a_key_nothing_is_signed(tmp_path):
    RecordedRun(tmp_path / "run", publish_uri=str(tmp_path / "prompts")).remembered()
    assert envelopes_in(tmp_path) == list(tmp_path.rglob("*.dsse.json")) == list(tmp_path.rglob("signatures")) == []


def envelopes_in(folder):
    return [path for path in folder.rglob("*") if path.is_file() and b'"payloadType"' in path.read_bytes()]


def test_publication_is_refused_without_the_key_it_asks_for_before_anything_is_asked(tmp_path, pair, capsys):
    wanted = {"publish_uri": str(tmp_path / "prompts"), "publish_signed": "true"}
    for stages in ((), (*STAGES[:-1], publish)):
        with pytest.raises(SystemExit):
            RecordedRun(tmp_path / "run", **wanted).remembered(*stages)
        said = capsys.readouterr().err
        assert "publish_signed=true needs a signing key; set EASE_SIGNING_KEY" in said
        assert "the Secret ease-signing" in said
    assert not (tmp_path / "prompts" / "versions").exists()
    with patch.dict("os.environ", EASE_SIGNING_KEY=pair.private):
        run = RecordedRun(tmp_path / "again", **wanted).remembered()
    assert verified(tmp_path / "prompts", pair) == 0
    assert "publish-signed" not in rerun_commands(follow(run.parameters.lineage_root))


def test_the_private_key_is_nowhere(signed, pair):
    lines = [line.encode() for line in pair.private.splitlines()[1:-1]]
    holding = [path for path in signed.rglob("*") if path.is_file() for line in lines if line in path.read_bytes()]
    assert holding == []


def test_what_was_forgotten_is_told_by_a_signed_tombstone_and_not_by_an_unsigned_one(one, pair, monkeypatch, capsys):
    text = pq.read_table(one.path("pool"))["input"].to_pylist()[0]
    monkeypatch.delenv("EASE_SIGNING_KEY")
    forgotten = ["forget", "--row", text, "--in", str(one.folder), "--in", str(prompts_of(one)), "--remove"]
    before = Forger(one.folder.parent)
    assert cli.main(forgotten) == 0
    assert verified(prompts_of(one), required=False) == 0
    assert verified(prompts_of(one), pair, required=False) == 0
    assert "according to a tombstone without signature" in capsys.readouterr().out
    assert verified(prompts_of(one), pair) == SIGNATURE_MISSING
    before.restore()
    monkeypatch.setenv("EASE_SIGNING_KEY", pair.private)
    assert cli.main(forgotten) == 0
    assert verified(prompts_of(one), pair) == 0
    assert "removed on request" in capsys.readouterr().out
    (tombstone,) = one.folder.glob("store/lineage/tombstones/*/*.json")
    tombstone.write_bytes(next(one.folder.rglob("signatures/tombstones/*/*")).read_bytes())
    assert verified(prompts_of(one), pair) == NOT_AS_SIGNED


@pytest.mark.parametrize(("begun_with_key", "code"), [(True, 0), (False, SIGNATURE_MISSING)])
def test_a_removal_that_somebody_else_began_is_not_signed_by_who_ends_it(
    begun_with_key, code, one, pair, monkeypatch, capsys
):
    text = pq.read_table(one.path("pool"))["input"].to_pylist()[0]
    forgotten = ["forget", "--row", text, "--in", str(one.folder), "--in", str(prompts_of(one)), "--remove"]
    with monkeypatch.context() as killed:
        if not begun_with_key:
            killed.delenv("EASE_SIGNING_KEY")
        killed.setattr(FileStore, "delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        killed.setattr(
            "ease_lib.lineage.deletion.forgetting.Holder.delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert cli.main(forgotten) == 75
    assert cli.main(forgotten) == 0
    assert verified(prompts_of(one), pair) == code


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def flip(pattern):
    return lambda forger: forger.change(pattern, flipped)


def record(stage, edit):
    return lambda forger: forger.edit(f"run3/store/lineage/runs/*/{stage}-*.json", edit)


def newest(folder):
    return sorted((folder / "prompts" / "versions").iterdir())[-1]


def manifest(edit, number=-1):
    def forge(forger):
        version = sorted((forger.folder / "prompts" / "versions").iterdir())[number]
        forger.edit(f"prompts/versions/{version.name}/version.json", edit)

    return forge


def better_score(forger):
    def edit(report):
        report["best"]["test_score"] = 1.0

    forger.edit("run3/evaluate/result/report/report.json", edit)
    manifest(lambda version: version.update(test_score=1.0))(forger)


def another_prompt(forger):
    forger.change("run3/evaluate/result/report/prompt.txt", lambda content: content.replace(b"good", b"evil"))


def failure_hidden(forger):
    """The record of the failed attempt, its mark and whatever names it are gone."""
    (path,) = (
        path for path in forger.paths("run3/store/lineage/runs/*/rank_pool-*.json") if b'"failed"' in path.read_bytes()
    )
    name = f"runs/{path.parent.name}/{path.name}"
    for document in forger.paths("**/*.json"):
        content = json.loads(document.read_bytes())
        if "attempt" in content and name in content["attempt"]["earlier"]:
            forger.edit(
                str(document.relative_to(forger.folder)), lambda other: other["attempt"]["earlier"].remove(name)
            )
    digest = path.stem.partition("-")[2]
    for mark in forger.folder.glob(f"run3/store/lineage/attempts/*/{digest}"):
        mark.unlink()
    copy = next(forger.folder.glob(f"prompts/versions/*/records/{path.name}"))
    path.unlink()
    copy.unlink()
    manifest(lambda version: version["files"].pop(f"records/{path.name}"))(forger)
    (publishing,) = forger.paths("run3/store/lineage/runs/*/publish-*.json")

    def unwritten(other):
        for names in other["written"].values():
            names.pop(f"versions/{copy.parents[1].name}/records/{path.name}", None)

    forger.edit(str(publishing.relative_to(forger.folder)), unwritten)


def other_outcome(forger):
    forger.edit("run3/evaluate/result/publication.json", lambda said: said.update(reason="better than the one before"))


def rewired(number):
    """A version is gone, with its marks, and its successor names the one before it."""

    def forge(forger):
        versions = sorted((forger.folder / "prompts" / "versions").iterdir())
        gone = versions[number]
        previous = json.loads((gone / "version.json").read_bytes())["previous"]
        shutil.rmtree(gone)
        for mark in forger.folder.glob(f"prompts/*/*/{gone.name}"):
            mark.unlink()
        after = versions[number + 1].name
        forger.edit(f"prompts/versions/{after}/version.json", lambda version: version.update(previous=previous))

    return forge


def replaced(forger):
    """The second version has the content of the first."""
    first, second, _ = sorted((forger.folder / "prompts" / "versions").iterdir())
    (forger.folder / "run2").rename(forger.folder / "gone")
    for path in first.rglob("*"):
        if path.is_file() and path.name not in ("version.json", "version.dsse.json"):
            forger.write(second / path.relative_to(first), path.read_bytes())
    content = json.loads((first / "version.json").read_bytes())
    for mark in forger.folder.glob(f"prompts/*/*/{second.name}"):
        mark.unlink()
    for mark in forger.folder.glob(f"prompts/*/*/{first.name}"):
        (mark.parent / second.name).write_bytes(json.dumps({"version": second.name}).encode())
    stray = {path.name for path in (second / "records").iterdir()} - {
        path.name for path in (first / "records").iterdir()
    }
    for name in stray:
        (second / "records" / name).unlink()
    previous = {"version": first.name, "sha256": _sha256(first / "version.json")}
    forger.edit(
        f"prompts/versions/{second.name}/version.json",
        lambda version: version.update({**content, "version": second.name, "previous": previous}),
    )


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forged_removal(forger):
    """The prompt is gone, and a tombstone says that somebody asked for it."""
    removed = []
    for path in [*newest(forger.folder).glob("prompt.txt"), forger.folder / "run3/evaluate/result/report/prompt.txt"]:
        removed.append({"uri": str(path), "sha256": _sha256(path)})
        path.unlink()
    tombstone = Tombstone(row="0" * 64, when="2026-11-23T00:00:00", reason="", state=DONE, removed=removed)
    tombstone.write(str(forger.folder / "run3/store/lineage"))


def other_signature(forger):
    """The envelope of the version before, in the place of the newest one's."""
    _, second, third = sorted((forger.folder / "prompts" / "versions").iterdir())
    forger.write(third / "version.dsse.json", (second / "version.dsse.json").read_bytes())


def signature_of_records(forger):
    """The envelope of the run's records, which names no version, in the place of the version's."""
    (envelope,) = forger.paths("run3/store/lineage/signatures/runs/*/*.json")
    forger.write(newest(forger.folder) / "version.dsse.json", envelope.read_bytes())


def answers(forger):
    forger.change_answers("run3/store/responses.sqlite", lambda content: content.replace("good", "evil"))


def journal(forger):
    forger.change_line("run3/store/journals/*.jsonl", lambda line: line.replace(b"0", b"1"))


def raw_data(forger):
    """Read by the runs of all three versions."""
    forger.change("raw/reviews.csv", lambda content: content.replace(b"is good,good", b"is good,odd", 1))


FORGERIES = {
    "raw data": raw_data,
    "pool": flip("run3/build-dataset/pool"),
    "validation set": flip("run3/build-dataset/validation"),
    "test set": flip("run3/build-dataset/test"),
    "kept by the prefilter": flip("run3/prefilter/kept"),
    "embeddings": flip("run3/embed/embeddings"),
    "kept embedding": flip("run3/store/embeddings/*"),
    "journal": journal,
    "answers": answers,
    "history": flip("run3/optimize/history"),
    "best sequence": flip("run3/optimize/best_sequence"),
    "predictions": flip("run3/evaluate/predictions"),
    "prompt": another_prompt,
    "report page": flip("run3/evaluate/result/report/report.html"),
    "test score": better_score,
    "seed": record("optimize", lambda record: record["parameters"].update(seed=4)),
    "model": record("optimize", lambda record: record["llm"]["answered_by"][0].update(model="a dear one")),
    "source": record("build_dataset", lambda record: record["software"].update(revision="0" * 40)),
    "image": record("report", lambda record: record["software"].update(image="reviewed@sha256:" + "0" * 64)),
    "time": record("evaluate", lambda record: record.update(started="2020-01-01T00:00:00.000+00:00")),
    "endpoint": record("check_prerequisites", lambda record: record["parameters"].update(llm_base_url="https://x.org")),
    "failed attempt hidden": failure_hidden,
    "publishing parameters": record("publish", lambda record: record["parameters"].update(publish_if="better")),
    "outcome of publishing": other_outcome,
    "provenance export": lambda forger: forger.edit(
        f"prompts/versions/{newest(forger.folder).name}/provenance.intoto.json",
        lambda statement: statement["predicate"]["buildDefinition"].update(buildType="urn:x"),
    ),
    "validation rows of a version": manifest(lambda version: version.update(validation_rows=[])),
    "verdict of a version": manifest(lambda version: version.update(verdict="better than all")),
    "history of versions": manifest(lambda version: version.update(previous=None)),
    "facts of the version before": manifest(lambda version: version.update(test_score=0.0), -2),
    "first version gone": rewired(0),
    "version in the middle gone": rewired(1),
    "version replaced": replaced,
    "removal on request": forged_removal,
}
SIGNATURES = {"left": lambda forger, key: None, "stripped": lambda forger, key: forger.strip(), "own key": Forger.sign}


@pytest.mark.parametrize("signatures", SIGNATURES)
@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.rooms("ease_lib/lineage", "ease_lib/stages", "ease_lib/artifacts", "tests/tamper.py", "tests/forger.py")
def test_who_recomputes_every_digest_is_found_by_the_signatures_alone(name, signatures, signed, pair, tmp_path):
    forger = Forger(signed)
    mine = KeyPair(tmp_path, "mine")
    try:
        FORGERIES[name](forger)
        forger.settle()
        SIGNATURES[signatures](forger, signer_with(mine))
        unnoticed = verify_place(str(signed / "prompts"), all_versions=name != "version replaced")
        assert unnoticed.is_whole, unnoticed.problems
        code = verified(signed / "prompts", pair)
        assert code in (NOT_AS_SIGNED, SIGNATURE_MISSING)
        if signatures != "stripped" and name != "removal on request":
            assert code == NOT_AS_SIGNED
    finally:
        forger.restore()
    assert verified(signed / "prompts", pair) == 0


@pytest.mark.parametrize("forge", [other_signature, signature_of_records])
def test_a_signature_of_something_else_does_not_do(forge, signed, pair):
    forger = Forger(signed)
    try:
        forge(forger)
        forger.settle()
        assert verify_place(str(signed / "prompts")).is_whole
        assert verified(signed / "prompts", pair, required=False) == NOT_AS_SIGNED
    finally:
        forger.restore()


def test_a_version_of_somebody_else_beside_is_not_signed(signed, pair):
    """A whole forged version, newer than all, that latest.json names."""
    forger = Forger(signed)
    try:
        forged = shutil.copytree(newest(signed), signed / "prompts" / "versions" / "29990101T000000Z-forged")
        (forged / "version.dsse.json").unlink()
        content = json.loads((forged / "version.json").read_bytes())
        forger.edit(
            f"prompts/versions/{forged.name}/version.json",
            lambda version: version.update({**content, "version": forged.name}),
        )
        latest = {"version": forged.name, "sha256": _sha256(forged / "version.json")}
        (signed / "prompts" / "latest.json").write_bytes((json.dumps(latest, indent=1) + "\n").encode())
        assert verified(signed / "prompts", pair) in (SIGNATURE_MISSING, NOT_AS_SIGNED)
        assert open_store(str(signed / "prompts")).read("latest.json")
    finally:
        forger.restore()
