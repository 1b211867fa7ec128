"""A dialect that confines whatever it compiles and executes, in the place of a connection's own.

A dialect and the rules come in; one that is the same in all but that goes out, and is put on a
connection for as long as that works for an owned session.

Leans on `Connection.dialect`, by which a connection compiles and executes, and on the compiled
cache having the dialect in its keys: the same statement, compiled for a session without owner, is
another entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.engine import Dialect

from .confining import ConfiningCompiler, Rules
from .mappers import mapper_of_table, plain
from .verbatim import CheckedNames, CheckedTypes, checked

_PARAMETERS = "alfred_refs_owner"  # of a connection: what its statements' criteria compare with
_CHECK = "alfred_refs_check"  # of a connection: looks at what a statement is about to write

Check = Callable[[Any, Sequence[Mapping[str, Any]]], None]
"""Refuses a statement that writes, by its parameters too."""


class _Context:
    """Goes before a dialect's own execution context."""

    compiled: Any
    compiled_parameters: Any
    dialect: Any
    isddl: bool
    root_connection: Any
    execution_options: Mapping[str, Any]

    @property
    def _is_of_flush(self) -> bool:
        """Whether the ORM has made the statement of instances, which are looked at as such."""
        mapper = mapper_of_table(plain(self.compiled.compile_state.statement.table))
        cache = self.execution_options.get("compiled_cache")
        return mapper is not None and cache is mapper.base_mapper._compiled_cache

    @property
    def _fills_in_references(self) -> bool:
        """Whether a foreign key is filled in by its column's `default` or `onupdate`."""
        filled = (*self.compiled.insert_prefetch, *self.compiled.update_prefetch)
        return any(column.foreign_keys for column in filled)

    @classmethod
    def _init_compiled(cls, dialect: Any, connection: Any, *arguments: Any, **options: Any) -> Any:
        dbapi_connection, execution_options, compiled, parameters, *rest = arguments
        # once it is compiled, parameters that have no column are passed over
        owner = vars(connection).get(_PARAMETERS, {})
        given = [{**each, **owner} for each in parameters or [{}]]
        known = (dialect, connection, dbapi_connection, execution_options, compiled, given)
        return super()._init_compiled(*known, *rest, **options)  # type: ignore[misc]

    def _sent(self) -> tuple[Any, list[dict[str, Any]]]:
        """Return the statement and what it is executed with, by the keys of its parameters too.

        A statement that was compiled before is that one, with the values of that time.
        """
        names = {bind.key: name for bind, name in self.compiled.bind_names.items()}
        return self.compiled.compile_state.statement, [
            row | {key: row[name] for key, name in names.items() if name in row}
            for row in self.compiled_parameters
        ]

    def pre_exec(self) -> None:
        rules: Rules = self.dialect.confined_by
        if self.compiled is None or self.isddl:
            raise rules.refuse("DDL" if self.isddl else "a statement given as text")
        if self.compiled.isinsert or self.compiled.isupdate:
            table = self.compiled.compile_state.statement.table
            owner = vars(self.root_connection).get(_PARAMETERS, {})
            rules.check_written(
                table, self.compiled_parameters, owner, is_new=self.compiled.isinsert
            )
            if not self._is_of_flush or self._fills_in_references:
                vars(self.root_connection)[_CHECK](*self._sent())
        super().pre_exec()  # type: ignore[misc]


def confined_dialect(dialect: Dialect, rules: Rules) -> Dialect:
    """Return a dialect that is the same in all but that it confines what it compiles.

    Both have one state: what either learns of the server, and who listens, the other knows.
    """
    kind: Any = type(dialect)
    compiler, context = kind.statement_compiler, kind.execution_ctx_cls
    names = checked(CheckedNames, dialect.identifier_preparer, rules.refuse)
    types = checked(CheckedTypes, dialect.type_compiler_instance, rules.refuse)
    made = {
        "statement_compiler": type(compiler.__name__, (ConfiningCompiler, compiler), {}),
        "execution_ctx_cls": type(context.__name__, (_Context, context), {}),
        "confined_by": rules,
        # these are data descriptors, so that they go before what is in the state of both
        "identifier_preparer": property(lambda _: names),
        "type_compiler_instance": property(lambda _: types),
        # asked for by the class's own name
        "supports_statement_cache": kind.supports_statement_cache,
    }
    confined: Any = object.__new__(type(kind.__name__, (kind,), made))
    confined.__dict__ = vars(dialect)
    return cast(Dialect, confined)


def put_dialect(
    connection: Connection,
    dialect: Dialect,
    parameters: Mapping[str, Any] | None,
    check: Check | None = None,
) -> None:
    """Have a connection compile and execute by a dialect.

    Args:
        connection: which is at work for one session at a time.
        dialect: its own, or `confined_dialect()` of that.
        parameters: what the criteria compare with, by the parameters' names; `None`: nothing.
        check: looks at inserts and updates that are no part of a flush.
    """
    connection.dialect = dialect
    for name, value in ((_PARAMETERS, parameters), (_CHECK, check)):
        if value is None:
            vars(connection).pop(name, None)
        else:
            vars(connection)[name] = value
