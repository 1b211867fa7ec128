"""One call of a tool: what all verbs need of the toolset, the session and its conversation."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, inspect
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import sqla
from alfred_refs.conversation.entries import Draft
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import SetupError
from alfred_refs.mapping.keys import Key, spells_uuid
from alfred_refs.mapping.refs import draft_named
from alfred_refs.session.session import RefSession
from alfred_refs.tools.answers.label_lookup import Foreign, Mode, bounded, foreign_of, put_labels
from alfred_refs.tools.answers.relatives import Relatives
from alfred_refs.tools.answers.results import (
    Limits,
    Rendering,
    Room,
    Shape,
    without_depth,
    without_refs,
)
from alfred_refs.tools.query.filters import Keys
from alfred_refs.tools.tables.hooks import Hooks, Row
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.texts import shallow

_MOST_KEYS = 1_000  # that a hook may give: each is a part of the statement

Expecting = Literal["optional", "required"]
"""Whether a write must say what the rows are that it names by refs."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all calls of one toolset share.

    Attributes:
        tables: what a model may use.
        hooks: what the application adds, by class.
        labels: where the labels of refs go.
        deduplicate: by class, what tells new rows of one call apart.
        limits: how much an answer shows.
        max_written: how many rows one call may change.
        drafts: whether a model may draft rows, or use drafts.
        expect: whether a write must say what the rows are that it names.
    """

    tables: ToolTables
    hooks: Mapping[type[Any], Sequence[Hooks]]
    labels: Mode
    deduplicate: Mapping[type[Any], Sequence[str]]
    limits: Limits
    max_written: int
    drafts: bool
    expect: Expecting

    def check(self) -> None:
        """Check that what is given goes together.

        Raises:
            SetupError: something is said of a class that no model may use, or cannot be used.
        """
        models = {table.model for table in self.tables}
        for said, classes in (("hooks", self.hooks), ("deduplicate", self.deduplicate)):
            for other in classes.keys() - models:
                raise SetupError(
                    f"{said} lists {other!r}, which is not among the models", "add it to models"
                )
        if self.expect not in get_args(Expecting):
            raise SetupError(f"expect is {self.expect!r}", "choose one of 'optional', 'required'")
        self._check_hooks()
        for model, names in self.deduplicate.items():
            for name in names:
                if name not in inspect(model).mapper.column_attrs:
                    raise SetupError(
                        f"deduplicate lists {name!r}, no column of {model.__qualname__!r}",
                        "name the attributes that new rows are told apart by",
                    )
        if self.labels not in ("inline", "legend", "none"):
            raise SetupError(
                f"labels is {self.labels!r}", "choose one of 'inline', 'legend', 'none'"
            )

    def _check_hooks(self) -> None:
        for model, hooks in self.hooks.items():
            given: Any = hooks  # whatever it is declared to be
            if not isinstance(given, Sequence) or not all(isinstance(h, Hooks) for h in given):
                raise SetupError(
                    f"the hooks of {model.__qualname__!r} are no list of Hooks",
                    "give instances of classes that inherit from Hooks, in a list",
                )

    def hooks_of(self, table: ToolTable) -> Sequence[Hooks]:
        """Return what the application adds to a table, in order."""
        return self.hooks.get(table.model, ())

    def without_sql(self) -> frozenset[str]:
        """Return the names of tables whose hooks have a say in reads, and so in SQL."""
        return frozenset(
            table.name
            for table in self.tables
            if not all(each.allows_sql() for each in self.hooks_of(table))
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    Attributes:
        setting: what all calls of the toolset share.
        session: that does it.
        conversation: in which its refs are valid, as the session sees it.
    """

    setting: Setting
    session: RefSession
    conversation: SessionConversation

    def resolved(self, wanted: Iterable[tuple[str, str]]) -> Keys:
        """Return the keys of refs that are needed for entities: at most one round trip."""
        distinct = list(dict.fromkeys(wanted))
        if not distinct:
            return {}
        for text, entity in distinct if not self.setting.drafts else ():
            if draft_named(text):  # of a draft that was saved, or of the application's
                raise self.conversation.unknown_ref(text, entity)
        keys = self.conversation.resolve_wanted(distinct)
        return dict(zip(distinct, keys, strict=True))

    def drafts_named(self, texts: Iterable[str], entity: str) -> dict[str, Draft]:
        """Return the pending drafts among texts of a model's, by ref: at most one round trip.

        Only texts in the form of a draft's ref are looked up. One that is saved is left out: its
        ref names a row.

        Raises:
            BadRefError: one is not known, discarded, or of another entity.
        """
        given = dict.fromkeys(texts) if self.setting.drafts else ()
        refs = [text for text in given if draft_named(text)]
        found = self.conversation.read_drafts(refs, entity) if refs else []
        return {draft.ref: draft for draft in found if draft.state == "pending"}

    def refs_of(self, instances: Sequence[Any], table: ToolTable) -> list[str]:
        """Return the refs of saved rows, minting those that are new: at most one round trip."""
        if table.own is not None:
            return [getattr(instance, table.own) for instance in instances]
        return self.conversation.refer_all(table.entity, [_key_of(i, table) for i in instances])

    def keys_given(self, given: Iterable[Any], table: ToolTable) -> list[Any]:
        """Return what a hook gave, each once, as a statement of the session takes it.

        Refs and keys do as they are: a row that is not shown needs no ref. But keys that are text
        would be taken for refs, so they get theirs; the text of a UUID is one.

        Raises:
            SetupError: rows of the table have keys of several columns.
        """
        if table.own is None:
            raise SetupError(
                f"a hook gave keys of table {table.name!r}, whose rows have several key columns",
                "let the hook set conditions",
            )
        given, column = [*given][:_MOST_KEYS], table.keys.identity[0]
        if column is not None and column.key_type == "uuid":
            given = [
                uuid.UUID(each) if isinstance(each, str) and spells_uuid(each) else each
                for each in given
            ]
        distinct = list(dict.fromkeys(given))
        if column is None or not column.holds(""):
            return distinct
        keys = [each for each in distinct if not isinstance(each, str)]
        refs = dict(zip(keys, self.conversation.refer_all(table.model, keys), strict=True))
        return [refs.get(each, each) for each in distinct]

    def writable(self, table: ToolTable) -> list[ColumnElement[bool]]:
        """Return which rows of a table may be changed: nothing of it if all that are seen may."""
        owner = self.session.owner
        return [] if owner is None else [owner.writable(table.model)]

    def read_again(self, instances: Sequence[Any], shape: Shape) -> list[Any]:
        """Return the rows of instances as the database has them now: one statement."""
        if not instances:
            return []
        model = shape.table.model
        mapper = inspect(model).mapper
        keys = [mapper.primary_key_from_instance(instance) for instance in instances]
        columns = [getattr(model, name) for name in shape.table.identity]
        statement = (
            shape.statement()
            .where(sqla.among(columns, keys))
            # the keys are keys, though some may be text
            .execution_options(raw_keys=True)
        )
        found = {sqla.state_of(each).key: each for each in self.session.scalars(statement)}
        states = [sqla.state_of(instance) for instance in instances]
        return [found[state.key] for state in states if state.key in found]

    def rendering(
        self, instances: Sequence[Any], shape: Shape, options: Iterable[ExecutableOption] = ()
    ) -> Rendering:
        """Return what makes rows of instances: at most one round trip for all their refs.

        What is shown inside of them is loaded: one statement for each relationship of a level.
        """
        limits = self.setting.limits
        relatives = Relatives(self.session, limits, options)
        relatives.load(instances, shape)
        related = without_refs(instances, shape, relatives.of)
        found = list(islice(related, 10 * limits.related))
        pairs = [(table.entity, _key_of(instance, table)) for table, instance in found]
        refs = self.conversation.refer_pairs(pairs)
        known = {id(each): ref for (_, each), ref in zip(found, refs, strict=True)}

        def ref_of(instance: Any, of: ToolTable) -> str:
            known_ref = known.get(id(instance))
            return self.refs_of([instance], of)[0] if known_ref is None else known_ref

        return Rendering(limits, ref_of, relatives.of)

    def room(self) -> Room:
        """Return the room that there is for the rows of an answer."""
        return Room(self.setting.limits.characters)

    def shown_again(
        self, instances: Sequence[Any], shape: Shape, room: Room
    ) -> tuple[list[Row], Rendering]:
        """Return the rows of instances as the database has them now, as far as there is room."""
        saved = self.read_again(instances, shape)
        rendering = self.rendering(saved, shape)
        return rendering.rows(saved, shape, room), rendering

    def finished(
        self,
        answer: dict[str, Any],
        notes: Sequence[str],
        rendering: Rendering | None = None,
        foreign: Sequence[Foreign] = (),
    ) -> dict[str, Any]:
        """Return an answer with labels, notes, and what was left out of its rows."""
        mode, tables = self.setting.labels, self.setting.tables
        shown = [] if rendering is None else rendering.shown
        few = bounded([*foreign_of(shown, tables), *foreign], self.setting.limits.related)
        legend = put_labels(self.session, list(few), mode)
        if mode == "legend":
            answer["labels"] = legend
        if notes:
            answer["notes"], _ = shallow(list(notes))
        if rendering is not None and rendering.cut:
            answer["cut"] = rendering.cut
        return answer

    def shorten(self, rows: Iterable[Row], shape: Shape, cut: list[str]) -> None:
        """Leave out what hooks have put too deep into rows, and add to `cut` where that was."""
        if self.setting.hooks_of(shape.table):
            for row in rows:
                _shorten(row, shape, str(row.get(shape.table.ref_field)), cut)


def _shorten(row: Row, shape: Shape, path: str, cut: list[str]) -> None:
    for name, value in row.items():
        within, child = f"{path}.{name}", shape.children.get(name)
        inside = value if isinstance(value, list) else [value]
        if child is not None and all(isinstance(each, dict) for each in inside):
            for each in inside:
                _shorten(each, child, within, cut)
        else:
            row[name] = without_depth(value, within, cut)


def _key_of(instance: Any, table: ToolTable) -> Key:
    """Return the key of a saved row: a tuple, because its table has several key columns."""
    return table.keys.key_of(inspect(table.model).mapper.primary_key_from_instance(instance))
