"""GSM8K, AQuA and MATH as their files are: every expected answer must be readable from what the pool shows."""

import json
from dataclasses import replace

import pytest

from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.store import open_store
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import DataError
from ease_lib.evaluation.metrics import METRICS, final_number, final_option
from ease_lib.running.task_data import check_data, load_data
from ease_lib.tasks.catalog import build_task


def built(task, folder, **parameters):
    """The task from a folder; few rows unless asked for more."""
    sizes = {"pool_size": 2, "validation_size": 1, "test_size": 1}
    config = parse_parameters({"task": task, "task_uri": str(folder), "k": 1, **sizes, **parameters}).task
    names = sorted(path.name for path in folder.iterdir())
    return build_task(
        config, seed=0, locate=folder.joinpath, list_files=lambda folder: names, metric_of=METRICS.__getitem__
    )


def write_lines(path, *records):
    path.write_text("\n".join(map(json.dumps, records)))


def test_gsm8k_shows_the_rationale_and_scores_the_number(tmp_path):
    write_lines(
        tmp_path / "train.jsonl", *[{"question": f"{n} + 1?", "answer": f"{n}.\n\n#### {n + 1}"} for n in range(9)]
    )
    data = built("gsm8k", tmp_path)
    row = data.pool[0]
    assert data.metric == "number"
    assert row.output == f"{row.input[0]}.\n#### {int(row.input[0]) + 1}"


def test_aqua_lists_the_options_and_ends_with_the_letter(tmp_path):
    record = {"question": "1 + 1?", "options": ["A)1", "B)2"], "rationale": "Count {up}.\n", "correct": "B"}
    records = [{**record, "question": f"{n} + 1?"} for n in range(4)]
    write_lines(tmp_path / "dev.json", *records)
    data = built("aqua", tmp_path)
    assert data.metric == "option_letter"
    assert data.pool[0].input.endswith(" + 1?\nOptions:\nA)1\nB)2")
    assert data.pool[0].output == "Count {up}.\nThe answer is B."


def test_math_scores_what_the_box_holds(tmp_path):
    problems = [
        {
            "problem": f"Half of {n}?",
            "solution": rf"We get $\boxed{{\frac{{{n}}}{{2}}}}$.",
            "level": "Level 1",
            "type": "Algebra",
        }
        for n in range(1, 9, 2)
    ]
    write_lines(tmp_path / "math.jsonl", *problems)
    data = built("math", tmp_path)
    assert data.metric == "boxed"
    row = next(row for row in (*data.pool, *data.validation, *data.test) if row.input == "Half of 3?")
    assert [METRICS["boxed"](answer, row.outputs) for answer in ("So it is\n1.5", r"\boxed{3}")] == [1, 0]


def test_a_file_of_another_format_is_told_what_to_do(tmp_path):
    write_lines(tmp_path / "train.jsonl", {"q": "1 + 1?", "a": "2"})
    with pytest.raises(
        DataError, match=r"no column 'question'; there are .*: use task=table for files with other columns"
    ):
        built("gsm8k", tmp_path)


def test_noise_among_rationales_is_another_number(tmp_path):
    write_lines(tmp_path / "t.jsonl", *[{"question": f"{n}?", "answer": f"{n}!\n#### {n % 2}"} for n in range(30)])
    data = built("gsm8k", tmp_path, pool_size=20, noise_ratio=1)
    assert all(final_number(row.output) != int(row.input[:-1]) % 2 for row in data.pool)


def test_all_numbers_of_gsm8k_are_read(real_data):
    data = built("gsm8k", real_data / "gsm8k", pool_size=0, test_size=1319)
    assert len(data.pool) == 2999
    for row in (*data.pool, *data.test):
        assert str(final_number(row.output)) == row.output.rpartition("#### ")[2].replace(",", "")


def test_all_letters_of_aqua_are_read_and_its_development_rows_are_dealt(real_data):
    folder = real_data / "aqua"
    data = built("aqua", folder, pool_size=0, validation_size=20, test_size=254)
    assert (len(data.pool), len(data.validation), len(data.test)) == (234, 20, 254)
    rows = (*data.pool, *data.validation, *data.test)
    assert all(final_option(row.output) == row.output[-2] for row in rows)
    bare = [row.output.rpartition("\n")[0] for row in rows]  # the rationales as people ended them
    read = sum(final_option(text) == row.output[-2] for text, row in zip(bare, rows, strict=True))
    assert read >= 484  # of 508; all but one of the others name no option


def test_math_is_read_as_published_a_file_a_problem(tmp_path, s3_prefix):
    """It is read from the folder of splits and subjects and from a bucket; every file that was read is noted."""
    for split, count in (("train", 6), ("test", 3)):
        for number in range(count):
            folder = tmp_path / "MATH" / split / ("algebra" if number % 2 else "geometry")
            folder.mkdir(parents=True, exist_ok=True)
            solution = f"It is\n\n$\\boxed{{{number}}}$."
            problem = {"problem": f"{split} {number}", "level": "Level 1", "solution": solution}
            (folder / f"{number}.json").write_text(json.dumps(problem, indent=1))
    places = open_store(f"{s3_prefix}/MATH")
    for path in (tmp_path / "MATH").rglob("*.json"):
        places.write(str(path.relative_to(tmp_path / "MATH")), path.read_bytes())
    found = []
    for uri in (str(tmp_path / "MATH"), f"{s3_prefix}/MATH"):
        sources = Sources()
        sizes = {"pool_size": 3, "validation_size": 2, "test_size": 3}
        config = parse_parameters({"task": "math", "task_uri": uri, "k": 1, **sizes}).task
        check_data(config, sources)
        found.append(load_data(config, 0, sources))
        assert len(sources.notes.files_read) == 9
    assert found[0] == replace(found[1], name=found[0].name)
    assert {row.input for row in found[0].test} == {"test 0", "test 1", "test 2"}
    assert all("\n\n" not in row.output for row in found[0].pool)


def test_a_file_of_the_tree_that_is_no_json_is_named(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train/1.json").write_text("{")
    with pytest.raises(DataError, match=r"train/1\.json is not valid JSON"):
        load_data(parse_parameters({"task": "math", "task_uri": str(tmp_path)}).task, 0, Sources())
