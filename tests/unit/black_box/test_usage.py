import pytest

from ease_lib.black_box.usage import Usage


def test_costs_add_up_and_have_a_price():
    usage = Usage(prompt_tokens=2_000_000, requests=1) + Usage(completion_tokens=500_000, requests=2)
    assert usage.requests == 3
    assert usage.cost_usd(prompt_usd=0.5, completion_usd=2.0) == pytest.approx(2.0)
