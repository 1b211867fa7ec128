"""The table of shapes as a page of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.session_api.differences import DIFFERENCES
from tests.shapes.table import TABLE, Shape

HEAD = """\
# Shapes of statements

Every shape of statement is either translated, and then gives the same rows and writes the same
tables as it does with keys on a plain session, or refused with an error that says what to do:
nothing is dropped, widened or silently raw. A ref stands in double quotes, any other text in
single ones. `python -m tests.shapes` runs them all and prints this page; the tests run them on
both supported series of SQLAlchemy.
"""

MODELS = """\
`Recipe` (with a self-reference), `MealPlan` (two foreign keys to it), `Preference` (an array of
recipes, declared by `info={"ref": Recipe}`), `Person`, `Cook` and `Guest` (inheritance, keys seen
as text), `Box` (keys stored as text), `Order` and `OrderLine` (integer and composite keys) are the
models of [`tests/models.py`](../tests/models.py); `other` is an alias of `Recipe`.
"""


DIFFERENCES_HEAD = """\
## What is otherwise than on a plain session

Every method and parameter of `Session`, of its makers and of the asynchronous ones is tried on a
plain session and on one in a conversation, with listeners to every event. Values, errors,
warnings, statements and their execution options are the same, with refs for keys, but for these;
and where PostgreSQL repeats a row in an error (`Failing row contains (...)`), its values are left
out.

| way | outcome |
| --- | --- |"""


def expected(shape: Shape) -> str:
    """Return the outcome that the table expects."""
    return f"refused: `{shape.refused}`" if shape.refused else "translated"


def page(outcome: Callable[[Shape], str] = expected) -> str:
    """Return the page, with the outcome of each shape."""
    return "\n".join([HEAD, MODELS, *_groups(outcome), *_differences()])


def _differences() -> Iterator[str]:
    yield DIFFERENCES_HEAD
    for each in DIFFERENCES:
        yield f"| `{each.code}` | {each.becomes}: {each.why} |"
    yield ""


def _groups(outcome: Callable[[Shape], str]) -> Iterator[str]:
    for title, shapes in TABLE.items():
        yield f"## {title}\n\n| statement | outcome |\n| --- | --- |"
        for shape in shapes:
            code = shape.code.replace("|", "\\|")
            given = f", with `{shape.parameters}`" if shape.parameters else ""
            yield f"| `{code}`{given} | {outcome(shape)} |"
        yield ""
