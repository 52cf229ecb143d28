"""Routes are joined to a URL as URLs are, and a key goes nowhere that it was not meant for."""

import pytest

from ease_lib.urls import endpoint_url, is_loopback, is_url, may_follow, problems_of_url, url_below


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://127.0.0.1:18931", "http://127.0.0.1:18931/chat/completions"),
        ("http://h:1/", "http://h:1/chat/completions"),
        ("https://h/v1", "https://h/v1/chat/completions"),
        ("https://h/v1/", "https://h/v1/chat/completions"),
        ("https://h/v1//", "https://h/v1/chat/completions"),
        ("https://h/v1#top", "https://h/v1/chat/completions"),
        ("https://h?api-version=1", "https://h/chat/completions?api-version=1"),
        ("https://h/v1/?a=1&a=2&empty=", "https://h/v1/chat/completions?a=1&a=2&empty="),
        ("https://h/v1?next=/x/", "https://h/v1/chat/completions?next=/x/"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        (
            "https://h/deployments/d/chat/completions?api-version=1",
            "https://h/deployments/d/chat/completions?api-version=1",
        ),
        ("https://h/v1/completions/", "https://h/v1/chat/completions"),
        ("https://h/v1/embeddings", "https://h/v1/chat/completions"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions"),
    ],
)
def test_a_route_is_joined_to_the_path(url, asked):
    assert url_below(endpoint_url(url), "chat/completions") == asked


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("localhost:8000/v1", "is not an http"),
        ("//h/v1", "is not an http"),
        ("https:///v1", "is not an http"),
        ("ftp://h/v1", "is not an http"),
        ("http://h:99999/v1", "is not a URL"),
        ("http://h:x/v1", "is not a URL"),
        ("https://good.example\\@evil.example/v1", "holds '\\\\'"),
        ("https://h/v1 ", "holds ' '"),
        ("https://h\u200b/v1", "holds '\\u200b'"),
        ("https://h/v1\n", "holds '\\n'"),
        ("local", "is not an http"),
        ("http://user:pw@h/v1", "holds a user or password"),
    ],
)
def test_what_is_no_url_is_told(url, problem):
    assert problem in " ".join(problems_of_url(url))
    assert not is_url(url)


@pytest.mark.parametrize(
    ("url", "other", "follows"),
    [
        ("http://h:1/v1", "http://h:1/v2", True),
        ("http://H:1/v1", "http://h:1/v2", True),
        ("http://h/v1", "http://h:80/v2", True),
        ("http://h/v1", "https://h/v1", True),
        ("http://h:80/v1", "https://h:443/v1", True),
        ("https://h/v1", "http://h/v1", False),
        ("https://h/v1", "http://h:443/v1", False),
        ("http://h:1/v1", "http://h:2/v1", False),
        ("http://h/v1", "https://h:8443/v1", False),
        ("https://h/v1", "https://h.evil.example/v1", False),
        ("https://h/v1", "https://evil.example/h", False),
        ("https://h/v1", "https://h@evil.example/v1", False),
        ("https://h/v1", "https://user@h/v1", False),
        ("https://h/v1", "file:///etc/passwd", False),
        ("https://h/v1", "https://h:x/v1", False),
    ],
)
def test_a_key_follows_to_the_same_host_and_port_alone(url, other, follows):
    assert may_follow(url, other) is follows


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "llm.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_this_machine_is_known_by_its_names(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.org", "10.0.0.1", "notlocalhost", "::2"])
def test_other_machines_are_not_this_one(host):
    assert not is_loopback(host)
