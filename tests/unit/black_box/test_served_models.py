import asyncio

import pytest

from ease_lib import errors
from ease_lib.black_box.client import Sampling
from ease_lib.black_box.served_models import list_models
from ease_lib.config.sections import EndpointConfig
from tests.support.faulty_endpoint import (
    MODEL,
    FaultyHandler,
    faulty_endpoint,
)
from tests.support.runs import open_black_box


def listed(base_url, deadline_seconds=0.0):
    return asyncio.run(list_models(base_url, "", timeout_seconds=5.0, deadline_seconds=deadline_seconds))


def test_models_are_listed():
    with faulty_endpoint(lambda prompt: "") as server:
        assert listed(server.base_url) == [MODEL]
    with pytest.raises(errors.ConnectionFailed):
        listed(server.base_url)


class RefusingHandler(FaultyHandler):
    """A key that may ask and not list, and a gateway that is away at first."""

    def do_GET(self):
        self.server.asked += 1
        if self.server.asked == 1:
            self.reply_error(503, "busy", "try again")
        else:
            self.reply_error(403, "forbidden", "this key may not list models")


def test_a_key_that_may_not_list_models_is_told_to_name_one_and_a_named_one_is_not_looked_up():
    with faulty_endpoint(lambda prompt: "fine") as server:
        server.RequestHandlerClass, server.asked = RefusingHandler, 0
        with pytest.raises(errors.AuthenticationFailed, match="may not list models; set llm_model"):
            listed(server.base_url, deadline_seconds=30.0)
        assert server.asked == 2
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL)
        with open_black_box(config, sampling=Sampling(max_tokens=8, stop="\n"), store_uri="") as black_box:
            assert black_box.loop.run(black_box.client.complete("hi")).text == "fine"
        assert server.asked == 2
