"""`db_query` as a toolset has it: a tool beside those of the tables and of the application.

    tool = QueryTool(setting)
    tool.call(call, {"sql": "select name from recipes"})

It has what a function of the application has as a tool: a name, a description, a schema, a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from alfred_refs.errors import SetupError
from alfred_refs.tools.call import Call, Setting
from alfred_refs.tools.errors import invalid_arguments
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import DbQuery, misshapen

from .functions import with_own
from .plans import Plans
from .running import Querying

_PURPOSE = (
    "Answer a question with one SELECT: joins, WITH, windows, aggregates, of the tables that "
    "db_read describes{but}, at most {rows} rows. Refs are compared as texts ('{entity}_1') with "
    "columns of refs alone. Answers with 'columns' and 'rows', a list of values each."
)


class QueryTool:
    """The tool that answers SQL of a model's.

    Args:
        setting: what all calls of the toolset share.
        functions: of the application's own, by name, with what each takes and gives.

    Raises:
        SetupError: one of these is no such function.

    Attributes:
        name: what it is called.
        description: what it does.
        reads: that it changes nothing.
        arguments: what a model gives, as a pydantic model.
        own: what the call gives beside that: nothing.
    """

    name = "db_query"
    reads = True
    arguments: type[DbQuery] = DbQuery
    own: Mapping[str, type[Any]] = {}  # never changed

    def __init__(self, setting: Setting, functions: Mapping[str, str]) -> None:
        closed = setting.without_sql()
        entity = next((each.entity for each in setting.tables if each.name not in closed), "row")
        but = f" but {', '.join(map(repr, sorted(closed)))}" if closed else ""
        self.description = _PURPOSE.format(but=but, rows=setting.limits.rows, entity=entity)
        self._plans = Plans(setting.tables, with_own(functions), closed)

    def schema(self, _: ToolTables) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        schema: dict[str, Any] = DbQuery.model_json_schema()
        del schema["description"]
        return schema

    def call(self, call: Call, given: Any) -> dict[str, Any]:
        """Answer a statement, in a transaction that reads only.

        Raises:
            ToolError: it is none that can be answered.
            BadRefError: a ref cannot be used.
        """
        if not isinstance(given, dict):
            raise invalid_arguments("they are no object")
        try:
            arguments = DbQuery.model_validate(given)
        except ValidationError as error:
            raise misshapen(self.name, error) from None
        if call.session.get_bind().dialect.name != "postgresql":
            raise SetupError("db_query was called on another database", "use PostgreSQL")
        return Querying(call, self._plans).answer(arguments)
