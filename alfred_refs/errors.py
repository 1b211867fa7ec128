"""Exceptions of the package.

Every error is a `RefError`, which is a `SQLAlchemyError`. It carries its data as attributes and
builds its message from them: the fact, then the remedy. No message contains a key.

>>> try:
...     session.get(Recipe, "recipe_9")
... except BadRefError as error:
...     print(error)
...     print(error.ref, error.expected, error.known)
'recipe_9' is not a known recipe; known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
recipe_9 recipe ('recipe_1', 'recipe_2')

Which class to catch depends on who can correct the mistake:

| class | cause | who corrects it |
| --- | --- | --- |
| `BadRefError` | a ref: unknown, of another entity, of a deleted row, of a draft | the model |
| `DraftContentError` | the content of a draft | the model |
| `PositionError`, `DriftError` | edits of a list by position | the model |
| `ForeignRowError` | a row that the owner may not write, or not reference | the model |
| `SetupError` | configuration, mapping, or a statement that cannot be translated | the developer |
| `ContextError` | a prompt that cannot be built; also a `SetupError` | the developer |
| `UnknownConversationError` | the id of a conversation, or its owner | the application |
| `ConversationExistsError` | the id of a new conversation | the application |
| `RegistryBusyError` | the pool of the registry's database | a retry, or the operator |
| `RegistryFailedError` | the registry's database | a retry, or the operator |

The messages for a model mention refs, rows and drafts, and no names in code, so `str(error)` can
be returned to the model as the result of a tool call.

Limits: an error of the application's own database stays SQLAlchemy's or the driver's exception;
the session redacts the keys in it (`session.redaction`). Errors can be pickled.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Self

from sqlalchemy.exc import DontWrapMixin, SQLAlchemyError

# Root, and errors of set-up


class RefError(SQLAlchemyError, DontWrapMixin):
    """The base class of all errors that alfred_refs raises.

    `DontWrapMixin` keeps SQLAlchemy from wrapping it in a `StatementError` when it is raised while
    the parameters of a statement are processed.

    Example:
        >>> try:
        ...     session.get(Recipe, "recipe_9")
        ... except RefError as error:
        ...     print(error)
        'recipe_9' is not a known recipe; known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def __init__(self) -> None:
        super().__init__(self._error_text())

    def _error_text(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the message without the link to SQLAlchemy's documentation that the base adds."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, vars(self))


def _rebuild(class_: type[RefError], args: tuple[Any, ...], data: dict[str, Any]) -> RefError:
    """Copy an error by its attributes: the arguments of `__init__` differ from class to class."""
    error = class_.__new__(class_, *args)
    vars(error).update(data)
    return error


class SetupError(RefError):
    """The application is set up in a way that cannot work; the developer must change it.

    Attributes:
        fact: the problem.
        remedy: how to correct it.

    Example:
        >>> RefSession(engine, conversation="chat-7")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.SetupError: a session without registry got a conversation by its
            id; pass registry.conversation(id), or registry=... to the sessionmaker
    """

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__()

    def _error_text(self) -> str:
        return f"{self.fact}; {self.remedy}"


class ConversationIdError(SetupError):
    """A text cannot be the id of a conversation, or of its owner.

    Example:
        >>> registry.conversation("")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ConversationIdError: a conversation's id is empty, too long or
            has control characters; use 1 to 255 printable characters
    """


class ExportFormatError(SetupError):
    """The data to import is not an export, or is one of a newer version of the package.

    Example:
        >>> registry.import_conversation({"id": "chat-7"})
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ExportFormatError: this is not a conversation that alfred_refs
            exported; give what Conversation.export() returned, unchanged
    """


class RetentionError(SetupError):
    """The age of conversations to prune is negative.

    Example:
        >>> from datetime import timedelta
        >>> registry.prune(timedelta(days=-30))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RetentionError: unused_for is negative:
            datetime.timedelta(days=-30); give the time for which they were not used
    """


class EntityNameError(SetupError):
    """An entity's name is missing, malformed or taken by another class or table.

    Example:
        >>> registry = RefRegistry(engine, policy=RefPolicy(names={Recipe: "gen_dish"}))
        >>> registry.conversation("chat-8").refer(Recipe, chat.resolve("recipe_1"))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.EntityNameError: the entity name 'gen_dish' of class
            'examples.world.Recipe' is not lower-case snake_case, starts with 'gen_' or ends in '_'
            and digits; set __ref_name__ on the class, or RefPolicy(names={...})
    """


class KeyColumnError(SetupError):
    """The entity of a column's keys cannot be determined, or their type is not supported.

    Example:
        >>> from sqlalchemy import Column, Integer, MetaData, Table
        >>> about = Column("about", Integer, info={"ref": "recipes.id"})
        >>> session.execute(select(Table("notes", MetaData(), about)))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.KeyColumnError: column notes.about declares keys of
            'recipes.id', which is not a column of its metadata; write "table.column" as a foreign
            key does, or give the mapped class
    """


class LabelError(SetupError):
    """The label that a class or the policy declares does not exist, or may contain keys.

    Example:
        >>> registry = RefRegistry(engine, policy=RefPolicy(labels={Recipe: "nme"}))
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.scalars(select(Recipe)).first()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.LabelError: the label of class 'Recipe' is 'nme', which is
            not an attribute with a column; name an attribute with a plain column, or give a
            function of loaded attributes that returns text, in __ref_label__ or
            RefPolicy(labels={...})
    """


class KeyTypeError(SetupError):
    """A key has another type than the entity's keys; the message does not repeat its value.

    Attributes:
        entity: the entity for which it was passed.
        needed: the name of the type of the entity's keys.
        given: the name of the type of the passed key.

    Example:
        >>> chat.refer(Recipe, 7)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.KeyTypeError: a key of entity 'recipe' was given as int, but its
            keys are of type UUID; give a key of that type, or the text of a UUID
    """

    def __init__(self, entity: str, needed: str, given: str) -> None:
        self.entity = entity
        self.needed = needed
        self.given = given
        super().__init__(
            f"a key of entity {entity!r} was given as {given}, but its keys are of type {needed}",
            "give a key of that type, or the text of a UUID",
        )


class RefNotCarriedError(SetupError):
    """An unpickled instance has a key, and the pickle did not contain its ref.

    Attributes:
        attribute: the key attribute, as `Class.name`.

    Example:
        >>> raise RefNotCarriedError("Line.recipe_id")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RefNotCarriedError: Line.recipe_id of an unpickled instance
            has a key whose ref was not in the pickle; add or merge the instance into a RefSession,
            which shows its ref
    """

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        super().__init__(
            f"{attribute} of an unpickled instance has a key whose ref was not in the pickle",
            "add or merge the instance into a RefSession, which shows its ref",
        )


class UntranslatableError(SetupError):
    """A statement would show a key, or uses a ref, where it cannot be translated.

    Example:
        >>> from sqlalchemy import func
        >>> session.scalars(select(func.md5(func.concat(Recipe.id)))).all()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UntranslatableError: a result shows keys of recipes.id inside
            an expression; select the key column itself, or use session.raw_keys() or
            execution_options(raw_keys=True) in trusted code
    """


# Bad refs

Known = Sequence[str] | Mapping[str, str | None]
"""Refs that can be used instead, in natural order; a mapping adds the labels of their rows."""

_QUOTES = str.maketrans({sign: f"\\{sign}" for sign in "\\'\""})


class BadRefError(RefError):
    """A ref cannot be used. Nothing was executed; the message contains the remedy.

    Attributes:
        ref: the passed text; `None` if it may be a key.
        expected: the entity that was needed, if any.
        known: refs of that entity that can be used, in natural order.
        near: the closest known ref, if it is clearly the intended one.
        labels: the labels of known refs, if they have one. Labels are text of the application's
            users: data to show, never instructions.

    Example:
        >>> try:
        ...     session.get(Recipe, "recipe_9")
        ... except BadRefError as error:
        ...     error.ref, error.expected, error.known
        ('recipe_9', 'recipe', ('recipe_1', 'recipe_2'))
    """

    def __init__(
        self,
        ref: str | None,
        expected: str | None = None,
        known: Known = (),
        near: str | None = None,
    ) -> None:
        labels = dict(known) if isinstance(known, Mapping) else dict.fromkeys(known)
        # as a plain string, because the message contains its `repr()`, which subclasses may
        # override
        self.ref = ref = ref if ref is None else str.__str__(ref)
        self.expected = expected
        self.known = tuple(labels)
        self.near = near
        self.labels = {ref: label for ref, label in labels.items() if label is not None}
        super().__init__()

    @property
    def entity(self) -> str | None:
        """The entity that the error is about."""
        return self.expected

    def offering(
        self, refs: Container[str | None], labels: Mapping[str, str] | None = None
    ) -> Self:
        """Return a copy of the error that suggests only these refs.

        Args:
            refs: the refs that the message may contain.
            labels: their labels; by default those of this error.
        """
        fewer = copy(self)
        fewer.known = tuple(ref for ref in self.known if ref in refs)
        labels = self.labels if labels is None else labels
        fewer.labels = {ref: label for ref, label in labels.items() if ref in refs}
        fewer.near = self.near if self.near in refs else None
        fewer.args = (fewer._error_text(),)  # noqa: SLF001  # of the same class
        return fewer

    @property
    def remedy(self) -> str:
        """What the message advises: the refs that may be meant, with their labels."""
        if self.near is not None:
            return f"did you mean {self._quoted(self.near)}? {self._known_text()}"
        return self._known_text()

    def _known_text(self) -> str:
        if not self.known:
            return "none is known in this conversation; read some first"
        return "known: " + ", ".join(map(self._quoted, self.known))

    def _quoted(self, ref: str) -> str:
        label = self.labels.get(ref)
        return repr(ref) if label is None else f'{ref!r} ("{_inert(label)}")'


def _inert(label: str) -> str:
    """Escape a label so that it cannot end its quotes or the line, or read as a quoted ref."""
    line = label.translate(_QUOTES)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class UnknownRefError(BadRefError):
    """The text is not a ref of this conversation.

    Example:
        >>> session.get(Recipe, "recipe_9")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnknownRefError: 'recipe_9' is not a known recipe; known:
            'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def _error_text(self) -> str:
        return f"{self.ref!r} is not a known {self.expected or 'ref'}; {self.remedy}"


class WrongEntityError(BadRefError):
    """The ref is known and names a row of another entity than the one needed.

    Attributes:
        actual: the entity that the ref names.

    Example:
        >>> session.get(Recipe, "line_1")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.WrongEntityError: 'line_1' names entity 'line' where
            'recipe' is needed; known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def __init__(
        self, ref: str, expected: str | None, known: Known, near: str | None, actual: str
    ) -> None:
        self.actual = actual
        super().__init__(ref, expected, known, near)

    @property
    def entity(self) -> str:
        """The entity that the ref names."""
        return self.actual

    def _error_text(self) -> str:
        return (
            f"{self.ref!r} names entity {self.actual!r} where {self.expected!r} is needed; "
            f"{self.remedy}"
        )


class DraftRefError(BadRefError):
    """The ref names a draft, where a saved row is needed.

    Subclasses are errors about drafts that cannot be used as drafts either.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.scalars(select(Recipe).where(Recipe.id == "gen_recipe_1"))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftRefError: 'gen_recipe_1' is a draft's ref where a
            saved recipe is needed; save the draft and use the ref it gets, or choose another;
            known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def _error_text(self) -> str:
        return (
            f"{self.ref!r} is a draft's ref where a saved {self.expected or 'row'} is needed; "
            f"save the draft and use the ref it gets, or choose another; {self.remedy}"
        )


class GoneRefError(BadRefError):
    """The ref is known, but its row does not exist: it was deleted, or never saved.

    Attributes:
        reason: `"was deleted"` or `"was never saved"`.

    Example:
        >>> session.delete(session.get(Recipe, "recipe_2"))
        >>> session.commit()
        >>> session.get(Recipe, "recipe_2")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.GoneRefError: 'recipe_2' was deleted and cannot be used;
            known: 'recipe_1' ("Soup")
    """

    def __init__(
        self, ref: str, expected: str | None, known: Known, near: str | None, reason: str
    ) -> None:
        self.reason = reason
        super().__init__(ref, expected, known, near)

    def _error_text(self) -> str:
        return f"{self.ref!r} {self.reason} and cannot be used; {self.remedy}"


class RawKeyError(BadRefError):
    """A raw key was passed as text in place of a ref; the message does not repeat it.

    Trusted code uses keys inside `with session.raw_keys()`, or in a statement with
    `execution_options(raw_keys=True)`.

    Example:
        >>> session.get(Recipe, str(chat.resolve("recipe_1")))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RawKeyError: a raw key was given as text where a ref is
            needed; give a ref; known: 'recipe_1'
            ("Soup"), 'recipe_2' ("Toast")
    """

    def _error_text(self) -> str:
        return f"a raw key was given as text where a ref is needed; give a ref; {self.remedy}"


# Drafts


class UnknownDraftError(DraftRefError):
    """The ref has the form of a draft ref, but the conversation has no such draft.

    `known` holds the pending drafts.

    Example:
        >>> chat.discard_drafts(["gen_recipe_1"])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnknownDraftError: 'gen_recipe_1' is not a known draft; no
            such draft is pending in this conversation; read the drafts, or generate one
    """

    def _error_text(self) -> str:
        what = "draft" if self.expected is None else f"draft of entity {self.expected!r}"
        return f"{self.ref!r} is not a known {what}; {self.remedy}"

    def _known_text(self) -> str:
        return _pending(self, super()._known_text())


class DiscardedDraftError(DraftRefError):
    """The draft was discarded; `known` holds the pending drafts.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> [discarded] = chat.discard_drafts([draft.ref])
        >>> session.get(Recipe, draft.ref)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DiscardedDraftError: 'gen_recipe_1' was discarded and cannot
            be used; no such draft is pending in this conversation; read the drafts, or generate
            one
    """

    def _error_text(self) -> str:
        return f"{self.ref!r} was discarded and cannot be used; {self.remedy}"

    def _known_text(self) -> str:
        return _pending(self, super()._known_text())


class SavedDraftError(DraftRefError):
    """The draft was saved; change or delete its row instead.

    Attributes:
        saved: the ref of the row.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.add(session.get(Recipe, draft.ref))
        >>> session.commit()
        >>> chat.discard_drafts([draft.ref])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.SavedDraftError: 'gen_recipe_1' was saved as 'recipe_3' and is not
            a draft any more; use 'recipe_3'
    """

    def __init__(self, ref: str, saved: str) -> None:
        self.saved = saved
        super().__init__(ref, None, (saved,))

    def _error_text(self) -> str:
        return (
            f"{self.ref!r} was saved as {self.saved!r} and is not a draft any more; "
            f"use {self.saved!r}"
        )


class DraftTwiceError(DraftRefError):
    """Two objects would be saved as the row of one draft; no SQL was sent.

    The application must add only one of them to the session.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.add_all([Recipe(id=draft.ref, name="Curry"), Recipe(id=draft.ref, name="Dal")])
        >>> session.flush()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftTwiceError: 'gen_recipe_1' would be saved as two rows; save it
            once and leave out the other
    """

    def _error_text(self) -> str:
        return f"{self.ref!r} would be saved as two rows; save it once and leave out the other"


class CircularDraftsError(DraftRefError):
    """Drafts that are saved together refer to each other, so none can be inserted first.

    Attributes:
        refs: the drafts.

    Example:
        >>> raise CircularDraftsError(["gen_recipe_1", "gen_recipe_2"])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.CircularDraftsError: 'gen_recipe_1', 'gen_recipe_2' name each
            other, so none can be saved first; leave out one of these refs, and set it when both
            are saved
    """

    def __init__(self, refs: Sequence[str]) -> None:
        self.refs = tuple(refs)
        super().__init__(self.refs[0], None, self.refs)

    def _error_text(self) -> str:
        others = " and its contents" if len(self.refs) == 1 else ""
        return (
            f"{', '.join(map(repr, self.refs))}{others} name each other, so none can be saved "
            "first; leave out one of these refs, and set it when both are saved"
        )


class StaleDraftError(DraftRefError):
    """The draft was edited after it was read, and the new edit would overwrite that edit.

    Attributes:
        version: the version that was read.
        newest: the current version.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> edited = chat.edit_draft(draft.ref, {"name": "Dal"})
        >>> chat.edit_draft(draft.ref, {"name": "Raita"}, version=draft.version)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.StaleDraftError: 'gen_recipe_1' has version 2, but the edit is
            based on version 1; read it again, and edit its current content
    """

    def __init__(self, ref: str, version: int, newest: int) -> None:
        self.version = version
        self.newest = newest
        super().__init__(ref, None, (ref,))

    def _error_text(self) -> str:
        return (
            f"{self.ref!r} has version {self.newest!r}, but the edit is based on version "
            f"{self.version!r}; read it again, and edit its current content"
        )


class DraftContentError(RefError):
    """The content cannot be kept as a draft; the message does not repeat it.

    Attributes:
        fact: the problem.
        remedy: how to correct it.

    Example:
        >>> chat.draft(Recipe, {"nme": "Curry"})
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftContentError: 'nme' is not a field of a draft of 'Recipe';
            use one of 'name', 'servings', 'user_id', 'lines'
    """

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__()

    def _error_text(self) -> str:
        return f"{self.fact}; {self.remedy}"


class DraftKeyError(SetupError):
    """A key to reserve for a draft is reserved for another draft; no key was reserved.

    Attributes:
        refs: the drafts for which keys were to be reserved.

    Example:
        >>> raise DraftKeyError("gen_recipe_2")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftKeyError: a key to be reserved for 'gen_recipe_2' is reserved
            for another draft; reserve keys that no other row can have, such as new UUIDs
    """

    def __init__(self, *refs: str) -> None:
        self.refs = refs
        super().__init__(
            f"a key to be reserved for {', '.join(map(repr, refs))} is reserved for another draft",
            "reserve keys that no other row can have, such as new UUIDs",
        )


def _pending(error: DraftRefError, known: str) -> str:
    if error.known:
        return known.replace("known", "pending", 1)
    return "no such draft is pending in this conversation; read the drafts, or generate one"


# Prompts


class ContextError(SetupError):
    """A prompt cannot be built: its window, audience, step, budget or content is not valid.

    Example:
        >>> from alfred_refs.context import Window
        >>> Window(active=0)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ContextError: a window cannot have 0 active turns; give 1 to 10;
            the shown columns of older turns are not stored
    """


class TemplateError(ContextError):
    """A template of a prompt is missing, invalid, or uses an undefined name.

    Attributes:
        name: the name of the template.

    Example:
        >>> raise TemplateError("base", "is broken: unexpected '}'", "correct it")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.TemplateError: the template 'base' is broken: unexpected
            '}'; correct it
    """

    def __init__(self, name: str, fact: str, remedy: str) -> None:
        self.name = name
        super().__init__(f"the template {name!r} {fact}", remedy)


class KeyShownError(ContextError):
    """A value that is about to reach a model contains a key; the message does not repeat it.

    Attributes:
        place: its place in the value.
        kind: its spelling: `whole`, `split` or `cut`.
        masked: its first characters.

    Example:
        >>> chat.scrub("see a508000d-9b55-40f0-8886-dbdd88bd2de2", unknown="refuse")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.KeyShownError: the text shows a key, 'a508…' (whole); show its ref,
            or let scrub() mask keys without one
    """

    def __init__(self, place: str, kind: str, masked: str) -> None:
        self.place = place
        self.kind = kind
        self.masked = masked
        super().__init__(
            f"{place} shows a key, {masked!r} ({kind})",
            "show its ref, or let scrub() mask keys without one",
        )


class MentionError(ContextError):
    """A mention in a user's text names no visible row; the message does not repeat its key.

    Attributes:
        label: the label in the mention.
        entity: the entity in the mention.

    Example:
        >>> from alfred_refs.context import Context
        >>> Context(chat).heard(session, "@[Curry](recipe:a508000d-9b55-40f0-8886-dbdd88bd2de2)")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.MentionError: the mention 'Curry' of entity 'recipe' names
            no row that can be seen; mention a row that its user can see, as @[label](entity:key)
    """

    def __init__(self, label: str, entity: str, fact: str) -> None:
        self.label = label
        self.entity = entity
        super().__init__(
            f"the mention {label!r} of entity {entity!r} {fact}",
            "mention a row that its user can see, as @[label](entity:key)",
        )


# Edits of a list by position

Code = Literal[
    "invalid_position",
    "out_of_range",
    "no_list",
    "unknown_item",
    "edited_twice",
    "under_removed",
    "unexpected_item",
    "invalid_edit",
]
"""The kind of a conflict."""

_MOST_SHOWN = 20  # conflicts in one message; a model does not correct more at once


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict in a batch of edits.

    Attributes:
        code: its kind.
        edits: the numbers of the edits involved, from 1.
        fact: the problem, by position.
    """

    code: Code
    edits: tuple[int, ...]
    fact: str

    def __str__(self) -> str:
        numbers = " and ".join(map(str, self.edits))
        return f"edit{'s' if len(self.edits) > 1 else ''} {numbers}: {self.fact}"


class PositionError(RefError):
    """Edits of a list by position conflict with each other or with the list; none was applied.

    Attributes:
        conflicts: all conflicts found.

    Example:
        >>> from alfred_refs.positions import EditableList, Remove
        >>> EditableList(Recipe, "lines").preview(session, "recipe_1", [Remove([7])])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.PositionError: edit 1: position 7 of 'lines' is out of
            range: the list has 2 items; nothing was changed, give all edits again
    """

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__()

    def _error_text(self) -> str:
        shown = [str(each) for each in self.conflicts[:_MOST_SHOWN]]
        more = len(self.conflicts) - len(shown)
        shown += [f"and {more} more conflicts"] if more else []
        return f"{'; '.join(shown)}; nothing was changed, give all edits again"


class DriftError(RefError):
    """A list was changed after its edits were previewed; nothing was applied.

    Attributes:
        name: the name of the list.
        now: its current items.
        changed: the positions that differ from the preview, if it was passed.

    Example:
        >>> from alfred_refs.positions import EditableList, Remove
        >>> lines = EditableList(Recipe, "lines")
        >>> preview = lines.preview(session, "recipe_1", [Remove([1])])
        >>> session.get(Line, "line_2").text = "2 onions"
        >>> lines.apply(session, "recipe_1", [Remove([1])], expect=preview)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DriftError: the list 'lines' has changed since it was previewed at
            position 2; read it again, and preview the edits again
    """

    def __init__(self, name: str, now: Any, changed: Sequence[int] | None = None) -> None:
        self.name = name
        self.now = now
        self.changed = None if changed is None else tuple(changed)
        super().__init__()

    def _error_text(self) -> str:
        where = ""
        if self.changed:
            where = f" at position {', '.join(map(str, self.changed[:_MOST_SHOWN]))}"
        return (
            f"the list {self.name!r} has changed since it was previewed{where}; "
            "read it again, and preview the edits again"
        )


class ListError(SetupError):
    """A name is not the name of an editable list, or the list has no definite order.

    Example:
        >>> from alfred_refs.positions import EditableList
        >>> EditableList(Recipe, "steps")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ListError: 'Recipe' has no list 'steps'; its lists:
            'lines'
    """


# Sessions with an owner


class OwnershipError(SetupError):
    """An `Ownership`, or the owner of a session, is not valid.

    Example:
        >>> Ownership({Recipe: "user_id"}).of(None)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.OwnershipError: the owner is None; give the owner's key, or
            no owner at all
    """


class UnconfinedError(SetupError):
    """A statement in a session with an owner cannot be restricted to the owner's rows.

    Attributes:
        what: a short description of it.

    Example:
        >>> from sqlalchemy import text
        >>> owner = Ownership({Recipe: "user_id"}).of(ann)
        >>> with sessions(conversation="chat-8", owner=owner) as session:
        ...     session.execute(text("select name from recipes"))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnconfinedError: text() cannot be confined to the rows of the
            session's owner; write it as a statement of mapped classes or tables, or use
            session.unconfined() or execution_options(unconfined=True) in trusted code
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        self.what = what
        super().__init__(
            f"{what} cannot be confined to the rows of the session's owner",
            remedy
            or "write it as a statement of mapped classes or tables, or use "
            "session.unconfined() or execution_options(unconfined=True) in trusted code",
        )


class ForeignRowError(RefError):
    """A write concerns a row that the session's owner may not write, or references one.

    The message is the same as for a row that does not exist.

    Attributes:
        what: the class, column or relationship.
        ref: the ref of the row, `None` if it has no known one.
        named: whether the row was to be referenced by a foreign key, not written itself.

    Example:
        >>> owner = Ownership({Recipe: "user_id", Line: "recipe"}).of(ann)
        >>> toast = chat.resolve("recipe_2")  # of somebody else
        >>> with sessions(conversation="chat-8", owner=owner) as session:
        ...     session.add(Line(recipe_id=toast, position=1, text="1 loaf"))
        ...     session.flush()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ForeignRowError: a row in Line.recipe_id cannot be used here;
            read the rows that can, and use one
    """

    def __init__(self, what: str, ref: str | None = None, *, named: bool = False) -> None:
        self.what = what
        self.ref = ref
        self.named = named
        super().__init__()

    def _error_text(self) -> str:
        row = "a row" if self.ref is None else repr(self.ref)
        if self.named:
            return f"{row} in {self.what} cannot be used here; read the rows that can, and use one"
        return f"{row} of {self.what} cannot be written here; read the rows that can, and use one"


# Conversations and the registry


class UnknownConversationError(RefError):
    """The conversation does not exist, or belongs to another owner.

    The message is the same in both cases, and also fits operators, who open any conversation.

    Attributes:
        conversation: its id.

    Example:
        >>> registry.conversation("chat-7", owner="ann").resolve("recipe_1")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnknownConversationError: conversation 'chat-7' is not known here;
            check its id, and the owner that it is opened for, if it has one
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__()

    def _error_text(self) -> str:
        return (
            f"conversation {self.conversation!r} is not known here; check its id, and the owner "
            "that it is opened for, if it has one"
        )


class ConversationExistsError(RefError):
    """A conversation cannot be created under an id that is, or once was, in use.

    The message is the same for all owners. The numbers of a forgotten conversation are not reused
    either, because a model may remember its refs.

    Attributes:
        conversation: its id.

    Example:
        >>> chat.fork("chat-7")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ConversationExistsError: conversation 'chat-7' cannot be created,
            because its id is taken or was used before; choose an id that was never used
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__()

    def _error_text(self) -> str:
        return (
            f"conversation {self.conversation!r} cannot be created, because its id is taken or "
            "was used before; choose an id that was never used"
        )


class EntityTableError(SetupError):
    """A conversation already has refs of an entity for the rows of another table.

    Two tables of one name, in two schemas, may have rows with the same key. So the refs of an
    entity belong to the table for which the first was minted: its name, and its schema after
    `schema_translate_map`.

    Attributes:
        conversation: its id.
        entity: the entity.
        table: the table that the refs belong to.
        used: the table that they were used with.

    Example:
        >>> raise EntityTableError("chat-7", "recipe", "recipes", "archive.recipes")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.EntityTableError: conversation 'chat-7' has refs of entity 'recipe'
            for table 'recipes', but is used with table 'archive.recipes'; open a conversation for
            each tenant, use it with the tenant's engine, as in chat.for_bind(engine), give one
            entity another name by RefPolicy(names={...}), or, if the table was renamed, update
            table_name in alfred_refs_counter
    """

    def __init__(self, conversation: str, entity: str, table: str, used: str) -> None:
        self.conversation = conversation
        self.entity = entity
        self.table = table
        self.used = used
        super().__init__(
            f"conversation {conversation!r} has refs of entity {entity!r} for table {table!r}, "
            f"but is used with table {used!r}",
            "open a conversation for each tenant, use it with the tenant's engine, as in "
            "chat.for_bind(engine), give one entity another name by RefPolicy(names={...}), or, "
            "if the table was renamed, update table_name in alfred_refs_counter",
        )


class RegistryTablesError(SetupError):
    """The registry's tables are missing, invisible, or older than this version of the package.

    PostgreSQL does not find tables in a schema on which the role has no USAGE privilege.

    Attributes:
        database: the name of the database.

    Example:
        >>> raise RegistryTablesError("shop")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryTablesError: the registry's tables are missing or out of
            date in database 'shop'; run `alfred-refs migrate URL`, or upgrade the application's
            own Alembic environment if that has registry.metadata; RefRegistry.create_tables()
            creates them where none exist yet; if they exist, the role needs USAGE on their
            schema, which must be in its search_path
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's tables are missing or out of date in database {database!r}",
            "run `alfred-refs migrate URL`, or upgrade the application's own Alembic environment "
            "if that has registry.metadata; RefRegistry.create_tables() creates them where none "
            "exist yet; if they exist, the role needs USAGE on their schema, which must be in its "
            "search_path",
        )


class RegistryMigrationError(SetupError):
    """A migration of the registry's tables would conflict with another one, or lose rows.

    Example:
        >>> from alfred_refs.store.alembic import downgrade
        >>> with revision():
        ...     downgrade("0001", to="0006")
        Traceback (most recent call last):
            ...
        alfred_refs.store.alembic.RefusedMigrationError: a downgrade from revision '0001'
            does not lead to '0006'; give the later one first
    """


class RegistryUnreachableError(SetupError):
    """The registry's database cannot be reached; the driver's error is the `__cause__`.

    Attributes:
        database: its name.

    Example:
        >>> from sqlalchemy import create_engine
        >>> RefRegistry(create_engine("postgresql+psycopg://localhost:1/shop")).stats()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryUnreachableError: the registry's database 'shop' cannot be
            reached; check that the server is running and accepts connections, and that the
            engine's URL and credentials are right; the cause has details
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's database {database!r} cannot be reached",
            "check that the server is running and accepts connections, and that the engine's URL "
            "and credentials are right; the cause has details",
        )


class RegistryBusyError(RefError):
    """The registry got no connection, or no answer, in time; see `RefRegistry(timeout=...)`.

    Attributes:
        database: the name of the database.
        seconds: how long it waited for an answer; `None` if no connection of the registry's own
            pool became free.

    Example:
        >>> raise RegistryBusyError("shop", 5.0)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryBusyError: the registry's database 'shop' did not answer
            within 5 seconds; behind a pooler such as PgBouncer, open transactions may hold all its
            server connections while they wait for the registry: give RefRegistry an engine with a
            pool of its own there (docs/poolers.md); otherwise try again, or raise
            RefRegistry(timeout=...)
    """

    def __init__(self, database: str, seconds: float | None = None) -> None:
        self.database = database
        self.seconds = seconds
        super().__init__()

    def _error_text(self) -> str:
        if self.seconds is not None:
            return (
                f"the registry's database {self.database!r} did not answer within "
                f"{self.seconds:g} seconds; behind a pooler such as PgBouncer, open transactions "
                "may hold all its server connections while they wait for the registry: give "
                "RefRegistry an engine with a pool of its own there (docs/poolers.md); otherwise "
                "try again, or raise RefRegistry(timeout=...)"
            )
        return (
            f"no connection to the registry's database {self.database!r} became free in time; try "
            "again, or raise the engine's pool_size or pool_timeout, which apply to the "
            "registry's own pool, or RefRegistry(timeout=...)"
        )


_UNPREPARED = "behind a pooler such as PgBouncer, {} (docs/poolers.md)"

# Driver -> the setting that avoids prepared statements with a pooler in transaction mode.
_WITHOUT_PREPARED = {
    "psycopg": "give the engine connect_args={'prepare_threshold': None}",
    "asyncpg": "give the engine poolclass=NullPool and connect_args={'statement_cache_size': 0, "
    "'prepared_statement_cache_size': 0, 'prepared_statement_name_func': lambda: "
    "f'__asyncpg_{uuid4()}__'}",
}

# Prefix of a SQLSTATE -> remedy; the first match counts. Retrying does not help against a server
# that accepts no writes, or a role that may not write.
_REMEDIES = {
    "0A000": "it may be a standby, which accepts no writes: give RefRegistry the primary's engine",
    "22": "give numbers in range, and text without NUL and without half of a surrogate pair",
    "25006": "it accepts no writes: give RefRegistry the primary's engine",
    "26000": _UNPREPARED,
    "42P05": _UNPREPARED,
    "40": "the transaction conflicted with another one: try again",
    "42501": "grant the engine's user all rights on the registry's tables",
    "53100": "make room on the server's disk, then try again",
    "53": "give the server more of the resource that it lacks, then try again",
    "55P03": "another transaction held the conversation beyond lock_timeout: try again",
    "57014": "it was cancelled, or took longer than statement_timeout: try again",
    "": "correct what the message names, then try again",
}


class RegistryFailedError(RefError):
    """The registry's database refused a statement of the registry.

    The driver's error is not chained: it prints parameters and details, which may be keys.

    Attributes:
        reason: the database's message, one line.
        sqlstate: its SQLSTATE, `None` if the driver does not provide it.
        driver: the name of the driver in SQLAlchemy, if it is known.

    Example:
        >>> raise RegistryFailedError("could not extend file: No space left on device", "53100")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryFailedError: the registry's database refused a
            statement: could not extend file: No space left on device (SQLSTATE 53100); nothing was
            changed; make room on the server's disk, then try again
    """

    def __init__(self, reason: str, sqlstate: str | None, driver: str | None = None) -> None:
        self.reason = reason
        self.sqlstate = sqlstate
        self.driver = driver
        super().__init__()

    def _error_text(self) -> str:
        return (
            f"the registry's database refused a statement: {self.reason} (SQLSTATE "
            f"{self.sqlstate}); nothing was changed; {self._remedy()}"
        )

    def _remedy(self) -> str:
        state = self.sqlstate or ""
        remedy = next(_REMEDIES[start] for start in _REMEDIES if state.startswith(start))
        unprepared = "use no prepared statements"
        return remedy.format(_WITHOUT_PREPARED.get(self.driver or "", unprepared))
