"""`db_edit_list`: a list of one row, edited by position.

    ListEditor(call, arguments).edit()     # {"table": "recipes", "list": "lines", "items": {...}}

| module | what is in it |
| --- | --- |
| `editor` | the edits of a call: planned, held to what a model may do, written |
| `items` | what a model may say of an item |
| `answers` | the list as a model is shown it |
"""

from .editor import ListEditor as ListEditor

__all__ = ["ListEditor"]
