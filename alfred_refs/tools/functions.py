"""Functions of the application as tools.

`function_tool` makes a tool of a function, as the decorator `Toolset.tool` does. Pydantic
validates the model's arguments by the types of the parameters. A `Ref[Order]` must be the ref of
an existing order that the session's owner may see, and its label is required as for the verbs.

>>> from alfred_refs import RefSession
>>> @toolset.tool
... def scale(session: RefSession, recipe: Ref[Recipe], servings: int) -> str:
...     "Return how many times the amounts of a recipe are needed."
...     found = session.get(Recipe, recipe)
...     return f"{servings / found.servings:g} times {found.name}"
>>> given = {"recipe": "recipe_1", "_recipe_label": "Soup", "servings": 4}
>>> toolset.call(session, "scale", given)
{'result': '2 times Soup'}
>>> toolset.call(session, "scale", {**given, "_recipe_label": "Toast"})["error"]["code"]
'unexpected_row'

The function runs in one transaction, and the rows and values that it returns are shown as
`db_read` shows them. It may raise `ToolError`.

Limits: a function needs a docstring and a type for each parameter, or `SetupError` is raised. The
rows that it reads itself are not masked by read hooks.
"""

from __future__ import annotations

import inspect as inspect_module
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, create_model
from pydantic_core import PydanticCustomError, core_schema
from sqlalchemy import select
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation import Conversation
from alfred_refs.errors import SetupError
from alfred_refs.tools.answers import shape_of
from alfred_refs.tools.arguments import TOOLS, alternatives_of, first_shape_error
from alfred_refs.tools.call import Call
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.decoding import decode_values
from alfred_refs.tools.errors import foreign_row, invalid_arguments
from alfred_refs.tools.filters import Conditions, filter_by_refs
from alfred_refs.tools.preconditions import Expectation, expectations_of, verify_expectations
from alfred_refs.tools.serialization import replace_keys
from alfred_refs.tools.tables import ToolTable

_Row = TypeVar("_Row")


RequiredRefs = list[tuple[str, type[Any]]]
"""The refs in a call, each with the required class."""


_REF = "x-ref"
"""Keyword in a schema under construction: the class of the ref in a text field."""


_LABEL = "x-label"
"""Keyword in a schema under construction: marks a text field as the label of a ref."""


_TAKEN = frozenset({"error", "pending"})
"""The names by which an answer says that nothing was done."""


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")  # accepted by all clients


class _RefText(str):
    """A placeholder for the description of a ref in a schema, until the tables are known.

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
    """The annotation behind `Ref[Order]`: pydantic validates text, and the call resolves it."""

    model: type[Any]

    def __get_pydantic_core_schema__(self, _: Any, __: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._resolve_value)

    def __get_pydantic_json_schema__(self, _: Any, __: Any) -> dict[str, Any]:
        text = _RefText(self.model)
        return {"type": "string", "description": text, _REF: text}

    def _resolve_value(self, value: Any, info: ValidationInfo) -> str:
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

        The function receives it as plain text, which a `RefSession` accepts wherever it accepts
        keys.

        Example:
            >>> @toolset.tool
            ... def double(session: RefSession, recipe: Ref[Recipe]) -> Recipe:
            ...     "Double the servings of a recipe."
            ...     found = session.get_one(Recipe, recipe)
            ...     found.servings *= 2
            ...     return found
            >>> asked = {"recipe": "recipe_1", "_recipe_label": "Soup"}
            >>> toolset.call(session, "double", asked)["rows"]
            [{'id': 'recipe_1', 'name': 'Soup', 'servings': 4}]
        """

        def __class_getitem__(cls, model: type[Any]) -> Any:
            """Return the type of refs of a class."""
            return Annotated[str, RefTo(model)]


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function of the application, as a tool.

    Attributes:
        name: its name.
        description: the first paragraph of its docstring.
        reads: whether it only reads.
        function: the function.
        arguments: the model's arguments, as a pydantic model.
        parameters: their JSON schema, with a label for each ref, if the tool writes.
        own: the parameters that the call fills in: the session and the conversation.
    """

    name: str
    description: str
    reads: bool
    function: Callable[..., Any]
    arguments: type[Any]
    parameters: dict[str, Any]
    own: Mapping[str, type[Any]]

    def schema(self, tables: ToolTables) -> dict[str, Any]:
        """Return the JSON schema of the arguments, with the tables' names of refs."""
        named: dict[str, Any] = _with_ref_names(self.parameters, tables)
        return named

    def call(self, call: Call, given: Any) -> dict[str, Any]:
        """Call the function in one transaction, and return its result as JSON without keys.

        Raises:
            ToolError: the arguments do not match the schema, or name a row that the session cannot
                see or that has another label.
            BadRefError: a ref cannot be used.
        """
        if not isinstance(given, dict):
            raise invalid_arguments("they are not an object")
        tables = call.setting.tables
        required: RequiredRefs = []
        given = decode_values(given, tables, call.conversation)
        labels = _LabelReader(self.parameters.get("$defs", {}), tables)
        if not self.reads:
            given = labels.without_labels(given, self.parameters)
        try:
            values = self.arguments.model_validate(given, context=required)
        except ValidationError as error:
            raise first_shape_error(self.name, error) from None
        fields: Mapping[str, Any] = self.arguments.model_fields
        arguments = {str(each.alias): getattr(values, name) for name, each in fields.items()}

        def act() -> dict[str, Any]:
            _check_rows(call, required)
            verify_expectations(call, labels.expectations)
            returned = self._run(call, arguments)
            call.session.flush()
            # here, because the answer may be stored with the call
            plain: dict[str, Any] = replace_keys(
                _answer(call, returned), call.conversation, tables.shown
            )
            return plain

        return call.run(act, writes=not self.reads)

    def _run(self, call: Call, given: Mapping[str, Any]) -> Any:
        session: Any = call.session
        is_async = inspect_module.iscoroutinefunction(self.function)
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
    taken_names: Iterable[str],
    *,
    name: str | None = None,
    reads: bool = False,
) -> FunctionTool:
    """Make a tool from a function.

    Raises:
        SetupError: it has no name or docstring, or a parameter that a model cannot pass.
    """
    tool_name: str = getattr(function, "__name__", "") if name is None else name
    if not _NAME.fullmatch(tool_name) or tool_name in {*TOOLS, *taken_names}:
        raise SetupError(
            f"a tool cannot be called {tool_name!r}",
            "give it a name of letters, digits and underscores that no other tool has",
        )
    description = " ".join((inspect_module.getdoc(function) or "").split("\n\n")[0].split())
    if not description:
        raise SetupError(
            f"the tool {tool_name!r} does not say what it does", "give the function a docstring"
        )
    fields: dict[str, Any] = {}
    own: dict[str, type[Any]] = {}
    hints = _hints(function, tool_name)
    for each in inspect_module.signature(function).parameters.values():
        hint = hints.get(each.name)
        if hint is None or each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise SetupError(
                f"the tool {tool_name!r} has a parameter {each.name!r} that no model can give",
                "give each parameter a name and a type",
            )
        if _is_session(hint) or (isinstance(hint, type) and issubclass(hint, Conversation)):
            own[each.name] = hint
        else:
            default = ... if each.default is each.empty else each.default
            field = f"given_{len(fields)}"  # cannot clash with attributes of pydantic's models
            fields[field] = Annotated[hint, Field(alias=each.name)], default
    for model in _models_in(hints.values()):
        if tables.of_model(model) is None:
            raise SetupError(
                f"the tool {tool_name!r} takes a ref of {model.__qualname__!r}, "
                "which is not listed",
                "add the class to the models of the toolset",
            )
    arguments = create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)
    parameters = arguments.model_json_schema()
    if not reads:
        parameters = _with_labels(parameters, parameters.get("$defs", {}), tables)
    return FunctionTool(tool_name, description, reads, function, arguments, parameters, own)


def _is_session(type_: Any) -> bool:
    is_plain = isinstance(type_, type) and issubclass(type_, Session)
    return is_plain or hasattr(type_, "sync_session_class")


def _hints(function: Callable[..., Any], tool_name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise SetupError(
            f"the types of the tool {tool_name!r} cannot be read: {error}",
            "import what they name where the module is loaded, outside TYPE_CHECKING",
        ) from None


def _models_in(hints: Iterable[Any]) -> Iterable[type[Any]]:
    """Yield the classes in `Ref[...]` annotations, at any depth of types."""
    for hint in hints:
        for part in getattr(hint, "__metadata__", ()):
            if isinstance(part, RefTo):
                yield part.model
        yield from _models_in(typing.get_args(hint))


def _with_ref_names(schema: Any, tables: ToolTables) -> Any:
    """Return a schema with the names of refs filled in."""
    if isinstance(schema, _RefText):
        table = tables.of_model(schema.model)
        entity = "row" if table is None else table.entity
        return f"{entity} ref, such as '{entity}_1'"
    if isinstance(schema, dict):
        return {
            name: _with_ref_names(each, tables)
            for name, each in schema.items()
            if name not in (_REF, _LABEL)
        }
    if isinstance(schema, list):
        return [_with_ref_names(each, tables) for each in schema]
    return schema


def _ref_fields(
    properties: Mapping[str, Any], definitions: Mapping[str, Any], tables: ToolTables
) -> Iterator[tuple[str, str, ToolTable, bool]]:
    """Yield the fields with refs of labelled rows, each with its label field.

    Yields:
        the field's name, the label field's name, the table, and whether both are lists.
    """
    for name, schema in properties.items():
        for model, is_list in _refs_in(schema, definitions):
            table, label = tables.of_model(model), f"_{name}_label{'s' * is_list}"
            is_own = label in properties and _LABEL not in properties[label]
            if table is not None and table.keys.label is not None and not is_own:
                yield name, label, table, is_list


def _refs_in(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], *, is_list: bool = False
) -> Iterator[tuple[type[Any], bool]]:
    """Yield the classes of the refs in a field, each with whether the field is a list."""
    for each in alternatives_of(schema, definitions):
        if _REF in each:
            yield each[_REF].model, is_list
        elif "items" in each and not is_list:
            yield from _refs_in(each["items"], definitions, is_list=True)


def _with_labels(schema: Any, definitions: Mapping[str, Any], tables: ToolTables) -> Any:
    """Add a label field to a schema for each field of refs."""
    if isinstance(schema, list):
        return [_with_labels(each, definitions, tables) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _with_labels(each, definitions, tables) for name, each in schema.items()}
    properties = schema.get("properties")
    if isinstance(properties, dict) and "type" in schema:
        labels: dict[str, dict[str, Any]] = {}
        for name, label, _, is_list in _ref_fields(properties, definitions, tables):
            text = {"type": "string"}
            type_ = {"type": "array", "items": text} if is_list else text
            description = f"the label of {name!r}, as rows show it"
            labels.setdefault(name, {})[label] = {
                **type_,
                "description": description,
                _LABEL: True,
            }
        made["properties"] = {
            field: each
            for name, property_ in made["properties"].items()
            for field, each in {name: property_, **labels.get(name, {})}.items()
        }
    return made


class _LabelReader:
    """Takes the labels of refs out of the arguments of a function tool.

    Args:
        definitions: the definitions of the arguments' schema.
        tables: the tables that a model may use.

    Attributes:
        expectations: the refs, each with its label in the arguments, if any.
    """

    def __init__(self, definitions: Mapping[str, Any], tables: ToolTables) -> None:
        self.expectations: list[Expectation] = []
        self._definitions = definitions
        self._tables = tables

    def without_labels(self, given: Any, schema: Mapping[str, Any]) -> Any:
        """Return a value without labels."""
        choices = [*alternatives_of(schema, self._definitions)]
        if isinstance(given, list):
            items = [each["items"] for each in choices if "items" in each]
            return [self.without_labels(each, {"anyOf": items}) for each in given]
        if not isinstance(given, dict):
            return given
        properties = {n: p for each in choices for n, p in each.get("properties", {}).items()}
        row = dict(given)
        for name, label, table, is_list in _ref_fields(
            properties, self._definitions, self._tables
        ):
            if row.get(name) is not None and isinstance(row[name], list) is is_list:
                refs = row[name] if is_list else [row[name]]
                self.expectations += expectations_of(table, refs, row.pop(label, None), label)
        return {
            name: self.without_labels(each, properties[name]) if name in properties else each
            for name, each in row.items()
        }


def _check_rows(call: Call, required: RequiredRefs) -> None:
    """Check that refs name rows that the session can see: one statement for each table.

    Raises:
        BadRefError: a ref does not name a row.
        ToolError: a ref names a row that the session cannot see.
    """
    tables = call.setting.tables
    pairs = {(ref, tables.of_model(model)) for ref, model in required}
    by_table = {table: [r for r, each in pairs if each is table] for _, table in pairs if table}
    keys = call.resolve((ref, table.entity) for table, refs in by_table.items() for ref in refs)
    for table, refs in by_table.items():
        conditions = Conditions(keys).all_of(filter_by_refs(table, sorted(refs)))
        visible = call.session.scalars(select(table.model).where(*conditions)).unique().all()
        missing = sorted({*refs} - {*call.refs_of(visible, table)})
        if missing:
            entity = table.entity
            call.check_existence({(ref, entity): keys[ref, entity] for ref in missing})
            raise foreign_row(missing[0], None, is_given=True)


def _answer(call: Call, returned: Any) -> dict[str, Any]:
    """Return the result of a function as JSON: rows like `db_read`, other values unchanged.

    An object is put under `result` if it would be read as an error or as a waiting call.
    """
    rows = returned if isinstance(returned, list | tuple) else [returned]
    tables = {call.setting.tables.of_model(type(each)) for each in rows}
    [table] = tables if len(tables) == 1 else [None]
    if table is None:
        is_answer = isinstance(returned, dict) and _TAKEN.isdisjoint(returned)
        return returned if is_answer else {"result": returned}
    if not all(sqla.state_of(each).persistent for each in rows):
        raise SetupError(
            "a tool returned a row that is not in its session",
            "add it there, or return its values",
        )
    rows_json, rendering = call.reload_rows(rows, shape_of(table, None), call.room())
    call.mask_rows(rendering.shown)
    answer = {"table": table.name, "rows": rows_json, "count": len(rows)}
    return call.finish_answer(answer, [], rendering)
