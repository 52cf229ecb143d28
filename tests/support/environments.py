"""Environments of their own for the libraries that tests hold us against: they need other versions than we do."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment_with(name: str, *packages: str) -> Path:
    """The folder `.venv/NAME` with these packages, which is made once. uv does in seconds what takes pip minutes; pip
    knows the settings of this machine, and does it where uv is absent or finds no index."""
    folder = ROOT / ".venv" / name
    done = folder / "installed"
    if done.exists() and done.read_text() == " ".join(packages):
        return folder
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python, uv = folder / "bin/python", ROOT / ".venv/bin/uv"
    by_uv = [uv, "pip", "install", "--quiet", "--python", python, *packages]
    if not uv.exists() or subprocess.run(by_uv, check=False, capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    done.write_text(" ".join(packages))
    return folder
