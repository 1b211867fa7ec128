"""Lists that are edited by position: what a person or a model says, "drop steps 3 and 5".

    steps = EditableList(Recipe, "instructions")
    edits = [Remove([3]), Remove([5]), Move([2], to=1)]
    preview = steps.preview(session, "recipe_1", edits)
    steps.apply(session, "recipe_1", edits, expect=preview)

All positions of a batch that say *which* item are of the list as it was, and those that say
*where* of the list as it will be: no edit hits what another has moved, in whatever order they are.

| module | what is in it |
| --- | --- |
| `edits` | what can be done with an item |
| `resolving` | the items that edits name in a list as it was |
| `conflicts` | what edits cannot do together |
| `executor` | a batch of edits on any tree of lists; pure, as are the two before |
| `lists` | which lists a class has, read from its mapping |
| `documents` | lists in arrays and JSON |
| `rows` | the lists of a row, read under a lock |
| `snapshot` | what a list is at one moment, with a token |
| `writing` | what becomes of rows, planned and written by the unit of work |
| `editing` | a list with previews, tokens and history |
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
