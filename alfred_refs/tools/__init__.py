"""Tools that a model may call on the application's tables, in refs.

`Toolset` is made once, of mapped classes; `call` takes a tool's name and JSON arguments, works
through a `RefSession`, and returns JSON. `Hooks` are what the application adds.
"""

from alfred_refs.tools.answers.results import Limits as Limits
from alfred_refs.tools.tables.hooks import Hooks as Hooks, Reading as Reading, Writing as Writing
from alfred_refs.tools.wire.arguments import (
    DbCreate as DbCreate,
    DbDelete as DbDelete,
    DbRead as DbRead,
    DbUpdate as DbUpdate,
    Filter as Filter,
    FilterClause as FilterClause,
)

from .errors import ToolError as ToolError
from .toolset import Toolset as Toolset

__all__ = [
    "DbCreate",
    "DbDelete",
    "DbRead",
    "DbUpdate",
    "Filter",
    "FilterClause",
    "Hooks",
    "Limits",
    "Reading",
    "ToolError",
    "Toolset",
    "Writing",
]
