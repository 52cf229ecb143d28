"""A pool ranked in shards is the pool ranked at once, to the byte."""

from pathlib import Path

import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, write_exemplars
from ease_lib.config.parsing import parse_parameters, stage_config
from ease_lib.errors import ConfigError, ContractError
from ease_lib.search import pool_retrieval as ranking
from ease_lib.seeding import rng
from ease_lib.stages import prefilter, rank_pool
from ease_lib.tasks.base import Exemplar
from tests.support.runs import opened_run

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
    """The bytes of what is kept, by the parameters that the components give to the stages."""
    parameters = {"retained": 20, "shards": shards, **values}
    tops = [str(files / f"tops-{shard}") for shard in range(shards)]
    for shard, path in enumerate(tops):
        inputs = rank_pool.Inputs(pool=str(files / "pool"), validation=str(files / "validation"))
        config = stage_config(rank_pool.Config, {**parameters, "shard": shard})
        with opened_run() as run:
            rank_pool.run(inputs, rank_pool.Outputs(tops=path), config, run)
    inputs = prefilter.Inputs(pool=str(files / "pool"), tops=tops[::-1])  # Kubeflow promises no order
    config = stage_config(prefilter.Config, parameters)
    with opened_run() as run:
        prefilter.run(inputs, prefilter.Outputs(kept=str(files / "kept")), config, run)
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
    config = stage_config(prefilter.Config, {"prefilter": "bm25", "retained": 20, "shards": 2})
    with opened_run() as run, pytest.raises(ContractError, match="1 rankings for 2 shards"):
        prefilter.run(inputs, prefilter.Outputs(kept=str(files / "k")), config, run)


def test_a_shard_is_one_of_those_that_there_are():
    with pytest.raises(ConfigError, match="shard=2 is not below shards=2"):
        stage_config(rank_pool.Config, {"shards": 2, "shard": 2})


def test_shards_are_no_parameter_of_a_run():
    with pytest.raises(ConfigError, match="unknown parameter shards"):
        parse_parameters({"shards": 2})
