"""The table of shapes as a page of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.session_api.differences import DIFFERENCES
from tests.shapes.table import TABLE, Shape

HEAD = """\
# Statements

Look up here how a session treats a statement with refs. It is either translated, and then returns
the rows and writes the tables that the same statement with keys does on a plain session, or it
raises an error. No criterion is dropped, and no key is shown. The tests run every statement on
both supported series of SQLAlchemy; `python -m tests.shapes` prints this page.

A text in double quotes is a ref, any other text is in single quotes. The models are those of
[`tests/models.py`](../tests/models.py): `Recipe` refers to itself, `MealPlan` twice to `Recipe`;
`Preference` has an array declared by `info={"ref": Recipe}`; `Person`, `Cook` and `Guest` inherit;
`Box` stores its keys as text; `Order` and `OrderLine` have integer and composite keys; `other` is
an alias of `Recipe`. Statements without a heading of their own are translated.
"""

DIFFERENCES_HEAD = """\
## Differences to a plain session

The tests call every method and parameter of `Session`, of its factories and of the asynchronous
classes on a plain session and on one in a conversation, with listeners to every event. Values,
errors, warnings, statements and execution options are the same, with refs in place of keys, except
for the following. In addition, errors leave out the values of a row that PostgreSQL repeats
(`Failing row contains (...)`).

| when | then |
| --- | --- |"""

WIDTH = 88


def expected(shape: Shape) -> str:
    """Return the outcome that the table expects."""
    return f"Refused with `{shape.refused}`" if shape.refused else "translated"


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
        by_outcome: dict[str, list[str]] = {}
        for shape in shapes:
            by_outcome.setdefault(outcome(shape), []).append(wrapped(_code(shape)))
        for name, codes in by_outcome.items():
            if name != "translated":
                yield f"{name}:\n"
            yield "\n".join(["```python", *codes, "```\n"])


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
