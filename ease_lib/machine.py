"""Where torch computes."""

from __future__ import annotations

from ease_lib.errors import ConfigError


def resolve_device(device: str) -> str:
    """`cpu` or `cuda`; `auto` takes a GPU where torch sees one.

    Raises:
        ConfigError: when `cuda` is asked for and there is none.
    """
    import torch  # a second, which stages that compute nothing on it need not spend

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device=cuda, but torch {torch.__version__} sees no GPU here; take device=auto or device=cpu, or run "
            "where there is one with the CUDA build of torch"
        )
    return device
