"""Check words that a program can check: `python -m tests.wording`, a part of `make check`.

- A docstring begins with a noun, an imperative, a question or a sentence, not with a bare preposition ("Of a file of
  it.") or a clause ("What was found.").
- No page, docstring or message has a phrase of `PHRASES`, which readers stumbled over; each stands with what to write.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("ease_lib", "pipelines", "components", "images", "tests")
BARE = re.compile(
    r"(Of|As|By|From|For|With|Without|In|On|At|To|Like|Likewise|Beside|Those|Its|Their|Whoever)\b|(What|Where)\b(?![^.]*\?)"
)
PHRASES = {
    "whoever": "callers that, people who",
    "some hundred": "a few hundred",
    "in the mean ": "on average",
    "until now": "so far",
    "of ours": "our",
    "of yours": "your",
    "of one's own": "custom",
    "it is said": "name who says it",
    "meanwhile": "in the meantime, or leave it out",
    "likewise": "repeat the noun",
}
PHRASE = re.compile(rf"\b({'|'.join(PHRASES)})", re.IGNORECASE)


def main() -> int:
    problems = [
        problem for folder in CODE for path in sorted((ROOT / folder).rglob("*.py")) for problem in in_code(path)
    ]
    problems += [problem for path in pages() for problem in in_page(path)]
    print(*problems, sep="\n", end="\n" if problems else "")
    return int(bool(problems))


def in_code(path: Path) -> Iterator[str]:
    """Problems of docstrings, also those of attributes, and of all other texts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or path == Path(__file__):
            continue
        where = f"{path.relative_to(ROOT)}:{node.lineno}"
        if id(node) in docstrings and (found := BARE.match(node.value)):
            yield f"{where}: the docstring begins with {found[0]!r}; begin with a noun or a verb"
        yield from _phrases(where, node.value)


def in_page(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield from _phrases(f"{path.relative_to(ROOT)}:{number}", line)


def pages() -> list[Path]:
    return [
        *ROOT.glob("*.md"),
        *(path for folder in (*CODE, "manifests") for path in sorted((ROOT / folder).rglob("*.md"))),
    ]


def _phrases(where: str, text: str) -> Iterator[str]:
    for found in PHRASE.finditer(" ".join(text.split()) + " "):
        yield f"{where}: {found[0].strip()!r}; write: {PHRASES[found[0].lower()]}"


if __name__ == "__main__":
    sys.exit(main())
