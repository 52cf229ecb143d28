"""How many answers a second can a client take from a server that answers at once? `python -m tests.benchmarks.client`

Each client asks from a process of its own, the same prompts, so many in flight. Ours is the whole chain: retries,
adaptive concurrency, accounting, and the cache of answers in a folder. `--peers PYTHON` names an interpreter with
DSPy and LiteLLM, which are measured too; `--rounds` takes the best of so many.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from tests.benchmarks.endpoint import MODEL, endpoint
from tests.support.runs import open_black_box

IN_FLIGHT = (20, 100, 400)
Ask = Callable[[str], Awaitable[object]]
PREFIX = "".join(f"Input: ticket {number}, the page does not load\nOutput: bug\n\n" for number in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6000, help="of a fast client (default: 6000)")
    parser.add_argument("--in-flight", type=int, nargs="+", default=IN_FLIGHT)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts (default: 3)")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter with dspy and litellm")
    parser.add_argument("--one", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        url, folder = arguments.one
        print(measured(arguments.clients[0], url, folder, arguments.in_flight[0], arguments.requests))
        return 0
    print(f"| Client | {' | '.join(f'{number} in flight' for number in arguments.in_flight)} |")
    print("|---|" + "--:|" * len(arguments.in_flight))
    for name in arguments.clients:
        if name not in PEERS or arguments.peers:
            rates = [best_rate(name, in_flight, arguments) for in_flight in arguments.in_flight]
            print(f"| {name} | {' | '.join(f'{rate:.0f}' for rate in rates)} |", flush=True)
    return 0


def best_rate(name: str, in_flight: int, arguments: argparse.Namespace) -> float:
    """Answers a second, in a new process against a new server each time."""
    python = arguments.peers if name in PEERS else sys.executable
    requests = arguments.requests if name in FAST else arguments.requests // 6
    rates = []
    for _ in range(arguments.rounds):
        with endpoint() as served, tempfile.TemporaryDirectory() as folder:
            command = [python, "-m", "tests.benchmarks.client", "--one", served.url, folder, "--clients", name]
            sizes = ["--in-flight", str(in_flight), "--requests", str(requests)]
            environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # it would ask the internet
            rates.append(float(subprocess.check_output([*command, *sizes], text=True, env=environment).split()[-1]))
    return max(rates)


def measured(name: str, url: str, folder: str, in_flight: int, requests: int) -> float:
    """Answers a second, after as many to warm up as are in flight."""

    async def all_answers(ask: Ask) -> float:
        await gathered(ask, [f"{PREFIX}Input: warm {number}\nOutput:" for number in range(in_flight)])
        prompts = [f"{PREFIX}Input: ticket number {number}\nOutput:" for number in range(requests)]
        start = time.perf_counter()
        await gathered(ask, prompts)
        return requests / (time.perf_counter() - start)

    with ExitStack() as stack:
        return CLIENTS[name](url, folder, in_flight, stack, all_answers)


async def gathered(ask: Ask, prompts: list[str]) -> None:
    await asyncio.gather(*(ask(prompt) for prompt in prompts))


def bounded(ask: Ask, in_flight: int) -> Ask:
    """Limit the requests in flight, for clients that leave this to their callers."""
    slots = asyncio.Semaphore(in_flight)

    async def in_turn(prompt: str) -> object:
        async with slots:
            return await ask(prompt)

    return in_turn


Measure = Callable[[Ask], Awaitable[float]]


def ours(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure, cached: bool = False) -> float:
    from ease_lib.black_box.client import Sampling
    from ease_lib.config.sections import EndpointConfig

    config = EndpointConfig(llm_base_url=url, llm_model=MODEL, llm_api="chat", llm_concurrency=in_flight)
    sampling = Sampling(max_tokens=8, stop="\n")
    box = stack.enter_context(open_black_box(config, sampling=sampling, store_uri=folder if cached else ""))
    return box.loop.run(measure(box.client.complete))


def ours_cached(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure) -> float:
    return ours(url, folder, in_flight, stack, measure, cached=True)


def plain_aiohttp(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure) -> float:
    import aiohttp

    async def run() -> float:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(prompt: str) -> object:
                body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": 8}
                async with session.post(f"{url}/chat/completions", json=body) as answer:
                    return await answer.json()

            return await measure(bounded(ask, in_flight))

    return asyncio.run(run())


def through_openai(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure, **how: object) -> float:
    import openai

    async def run() -> float:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, **how) as client:

            async def ask(prompt: str) -> object:
                messages = [{"role": "user", "content": prompt}]
                return await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=8)

            return await measure(bounded(ask, in_flight))

    return asyncio.run(run())


def openai_aiohttp(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure) -> float:
    import openai

    return through_openai(url, folder, in_flight, stack, measure, http_client=openai.DefaultAioHttpClient())


def litellm(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure) -> float:
    import litellm

    litellm.suppress_debug_info = True

    async def ask(prompt: str) -> object:
        messages = [{"role": "user", "content": prompt}]
        return await litellm.acompletion(
            model=f"openai/{MODEL}", messages=messages, api_base=url, api_key="none", max_tokens=8
        )

    async def run() -> float:
        return await measure(bounded(ask, in_flight))

    return asyncio.run(run())


def dspy(url: str, folder: str, in_flight: int, stack: ExitStack, measure: Measure) -> float:
    import dspy

    model = dspy.LM(f"openai/{MODEL}", api_base=url, api_key="none", max_tokens=8, cache=False)

    async def ask(prompt: str) -> object:
        return await model.acall(prompt)

    async def run() -> float:
        return await measure(bounded(ask, in_flight))

    return asyncio.run(run())


CLIENTS = {
    "EASE, no cache": ours,
    "EASE, cache in a folder": ours_cached,
    "plain aiohttp": plain_aiohttp,
    "openai": through_openai,
    "openai, aiohttp transport": openai_aiohttp,
    "LiteLLM": litellm,
    "DSPy": dspy,
}
FAST = ("EASE, no cache", "EASE, cache in a folder", "plain aiohttp")
PEERS = ("LiteLLM", "DSPy")


if __name__ == "__main__":
    sys.exit(main())
