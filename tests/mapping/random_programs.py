"""One program on random mappings, with keys and with refs, and tool calls on them.

`differences` runs each step of the program with a plain session and with one in a conversation, on
new tables each: what they return and store must be equal once refs are keys again. `faults` makes
calls as a model may, and returns what must not come of one.
"""

from __future__ import annotations

import json
import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Engine, Row, delete, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased, joinedload, selectinload

from alfred_refs import (
    Conversation,
    KeyColumnError,
    RefPolicy,
    RefRegistry,
    RefSession,
    UntranslatableError,
)
from alfred_refs.mapping import parse_ref
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset
from tests.mapping.random_mappings import Mapping, Pair, made

POLICY = RefPolicy(key_types=("uuid", "integer", "string"))

Step = Callable[[Session, Mapping], Any]


def _nodes(session: Session, m: Mapping) -> list[Any]:
    return list(session.scalars(select(m.node).order_by(m.node.name)).unique())


def _identity(node: Any, m: Mapping) -> Any:
    parts = tuple(getattr(node, key) for key in m.keys)
    return parts if len(parts) > 1 else parts[0]


def _is_node(node: Any, m: Mapping) -> Any:
    return [getattr(m.node, key) == getattr(node, key) for key in m.keys]


def _try(what: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return what(*arguments)
    except Exception as error:  # noqa: BLE001  # which one, is compared
        return type(error)


def _many(session: Session, value: Any) -> Any:
    """Return the rows of a relationship by name, whatever its collection."""
    if hasattr(value, "select"):
        value = session.scalars(value.select())
    if isinstance(value, dict):
        return sorted(((k, v.name) for k, v in value.items()), key=lambda pair: pair[1])
    many = isinstance(value, list | set) or hasattr(value, "__iter__")
    return sorted(each.name for each in value) if many else value and value.name


def _values(proxy: Any) -> Any:
    return proxy.values() if hasattr(proxy, "values") else proxy


def seen(session: Session, instance: Any) -> dict[str, Any]:
    """Return what the attributes of an instance show."""
    mapper = inspect(instance).mapper
    columns = [*mapper.column_attrs.keys(), *mapper.composites.keys(), *mapper.synonyms.keys()]
    others = [n for n in ("hybrid", "key_hybrid") if hasattr(type(instance), n)]
    found = {name: _try(getattr, instance, name) for name in [*columns, *others]}
    for name in mapper.relationships.keys():  # noqa: SIM118  # no dictionary
        found[name] = _try(lambda each: _many(session, getattr(instance, each)), name)
    if hasattr(type(instance), "proxy"):
        found["proxy"] = _try(lambda: sorted(_values(instance.proxy)))
    return found


# Steps that read


def instances(session: Session, m: Mapping) -> Any:
    """Read nodes, and all of their attributes."""
    return [(type(each).__name__, seen(session, each)) for each in _nodes(session, m)]


def items(session: Session, m: Mapping) -> Any:
    """Read items, and all of their attributes."""
    return [seen(session, each) for each in session.scalars(select(m.item).order_by(m.item.name))]


def columns(session: Session, m: Mapping) -> Any:
    """Select each attribute by itself, of the class and of an alias."""
    other, found = aliased(m.node), {}
    for name in [*m.node.__mapper__.column_attrs.keys(), "hybrid", "key_hybrid", "key_synonym"]:
        for class_ in (m.node, other):
            if hasattr(m.node, name):
                chosen = select(class_.name, getattr(class_, name)).order_by(class_.name)
                found[f"select {name}"] = _try(lambda each: session.execute(each).all(), chosen)
    return found


def joins(session: Session, m: Mapping) -> Any:
    """Join nodes with their items by the relationship, and tags with them."""
    chosen = select(m.node.name, m.item.node_key, m.item.name).join(m.node.items)
    tags = select(m.node, m.tag.id).join(m.node.tags).order_by(m.node.name)
    rows = session.execute(tags).unique().all()
    return [
        session.execute(chosen.order_by(m.item.name)).all(),
        [(node.name, _identity(node, m), tag) for node, tag in rows],
    ]


def ways(session: Session, m: Mapping) -> Any:
    """Find one node by its key, in several ways."""
    node = _nodes(session, m)[1]
    shown, is_node = _identity(node, m), _is_node(node, m)
    session.expunge_all()
    tables = [*m.node.__mapper__.tables]
    found = [
        session.get(m.node, shown),
        session.get(m.node, shown, populate_existing=True),
        session.scalars(select(m.node).where(*is_node)).unique().one(),
        session.query(m.node).filter(*is_node).one(),
        session.query(m.node).filter_by(key=node.key).first(),
        session.scalars(select(m.node).where(m.node.key.in_([node.key]))).unique().one(),
        session.get_one(m.kind, shown) if type(node) is m.kind else None,
    ]
    rows = session.execute(select(*tables[0].c).order_by(tables[0].c.name)).all()
    return [each and each.name for each in found], rows


def loading(session: Session, m: Mapping) -> Any:
    """Load related rows by options."""
    found = []
    for option in (selectinload, joinedload):
        session.expunge_all()
        chosen = select(m.node).options(option(m.node.tags)).order_by(m.node.name)
        nodes = session.scalars(chosen).unique().all()
        found.append([[(tag.id, tag.name) for tag in each.tags] for each in nodes])
    return found


def refreshed(session: Session, m: Mapping) -> Any:
    """Expire, refresh and merge a node."""
    node = _nodes(session, m)[0]
    session.expire(node)
    first = node.name, _identity(node, m)
    session.refresh(node)
    session.expunge(node)
    node.name = "merged"
    merged = session.merge(node)
    return first, (merged.name, _identity(merged, m)), seen(session, merged)


# Steps that write


def new(session: Session, m: Mapping) -> Any:
    """Add a node of each class, with an item each and a tag."""
    tag = session.scalars(select(m.tag)).first()
    for number in (6, 7):
        session.add(node := m.new_node(number))
        session.flush()
        if m.has_items(node):
            session.add(m.new_item(f"new {number}", 5, node))
            node.tags.append(tag)
        session.flush()
        session.refresh(node)
    return seen(session, node)


def related(session: Session, m: Mapping) -> Any:
    """Add a node with an item in its collection, and move an item to it."""
    session.add(node := m.new_node(8))
    item = made(m.item, name="by collection", place=7)
    if m.chosen["uselist"] is False:
        node.items = item
    elif isinstance(node.items, dict):
        node.items[item.name if m.chosen["collection"] == "by name" else item.id] = item
    else:
        getattr(node.items, "add" if hasattr(node.items, "add") else "append")(item)
    session.flush()
    return seen(session, item)


def bulk(session: Session, m: Mapping) -> Any:
    """Insert and update nodes and items in bulk."""
    node = _nodes(session, m)[0]
    keys = {f"node_{key}": getattr(node, key) for key in m.keys}
    session.execute(insert(m.item), [{**keys, "place": n, "name": f"bulk {n}"} for n in (8, 9)])
    session.execute(insert(m.node), [{"name": "bulk", "size": 1}])
    own = {key: getattr(node, key) for key in m.keys}
    version = {"version": node.version} if hasattr(node, "version") else {}
    session.execute(update(m.node), [{**own, **version, "size": 44}])
    made = insert(m.node).values(name="made", size=3).returning(m.node.key, m.node.name)
    return [tuple(row) for row in session.execute(made)]


def changed(session: Session, m: Mapping) -> Any:
    """Change nodes and items, by attributes and by criteria."""
    first, second, *_ = _nodes(session, m)
    first.size, second.name = 50, "renamed"
    session.flush()
    one = session.scalars(select(m.item).order_by(m.item.name).limit(1)).one()
    if "lines" not in m.chosen["features"]:
        one.node_key = second.key if m.chosen["inheritance"] != "concrete" else first.key
        if len(m.keys) > 1:
            one.node_other = second.other
    session.flush()
    session.execute(update(m.node).where(*_is_node(first, m)).values(size=51))
    session.execute(update(m.item).where(m.item.node_key == first.key).values(name="x"))
    return seen(session, first), seen(session, one)


def deleted(session: Session, m: Mapping) -> Any:
    """Delete items by criteria, and a node with what goes with it."""
    first, *_, last = _nodes(session, m)
    session.execute(delete(m.item).where(m.item.node_key == first.key))
    session.delete(first)
    session.flush()
    session.delete(last)
    session.flush()


STEPS: list[Step] = [
    *(instances, items, columns, joins, ways, loading, refreshed),
    *(new, related, bulk, changed, deleted),
]


# Comparison


class World:
    """A mapping with its tables in a database."""

    def __init__(self, engine: Engine, mapping: Mapping) -> None:
        self.engine, self.mapping = engine, mapping
        self.registry = RefRegistry(store=MemoryStore(), policy=POLICY)
        self.conversation: Conversation = self.registry.conversation("chat")

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Have the tables, with rows."""
        self.mapping.metadata.create_all(self.engine)
        try:
            with Session(self.engine) as plain:
                self.mapping.fill(plain)
            yield
        finally:
            self.mapping.metadata.drop_all(self.engine)

    def outcomes(self, make: Callable[[], Session]) -> Iterator[tuple[Step, Any]]:
        """Yield what each step returns, and what is in the tables after it."""
        for step in STEPS:
            # of its own: SQLite gives the keys of rows that were rolled back to new ones
            self.conversation = self.registry.conversation(step.__name__)
            with make() as session:
                try:
                    found = self.form(step(session, self.mapping))
                    session.flush()
                    tables = self.tables(session)
                except Exception as error:  # noqa: BLE001  # which one, is compared
                    found, tables = error, []
                session.rollback()
            yield step, (found, tables)

    def tables(self, session: Session) -> Any:
        """Return all rows, with keys."""
        cursor = session.connection().exec_driver_sql
        return {
            table.name: sorted(str(row) for row in cursor(f"SELECT * FROM {table.name}"))
            for table in self.mapping.metadata.sorted_tables
        }

    def form(self, value: Any) -> Any:
        """Return a value in a form that is equal with keys and refs."""
        if isinstance(value, Pair):
            value = (value.one, value.two)
        if isinstance(value, dict):
            return {self.form(name): self.form(each) for name, each in value.items()}
        if isinstance(value, list | tuple | Row):
            return [*map(self.form, value)]
        if isinstance(value, str) and parse_ref(value) is not None:
            value = self.conversation.resolve(value)
        return str(value) if isinstance(value, uuid.UUID) else value


def _is_refusal(name: Any, value: Any) -> bool:
    """Return whether an attribute that would show keys is refused."""
    is_shown = str(name).removeprefix("select ") in ("key_text", "key_pair")
    return is_shown and value in (KeyColumnError, UntranslatableError)


def _differ(path: str, plain: Any, refs: Any) -> Iterator[str]:
    if isinstance(plain, dict) and isinstance(refs, dict) and plain.keys() == refs.keys():
        for name in plain:
            if not _is_refusal(name, refs[name]):
                yield from _differ(f"{path}.{name}", plain[name], refs[name])
    elif isinstance(plain, list) and isinstance(refs, list) and len(plain) == len(refs):
        for number, pair in enumerate(zip(plain, refs, strict=True)):
            yield from _differ(f"{path}[{number}]", *pair)
    elif plain != refs:
        yield f"{path}: {plain!r} became {refs!r}"[:600]


def _compare(plain: Any, refs: Any) -> Iterator[str]:
    """Yield how the outcomes of a step differ."""
    (one, tables), (other, tables_with_refs) = plain, refs
    if isinstance(one, Exception) and type(one) is type(other):
        return
    if isinstance(one, Exception) or isinstance(other, Exception):
        yield f": {one!r:.200} became {type(other).__name__}: {other!s:.400}"
        return
    yield from _differ("", one, other)
    yield from _differ(" tables", tables, tables_with_refs)


def differences(engine: Engine, mapping: Mapping) -> list[str]:
    """Return how a session with refs differs from a plain one, in anything but keys."""
    world = World(engine, mapping)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with world.filled():
                plain = [*world.outcomes(lambda: Session(engine))]
        except Exception:  # noqa: BLE001  # SQLAlchemy itself cannot do it
            return []
        with world.filled():
            refs = [*world.outcomes(lambda: RefSession(engine, conversation=world.conversation))]
    return [
        f"{step.__name__}{line}"
        for (step, one), (_, other) in zip(plain, refs, strict=True)
        for line in _compare(one, other)
    ]


# Tools

KEY_TEXT = re.compile(r"0?abcdef0|sk-0000|\b700000\d|\b3602879701896\d+", re.IGNORECASE)
"""What is in the text of each key that a random mapping gives."""

REFUSED = {
    "db_read": {"invalid_filter", "invalid_order"},
    "db_create": {"conflict", "still_referenced"},
    "db_update": {"conflict", "still_referenced", "missing_reference"},
    "db_delete": {"still_referenced"},
    "db_query": {"invalid_sql"},
}
"""Codes of errors by tool: a value that fits may still be refused by the rows that are there."""


class Model:
    """Calls the tools of a mapping, and notes what must not come of a call."""

    def __init__(self, world: World) -> None:
        self.world, self.found = world, list[str]()
        self.postgres = world.engine.dialect.name == "postgresql"
        names = {each.__name__.lower(): each for each in world.mapping.classes}
        self.tools = Toolset(names, policy=POLICY, expect="optional", sql=self.postgres)
        self.conversation = world.registry.conversation("model")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a call, which is undone."""
        with RefSession(self.world.engine, conversation=self.conversation) as session:
            try:
                answer = self.tools.call(session, tool, arguments)
                if answer.get("error", {}).get("code") == "unconfirmed_count":
                    arguments["expect"] = {"count": answer["error"]["count"]}
                    answer = self.tools.call(session, tool, arguments)
                text = json.dumps(answer)
            except IntegrityError:  # SQLite's has no SQLSTATE
                return {"error": {}}
            except Exception as error:  # noqa: BLE001  # must not be
                self.found.append(f"{tool} {arguments}: {type(error).__name__} {error}"[:600])
                return {"error": {}}
        if KEY_TEXT.search(text):
            self.found.append(f"{tool} {arguments}: shows a key: {text}"[:900])
        code = answer.get("error", {}).get("code", "")
        if code and code not in REFUSED[tool]:
            self.found.append(f"{tool} {arguments}: {answer['error']}"[:600])
        return answer

    def run(self) -> list[str]:
        """Make calls on all tables."""
        self.tools.describe()
        self.tools.schemas("openai")
        for table in self.tools.tables:
            rows = self.call("db_read", table=table.name)
            if "rows" not in rows:
                continue
            self.reads(table, rows["rows"])
            self.writes(table, rows["rows"])
        return self.found

    def reads(self, table: Any, rows: list[dict[str, Any]]) -> None:
        """Read by each column, with all related rows, and by SQL."""
        own = table.own or table.row_ref
        self.call("db_read", table=table.name, columns=[*table.columns, *table.includable])
        self.call("db_read", table=table.name, columns=["count(*)"])
        if self.postgres:
            self.call("db_query", sql=f"SELECT * FROM {table.name}")
        for name in table.columns:
            self.call("db_read", table=table.name, order_by=name, columns=[name])
            for row in rows[:1]:
                value = row.get(name)
                if value is None:
                    continue
                given = [{"field": name, "op": "=", "value": value}]
                answer = self.call("db_read", table=table.name, filters=given)
                if own and row.get(own) not in [e.get(own) for e in answer.get("rows", [row])]:
                    self.found.append(f"{table.name}.{name} = {value!r} finds no row of its own")
        for name, target in table.targets.items():
            given = [{"field": f"{name}.{target.ref_field}", "op": "is_not_null"}]
            self.call("db_read", table=table.name, filters=given)

    def writes(self, table: Any, rows: list[dict[str, Any]]) -> None:
        """Create a row like one that is there, change each column of it, and delete a row."""
        own = table.own or table.row_ref
        for number, row in enumerate(rows[:2]):
            data = {name: row.get(name) for name, each in table.columns.items() if each.creatable}
            data = {name: value for name, value in data.items() if value is not None}
            if "place" in data:
                data["place"] = 77 + number
            if "create" in table.verbs:
                self.call("db_create", table=table.name, data=data)
            if own is None or row.get(own) is None:
                continue
            this = [{"field": own, "op": "=", "value": row[own]}]
            for name, column in table.columns.items():
                if column.updatable and "update" in table.verbs:
                    changed = {name: row.get(name)}
                    self.call("db_update", table=table.name, filters=this, data=changed)
            if "delete" in table.verbs and number:
                self.call("db_delete", table=table.name, filters=this)


def faults(engine: Engine, mapping: Mapping) -> list[str]:
    """Return what came of tool calls that must not: exceptions, keys, errors without a reason."""
    world = World(engine, mapping)
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        try:
            stack.enter_context(world.filled())
        except Exception:  # noqa: BLE001  # SQLAlchemy itself cannot do it
            return []
        return Model(world).run()
