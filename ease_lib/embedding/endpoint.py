"""Embeddings from an OpenAI-compatible endpoint, `/v1/embeddings`: many texts a request, a few requests at once.

What the endpoint cuts off a text it does not say, so nothing is counted as cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ease_lib import errors
from ease_lib.arrays import FloatArray
from ease_lib.black_box.failures import Remedies, named_failure
from ease_lib.black_box.retries import with_retries
from ease_lib.black_box.transport import Transport
from ease_lib.config.sections import ENDPOINT_EMBEDDER
from ease_lib.embedding.embedder import EMBEDDED, in_order
from ease_lib.progress import Counted
from ease_lib.signals import open_event_loop

MOST_TEXTS, MOST_CHARACTERS = 256, 400_000
"""Limits of one request. OpenAI takes 2048 texts and 300 000 tokens."""
REQUESTS_AT_ONCE = 4
REQUEST_SECONDS = 60.0
DEADLINE_SECONDS = 300.0
REMEDIES = Remedies(
    url="embedder_base_url",
    model="embedder",
    keys="EASE_EMBEDDER_API_KEY (OPENAI_API_KEY is sent to OpenAI's own hosts only)",
    slow="check embedder_base_url and that it runs",
    long="choose an embedder with a longer context",
)


class EndpointEmbedder:
    """A model behind an endpoint.

    Args:
        name: `openai:` and the model as the endpoint calls it.
        base_url: empty for the OpenAI library's own default.
        key: secret of the endpoint, or empty.
        deadline_seconds: how long after its first failure a request is tried again.
    """

    most_tokens = 0

    def __init__(self, name: str, *, base_url: str, key: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self.name = name
        self._base_url = base_url
        self._key = key
        self._deadline_seconds = deadline_seconds

    def embed(self, texts: Sequence[str], progress: Counted | None = None) -> FloatArray:
        """(len(texts), d) unit-length float32 embeddings.

        Raises:
            EndpointError: when the endpoint fails for good, or answers vectors without direction or of several lengths.
        """
        distinct = list(dict.fromkeys(texts))
        with open_event_loop() as runner:
            batches = runner.run(self._embed_all(distinct, progress or Counted(EMBEDDED, len(distinct))))
        vectors = [vector for batch in batches for vector in batch]
        return in_order(texts, dict(zip(distinct, vectors, strict=True)))

    def count_truncated(self, texts: Sequence[str]) -> int:
        return 0

    async def _embed_all(self, texts: Sequence[str], progress: Counted) -> list[FloatArray]:
        places = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def embedded(batch: list[str]) -> FloatArray:
            async with places:
                vectors, _ = await with_retries(
                    lambda: self._request(transport, batch), deadline_seconds=self._deadline_seconds
                )
            progress.add(len(batch))
            return vectors

        transport = Transport(self._base_url, self._key, REQUEST_SECONDS)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(embedded(batch)) for batch in _batches(texts)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            await transport.close()
        batches = [task.result() for task in tasks]
        lengths = sorted({batch.shape[1] for batch in batches})
        if len(lengths) > 1:
            raise errors.EndpointError(
                f"{transport.shown_url} answered vectors of {lengths[0]} and of {lengths[-1]} numbers; {self.name} "
                "is served by different models; use an endpoint with one"
            )
        return batches

    async def _request(self, transport: Transport, texts: Sequence[str]) -> FloatArray:
        content = {
            "model": self.name.removeprefix(ENDPOINT_EMBEDDER),
            "input": [text or " " for text in texts],  # some endpoints refuse empty texts
            "encoding_format": "float",
        }
        try:
            response = await transport.post("embeddings", content)
        except Exception as error:
            raise named_failure(
                error,
                where=transport.shown_url,
                model=self.name,
                remedies=REMEDIES,
                secrets=[self._key],
                proxy=transport.proxy,
            ) from error
        return _unit_vectors(response, len(texts), transport.shown_url)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == MOST_TEXTS or characters + len(text) > MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _unit_vectors(response: Any, count: int, where: str) -> FloatArray:
    """(count, d) in the order asked, by the index that each vector carries."""
    try:
        vector_at = {int(item["index"]): item["embedding"] for item in response["data"]}
        vectors = np.array([vector_at[index] for index in range(count)], dtype=np.float64)
        if vectors.ndim != 2 or len(vector_at) != len(response["data"]) or len(vector_at) != count:
            raise ValueError(f"{len(response['data'])} vectors")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise errors.GarbledAnswer(
            f"{where} did not answer {count} vectors of one length, with an index each, to {count} texts; "
            "check embedder_base_url (most end in /v1)"
        ) from error
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unusable = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if unusable.size:
        raise errors.EndpointError(
            f"{where} answered {unusable.size} of {count} texts with a vector that is zero or not finite; choose "
            "another embedder"
        )
    return cast(FloatArray, (vectors / lengths).astype(np.float32))
