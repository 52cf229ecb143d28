import pytest

from ease_lib.black_box import opening
from ease_lib.black_box.client import Sampling
from ease_lib.black_box.opening import open_black_box
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import ConfigError

SAMPLING = Sampling(max_tokens=8, stop="\n")


def test_an_image_says_that_it_does_not_hold_the_simulated_llm(monkeypatch):
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    with (
        pytest.raises(ConfigError, match=r"llm_base_url=simulated is for studies in a checkout.*name an endpoint"),
        open_black_box(EndpointConfig(llm_base_url="simulated"), sampling=SAMPLING, store_uri=""),
    ):
        pass
