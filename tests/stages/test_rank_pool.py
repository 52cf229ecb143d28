"""A pool ranked in shards is the pool ranked at once, to the byte."""

import json
from pathlib import Path

import pytest

from ease_lib import prefilter as ranking
from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, write_exemplars
from ease_lib.config.parsing import parse_parameters, parse_stage_config, stage_parameters
from ease_lib.errors import ConfigError, ContractError
from ease_lib.running.graph import LOOPED
from ease_lib.seeding import rng
from ease_lib.stages import check_prerequisites, prefilter, rank_pool
from ease_lib.tasks.base import Exemplar

WORDS = ("train", "bus", "late", "early", "ticket", "refund", "seat", "window", "crowded", "quiet", "ümläut", "駅")


def exemplars(count, first, draw):
    texts = [" ".join(draw.choice(WORDS, draw.integers(1, 9))) for _ in range(count)]
    return [Exemplar(first + index, text, ("a",), None) for index, text in enumerate(texts)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK", 16)
    draw = rng(0, "shards")
    pool, validation = exemplars(100, 0, draw), exemplars(7, 100, draw)
    pool[90] = Exemplar(90, pool[3].input, ("a",), None)  # the same text in another shard
    write_exemplars(tmp_path / "pool", contracts.EXEMPLAR_POOL, pool)
    write_exemplars(tmp_path / "validation", contracts.VALIDATION_SET, validation)
    return tmp_path


def kept(files, shards, **values):
    """The bytes of what is kept, by the configurations that the first task passes on."""
    parameters = {"llm_base_url": "simulated", "retained": 20, "shards": shards, **values}
    configs = check_prerequisites.run(check_prerequisites.read_form(parameters, ""))[LOOPED]
    tops = [str(files / f"tops-{shard}") for shard in range(len(configs))]
    for config, path in zip(configs, tops, strict=True):
        inputs = rank_pool.Inputs(pool=str(files / "pool"), validation=str(files / "validation"))
        rank_pool.run(
            inputs,
            rank_pool.Outputs(tops=path),
            parse_stage_config(rank_pool.Config, json.dumps(json.loads(config)["rank_pool"])),
        )
    inputs = prefilter.Inputs(pool=str(files / "pool"), tops=tops[::-1])  # Kubeflow promises no order
    config = stage_parameters(prefilter.Config, parse_parameters(parameters))
    prefilter.run(inputs, prefilter.Outputs(kept=str(files / "kept")), parse_stage_config(prefilter.Config, config))
    return Path(files / "kept").read_bytes()


@pytest.mark.parametrize("kind", ["cosine", "bm25", "none"])
def test_any_number_of_shards_keeps_the_same_bytes(files, kind):
    once = kept(files, 1, prefilter=kind)
    assert kept(files, 3, prefilter=kind) == once
    assert kept(files, 50, prefilter=kind) == once  # more shards than blocks


def test_a_pool_that_is_kept_anyway_is_not_ranked(files):
    kept(files, 2, prefilter="cosine", retained=100)
    passed_on, pool = (read_exemplars(files / name, contracts.EXEMPLAR_POOL) for name in ("kept", "pool"))
    assert passed_on == pool
    assert not rank_pool.read_tops(files / "tops-1").positions.size


def test_a_missing_shard_is_named(files):
    kept(files, 1, prefilter="bm25")
    inputs = prefilter.Inputs(pool=str(files / "pool"), tops=[str(files / "tops-0")])
    config = stage_parameters(prefilter.Config, parse_parameters({"prefilter": "bm25", "retained": 20, "shards": 2}))
    with pytest.raises(ContractError, match="1 files of tops for shards=2"):
        prefilter.run(inputs, prefilter.Outputs(kept=str(files / "k")), parse_stage_config(prefilter.Config, config))


def test_each_shard_is_told_which_it_is():
    configs = check_prerequisites.run(parse_parameters({"llm_base_url": "simulated", "shards": 3}))[LOOPED]
    assert [json.loads(config)["rank_pool"]["shard"] for config in configs] == [0, 1, 2]
    with pytest.raises(ConfigError, match="shard=2 is not below shards=2"):
        parse_parameters({"shards": 2, "shard": 2})
