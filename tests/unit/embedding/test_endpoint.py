"""`embedder=openai:MODEL`, over real HTTP."""

import json
from pathlib import Path

import numpy as np
import pytest

from ease_lib import errors, progress
from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import ENDPOINT_EMBEDDER, EmbeddingConfig, HardwareConfig
from ease_lib.embedding import endpoint
from ease_lib.embedding.endpoint import EndpointEmbedder
from ease_lib.embedding.opening import check_embedder, open_embedder
from ease_lib.notes import Notes
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from tests.simulation.models import SIMULATED
from tests.support.embedding_endpoint import MODEL, embedding_server, vector_of
from tests.support.faulty_endpoint import body, reset_mid_body, status
from tests.support.runs import check, run_stages

KEY = "sk-canary-123"


def embedder(server, model=MODEL, key="", deadline_seconds=5.0):
    return EndpointEmbedder(
        ENDPOINT_EMBEDDER + model, base_url=server.base_url, key=key, deadline_seconds=deadline_seconds
    )


def data(*vectors, **changes):
    """A 200 with these vectors."""
    rows = [{"index": index, "embedding": vector, **changes} for index, vector in enumerate(vectors)]
    return body(json.dumps({"data": rows}).encode())


def test_vectors_come_in_the_order_asked_of_unit_length_and_each_text_is_asked_once(monkeypatch):
    monkeypatch.setattr(endpoint, "MOST_TEXTS", 7)
    texts = [f"text {'x' * (index % 40)}" for index in range(100)]
    with embedding_server() as server:
        vectors = embedder(server).embed(texts)
    expected = np.array([vector_of(text) for text in texts])
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    assert vectors.dtype == np.float32
    asked = [text for request in server.requests for text in request["input"]]
    assert sorted(asked) == sorted(set(texts))
    assert [len(request["input"]) for request in server.requests].count(7) == 5


def test_long_texts_share_a_request_only_up_to_its_characters(monkeypatch):
    monkeypatch.setattr(endpoint, "MOST_CHARACTERS", 10)
    with embedding_server() as server:
        embedder(server).embed(["a" * 6, "b" * 4, "c", "d" * 30])
    assert sorted(len(request["input"]) for request in server.requests) == [1, 1, 2]


def test_an_empty_text_is_sent_as_a_space():
    with embedding_server() as server:
        empty, _ = embedder(server).embed(["", "a"])
    np.testing.assert_allclose(empty, np.array(vector_of(" ")) / np.linalg.norm(vector_of(" ")), rtol=1e-6)


def test_no_texts_ask_nothing():
    with embedding_server() as server:
        assert len(embedder(server).embed([])) == 0
    assert server.requests == []


def test_what_the_endpoint_cuts_is_not_known():
    with embedding_server() as server:
        assert (embedder(server).most_tokens, embedder(server).count_truncated(["a" * 10**6])) == (0, 0)


@pytest.mark.parametrize(
    "fault",
    [status(429), status(503), reset_mid_body, body(b"<html>"), body(b"{}"), data([1.0, 2.0]), data([1.0], [1.0, 2.0])],
)
def test_failures_that_time_may_cure_are_tried_again(fault):
    with embedding_server(fault) as server:
        assert embedder(server).embed(["a", "bb"]).shape == (2, 3)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (status(401, f"{KEY} is no key"), errors.AuthenticationFailed, "check EASE_EMBEDDER_API_KEY"),
        (status(404), errors.ModelNotFound, "check embedder=openai:small and embedder_base_url"),
        (status(429, "none", "insufficient_quota"), errors.QuotaExhausted, "add credit"),
        (status(400, "maximum context length is 512 tokens"), errors.ContextTooLong, "a longer context"),
        (data([0.0, 0.0], [1.0, 0.0]), errors.EndpointError, "answered 1 of 2 texts with a vector that is zero"),
        (data([1.0, 0.0], [float("nan"), 0.0]), errors.EndpointError, "zero or not finite; choose another embedder"),
        (data([1.0, 0.0], [None, 0.0]), errors.EndpointError, "zero or not finite"),
    ],
)
def test_other_failures_end_at_once_and_say_what_to_do(fault, kind, message):
    with embedding_server(fault) as server, pytest.raises(kind, match=message) as raised:
        embedder(server, key=KEY).embed(["a", "bb"])
    assert len(server.requests) == 1
    assert not raised.value.retryable
    assert server.base_url in str(raised.value)
    assert KEY not in str(raised.value)


def test_an_endpoint_that_is_not_there_is_given_up_after_the_deadline():
    with embedding_server() as server:
        pass
    with pytest.raises(errors.ConnectionFailed, match="check embedder_base_url and that it runs"):
        embedder(server, deadline_seconds=0.0).embed(["a"])


def test_answers_that_are_no_embeddings_name_the_parameter():
    with (
        embedding_server(data([1.0], [2.0], index=0)) as server,
        pytest.raises(errors.GarbledAnswer, match=r"did not answer 2 vectors .* check embedder_base_url"),
    ):
        embedder(server, deadline_seconds=0.0).embed(["a", "bb"])


def test_vectors_of_several_lengths_are_refused(monkeypatch):
    monkeypatch.setattr(endpoint, "MOST_TEXTS", 1)
    with (
        embedding_server(vector_of=lambda text: [1.0] * len(text)) as server,
        pytest.raises(errors.EndpointError, match="vectors of 1 and of 3 numbers"),
    ):
        embedder(server).embed(["a", "bbb"])


def test_progress_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(endpoint, "MOST_TEXTS", 500)
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    with embedding_server() as server, caplog.at_level("INFO", logger="ease"):
        embedder(server).embed([str(number) for number in range(1500)])
    assert caplog.messages == ["texts embedded: 500 of 1 500", "texts embedded: 1 000 of 1 500"]


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({"EASE_EMBEDDER_API_KEY": "own", "OPENAI_API_KEY": "other", "EASE_LLM_API_KEY": "the LLM's"}, "own"),
        ({"OPENAI_API_KEY": "other"}, "no-key"),
        ({}, "no-key"),
    ],
)
def test_the_key_comes_from_the_environment(environment, sent, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with embedding_server() as server:
        config = EmbeddingConfig(embedder="openai:small", embedder_base_url=server.base_url)
        open_embedder(config, HardwareConfig(), notes=Notes()).embed(["a"])
    assert server.keys == {f"Bearer {sent}"}


def test_without_a_url_the_librarys_own_is_asked(monkeypatch):
    """The default of `embedder_base_url`."""
    with embedding_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert open_embedder(EmbeddingConfig(embedder="openai:small"), HardwareConfig(), notes=Notes()).embed(
            ["a"]
        ).shape == (1, 3)


def test_the_check_asks_for_one_short_embedding():
    with embedding_server() as server:
        check_embedder(EmbeddingConfig(embedder="openai:small", embedder_base_url=server.base_url))
    assert [len(request["input"]) for request in server.requests] == [1]


def test_the_check_reports_an_embedder_beside_other_problems(tmp_path):
    with embedding_server() as server:
        parameters = parse_parameters(
            {
                "embedder": "openai:large",
                "embedder_base_url": server.base_url,
                "store_uri": "/proc/x",
                "llm_base_url": SIMULATED,
            }
        )
        with pytest.raises(errors.ConfigError) as raised:
            check(parameters)
    assert "the model large does not exist; check embedder=openai:large and embedder_base_url" in str(raised.value)
    assert "store_uri=/proc/x cannot be written" in str(raised.value)


SMALL_RUN = {
    "method": "ease",
    "embedder": "openai:small",
    "prefilter": "cosine",
    "retained": 20,
    "pool_size": 30,
    "validation_size": 5,
    "test_size": 5,
    "representation": "sequence",
    "budget": 6,
    "initial_design": 4,
    "sampled_candidates": 200,
    "shortlist_size": 20,
    "llm_base_url": SIMULATED,
}


def test_every_stage_takes_it_and_no_artifact_has_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("EASE_EMBEDDER_API_KEY", KEY)
    at = Workspace(tmp_path)
    with embedding_server() as server:
        parameters = parse_parameters(
            {**SMALL_RUN, "embedder_base_url": server.base_url, "store_uri": str(tmp_path / "store")}
        )
        assert run_stages(at, parameters, *modules_between("", "optimize")).metrics["truncated_exemplars"] == 0
        before = len(server.requests)
        run_stages(at, parameters, optimize)
        assert len(server.requests) > before, "the search embeds whole sequences"
    assert server.keys == {f"Bearer {KEY}"}
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not any(KEY.encode() in content for content in written)


def test_another_embedding_endpoint_is_another_search(tmp_path):
    at = Workspace(tmp_path)
    replayed = []
    with embedding_server() as first, embedding_server(vector_of=lambda text: [1.0, len(text)]) as second:
        for server in (first, first, second):
            parameters = parse_parameters(
                {**SMALL_RUN, "embedder_base_url": server.base_url, "store_uri": str(tmp_path / "store")}
            )
            run_stages(at, parameters, *modules_between("", "optimize"), optimize)
            replayed.append(read_document(Path(at.search), contracts.SEARCH_SUMMARY)["replayed"])
    assert replayed == [0, 6, 0]
