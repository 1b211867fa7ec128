"""The differences between an active session and a plain one, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """A use with another outcome on an active session.

    Attributes:
        use: its name.
        code: the call, for the documentation.
        becomes: the outcome on an active session, for the documentation.
        why: the reason.
        what: the parts of the outcome that differ, plain and active; for `sent`, the statements
            that only one of them sends.
        drivers: the drivers with the difference.
    """

    use: str
    code: str
    becomes: str
    why: str
    what: dict[str, tuple[Any, Any]]
    drivers: tuple[str, ...] = ("psycopg", "asyncpg")


_BOX = "<class 'tests.session_api.world.Box'>"
_IDENTITY = [_BOX, ["box_1"], None], [_BOX, ["UUID('00000000-0000-0000-0000-000000000001')"], None]

_CATALOGUE = """
    select c.oid, n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid),
        a.attnum, a.attname
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute a on a.attrelid = c.oid
    where c.… and a.attnum > 0 and not a.attisdropped
"""

_THERE = """\
SELECT anon_1.hidden, anon_1.alone, anon_1.written, whole_boxes.id 
FROM (SELECT pg_is_in_recovery() OR coalesce((SELECT \
row_security_active(pg_catalog.pg_class.oid) OR \
(pg_catalog.pg_class.relkind NOT IN (?::VARCHAR, ?::VARCHAR)) AS anon_2 
FROM pg_catalog.pg_class 
WHERE pg_catalog.pg_class.oid = CAST(to_regclass(?::VARCHAR) AS OID)), true) AS hidden, \
current_setting(?::VARCHAR) = ?::VARCHAR AND NOT (EXISTS (SELECT others 
FROM txid_snapshot_xip(txid_current_snapshot()) AS others)) AS alone, \
txid_current_if_assigned() IS NOT NULL AS written) AS anon_1 LEFT OUTER JOIN whole_boxes ON whole_boxes.id = ?::UUID"""  # noqa: W291, E501

_SET = ["set", ["Thing x", "UUID", "UUID", "AttributeEventToken"]]

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "the identity of an instance",
        "inspect(box).identity_key",
        "has the key",
        "the unit of work uses keys",
        {"value": _IDENTITY},
    ),
    Difference(
        "the keys of the identity map",
        "session.identity_map.keys(), session.identity_key(instance=box)",
        "have keys",
        "the identity map is indexed by identities",
        {"value": ([_IDENTITY[0]], [_IDENTITY[1]])},
    ),
    Difference(
        "a key attribute listened to",
        'event.listen(Thing.box_id, "set", ...)',
        "receives the key in place of the ref",
        "listeners receive what the unit of work saves",
        {"seen": ([_SET, ["box_2"]], [_SET, ["UUID('00000000-0000-0000-0000-000000000002')"]])},
    ),
    Difference(
        "a text without columns",
        'session.execute(text("select note from things"))',
        "sends one more query, once per table and connection",
        "PostgreSQL reports tables by number",
        {"sent": ([], [(_CATALOGUE, [], {}, {})])},
        drivers=("psycopg",),
    ),
    Difference(
        "a listener that adds criteria",
        "session.get(Box, ref), or a statement that names rows by their own refs and finds none",
        "sends one more query, and raises GoneRefError if the row does not exist",
        "a deleted row is distinguished from a row that the criteria hide",
        {"sent": ([], [(_THERE, [], {}, {})])},
    ),
    Difference(
        "a row deleted by its key",
        "session.execute(delete(Box).where(Box.id == ref))",
        "sends one more query",
        "the number of deleted rows does not show which ones are deleted",
        {"sent": ([], [(_THERE, [], {}, {})])},
    ),
)
