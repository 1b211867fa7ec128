"""Tables of which a model may write some: read-only and unlisted classes, hidden columns."""

from __future__ import annotations

from typing import Annotated, Any

from sqlalchemy import Column, ForeignKey, MetaData, Sequence, Table, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """Declarative base of these tables, whose names are no others'."""

    metadata = MetaData()


KEYS = Sequence("f_keys", metadata=Base.metadata)
"""Keys are made of it, in order: by chance, no round could be repeated."""

Key = Annotated[
    Any,
    mapped_column(
        Uuid, primary_key=True, server_default=text("md5(nextval('f_keys')::text)::uuid")
    ),
]


labels_of_plans = Table(
    "f_labels_of_plans",
    Base.metadata,
    Column("plan_id", Uuid, ForeignKey("f_plans.id"), primary_key=True),
    Column("label_id", Uuid, ForeignKey("f_labels.id"), primary_key=True),
)


def _of(table: str, *, null: bool = True, ondelete: str | None = None) -> Any:
    return mapped_column(Uuid, ForeignKey(f"{table}.id", ondelete=ondelete), nullable=null)


Position = Annotated[int, mapped_column(server_default=text("nextval('f_keys')"))]
"""No two are the same, and the last is behind the others."""


class Texted:
    """What all rows have that are of others, of which there is a list."""

    id: Mapped[Key]
    position: Mapped[Position]
    text: Mapped[str | None]


class Plan(Base):
    """May be written. Of its rows others are in every way that there is."""

    __tablename__ = "f_plans"
    __ref_label__ = "name"

    id: Mapped[Key]
    position: Mapped[Position]
    name: Mapped[str]
    budget: Mapped[int | None]  # hidden
    account_id: Mapped[Any] = _of("f_accounts")
    parent_id: Mapped[Any] = _of("f_plans")

    account: Mapped[Account | None] = relationship(back_populates="plans")
    tasks: Mapped[list[Task]] = relationship(
        cascade="all, delete-orphan", order_by="Task.position"
    )
    loose: Mapped[list[Loose]] = relationship(order_by="Loose.position")
    strict: Mapped[list[Strict]] = relationship(order_by="Strict.position")
    marks: Mapped[list[Mark]] = relationship(order_by="Mark.position")
    stamps: Mapped[list[Stamp]] = relationship(cascade="all", order_by="Stamp.position")
    gone: Mapped[list[GoneWith]] = relationship(passive_deletes=True, order_by="GoneWith.position")
    tickets: Mapped[list[Ticket]] = relationship(order_by="Ticket.position")
    audits: Mapped[list[Audit]] = relationship(order_by="Audit.position")
    traces: Mapped[list[Trace]] = relationship(passive_deletes=True, order_by="Trace.position")
    memos: Mapped[list[Memo]] = relationship(cascade="all", order_by="Memo.position")
    slips: Mapped[list[Slip]] = relationship(order_by="Slip.position")
    labels: Mapped[list[Label]] = relationship(secondary=labels_of_plans)


class Account(Base):
    """May be written; of its subclasses one may not be used at all, and one only read."""

    __tablename__ = "f_accounts"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "account"}  # noqa: RUF012

    id: Mapped[Key]
    kind: Mapped[str]
    name: Mapped[str | None]
    level: Mapped[int | None]  # hidden

    plans: Mapped[list[Plan]] = relationship(back_populates="account", order_by="Plan.position")


class Admin(Account):
    """Is not listed: its rows are accounts, and none is made."""

    __mapper_args__ = {"polymorphic_identity": "admin"}  # noqa: RUF012


class Auditor(Account):
    """May only be read."""

    __mapper_args__ = {"polymorphic_identity": "auditor"}  # noqa: RUF012


class Task(Texted, Base):
    """Goes with its plan, and may be written."""

    __tablename__ = "f_tasks"

    plan_id: Mapped[Any] = _of("f_plans", null=False)


class Loose(Texted, Base):
    """May be written; is left when its plan goes."""

    __tablename__ = "f_loose"

    plan_id: Mapped[Any] = _of("f_plans")


class Strict(Texted, Base):
    """May be written; no plan goes as long as it is there."""

    __tablename__ = "f_strict"

    plan_id: Mapped[Any] = _of("f_plans", null=False)


class Mark(Texted, Base):
    """May only be read; would be left when its plan goes."""

    __tablename__ = "f_marks"

    plan_id: Mapped[Any] = _of("f_plans")


class Stamp(Texted, Base):
    """May only be read; would go with its plan."""

    __tablename__ = "f_stamps"

    plan_id: Mapped[Any] = _of("f_plans", null=False)


class GoneWith(Texted, Base):
    """May only be read; the database would delete it with its plan."""

    __tablename__ = "f_gone_with"

    plan_id: Mapped[Any] = _of("f_plans", null=False, ondelete="CASCADE")


class Ticket(Texted, Base):
    """May be written, but not the plan that it is of, which is hidden."""

    __tablename__ = "f_tickets"

    plan_id: Mapped[Any] = _of("f_plans")  # hidden


class Audit(Texted, Base):
    """Is not listed; the database takes its plan away from it."""

    __tablename__ = "f_audits"

    plan_id: Mapped[Any] = _of("f_plans", ondelete="SET NULL")


class Trace(Texted, Base):
    """Is not listed; the database deletes it with its plan."""

    __tablename__ = "f_traces"

    plan_id: Mapped[Any] = _of("f_plans", ondelete="CASCADE")


class Memo(Texted, Base):
    """Is not listed; the mapping deletes it with its plan."""

    __tablename__ = "f_memos"

    plan_id: Mapped[Any] = _of("f_plans")


class Slip(Texted, Base):
    """Is not listed; nobody says what becomes of it when its plan goes, so that none does."""

    __tablename__ = "f_slips"

    plan_id: Mapped[Any] = _of("f_plans")


class Step(Texted, Base):
    """May be written; the database deletes it with its trace."""

    __tablename__ = "f_steps"

    trace_id: Mapped[Any] = _of("f_traces", ondelete="CASCADE")  # hidden


class Seal(Texted, Base):
    """May only be read; the database would take its trace away from it."""

    __tablename__ = "f_seals"

    trace_id: Mapped[Any] = _of("f_traces", ondelete="SET NULL")  # hidden


class Label(Texted, Base):
    """May only be read; a plan may have any of them."""

    __tablename__ = "f_labels"


LISTED: dict[str, type[Any]] = {
    "plans": Plan,
    "accounts": Account,
    "auditors": Auditor,
    "tasks": Task,
    "loose": Loose,
    "strict": Strict,
    "marks": Mark,
    "stamps": Stamp,
    "gone_with": GoneWith,
    "tickets": Ticket,
    "labels": Label,
    "steps": Step,
    "seals": Seal,
}
"""What a model may use, by the names that it uses."""

READ_ONLY: list[type[Any]] = [Auditor, Mark, Stamp, GoneWith, Label, Seal]
"""What of it may only be read."""

HIDDEN: list[Any] = [Plan.budget, Account.level, Ticket.plan_id, Step.trace_id, Seal.trace_id]
"""What of it is not seen."""
