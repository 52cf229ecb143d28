"""The named parameter sets of `sets/`."""

from __future__ import annotations

from pathlib import Path

from ease_lib.config.parsing import read_parameter_file
from ease_lib.errors import ConfigError

FOLDER = Path(__file__).parent / "sets"


def read_parameter_set(name_or_path: str) -> dict[str, object]:
    """The parameters of a set by name (`demo`, `smoke`, `paper`, ...) or of any YAML file by path.

    A set that names another one as `params` has its parameters too, where it does not set them itself.
    """
    named = FOLDER / f"{name_or_path}.yaml"
    path = named if named.is_file() else Path(name_or_path)
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise ConfigError(f"no parameter set {name_or_path}: give one of {names}, or the path of a YAML file")
    values = read_parameter_file(path)
    below = values.pop("params", None)
    return values if below is None else read_parameter_set(str(below)) | values
