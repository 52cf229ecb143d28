"""How many texts a second does the embedder take? `python -m tests.benchmarks.embedding`

The bundled MiniLM on this CPU in float32 and in bfloat16, texts of 12 and of 90 words, the best of three; and how far
the vectors are apart, as the least cosine between the two of a text.
"""

import argparse
import sys
import time

import numpy as np

from ease_lib.embedding.models import BFLOAT16, BUNDLED, FLOAT32, load_embedder
from ease_lib.machine import computes_in_bfloat16
from ease_lib.seeding import rng

WORDS = [
    f"{first}{second}" for first in ("re", "un", "over", "out") for second in ("turn", "do", "write", "load", "look")
]
ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1000, help="short; of long ones a quarter (default: 1000)")
    arguments = parser.parse_args()
    print(f"bfloat16 instructions: {'yes' if computes_in_bfloat16() else 'no'}\n")
    print("| Words of a text | float32 | bfloat16 | ratio | least cosine |\n|--:|--:|--:|--:|--:|")
    for words, count in ((12, arguments.texts), (90, arguments.texts // 4)):
        texts = [" ".join(row) for row in rng(0, "texts", words).choice(WORDS, (count, words))]
        (full, vectors), (half, rounded) = (measured(precision, texts) for precision in (FLOAT32, BFLOAT16))
        cosine = (vectors * rounded).sum(axis=1).min()
        print(f"| {words} | {full:.0f} | {half:.0f} | {half / full:.1f} | {cosine:.5f} |", flush=True)
    return 0


def measured(precision: str, texts: list[str]) -> tuple[float, np.ndarray]:
    """Texts a second, and their vectors."""
    embedder = load_embedder(BUNDLED, "cpu", precision)
    vectors = embedder.embed(texts[:64])
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        vectors = embedder.embed(texts)
        seconds.append(time.perf_counter() - start)
    return len(texts) / min(seconds), vectors


if __name__ == "__main__":
    sys.exit(main())
