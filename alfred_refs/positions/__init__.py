"""Lists that are edited by position: what a person or a model says, "drop steps 3 and 5".

    steps = EditableList(Recipe, "instructions")
    edits = [Remove([3]), Remove([5]), Move([2], to=1)]
    preview = steps.preview(session, "recipe_1", edits)
    steps.apply(session, "recipe_1", edits, expect=preview)

All positions of a batch that say *which* item are of the list as it was, and those that say
*where* of the list as it will be: no edit hits what another has moved, in whatever order they are.

| module | what is in it |
| --- | --- |
| `edits` | edits by position: resolve, check conflicts, execute (pure) |
| `lists` | ordered lists of a mapping: relationships, arrays, JSON; locked rows |
| `editing` | editableList: snapshot, preview, apply |
"""

from .editing import EditableList as EditableList, Preview as Preview
from .edits import (
    Add as Add,
    Edit as Edit,
    Modify as Modify,
    Move as Move,
    Remove as Remove,
)

__all__ = ["Add", "Edit", "EditableList", "Modify", "Move", "Preview", "Remove"]
