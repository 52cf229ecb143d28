import pytest
import torch

from ease_lib.errors import ConfigError
from ease_lib.machine import resolve_device


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [resolve_device(name) for name in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [resolve_device(name) for name in ("auto", "cpu")] == ["cpu", "cpu"]


def test_an_absent_gpu_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"device=cuda, but torch .* sees no GPU here; take device=auto"):
        resolve_device("cuda")
