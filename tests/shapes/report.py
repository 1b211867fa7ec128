"""The table of shapes as a page of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.session_api.differences import DIFFERENCES
from tests.shapes.table import TABLE, Shape

HEAD = """\
# Statements

Look up here which statements a session translates. A translated statement returns the rows and
writes the tables that the same statement with keys does on a plain session; any other one raises
an error. No criterion is dropped, and no key is shown.

A text in double quotes is a ref, any other text is in single quotes. `Recipe` refers to itself,
and `MealPlan` twice to `Recipe`; `Preference` has an array declared by `info={"ref": Recipe}`;
`OrderLine` has a primary key of two columns; `other` is an alias of `Recipe`. The tests run these
and more statements on both supported series of SQLAlchemy.
"""

# title of a group -> what a reader must know of it
NOTES = {"Text with computed values": "A key is shown as its ref if the conversation knows it.\n"}

DIFFERENCES_HEAD = """\
## Differences to a plain session

Every method of `Session` and of the asynchronous classes has the values, errors, warnings,
statements and events of a plain session, with refs in place of keys, except for the following.
Errors leave out the values of a row that PostgreSQL repeats (`Failing row contains (...)`).

| when | then |
| --- | --- |"""

WIDTH = 88


def expected(shape: Shape) -> str:
    """Return the outcome that the table expects."""
    return f"raises {shape.refused}" if shape.refused else "translated"


def page(outcome: Callable[[Shape], str] = expected) -> str:
    """Return the page, with the outcome of each shape."""
    return "\n".join([HEAD, *_groups(outcome), *_differences()])


def _differences() -> Iterator[str]:
    yield DIFFERENCES_HEAD
    for each in DIFFERENCES:
        yield f"| `{each.code}` | {each.becomes}: {each.why} |"
    yield ""


def _groups(outcome: Callable[[Shape], str]) -> Iterator[str]:
    for title, shapes in TABLE.items():
        yield f"## {title}\n"
        if title in NOTES:
            yield NOTES[title]
        by_outcome: dict[str, list[str]] = {}
        for shape in (shape for shape in shapes if shape.is_listed):
            by_outcome.setdefault(outcome(shape), []).append(wrapped(_code(shape)))
        yield "```python"
        for name, codes in by_outcome.items():
            if name != "translated":
                yield f"# {name}"
            yield from codes
        yield "```\n"


def _code(shape: Shape) -> str:
    if not shape.parameters:
        return shape.code
    return f"session.execute({shape.code}, {shape.parameters})"


def wrapped(code: str) -> str:
    """Return code in lines that fit the column, broken after commas, or else after brackets."""
    if len(code) <= WIDTH:
        return code
    end = (max(code.rfind(", ", 4, WIDTH), 0) or code.rfind("(", 0, WIDTH)) + 1
    return f"{code[:end].rstrip()}\n{wrapped(f'    {code[end:].lstrip()}')}"
