"""Alembic integration for applications (public path).

The registry's tables are migrated in one of two ways. Either `alfred-refs migrate` does it, and
`include_name` keeps the application's autogenerate away from them:

```python
from alfred_refs.store.alembic import include_name

context.configure(connection, target_metadata=Base.metadata, include_name=include_name)
```

Or the application's own environment does it: `registry.metadata` is in its `target_metadata`, and
its revisions call `upgrade` where a revision of the registry rewrites rows. `hand_over` goes back
to the first way.

>>> include_name("alfred_refs_mapping", "table", {})
False
>>> with revision():  # inside the upgrade() of a revision of the application's
...     hand_over("0006")
>>> with engine.connect() as connection:
...     current_revision(connection)
'0006'

While this module is imported, autogenerate raises `RegistryMigrationError` where it would mix the
two ways, or lose rows; the `alembic` command prints it on one line. `RefRegistry.metadata` imports
it. `docs/registry.md` describes both ways, `docs/reference/alembic.md` how to change between them.

Limits: nothing here connects to a database; everything runs on the connection of the environment,
or writes SQL offline. Only tables whose names start with `alfred_refs_` are concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from alembic import op
from alembic.autogenerate import comparators
from alembic.util import CommandError
from sqlalchemy import Connection

from alfred_refs.errors import RegistryMigrationError
from alfred_refs.store.schema import VERSION_TABLE, current_revision, revision_of_tables, revisions

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext
    from alembic.script import Script

__all__ = ["downgrade", "hand_over", "include_name", "upgrade"]


_COPY = "SELECT set_config('{}', current_setting('{}'), true)"


class RefusedMigrationError(RegistryMigrationError, CommandError):
    """A `CommandError` too, so that the `alembic` command prints it on one line."""


def include_name(name: str | None, type_: str, parent_names: MutableMapping[Any, Any]) -> bool:
    """Exclude the registry's tables from autogenerate: Alembic's `include_name` hook.

    These are all tables whose names start with `alfred_refs_`, in any schema, and the schema of
    their partitions.

    ```python
    def include_mine(name, type_, parent_names):
        return include_name(name, type_, parent_names) and name not in NOT_MINE
    ```

    Args:
        name: of a table or another object in the database.
        type_: its type, as Alembic calls it: `"table"`, `"schema"`, `"column"`.
        parent_names: of the objects that contain it; ignored.

    Returns:
        whether autogenerate compares it.

    Example:
        >>> include_name("recipes", "table", {}), include_name("alfred_refs_counter", "table", {})
        (True, False)
    """
    del parent_names
    return type_ not in ("table", "schema") or not _is_ours(name)


def upgrade(revision: str, *, schema: str | None = None) -> None:
    """Upgrade the registry's tables to one of its revisions, in a revision of the application's.

    Revisions that are applied already change nothing, and missing tables are created. From then on
    the application owns the tables, and `alfred-refs migrate` refuses to migrate them.

    ```python
    def upgrade():
        alfred_refs.store.alembic.upgrade("0003")
    ```

    Args:
        revision: its number; not `"head"`, which differs between versions of the package.
        schema: of the tables, if it is not the connection's default.

    Raises:
        RegistryMigrationError: this version has no such revision.

    Example:
        >>> with revision():  # in the upgrade() of a revision of yours
        ...     upgrade("0006")
        >>> registry.describe("chat-7").refs  # nothing is lost
        {'line': 2, 'recipe': 2}
    """
    with _inside(schema):
        _upgrade(revision)


def downgrade(revision: str, to: str, *, schema: str | None = None) -> None:
    """Downgrade the registry's tables to `to`, in a revision of the application's.

    ```python
    def downgrade():
        alfred_refs.store.alembic.downgrade("0003", to="0001")
    ```

    Args:
        revision: the number of the tables' revision.
        to: the number of the revision to downgrade to, or `"base"`.
        schema: as for `upgrade`.

    Raises:
        RegistryMigrationError: this version has no such revision, or `to` is the later one
            (`RefusedMigrationError`, its subclass).

    Example:
        >>> with revision():  # in the downgrade() of a revision of yours
        ...     downgrade("0006", to="0005")
        >>> from sqlalchemy import inspect
        >>> inspect(engine).has_table("alfred_refs_activity")
        False
    """
    applied, remaining = _up_to(revision), [] if to == "base" else _up_to(to)
    if len(remaining) > len(applied):
        raise RefusedMigrationError(
            f"a downgrade from revision {revision!r} does not lead to {to!r}",
            "give the later one first",
        )
    with _inside(schema):
        for script in reversed(applied[len(remaining) :]):
            script.module.downgrade()


def hand_over(revision: str, *, schema: str | None = None) -> None:
    """Hand the registry's tables over to `alfred-refs migrate`, in an application's revision.

    They are upgraded to `revision` first; `alfred-refs migrate` continues from it.

    ```python
    def upgrade():
        alfred_refs.store.alembic.hand_over("0004")
    ```

    Args:
        revision: the number of the revision to upgrade to.
        schema: as for `upgrade`.

    Raises:
        RegistryMigrationError: this version has no such revision.

    Example:
        >>> with revision():
        ...     upgrade("0005")
        >>> with revision():  # in the upgrade() of a revision of yours
        ...     hand_over("0006")
        >>> from sqlalchemy import inspect
        >>> inspect(engine).has_table("alfred_refs_alembic_version")
        True
    """
    with _inside(schema):
        _upgrade(revision)
        table = op.create_table(
            VERSION_TABLE,
            sa.Column("version_num", sa.String(32), nullable=False),
            sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
        )
        op.bulk_insert(table, [{"version_num": revision}])


def _upgrade(revision: str) -> None:
    for script in _up_to(revision):
        script.module.upgrade()
    # without it, the tables are the application's
    op.drop_table(VERSION_TABLE, if_exists=True)


def _up_to(revision: str) -> list[Script]:
    """Return the registry's revisions up to one; raise if it is unknown."""
    scripts = revisions()
    numbers = [script.revision for script in scripts]
    if revision not in numbers:
        raise RefusedMigrationError(
            f"the registry's tables have no revision {revision!r}",
            f"give one of {', '.join(map(repr, numbers))}, or install a version that has it",
        )
    return scripts[: numbers.index(revision) + 1]


@contextmanager
def _inside(schema: str | None) -> Iterator[None]:
    """Set the search path to a schema during the `with`.

    The old search path is saved in a custom setting of the server, which works offline too.
    """
    if schema is None:
        yield
        return
    quoted = op.get_context().dialect.identifier_preparer.quote_identifier(schema)
    op.execute(_COPY.format("alfred_refs.search_path", "search_path"))
    op.execute(f"SET LOCAL search_path TO {quoted}")
    yield
    op.execute(_COPY.format("search_path", "alfred_refs.search_path"))


def _is_ours(name: str | None) -> bool:
    return (name or "").startswith("alfred_refs_")


# Registered for all environments: Alembic has plugins, which an environment chooses, from 1.18.
@comparators.dispatch_for("schema")
def _check(context: AutogenContext, _: object, __: object) -> None:
    """Raise if the result of comparing the registry's tables would harm them.

    It would if the application does not own them, or if a later revision rewrites their rows.
    """
    listed = [table for table in context.sorted_tables if _is_ours(table.name)]
    if not listed or context.migration_context.version_table == VERSION_TABLE:
        return
    name, schema = listed[0].name, listed[0].schema
    if not context.run_name_filters(name, "table", {"schema_name": schema}):
        raise RefusedMigrationError(
            "target_metadata has the registry's tables, and include_name leaves them out",
            "take registry.metadata out of target_metadata if `alfred-refs migrate` makes the "
            "tables, and alfred_refs.store.alembic.include_name out of include_name if it does "
            "not",
        )
    connection = cast(Connection, context.connection)  # autogenerate does not run offline
    if current_revision(connection, schema) is not None:
        raise RefusedMigrationError(
            "target_metadata has the registry's tables, and `alfred-refs migrate` made them",
            "take registry.metadata out of target_metadata and give "
            "include_name=alfred_refs.store.alembic.include_name; or take the tables over, by a "
            f"revision that calls alfred_refs.store.alembic.upgrade({revisions()[-1].revision!r})",
        )
    _check_rows(revision_of_tables(connection, schema))


def _check_rows(current: str | None) -> None:
    """Raise if a revision later than the current one rewrites rows."""
    later = [] if current is None else revisions()[len(_up_to(current)) :]
    rewriting = [script.revision for script in later if script.module.rewrites_rows]
    if rewriting:
        raise RefusedMigrationError(
            f"the registry's tables are at revision {current!r}, and autogenerate cannot rewrite "
            f"their rows as revision {rewriting[-1]!r} does",
            "write a revision of yours that calls "
            f"alfred_refs.store.alembic.upgrade({rewriting[-1]!r}), and upgrade to it first",
        )
