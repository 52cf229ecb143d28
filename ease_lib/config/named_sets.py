"""The named parameter sets of `sets/`."""

from __future__ import annotations

from pathlib import Path

from ease_lib.config.parsing import read_parameter_file
from ease_lib.errors import ConfigError

FOLDER = Path(__file__).parent / "sets"
BELOW = "params"
"""In a set, the name of another one, whose parameters it has too where it does not set them itself."""


def read_parameter_set(name_or_path: str) -> dict[str, object]:
    """The parameters of a set by name (`demo`, `smoke`, `paper`, ...) or of any YAML file by path.

    Raises:
        ConfigError: when there is none, or it builds on itself.
    """
    names, found = [name_or_path], _read(name_or_path)
    while BELOW in found:
        names.append(str(found.pop(BELOW)))
        if len(set(names)) < len(names):
            raise ConfigError(f"{' builds on '.join(names)}; name another set there")
        found = _read(names[-1]) | found
    return found


def _read(name_or_path: str) -> dict[str, object]:
    named = FOLDER / f"{name_or_path}.yaml"
    path = named if named.is_file() else Path(name_or_path)
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise ConfigError(f"no parameter set {name_or_path}: give one of {names}, or the path of a YAML file")
    return read_parameter_file(path)
