"""The named parameter sets of `sets/`."""

from __future__ import annotations

from pathlib import Path

from ease_lib.config.parsing import read_parameter_file
from ease_lib.errors import ConfigError

FOLDER = Path(__file__).parent / "sets"
BELOW = "params"
"""Entry of a set that names another set, whose parameters it takes over unless it sets them itself."""


def read_parameter_set(name_or_path: str) -> dict[str, object]:
    """The parameters of a set by name (`demo`, `smoke`, `paper`, ...) or of any YAML file by path.

    A file may build on another (`params`), by name or by its path from the file's own folder.

    Raises:
        ConfigError: when there is none, or it builds on itself.
    """
    paths = [_path_of(name_or_path, Path())]
    found = read_parameter_file(paths[0])
    while BELOW in found:
        paths.append(_path_of(str(found.pop(BELOW) or ""), paths[-1].parent))
        if len(set(paths)) < len(paths):
            raise ConfigError(f"{' builds on '.join(path.stem for path in paths)}; name another set there")
        found = read_parameter_file(paths[-1]) | found
    return found


def _path_of(name_or_path: str, folder: Path) -> Path:
    """The file of a set; that of another set, which it builds on, is named from its own folder."""
    named = FOLDER / f"{name_or_path}.yaml"
    path = named if named.is_file() else folder / name_or_path
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise ConfigError(f"no parameter set {name_or_path}; use one of {names}, or the path of a YAML file")
    return path
