"""Flask-SQLAlchemy: bind keys choose the engine, and each request has its conversation."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy.session import Session as FlaskSession
from sqlalchemy import Engine, Uuid, select, text
from sqlalchemy.orm import Mapped, mapped_column

from alfred_refs import RefRegistry, RefSession
from tests.fix_postgres import connected, database_like

KEY = text("gen_random_uuid()")


class RefFlaskSession(RefSession, FlaskSession):
    """Flask-SQLAlchemy's session, with refs."""


def test_bind_keys_choose_the_engine(tables: Engine, administration: Engine) -> None:
    """A class with a bind key has its rows in that database, and both classes show refs."""
    options = {"class_": RefFlaskSession, "registry": RefRegistry(tables)}
    db: Any = SQLAlchemy(session_options=options)
    model: Any = db.Model

    class Shelf(model):  # type: ignore[misc]
        """A row in the first database."""

        id: Mapped[Any] = mapped_column(Uuid, primary_key=True, server_default=KEY)

    class Jar(model):  # type: ignore[misc]
        """A row in the second database."""

        __bind_key__ = "other"
        id: Mapped[Any] = mapped_column(Uuid, primary_key=True, server_default=KEY)

    app = Flask(__name__)
    with database_like(administration) as other:
        app.config["SQLALCHEMY_DATABASE_URI"] = tables.url
        app.config["SQLALCHEMY_BINDS"] = {"other": other}
        db.init_app(app)
        with app.app_context():
            db.create_all()
            db.session(conversation="chat-7")
            db.session.add_all([Shelf(), Jar()])
            db.session.commit()
            assert found_by(db, Shelf, Jar) == ["chat-7", "shelf_1", "jar_1"]
        with app.app_context():
            db.session(conversation="chat-8")
            assert found_by(db, Jar, Shelf) == ["chat-8", "jar_1", "shelf_1"]
            db.session.remove()
            for engine in db.engines.values():
                engine.dispose()
        with connected(other) as connection:
            assert connection.scalar(text("select count(*) from jar")) == 1


def found_by(db: Any, *classes: Any) -> list[str]:
    """Return the session's conversation, and the refs of the one row of each class."""
    refs = [db.session.scalars(select(each.id)).one() for each in classes]
    found = [db.session.get(each, ref).id for each, ref in zip(classes, refs, strict=True)]
    return [db.session().conversation.id, *found]
