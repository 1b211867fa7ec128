"""`python -m tests.project.wording [DIRECTORY]`: count turns of phrase that plain English avoids.

Each turn is a regular expression. Docstrings and comments of the package are counted separately,
those of the tests too, and pages of documentation by line. It is a report, not a gate: some hits
are right where they are, and the figures say whether a change made the text plainer.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

# the turn -> what matches it
TURNS: Mapping[str, str] = {
    "verbs of speech for data": (
        r"\b(?:tell|tells|told|say|says|said|ask|asks|asked|answers|answered|speaks? of|hears?"
        r"|heard)\b"
    ),
    "a clause in place of a noun": (
        r"\b(?:what|whoever|whatever|whichever) (?:is|are|was|were|has|have|it|they|a|an|the"
        r"|comes?|goes?|stands?|must|may|can)\b|\b(?:whoever|whatever|whichever)\b"
    ),
    "stands, beside, held, met": (
        r"\b(?:stands?|stood|beside|besides|held|meets?|met|given|gone|apart|along|by itself"
        r"|by themselves|the like|anew)\b"
    ),
    "is no, has not, needs not": (
        r"\b(?:is no|are no|is none|are none|has not|have not|has none|needs? not|need no)\b"
    ),
    "those of, that of, of which": r"\b(?:those|that) (?:of|which|in|for)\b|\bof (?:which|whom)\b",
    "metaphors": (
        r"\b(?:walls?|fates?|beliefs?|desks?|way out|ways? on|lent|owed|lends?|owes?|doors?)\b"
    ),
    "have X done, be to be done": r"\b(?:have|has) [^.,]{1,30} (?:done|made|told)\b|\bbe to be\b",
}

GROUPS: Mapping[str, Sequence[str]] = {
    "package": ("alfred_refs/**/*.py",),
    "tests": ("tests/**/*.py",),
    "programs": ("benchmarks/**/*.py", "evals/**/*.py", "examples/**/*.py", "run.py"),
    "docs": ("docs/**/*.md", "README.md", "CONTRIBUTING.md"),
}


def main(arguments: Sequence[str]) -> int:
    """Print a table: for each turn, the texts of each group in which it occurs."""
    root = Path(arguments[0]) if arguments else Path()
    counted = {name: _count(_texts(root, patterns)) for name, patterns in GROUPS.items()}
    print(f"{'turn':32}" + "".join(f"{name:>12}" for name in counted))  # noqa: T201
    for turn in (*TURNS, "any of these", "texts"):
        cells = "".join(f"{counts[turn]:>12,}" for counts in counted.values())
        print(f"{turn:32}{cells}")  # noqa: T201
    return 0


def _count(texts: Iterable[str]) -> Counter[str]:
    """Count the texts, and those in which each turn occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        found = [
            turn for turn, pattern in TURNS.items() if re.search(pattern, text, re.IGNORECASE)
        ]
        counts.update([*found, *(["any of these"] if found else []), "texts"])
    return counts


def _texts(root: Path, patterns: Iterable[str]) -> Iterator[str]:
    """Yield docstrings and comments of modules, and lines of pages without their programs."""
    for path in (path for pattern in patterns for path in sorted(root.glob(pattern))):
        source = path.read_text("utf-8")
        if path.suffix == ".py":
            yield from docstrings(source)
            yield from comments(source)
        else:
            yield from filter(None, re.sub(r"```.*?```", "", source, flags=re.DOTALL).splitlines())


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module, without their examples."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            lines = text.splitlines()
            yield "\n".join(each for each in lines if not each.lstrip().startswith((">>>", "...")))


def comments(source: str) -> Iterator[str]:
    """Yield the comments of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
