"""A small kitchen for a model, and the inspector of its conversations.

`python -m app` creates the tables. `uvicorn app:app` and `uvicorn app:inspector` serve:

| application | address | is |
| --- | --- | --- |
| `app` | `POST /call` | a call of a tool: JSON with `conversation`, `tool` and `arguments` |
| `app` | `GET /health` | 204 if both pools of PgBouncer answer |
| `inspector` | `/` | the inspector, for any name and the password `INSPECTOR_PASSWORD` |

`DATABASE_URL` is PgBouncer's entry for the application; the registry uses the entry `shop_refs`.
"""

from __future__ import annotations

import base64
import os
import secrets
import uuid
from typing import Any

from sqlalchemy import ForeignKey, create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, sessionmaker
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from alfred_refs import RefRegistry, RefSession
from alfred_refs.inspector import Operator, inspector_of
from alfred_refs.tools import Journal, Toolset


class Base(DeclarativeBase):
    """Declarative base of the kitchen."""


class Recipe(Base):
    """A recipe."""

    __tablename__ = "recipes"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    ingredients: Mapped[list[Ingredient]] = relationship(cascade="all, delete-orphan")


class Ingredient(Base):
    """An ingredient of a recipe."""

    __tablename__ = "ingredients"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    recipe_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("recipes.id"))
    name: Mapped[str]


# behind a pooler in transaction mode, statements are not prepared
options: dict[str, Any] = {"connect_args": {"prepare_threshold": None}}
engine = create_engine(os.environ["DATABASE_URL"], **options)
refs_engine = create_engine(engine.url.set(database="shop_refs"), **options)
registry = RefRegistry(refs_engine)
toolset = Toolset([Recipe, Ingredient], consent={Recipe: ["delete"]}, expect="optional")
desk = toolset.bind(sessionmaker(engine, class_=RefSession), registry=registry, journal=Journal())


async def call(request: Request) -> Response:
    """Call a tool, as an agent does for its model."""
    asked = await request.json()
    answer = await run_in_threadpool(
        desk.call, asked["conversation"], None, asked["tool"], asked["arguments"]
    )
    return JSONResponse(answer.value)


def health(_: Request) -> Response:
    """Send a statement through each of the two pools."""
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    registry.count_conversations()
    return Response(status_code=204)


def operator_of(request: Request) -> Operator | Response:
    """Return who looks, by HTTP's basic authentication."""
    sent = request.headers.get("authorization", "").removeprefix("Basic ")
    try:
        name, _, password = base64.b64decode(sent).decode().partition(":")
    except ValueError:
        name, password = "", ""
    expected = os.environ["INSPECTOR_PASSWORD"]
    if name and secrets.compare_digest(password.encode(), expected.encode()):
        return Operator(name, owner=None)
    return Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="inspector"'})


app = Starlette(
    routes=[Route("/call", call, methods=["POST"]), Route("/health", health, methods=["GET"])]
)
inspector = inspector_of(desk, authenticate=operator_of)

if __name__ == "__main__":
    Base.metadata.create_all(engine)
    registry.create_tables()
