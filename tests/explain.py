"""What the server does for each statement of the registry's own, by `EXPLAIN`.

The tables hold what a registry does in the long run: one conversation of many refs among very many
of few. A statement is run on the large one, by a plan of its own values or by a generic one, of
which the server knows no values, and taken back.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

import psycopg
from sqlalchemy import Dialect, Executable, make_url

from alfred_refs import PostgresStore
from alfred_refs.mapping.keys import encode
from alfred_refs.store.schema import metadata

FILL = """
insert into alfred_refs_conversation (conversation, id)
    select md5(n::text)::uuid, n from generate_series(0, 29999) n;
insert into alfred_refs_counter (conversation, entity, last, kind)
    select conversation, 'recipe', case id when '0' then 20003 else 3 end, 1
    from alfred_refs_conversation;
insert into alfred_refs_mapping (conversation, kind, number, key)
    select conversation, kind, n, decode('75' || md5(n::text), 'hex')
    from alfred_refs_counter, generate_series(1, last) n;
update alfred_refs_counter set drafts = last;
insert into alfred_refs_draft (
        conversation, kind, number, turn, edited, version, state, content, key
    )
    select conversation, kind, number, 1, 1, 1, 'pending', '{}',
        case number % 2 when 0 then key end
    from alfred_refs_mapping;
insert into alfred_refs_activity (
        conversation, kind, number, first_turn, last_turn, action, actor, fields
    )
    select conversation, kind, number, 1, number / 100, 'read', 'model', array['name']
    from alfred_refs_mapping;
insert into alfred_refs_step (conversation, turn, number, content)
    select conversation, number, 1, '{}' from alfred_refs_mapping where number <= 10;
insert into alfred_refs_call (
        conversation, number, turn, tool, state, actor, call_id, arguments
    )
    select conversation, number, number / 100, 'db_update',
        case number when 10 then 'waiting' else 'done' end, 'model', number, '{}'
    from alfred_refs_mapping where number % 2 = 0;
insert into alfred_refs_change (conversation, call, place, table_name, ref, action, key)
    select conversation, number, place, 'recipes', 'recipe_' || number, 'updated', '{}'
    from alfred_refs_call, generate_series(1, 2) place;
update alfred_refs_conversation set turn = 200 where id = '0';
"""

LARGE, SMALL, NONE = (
    uuid.UUID("cfcd2084-95d5-65ef-66e7-dff9f98764da"),
    uuid.UUID("c4ca4238-a0b9-2382-0dcc-509a6f75849b"),
    uuid.UUID(int=1),
)

# a value for each parameter of a statement: keys known and new
VALUES: Mapping[str, Any] = {
    "p_actions": ["read", "linked", "deleted"],
    "p_actor": "model",
    "p_actors": ["model", "user", "model"],
    "p_after": LARGE,
    "p_after_entity": "recipe",
    "p_afters": "[{},{}]",
    "p_answer": "{}",
    "p_arguments": "{}",
    "p_asked_at": datetime(2026, 1, 1, tzinfo=UTC),
    "p_befores": "[{},null]",
    "p_begun": None,
    "p_begun_at": datetime(2026, 1, 1, tzinfo=UTC),
    "p_call_id": "call_7",
    "p_chosen": [LARGE, SMALL],
    "p_conversation": LARGE,
    "p_content": "{}",
    "p_contents": ["{}", "{}", "{}"],
    "p_counts": [1, 1, 1],
    "p_decided_at": datetime(2026, 1, 1, tzinfo=UTC),
    "p_decided_by": "ann",
    "p_demoted": [False, False, True],
    "p_edits": [1, 1, 1],
    "p_entities": ["recipe"] * 3,
    "p_entity": "recipe",
    "p_expected": "done",
    "p_expires_at": None,
    "p_expires_in": timedelta(days=1),
    "p_facts": '[[1,3,"recipes","recipe_1",null,"updated"],[1,4,"recipes",null,"a","created"]]',
    "p_fields": ['["name"]', None, "[]"],
    "p_first_turns": [1, 1, 1],
    "p_given": ["state"],
    "p_gone": "was deleted",
    "p_gones": [None, None, "was deleted"],
    "p_id": "0",
    "p_key_images": "[{},{}]",
    "p_key": encode(SMALL),
    "p_keys": [encode(SMALL), encode(uuid.UUID(int=1)), encode(uuid.UUID(int=2))],
    "p_labels": ["Soup", None, "Stew"],
    "p_last_drafts": [0, 1, 2],
    "p_limit": 5,
    "p_place": 0,
    "p_new": NONE,
    "p_noted": json.dumps(
        [
            {"entity": "recipe", "key": encode(key).hex(), "action": action, "fields": fields}
            for key, action, fields in (
                (SMALL, "read", ["name"]),
                (uuid.UUID(int=1), "linked", None),
                (uuid.UUID(int=2), "deleted", []),
            )
        ]
    ),
    "p_number": 10_000,
    "p_of_any": True,
    "p_numbers": [1, 2, 30_000],
    "p_older_than": timedelta(days=1),
    "p_owner": None,
    "p_plan": "{}",
    "p_reason": "liked",
    "p_reasons": [None, None, "liked"],
    "p_ref": "recipe_200",
    "p_search": "0",
    "p_seconds": 0.1,
    "p_state": "done",
    "p_states": ["pending", "saved", "discarded"],
    "p_relations": list(metadata.tables),
    "p_table": "recipes",
    "p_tables": '{"recipe": "recipes"}',
    "p_taken": 0,
    "p_token": "token",
    "p_tool": "db_update",
    "p_turn": 1,
    "p_turns": [1, 1, 1],
    "p_turns_back": 3,
    "p_undoes": None,
    "p_unused_for": timedelta(days=1),
    "p_used_at": datetime(2026, 1, 1, tzinfo=UTC),
    "p_user": "ann",
    "p_versions": [1, 1, 1],
}

# where a statement is not about the large conversation
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "restore_conversation": {"p_conversation": NONE},
    "restore_counters": {"p_conversation": NONE, "p_entities": ["recipe", "order", "menu"]},
    "continue_counters": {"p_entities": ["recipe", "order", "menu"]},
    "restore_mappings": {"p_conversation": NONE},
    "restore_drafts": {"p_conversation": NONE},
    "restore_activity": {"p_conversation": NONE},
    "restore_steps": {"p_conversation": NONE},
    "restore_call": {"p_conversation": NONE},
    "restore_changes": {"p_conversation": NONE},
}

# these name no conversation, and are for operators
OF_ALL_CONVERSATIONS = {
    *("choose_unused", "prune_mapping", "leave_pruned", "prune_conversations"),
    *("choose_left", "prune_counters"),
    *("choose_last_used", "count_listed"),
    *("page_of_conversations", "count_conversations", "count_refs", "count_gone", "count_left"),
    *("prune_draft", "count_drafts", "prune_activity", "prune_step"),
    *("choose_knowing", "erase_label", "erase_draft"),
    *("prune_call", "prune_change", "waiting", "expire_calls", "prune_changes", "erase_calls"),
    *("lock_tables", "sizes", "place", "wait"),
}

# attributes with a statement for each table, generated from the metadata
GENERATED = {"_FORK", "_FORGET", "_PRUNE"}

LOCKED = """
select relname from pg_locks join pg_class on pg_class.oid = relation
where pid = pg_backend_pid() and relkind = 'r' and relname like 'alfred_refs_%'
"""

Plan = Literal["custom", "generic"]

# writes parameters as PREPARE takes them
NUMBERED: Dialect = make_url("postgresql+asyncpg://").get_dialect()()


@contextmanager
def client(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a database by its URL, each statement a transaction of its own."""
    given = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(
        given, autocommit=True, cursor_factory=psycopg.ClientCursor
    ) as connection:
        yield connection


def statements() -> Mapping[str, Executable]:
    """Return every statement of the package's own, by its name."""
    found: dict[str, Executable] = {}
    for cls in PostgresStore.__mro__:
        for name, value in vars(cls).items():
            if isinstance(value, Executable):
                found[name.strip("_").lower()] = value
            elif name in GENERATED:
                for table, each in value.items():
                    found[f"{name}_{table.removeprefix('alfred_refs_')}".strip("_").lower()] = each
    return found


@dataclass(frozen=True, slots=True)
class Scan:
    """What was done with a table, or with one of its partitions.

    Attributes:
        relation: the name of the table or partition.
        how: the kind of scan.
        rows: how many rows were looked at.
    """

    relation: str
    how: str
    rows: int


@dataclass(frozen=True, slots=True)
class Run:
    """What the server did for a statement.

    Attributes:
        scans: those that were executed.
        locked: the plain tables, and the partitions, that were locked.
    """

    scans: list[Scan]
    locked: set[str]


def run(connection: psycopg.Connection[Any], name: str, plan: Plan) -> Run:
    """Run a statement by its name, take it back, and return what was done."""
    compiled = cast(Any, statements()[name]).compile(dialect=NUMBERED)
    names = compiled.positiontup or ()
    given = {**compiled.params, **VALUES, **OTHERS.get(name, {})}
    values = [given[name] for name in names]
    arguments = f"({', '.join('%s' for _ in names)})" if names else ""
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local plan_cache_mode = force_{plan}_plan")
        connection.execute(f"prepare explained as {compiled}".encode())
        asked = f"explain (analyze, format json) execute explained{arguments}"
        [[[explained]]] = connection.execute(asked.encode(), values).fetchall()
        locked = {name for (name,) in connection.execute(LOCKED).fetchall()}
    connection.execute("deallocate explained")
    scans = [
        Scan(node["Relation Name"], node["Node Type"], _rows(node))
        for node in _nodes(explained["Plan"])
        if "Scan" in node["Node Type"] and "Relation Name" in node and node["Actual Loops"]
    ]
    return Run(scans, locked)


def rows_read(scans: Iterable[Scan]) -> Counter[str]:
    """Return how many rows were looked at in each table or partition."""
    read: Counter[str] = Counter()
    for scan in scans:
        read[scan.relation] += scan.rows
    return read


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _rows(node: Mapping[str, Any]) -> int:
    looked_at = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return int(looked_at * node["Actual Loops"])
