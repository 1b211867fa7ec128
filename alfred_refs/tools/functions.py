"""Tools of an application's own: functions that a model calls as it calls all other tools.

    @desk.tool
    def ship(session: RefSession, order: Ref[Order], on: date) -> Order:
        '''Ship an order that is paid.'''
        found = session.get_one(Order, order)
        found.shipped_on = on
        return found

    desk.call("chat-7", user.id, "ship", {"order": "order_1", "on": "2026-11-24"}).value
    # {'table': 'orders', 'rows': [{'id': 'order_1', 'shipped_on': '2026-11-24'}], 'count': 1}

What a model gives is checked against the types of the parameters, by pydantic; a `Ref[Order]` is
the ref of an order that is there and that the session's owner may see. The session is the call's
own, and the function is one transaction. Rows and values that it returns are shown as those of
`db_read` are, without a key.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, create_model
from pydantic_core import PydanticCustomError, core_schema
from sqlalchemy import select
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.errors import SetupError
from alfred_refs.tools.answers.results import shape_of
from alfred_refs.tools.payload.intake import decoded_values
from alfred_refs.tools.query.filters import Conditions
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import TOOLS, FilterClause, misshapen

from .call import Call
from .errors import foreign_row, invalid_arguments
from .fates import check_there
from .transactions import transaction

_Row = TypeVar("_Row")

Wanted = list[tuple[str, type[Any]]]
"""Refs that a call gives, each with the class of row that is needed."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")  # what all clients take


class _RefText(str):
    """What a schema says of a ref, until the tables tell what refs of its class are called.

    Attributes:
        model: the class.
    """

    __slots__ = ("model",)
    model: type[Any]

    def __new__(cls, model: type[Any]) -> _RefText:
        """Make one."""
        made = super().__new__(cls, f"ref of a {model.__name__}")
        made.model = model
        return made

    def __getnewargs__(self) -> Any:  # pydantic copies schemas
        return (self.model,)


@dataclass(frozen=True)
class RefTo:
    """What pydantic makes of `Ref[Order]`: the text of a ref, which a call then looks up."""

    model: type[Any]

    def __get_pydantic_core_schema__(self, _: Any, __: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._taken)

    def __get_pydantic_json_schema__(self, _: Any, __: Any) -> dict[str, Any]:
        return {"type": "string", "description": _RefText(self.model)}

    def _taken(self, value: Any, info: ValidationInfo) -> str:
        if not isinstance(value, str):
            raise PydanticCustomError("ref", "input should be a ref, as rows show it, and no key")
        if isinstance(info.context, list):
            info.context.append((value, self.model))
        return value


if TYPE_CHECKING:

    class Ref(str, Generic[_Row]):
        """The ref of a row of a class: a parameter `Ref[Order]` takes `"order_1"`."""

        __slots__ = ()

else:

    class Ref:
        """The ref of a row of a class: a parameter `Ref[Order]` takes `"order_1"`.

        The function is given it as plain text, which a `RefSession` takes wherever it takes keys.
        """

        def __class_getitem__(cls, model: type[Any]) -> Any:
            """Return the type of refs of a class."""
            return Annotated[str, RefTo(model)]


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function of the application, as a tool.

    Attributes:
        name: what it is called.
        description: what it does.
        reads: whether it changes nothing.
        function: the function.
        arguments: what a model gives, as a pydantic model.
        own: by parameter, what the call gives: its session or its conversation.
    """

    name: str
    description: str
    reads: bool
    function: Callable[..., Any]
    arguments: type[Any]
    own: Mapping[str, type[Any]]

    def schema(self, tables: ToolTables) -> dict[str, Any]:
        """Return the JSON schema of the arguments; refs have the names of the tables."""
        named: dict[str, Any] = _named(self.arguments.model_json_schema(), tables)
        return named

    def call(self, call: Call, given: Any) -> dict[str, Any]:
        """Do what a model asks for, in one transaction.

        Raises:
            ToolError: what it gives has another shape, or names a row that is not for it.
            BadRefError: a ref cannot be used.
        """
        if not isinstance(given, dict):
            raise invalid_arguments("they are no object")
        wanted: Wanted = []
        try:
            values = self.arguments.model_validate(
                decoded_values(given, call.conversation), context=wanted
            )
        except ValidationError as error:
            raise misshapen(self.name, error) from None
        fields: Mapping[str, Any] = self.arguments.model_fields
        named = {str(each.alias): getattr(values, name) for name, each in fields.items()}
        with transaction(call.session, call.setting.limits.seconds, writes=not self.reads):
            _check_rows(call, wanted)
            returned = self._run(call, named)
            call.session.flush()
            return _answer(call, returned)

    def _run(self, call: Call, given: Mapping[str, Any]) -> Any:
        session: Any = call.session
        is_async = inspect.iscoroutinefunction(self.function)
        if is_async:
            from sqlalchemy.ext.asyncio import async_session  # noqa: PLC0415  # only where used

            session = async_session(call.session)
        if session is None:
            raise SetupError(
                f"the tool {self.name!r} is asynchronous, and was called on a RefSession",
                "bind the toolset to an async_sessionmaker of AsyncRefSession",
            )
        own = {
            name: session if _is_session(type_) else call.session.conversation
            for name, type_ in self.own.items()
        }
        returned = self.function(**own, **given)
        return sqla.wait_for(returned) if is_async else returned


def function_tool(
    function: Callable[..., Any],
    tables: ToolTables,
    taken: Iterable[str],
    *,
    name: str | None = None,
    reads: bool = False,
) -> FunctionTool:
    """Return a function as a tool.

    Raises:
        SetupError: it has no name or docstring for a model, or a parameter that none can give.
    """
    called: str = getattr(function, "__name__", "") if name is None else name
    if not _NAME.fullmatch(called) or called in {*TOOLS, *taken}:
        raise SetupError(
            f"a tool cannot be called {called!r}",
            "give it a name of letters, digits and underscores that no other tool has",
        )
    description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    if not description:
        raise SetupError(
            f"the tool {called!r} does not say what it does", "give the function a docstring"
        )
    fields: dict[str, Any] = {}
    own: dict[str, type[Any]] = {}
    hints = _hints(function, called)
    for each in inspect.signature(function).parameters.values():
        hint = hints.get(each.name)
        if hint is None or each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise SetupError(
                f"the tool {called!r} has a parameter {each.name!r} that no model can give",
                "give each parameter a name and a type",
            )
        if _is_session(hint) or (isinstance(hint, type) and issubclass(hint, Conversation)):
            own[each.name] = hint
        else:
            default = ... if each.default is each.empty else each.default
            field = f"given_{len(fields)}"  # no name of pydantic's own, whatever the parameter is
            fields[field] = Annotated[hint, Field(alias=each.name)], default
    for model in _models_in(hints.values()):
        if tables.of_model(model) is None:
            raise SetupError(
                f"the tool {called!r} takes a ref of {model.__qualname__!r}, which is not listed",
                "add the class to the models of the toolset",
            )
    arguments = create_model(called, __config__=ConfigDict(extra="forbid"), **fields)
    return FunctionTool(called, description, reads, function, arguments, own)


def _is_session(type_: Any) -> bool:
    is_plain = isinstance(type_, type) and issubclass(type_, Session)
    return is_plain or hasattr(type_, "sync_session_class")


def _hints(function: Callable[..., Any], called: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise SetupError(
            f"the types of the tool {called!r} cannot be read: {error}",
            "import what they name where the module is loaded, outside of TYPE_CHECKING",
        ) from None


def _models_in(hints: Iterable[Any]) -> Iterable[type[Any]]:
    """Yield the classes whose refs types take, at any depth."""
    for hint in hints:
        for part in getattr(hint, "__metadata__", ()):
            if isinstance(part, RefTo):
                yield part.model
        yield from _models_in(typing.get_args(hint))


def _named(schema: Any, tables: ToolTables) -> Any:
    """Return a schema with the names of refs in it."""
    if isinstance(schema, _RefText):
        table = tables.of_model(schema.model)
        entity = "row" if table is None else table.entity
        return f"{entity} ref, such as '{entity}_1'"
    if isinstance(schema, dict):
        return {name: _named(each, tables) for name, each in schema.items()}
    if isinstance(schema, list):
        return [_named(each, tables) for each in schema]
    return schema


def _check_rows(call: Call, wanted: Wanted) -> None:
    """Check that refs name rows that the session can see: one statement for each table.

    Raises:
        BadRefError: one names none.
        ToolError: one names a row that is not for the session to see.
    """
    tables = call.setting.tables
    found = {(ref, tables.of_model(model)) for ref, model in wanted}
    by_table = {table: [r for r, each in found if each is table] for _, table in found if table}
    keys = call.resolved((ref, table.entity) for table, refs in by_table.items() for ref in refs)
    for table, refs in by_table.items():
        named = FilterClause(field=table.ref_field, op="in", value=sorted(refs))
        conditions = Conditions(keys).all_of([named], table)
        seen = call.session.scalars(select(table.model).where(*conditions)).all()
        missing = sorted({*refs} - {*call.refs_of(seen, table)})
        if missing:
            entity = table.entity
            check_there(call, {(ref, entity): keys[ref, entity] for ref in missing})
            raise foreign_row(missing[0], None)


def _answer(call: Call, returned: Any) -> dict[str, Any]:
    """Return what a function returns as JSON: rows as reads show them, all else as it is."""
    rows = returned if isinstance(returned, list | tuple) else [returned]
    tables = {call.setting.tables.of_model(type(each)) for each in rows}
    [table] = tables if len(tables) == 1 else [None]
    if table is None:
        return returned if isinstance(returned, dict) else {"result": returned}
    if not all(sqla.state_of(each).persistent for each in rows):
        raise SetupError(
            "a tool returned a row that is not in its session",
            "add it there, or return its values",
        )
    shown, rendering = call.shown_again(rows, shape_of(table, None), call.room())
    answer = {"table": table.name, "rows": shown, "count": len(rows)}
    return call.finished(answer, [], rendering)
