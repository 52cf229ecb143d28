import json
import shutil

import pytest

from ease_lib.errors import DataError
from ease_lib.evaluation.metrics import METRICS
from ease_lib.tasks.instruction_induction import instruction_induction, metric_of, published_metric


def write(folder, name, *examples):
    for split in ("induce", "valid", "execute"):
        (folder / split).mkdir(exist_ok=True)
        content = {"metadata": {}, "examples": {str(number): example for number, example in enumerate(examples, 1)}}
        (folder / split / f"{name}.json").write_text(json.dumps(content))


def read(name, folder):
    return instruction_induction(name, folder.joinpath, lambda below: [path.name for path in folder.glob(f"{below}/*")])


def test_without_valid_the_pool_is_the_first_four_fifths_of_induce_as_the_authors_have_dealt_it(tmp_path):
    write(tmp_path, "t", *[{"input": f"row {number}", "output": "a"} for number in range(13)])
    shutil.rmtree(tmp_path / "valid")
    source = read("t", tmp_path)
    assert [row.input for row in source.rows] == [f"row {number}" for number in range(10)]
    assert [row.input for row in source.validation] == ["row 10", "row 11", "row 12"]
    assert source.notices == ("valid/ is missing: of 13 rows in induce/ the last 3 are its rows",)


def test_further_accepted_outputs(tmp_path):
    write(tmp_path, "t", {"input": "time", "output": "Zeit", "possible_translations": ["Mal", "Zeit"]})
    source = read("t", tmp_path)
    assert source.rows[0].outputs == ("Zeit", "Mal")
    assert source.rows[0].is_noisy is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not UTF-8 JSON"),
        ("[]", "is not in the Instruction Induction format"),
        ('{"examples": {"7": {"input": "a"}}}', "example 7: no text in field 'output'"),
        ('{"examples": {"7": {"input": " ", "output": "b"}}}', "example 7: input or output is empty"),
    ],
)
def test_broken_files_name_the_example(tmp_path, content, message):
    write(tmp_path, "t", {"input": "a", "output": "b"})
    (tmp_path / "valid" / "t.json").write_text(content)
    with pytest.raises(DataError) as caught:
        read("t", tmp_path)
    assert message in str(caught.value)
    assert "valid/t.json" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("taxonomy_animal", "exact_set"),
        ("taxonomy_animal_v1", "exact_set"),
        ("orthography_starts_with_v1_10_noisy", "exact_set"),
        ("synonyms_v1", "contains"),
        ("informal_to_formal_v1", "token_f1"),
        ("linear_4_10_noisy", "exact_match"),
        ("taxonomy_animal_large_v2_50_noisy", "exact_set"),
        ("orthography_starts_with_0_noisy_large", "exact_set"),
        ("synonyms_textlabel_redirect1_10_noisy", "contains"),
        ("common_concept_reverse_large", "token_f1"),
        ("informal_to_formal_remap_shift_v1", "token_f1"),
        ("synonyms_remapped2_large_10_noisy", "contains"),
        ("larger_animal_v1", "exact_match"),
        ("orthography_second_letter", "exact_match"),
    ],
)
def test_metrics_hold_for_variants_too(name, metric):
    assert metric_of(name) == metric


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("taxonomy_animal_v1", "_set"),
        ("synonyms", "_contains"),
        ("informal_to_formal_v1", "_f1"),
        ("rhymes_v1", ""),
        ("taxonomy_animal_v1_10_noisy", ""),
        ("lr", ""),
    ],
)
def test_the_authors_own_scoring_knows_the_exact_names_alone(name, rule):
    assert published_metric(name) == f"instruction_induction{rule}"


def test_tasks_with_fields_of_their_own(tmp_path):
    write(
        tmp_path, "common_concept", {"items": ["guitars", "pendulums"], "all_common_concepts": ["oscillate", "swing"]}
    )
    row = read("common_concept", tmp_path).rows[0]
    assert (row.input, row.outputs) == ("guitars, pendulums", ("oscillate", "swing"))
    write(tmp_path, "cause_and_effect", *[{"cause": "It rained.", "effect": "It is wet."}] * 20)
    rows = read("cause_and_effect", tmp_path).rows
    assert {row.input for row in rows} == {
        "Sentence 1: It rained. Sentence 2: It is wet.",
        "Sentence 1: It is wet. Sentence 2: It rained.",
    }
    assert {row.outputs for row in rows} == {("It rained.",)}


@pytest.mark.rooms("ease_lib/tasks", "ease_lib/evaluation/metrics.py")
def test_every_published_output_is_right_by_its_metric(real_data):
    folder = real_data / "instruction_induction"
    names = sorted(path.stem for path in (folder / "induce").glob("*.json"))
    assert len(names) == 23
    for name in names:
        source = read(name, folder)
        for row in (*source.rows, *source.validation, *source.test):
            assert all(METRICS[source.metric](output, row.outputs) == 1 for output in row.outputs), (name, row)


def test_published_noise_changes_less_than_it_says(real_data):
    folder = real_data / "instruction_induction"
    name = "ag_news_textlabel_redirect1_{}_noisy"
    noisy, clean = (read(name.format(percent), folder).rows for percent in (10, 0))
    assert sum(one.outputs[0] != other.outputs[0] for one, other in zip(noisy, clean, strict=True)) == 6
