"""Check a built image from inside: everything that a stage needs works, without network and without privileges.

docker run --rm --network none --read-only --tmpfs /tmp --cap-drop ALL IMAGE python /opt/smoke.py
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

FORBIDDEN = ("tests", "pipelines", "components", "pytest", "pip", "ease_lib.simulation", "ease_lib.testing")


def main() -> int:
    checks = (not_root, only_tmp_is_writable, kfp_runs_components, embedder_works, search_step_works, no_tests_inside)
    for check in checks:
        print(f"{check.__name__.replace('_', ' ')}: {check()}", flush=True)
    return 0


def not_root() -> str:
    assert os.getuid() != 0, "the container runs as root"
    return f"uid {os.getuid()}, gid {os.getgid()}"


def only_tmp_is_writable() -> str:
    Path("/tmp/probe").write_text("")  # noqa: S108
    writable = [place for place in ("/opt/venv", "/opt/ease", "/etc", "/usr") if os.access(place, os.W_OK)]
    assert not writable, f"writable: {writable}"
    assert Path.home() == Path("/tmp"), f"HOME is {Path.home()}"  # noqa: S108
    return "HOME is /tmp"


def kfp_runs_components() -> str:
    """Start kfp's executor with the standard library alone, as a component does."""
    command = [sys.executable, "-c", "import kfp, kfp.dsl.executor_main; print(kfp.__version__)"]
    environment = {**os.environ, "_KFP_RUNTIME": "true"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def embedder_works() -> str:
    from ease_lib.embedding.models import BUNDLED, load_embedder

    cat, kitten, tax = load_embedder(BUNDLED).embed(["a cat", "a kitten", "income tax return"])
    assert cat @ kitten > cat @ tax
    return f"{BUNDLED}, {len(cat)} dimensions"


def search_step_works() -> str:
    from ease_lib.machine import resolve_device
    from ease_lib.search.candidates.optimal_transport import cosine_cost, shortlist, transport_cost
    from ease_lib.search.surrogate.network import ScoreNetwork
    from ease_lib.search.surrogate.neural_ucb import Acquisition

    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(60, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cost = cosine_cost(vectors[:40], vectors[40:])
    sequences = np.array([draw.permutation(40)[:5] for _ in range(200)])
    kept = shortlist(sequences, cost, 10)
    assert abs(kept.costs[0] - min(transport_cost(cost[row]) for row in sequences)) < 1e-9
    features = vectors[sequences].reshape(200, -1)
    device = resolve_device("auto")
    network = ScoreNetwork(features.shape[1], seed=0, device=device)
    network.fit(features[:20], draw.random(20), ridge=0.1)
    values = Acquisition(network, features[:20], nu=0.1, ridge=0.1)(features[kept.positions])
    assert np.isfinite(values).all()
    return f"on {device}"


def no_tests_inside() -> str:
    extra = [name for name in FORBIDDEN if importlib.util.find_spec(name)]
    assert not extra, f"the image holds {extra}"
    return "neither tests nor pip"


if __name__ == "__main__":
    sys.exit(main())
