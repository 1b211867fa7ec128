"""The README's picture: what a model sees beside what the database holds, in a run of its own.

    .venv/bin/python -m tests.postgres .venv/bin/python -m examples.picture docs/picture.svg

The keys are always the same, so that the file changes only with what is shown.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.sax.saxutils import escape

from sqlalchemy import Engine, ForeignKey, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset

LINE = 19
LEFT, RIGHT, WIDTH = 20, 730, 1030

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
     aria-label="On the left rows with UUIDs, on the right the same rows with refs">
<style>
  text {{ font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f;
         white-space: pre }}
  .title {{ font: 600 13px system-ui, sans-serif }}
  .key {{ fill: #b35900 }}
  .ref {{ fill: #0a7f42; font-weight: 600 }}
  rect {{ fill: #f6f8fa; stroke: #d0d7de }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #e6edf3 }} .key {{ fill: #f0883e }} .ref {{ fill: #3fb950 }}
    rect {{ fill: #161b22; stroke: #30363d }}
  }}
</style>
"""


class Base(DeclarativeBase):
    """Declarative base of the picture."""


class Recipe(Base):
    """What is cooked."""

    __tablename__ = "recipes"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]


class MealPlan(Base):
    """What is cooked when."""

    __tablename__ = "meal_plans"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    recipe_id: Mapped[UUID] = mapped_column(ForeignKey("recipes.id"))
    day: Mapped[dt.date]


def picture(engine: Engine) -> str:
    """Return the picture as SVG, of tables that are made in the engine's database."""
    Base.metadata.create_all(engine)
    rows = _saved(engine)
    stored = [_line(each) for each in rows]
    return _drawn(stored, _seen(engine, rows[1].id), str(rows[1].id))


def _saved(engine: Engine) -> tuple[Recipe, Recipe, MealPlan]:
    """Save the rows of the picture, and return them."""
    with Session(engine, expire_on_commit=False) as session:
        curry = Recipe(id=UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2"), name="Butter Chicken")
        soup = Recipe(id=UUID("c69607bb-21d4-4c0e-9f57-3b1f0ad9e1a7"), name="Tomato Soup")
        plan = UUID("5f0c2a68-7d1b-4e53-8a49-e6c1b7d20f94")
        planned = MealPlan(id=plan, recipe_id=soup.id, day=dt.date(2026, 5, 1))
        session.add_all([curry, soup])
        session.flush()
        session.add(planned)
        session.commit()
    return curry, soup, planned


def _seen(engine: Engine, key: UUID) -> list[list[object]]:
    """Return the rows as a model's calls show them, once it is sure which key was sent."""
    registry = RefRegistry(engine)
    registry.create_tables()
    toolset, sent = Toolset([Recipe, MealPlan], labels="none"), list[object]()

    def note(_: object, __: object, ___: str, parameters: Any, *____: object) -> None:
        sent.extend(dict(parameters).values())

    with sessionmaker(engine, class_=RefSession)(conversation=registry.conversation("c")) as refs:
        rows = toolset.call(refs, "db_read", {"table": "recipes", "order_by": "name"})["rows"]
        asked = {"field": "recipe_id", "op": "=", "value": "recipe_2"}
        event.listen(engine, "before_cursor_execute", note)
        rows += toolset.call(refs, "db_read", {"table": "meal_plans", "filters": [asked]})["rows"]
        event.remove(engine, "before_cursor_execute", note)
    if str(key) not in map(str, sent):
        raise RuntimeError("PostgreSQL was sent another key than the picture has")
    return [list(row.values()) for row in rows]


def _line(row: Base) -> list[object]:
    return [getattr(row, name) for name, _ in row.__mapper__.columns.items()]


def _drawn(stored: Sequence[Sequence[object]], seen: Sequence[Sequence[object]], key: str) -> str:
    """Return SVG of rows as they are stored, as they are seen, and of a filter in both."""
    left = ["recipes", *map(_keys, stored[:2]), "", "meal_plans", _keys(stored[2])]
    right = ["recipes", *map(_refs, seen[:2]), "", "meal_plans", _refs(seen[2])]
    left += ["", "where recipe_id =", f'  <tspan class="key">{key}</tspan>']
    right += ["", "recipe_id =", '  <tspan class="ref">recipe_2</tspan>']
    height = 70 + LINE * len(left)
    parts = [
        HEAD.format(width=WIDTH, height=height),
        *_panel(LEFT, RIGHT - 30, height, "what the database holds, and is asked", left),
        *_panel(RIGHT, WIDTH - 20, height, "what the model sees, and asks", right),
        "</svg>\n",
    ]
    return "".join(parts)


def _keys(row: Sequence[object]) -> str:
    return _row(row, "key", lambda value: isinstance(value, UUID))


def _refs(row: Sequence[object]) -> str:
    return _row(row, "ref", lambda value: "_" in str(value))


def _row(row: Sequence[object], style: str, is_key: Callable[[object], bool]) -> str:
    cells = [
        f'<tspan class="{style}">{value}</tspan>' if is_key(value) else escape(str(value))
        for value in row
    ]
    return "  " + "  ".join(cells)


def _panel(left: int, right: int, height: int, title: str, lines: Iterable[str]) -> list[str]:
    frame = f'<rect x="{left}" y="34" width="{right - left}" height="{height - 44}" rx="6"/>\n'
    head = f'<text class="title" x="{left}" y="22">{title}</text>\n'
    texts = [
        f'<text x="{left + 14}" y="{60 + LINE * number}">{line}</text>\n'
        for number, line in enumerate(lines)
        if line
    ]
    return [frame, head, *texts]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(create_engine(os.environ["DATABASE_URL"])), "utf-8")
