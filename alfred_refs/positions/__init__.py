"""Editing lists by position.

People and models refer to items by position: "drop steps 3 and 5, and put step 2 first".

    steps = EditableList(Recipe, "instructions")
    edits = [Remove([3]), Remove([5]), Move([2], to=1)]
    preview = steps.preview(session, "recipe_1", edits)
    steps.apply(session, "recipe_1", edits, expect=preview)

In a batch, positions that select an item refer to the list before the batch, and positions where
an item goes refer to the list after it. So no edit hits an item that another one has moved, and
the order of the edits does not matter.

| module | contents |
| --- | --- |
| `edits` | the edits, and their execution on a tree of items (pure) |
| `lists` | which lists of a mapped class can be edited; reading and locking their rows |
| `editing` | `EditableList`: snapshots, previews, and writing through the unit of work |
"""

from .editing import EditableList as EditableList, Preview as Preview
from .edits import Add as Add, Edit as Edit, Modify as Modify, Move as Move, Remove as Remove

__all__ = ["Add", "Edit", "EditableList", "Modify", "Move", "Preview", "Remove"]
