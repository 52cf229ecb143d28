"""How fast does the local LLM answer, alone and beside a busy process, and does its memory stay level?
`python -m tests.benchmarks.local_llm`

Asks prompts of the shipped task, five exemplars and a query, a new sequence every 20 of them as a search does; then as
many beside one process that keeps a core busy. `--requests 10000` shows the level of memory that a search reaches.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

AT_ONCE = 20
QUERIES = 20
"""Queries of each sequence."""
SPIN = "while True: pass"
STEPS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--requests", type=int, default=600, help="asked alone; a fifth of them beside the busy process (default: 600)"
    )
    arguments = parser.parse_args()
    command = [sys.executable, "-u", "-m", "ease_lib.black_box.local_llm", "--host", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            measure(server.stdout.readline().split()[-1], arguments.requests, server.pid)
        finally:
            server.terminate()
    return 0


def measure(base_url: str, requests: int, server: int) -> None:
    asked = prompts()
    print("| | answers a second | memory of the server, MiB |\n|---|--:|--:|")
    for step in range(STEPS):
        rate = answered(base_url, asked, requests // STEPS)
        print(f"| alone, {(step + 1) * requests // STEPS} requests | {rate:.1f} | {resident(server)} |", flush=True)
    busy = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        rate = answered(base_url, asked, requests // STEPS)
    finally:
        busy.kill()
        busy.wait()
    print(f"| next to a busy process | {rate:.1f} | {resident(server)} |")


def answered(base_url: str, asked: Iterator[str], count: int) -> float:
    """Answers a second to so many prompts, 20 at once."""
    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda prompt: answer(base_url, prompt), [next(asked) for _ in range(count)]):
            pass
    return count / (time.monotonic() - started)


def answer(base_url: str, prompt: str) -> None:
    content = {"model": "any", "prompt": prompt, "max_tokens": 8, "temperature": 0, "stop": ["\n"]}
    request = urllib.request.Request(
        f"{base_url}/completions", json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        json.load(response)


def prompts() -> Iterator[str]:
    """Ever new ones."""
    draw = random.Random(0)
    lines = (files("ease_lib.tasks") / "data/customer_feedback.csv").read_text().splitlines()[1:]
    rows = [line.rsplit(",", 1) for line in lines]
    while True:
        shown = "".join(f"Input: {text}\nOutput: {label}\n\n" for text, label in draw.sample(rows, 5))
        for text, _ in draw.sample(rows, QUERIES):
            yield f"{shown}Input: {text}\nOutput:"


def resident(pid: int) -> int:
    """MiB of memory that the process and its children hold."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 // 2**20 + sum(resident(int(child)) for child in children)


if __name__ == "__main__":
    sys.exit(main())
