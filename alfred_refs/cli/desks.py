"""Toolsets that the server offers: of a program or of a database (loaded when used).

What `alfred-refs mcp` offers: the toolset of an application, or one made of a bare database.

desk = named("app.agent:desk", BoundToolset, "Toolset.bind(...)")

with reflected("postgresql://localhost/shop") as found:
found.desk, found.remarks, found.instructions
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.orm import sessionmaker

from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.errors import SetupError
from alfred_refs.integrations.reflect import Reflection, reflect
from alfred_refs.session.session import RefSession
from alfred_refs.store import schema
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import BoundToolset, Toolset

_NAME = re.compile(r"(?P<module>[\w.]+):(?P<object>[\w.]+)")

# whether what refs need may be written: not on a standby, nor by one who may only read
_MAY_KEEP = """
select not pg_is_in_recovery() and bool_and(has_table_privilege(c.oid, p.privilege))
from pg_class c, unnest(array['select', 'insert', 'update', 'delete']) p(privilege)
where c.relkind in ('r', 'p') and pg_table_is_visible(c.oid)
    and starts_with(c.relname, 'alfred_refs_') and c.relname <> :versions
"""

_FORGOTTEN = (
    "Refs are valid as long as this server runs: after a restart they name other rows. Read rows "
    "again before you use refs of an earlier run."
)


def load_object(name: str) -> Any:
    """Return an object of a program by its name, `module:object`.

    What the program raises as it is imported is raised as it is.

    Raises:
        SetupError: there is no such module or object.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise SetupError(
            f"{name!r} names no object", "write module:object, such as app.agent:desk"
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        # what it prints is no message of the protocol
        with redirect_stdout(sys.stderr):
            each: Any = importlib.import_module(found["module"])
    except ModuleNotFoundError as error:
        if not f"{found['module']}.".startswith(f"{error.name}."):
            raise
        raise SetupError(
            f"there is no module {error.name!r}", "name one that can be imported from here"
        ) from None
    for part in found["object"].split("."):
        if not hasattr(each, part):
            raise SetupError(f"there is no {part!r} in {name!r}", "name an object of the module")
        each = getattr(each, part)
    return each


@dataclass(frozen=True, slots=True)
class ReflectedDesk:
    """What a bare database is served as.

    Attributes:
        desk: its tools.
        remarks: what whoever starts the server is to know, line by line.
        instructions: what models are.
    """

    desk: BoundToolset
    remarks: list[str]
    instructions: str | None


@contextmanager
def reflect_desk(
    url: str, *, write: bool = False, tables: Collection[str] = (), hidden: Collection[str] = ()
) -> Iterator[ReflectedDesk]:
    """Make a toolset of the database at a URL, for as long as the `with` lasts.

    Refs are kept in the registry's tables if they are there, and in memory otherwise.

    Raises:
        SetupError: there is nothing to serve, no such table or column, or rows are to be changed
            by refs that a restart would give to other rows.
        RegistryUnreachableError: the database cannot be reached.
    """
    with schema.connect(url) as connection:
        found = reflect(connection, tables, hidden=hidden)
        keeps = _keeps(connection)
    if not found.models:
        raise SetupError(
            "the database has no table that could be served", "name another one, or a table"
        )
    if write and not keeps:
        raise SetupError(
            "rows are to be changed, and there are no tables here to keep refs in, which would "
            "name other rows after a restart",
            "make them by `alfred-refs migrate`, or leave out --write",
        )
    engine = schema.engine_for(
        url, pool_pre_ping=True, execution_options={"postgresql_readonly": not write}
    )
    models = found.models
    toolset = Toolset(models, read_only=[] if write else models.values())
    registry = RefRegistry(engine) if keeps else RefRegistry(store=MemoryStore())
    sessions = sessionmaker(engine, class_=RefSession)
    try:
        desk = toolset.bind(sessions, registry=registry, by=None)
        remarks = _remarks(found, write=write, keeps=keeps)
        yield ReflectedDesk(desk, remarks, None if keeps else _FORGOTTEN)
    finally:
        engine.dispose()


def _keeps(connection: Connection) -> bool:
    """Tell whether the registry's tables are there, of this version, and may be written."""
    if schema.revision_of_tables(connection) != schema.revisions()[-1].revision:
        return False
    return bool(connection.scalar(text(_MAY_KEEP), {"versions": schema.VERSION_TABLE}))


def _remarks(found: Reflection, *, write: bool, keeps: bool) -> list[str]:
    tables = f"{len(found.models)} tables" if len(found.models) > 1 else "1 table"
    remarks = [
        f"{tables}, {'read and written' if write else 'read only'}: {', '.join(found.models)}"
    ]
    if found.labels:
        called = (f"{table} by {columns}" for table, columns in found.labels.items())
        remarks.append(f"rows are called: {', '.join(called)}")
    remarks += [f"left out: {table}, because {why}" for table, why in found.left_out.items()]
    if not keeps:
        remarks.append(
            "refs are kept in memory: after a restart they name other rows; to keep them, run "
            "`alfred-refs migrate`"
        )
    return remarks
