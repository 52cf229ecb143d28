"""Write the winning prompt of a run, or of a published version, as a folder that another library uses.

The folder includes the model and the sampling that the prompt was scored with.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ease_lib.cli.prompt_exports.writing import FORMS, write_export
from ease_lib.result import Result

EXAMPLES = """examples:
  ease export runs/tickets --to openai
  ease export s3://bucket/prompts/tickets --to promptfoo --output-dir promptfoo     the latest published version
"""


def add_options(export: argparse.ArgumentParser) -> None:
    """Add the options for prompt, library and place."""
    export.add_argument("run", metavar="RUN", help="folder of a run or of published prompts; a path or s3://")
    export.add_argument("--to", choices=tuple(FORMS), required=True, help="the library")
    export.add_argument("--output-dir", metavar="DIR", help="folder to write (default: exports/LIBRARY)")


def answer(parsed: argparse.Namespace) -> int:
    """Write the files, and print how to use them."""
    result = Result.read(parsed.run)
    folder = Path(parsed.output_dir or f"exports/{parsed.to}")
    for path in write_export(result, parsed.to, folder):
        print(path)
    fields = ", ".join(f"{name}=..." for name in result.query_fields)
    print(f"\n{result.verdict}\nuse: {FORMS[parsed.to].use.replace('input=...', fields)}")
    return 0
