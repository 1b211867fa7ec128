"""Rows of two owners and of all, and for each owner views on what that one may see."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Limits, Toolset
from tests.tools.sql.models import (
    Base,
    Category,
    Line,
    Order,
    Product,
    Status,
    User,
    Vault,
    ownership,
)

ANN, BOB = 1, 2
NOON = dt.datetime(2026, 3, 1, 12)  # noqa: DTZ001  # a column without time zone
MODELS = [Category, Product, Order, Line]
SECRET = "sesame"  # noqa: S105  # in columns and rows that no model may see

VIEWS = """
create schema seen_{owner};
create view seen_{owner}.categories as select id, name, parent_id from public.categories;
create view seen_{owner}.products as
    select id, category_id, replaces_id, name, code, price, weight, stock, active, status, made_on,
        seen_at, lasts, tags, goes_with, info, device
    from public.products where owner_id = {owner} or owner_id is null;
create view seen_{owner}.orders as
    select id, placed_on, note from public.orders where owner_id = {owner};
create view seen_{owner}.lines as
    select l.order_id, l.place, l.product_id, l.quantity, l.price from public.lines l
    join public.orders o on o.id = l.order_id where o.owner_id = {owner};
"""


class World:
    """A shop, and whoever asks it.

    Args:
        engine: on a database of its own.
        seed: of what is in the rows.
    """

    def __init__(self, engine: Engine, seed: int = 1) -> None:
        self.engine = engine
        self.registry = RefRegistry(engine)
        self.sessions = sessionmaker(engine, class_=RefSession, registry=self.registry)
        self.ownership = ownership()
        limits = Limits(rows=10**5, related=10**7, characters=10**9, text=10**7)
        self.toolset = self.tools(limits=limits, labels="none")
        Base.metadata.create_all(engine)
        self.registry.create_tables()
        with Session(engine) as session, session.begin():
            _fill(session, random.Random(seed))  # noqa: S311  # repeatable
        with engine.begin() as connection:
            for owner in (ANN, BOB):
                connection.execute(text(VIEWS.format(owner=owner)))
        self.keys = self._minted()

    def session(self, owner: int = ANN) -> RefSession:
        """Return a session on behalf of somebody, in a conversation of theirs."""
        return self.sessions(conversation=f"chat-{owner}", owner=self.ownership.of(owner))

    def tools(self, **options: Any) -> Toolset:
        """Return a toolset with SQL of all that a model may use."""
        given = {"owner": self.ownership, "hidden": [Product.secret], "sql": True, **options}
        return Toolset(MODELS, **given)

    def ask(self, sql: str, owner: int = ANN, tools: Toolset | None = None) -> dict[str, Any]:
        """Return what a model is told of a statement, without limits if no toolset is given."""
        with self.session(owner) as session:
            return (tools or self.toolset).call(session, "db_query", {"sql": sql})

    @contextmanager
    def sent(self) -> Iterator[list[str]]:
        """Collect the statements that are sent."""
        statements: list[str] = []

        def note(*arguments: Any) -> None:
            statements.append(str(arguments[2]))

        event.listen(self.engine, "before_cursor_execute", note)
        yield statements
        event.remove(self.engine, "before_cursor_execute", note)

    def _minted(self) -> Mapping[int, dict[str, Any]]:
        """Give all rows that somebody sees their refs, and return keys by ref, by owner."""
        found: dict[int, dict[str, Any]] = {}
        for owner in (ANN, BOB):
            with self.session(owner) as session:
                chat = session.conversation
                assert chat is not None
                found[owner] = {}
                for entity, table in (
                    ("product", "products"),
                    ("category", "categories"),
                    ("order", "orders"),
                ):
                    with self.engine.connect() as connection:
                        query = f"select id from seen_{owner}.{table} order by id"
                        keys = connection.execute(text(query)).scalars().all()
                    refs = chat.refer_all(entity, keys)
                    found[owner] |= dict(zip(refs, keys, strict=True))
        return found


def _fill(session: Session, dice: random.Random) -> None:
    session.add_all(User(id=owner) for owner in (ANN, BOB))
    session.add_all(Category(id=n, name=f"Kind {n}", parent_id=None) for n in range(1, 4))
    session.flush()
    session.add_all(
        Category(id=n, name=f"kind {n}%", parent_id=dice.choice([1, 2, 3])) for n in range(4, 8)
    )
    session.add(Vault(id=1, text=SECRET))
    session.flush()
    products: list[Product] = []
    for n in range(36):
        owner = (ANN, BOB, None)[n % 3]
        products.append(_product(n, owner, products, dice))
        session.add(products[-1])
        session.flush()
    session.add(Order(id=99, owner_id=BOB, placed_on=dt.date(2026, 1, 1), note=SECRET))
    session.flush()
    session.add(Line(order_id=99, place=1, quantity=99))
    for n in range(1, 25):
        owner = (ANN, BOB)[n % 2]
        day = dt.date(2026, 1, 1) + dt.timedelta(days=dice.randrange(330))
        note = dice.choice([None, "", "gift", "late", "50% off"])
        session.add(Order(id=100 + n, owner_id=owner, placed_on=day, note=note))
        own = [each for each in products if each.owner_id in (owner, None)]
        session.flush()
        for place in range(1, dice.randrange(2, 5)):
            chosen = dice.choice([*own, None])
            session.add(
                Line(
                    order_id=100 + n,
                    place=place,
                    product_id=None if chosen is None else chosen.id,
                    quantity=dice.randrange(6),
                    price=dice.choice([None, Decimal(dice.randrange(1, 5_000)) / 100]),
                )
            )


def _product(n: int, owner: int | None, products: list[Product], dice: random.Random) -> Product:
    maybe = dice.random
    own = [each for each in products if each.owner_id in (owner, None)]
    return Product(
        id=uuid.UUID(int=dice.getrandbits(128), version=4),
        owner_id=owner,
        category_id=dice.choice([None, 1, 2, 3, 4, 5, 6, 7]),
        replaces_id=dice.choice(own).id if own and maybe() < 0.5 else None,
        name=dice.choice(["Tea", "tea", "Rice", "Salt", "Öl", "Soap", "product_1", "x'y"])
        + f" {n}",
        code=dice.choice([None, "", f"C{n % 7}"]),
        price=None if maybe() < 0.1 else Decimal(dice.randrange(0, 10_000)) / 100,
        weight=dice.choice([None, 0.0, 0.5, 1.25, 2.5]),
        stock=77 if n == 1 else dice.randrange(-2, 30),  # of bob's alone
        active=dice.choice([None, True, False]),
        status=dice.choice(list(Status)),
        made_on=None if maybe() < 0.2 else dt.date(2026, 1, 1) + dt.timedelta(dice.randrange(300)),
        seen_at=None if maybe() < 0.2 else NOON + dt.timedelta(hours=dice.randrange(5_000)),
        lasts=dice.choice([None, dt.timedelta(days=3), dt.timedelta(hours=30)]),
        tags=dice.sample(["new", "hot", "eco", "bulk"], dice.randrange(0, 4)),
        goes_with=[each.id for each in dice.sample(own, min(len(own), dice.randrange(3)))],
        info=dice.choice(
            [None, {"a": n % 4, "b": {"c": f"v{n % 3}"}, "list": [1, 2]}, {"a": "x"}]
        ),
        device=uuid.UUID(int=n) if maybe() < 0.3 else None,
        secret=f"{SECRET} {n}",
    )
