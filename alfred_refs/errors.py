"""Exceptions.

Every error of the package: each carries its data and words its own message.

Two families hang under one root. A *bad ref* is a mistake the model can correct from the message
alone; a *bad set-up* is one the developer must correct. A message states the fact, then the
remedy, and never shows a key.

```python
try:
    session.get(Recipe, "recipe_9")
except BadRefError as error:
    answer = {"error": str(error)}  # 'recipe_9' is not a known recipe; known: 'recipe_1'
```

`root` has the class that all inherit from, `bad_refs` and `drafts` what a model is told, `setup`,
`owners`, `registry` and `context` what a developer or an operator is. Which of them a bad ref
raises is chosen in `conversation.ref_errors`.

The root of every error: it carries its data, from which the class words the message.

Bad set-up: what the developer must change, for no other input would make it work.

Bad refs: mistakes that the model can correct from the message alone.

Drafts that cannot be used as they were to be, and content that cannot be kept as one.

What a prompt cannot be made of: the developer, or a user interface, must change it.

What is wrong with edits of a list by position: told by position, for a model to correct.

What is refused in a session that has an owner.

What the registry cannot do: its conversation is not there, or its database will not.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Self

from sqlalchemy.exc import DontWrapMixin, SQLAlchemyError


class RefError(SQLAlchemyError, DontWrapMixin):
    """Root of every error that alfred_refs raises.

    It is raised as it is, also where SQLAlchemy would tell of it in a `StatementError`: while the
    parameters of a statement are read.

    Example:
        >>> try:
        ...     session.get(Recipe, "recipe_9")
        ... except RefError as error:
        ...     print(error)
        'recipe_9' is not a known recipe; known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def __init__(self, *data: Any) -> None:
        self._data = data
        super().__init__(self._wording())

    def _wording(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the message alone: SQLAlchemy adds where a `code` of its own is explained."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[RefError], tuple[Any, ...]]:
        return type(self), self._data


class SetupError(RefError):
    """The application is put together in a way that cannot work; the developer must change it.

    Attributes:
        fact: what is wrong.
        remedy: what to do about it.

    Example:
        >>> RefSession(engine, conversation="chat-7")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.SetupError: a conversation was given by its id to a session
            without registry; give registry.conversation(id), or registry=... to the sessionmaker
    """

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__(fact, remedy)

    def _wording(self) -> str:
        return f"{self.fact}; {self.remedy}"


class ConversationIdError(SetupError):
    """The text cannot identify a conversation, or its owner.

    Example:
        >>> registry.conversation("")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ConversationIdError: a conversation's id is empty, too long or
            has control characters; use 1 to 255 printable characters
    """


class ExportFormatError(SetupError):
    """What is to be imported is not an export, or is one of a newer version of the package.

    Example:
        >>> registry.import_conversation({"id": "chat-7"})
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ExportFormatError: this is not a conversation that alfred_refs
            exported; give what Conversation.export() returned, unchanged
    """


class RetentionError(SetupError):
    """Conversations cannot be unused for less than no time.

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
    """The metadata does not say what a column's keys name, or they have an unsupported type.

    Example:
        >>> from sqlalchemy import Column, Integer, MetaData, Table
        >>> about = Column("about", Integer, info={"ref": "recipes.id"})
        >>> session.execute(select(Table("notes", MetaData(), about)))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.KeyColumnError: column notes.about declares keys of
            'recipes.id', no column of its metadata; write "table.column" as a foreign key does, or
            give the mapped class
    """


class LabelError(SetupError):
    """What a class or the policy says of labels names nothing, or something that may be a key.

    Example:
        >>> registry = RefRegistry(engine, policy=RefPolicy(labels={Recipe: "nme"}))
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.scalars(select(Recipe)).first()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.LabelError: the label of class 'Recipe' is 'nme', which is no
            attribute with a column; name an attribute with a plain column, or give a function of
            loaded attributes that returns text, in __ref_label__ or RefPolicy(labels={...})
    """


class KeyTypeError(SetupError):
    """A key was given in a type that the entity's keys do not have; its value is not repeated.

    Attributes:
        entity: whose key it was given as.
        needed: the name of the type that the entity's keys have.
        given: the name of the type it was given in.

    Example:
        >>> chat.refer(Recipe, 7)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.KeyTypeError: a key of entity 'recipe' was given as int, and
            its keys are of type UUID; give the key as its column has it; the text of a UUID does
            for one
    """

    def __init__(self, entity: str, needed: str, given: str) -> None:
        self.entity = entity
        self.needed = needed
        self.given = given
        super().__init__(
            f"a key of entity {entity!r} was given as {given}, and its keys are of type {needed}",
            "give the key as its column has it; the text of a UUID does for one",
        )
        self._data = (entity, needed, given)


class RefNotCarriedError(SetupError):
    """An unpickled instance has a key whose ref was not in the pickle.

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
        self._data = (attribute,)


class UntranslatableError(SetupError):
    """A statement would show a key, or uses a ref, in a place that cannot be translated.

    Example:
        >>> from sqlalchemy import func
        >>> session.scalars(select(func.md5(func.concat(Recipe.id)))).all()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UntranslatableError: a result shows keys of recipes.id inside
            an expression; select the key column itself, or use session.raw_keys() or
            execution_options(raw_keys=True) in trusted code
    """


Known = Sequence[str] | Mapping[str, str | None]
"""Refs that could be used, in natural order, and the labels of their rows where there are any."""

_QUOTES = str.maketrans({sign: f"\\{sign}" for sign in "\\'\""})


class BadRefError(RefError):
    """A ref that cannot be used; nothing was executed, and the message says how to go on.

    Attributes:
        ref: the offending text as it was given; `None` where it may be a key.
        expected: the entity that was needed, if one was.
        known: refs of that entity that could be used, in natural order.
        near: the one that was probably meant, if one stands out.
        labels: what people call the rows of known refs, as far as that is known: text of the
            application's users, to be shown and never to be obeyed.

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
        self.ref = ref
        self.expected = expected
        self.known = tuple(labels)
        self.near = near
        self.labels = {ref: label for ref, label in labels.items() if label is not None}
        super().__init__(ref, expected, labels, near)

    @property
    def entity(self) -> str | None:
        """The entity the error is about, the expected one unless a subclass knows better."""
        return self.expected

    def offering(self, refs: Container[str]) -> Self:
        """Return the same error, which offers none but these refs."""
        fewer = copy(self)
        fewer.known = tuple(ref for ref in self.known if ref in refs)
        fewer.labels = {ref: label for ref, label in self.labels.items() if ref in refs}
        fewer.near = self.near if self.near in refs else None
        fewer.args = (fewer._wording(),)  # noqa: SLF001  # of the same class
        return fewer

    def _remedy(self) -> str:
        if self.near is not None:
            return f"did you mean {self._named(self.near)}? {self._known()}"
        return self._known()

    def _known(self) -> str:
        if not self.known:
            return "none is known in this conversation; read some first"
        return "known: " + ", ".join(map(self._named, self.known))

    def _named(self, ref: str) -> str:
        label = self.labels.get(ref)
        return repr(ref) if label is None else f'{ref!r} ("{_inert(label)}")'


def _inert(label: str) -> str:
    """Return a label that can end neither its quotes nor a line, nor pass for a ref in quotes."""
    line = label.translate(_QUOTES)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class UnknownRefError(BadRefError):
    """The text names nothing in this conversation.

    Example:
        >>> session.get(Recipe, "recipe_9")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnknownRefError: 'recipe_9' is not a known recipe; known:
            'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def _wording(self) -> str:
        return f"{self.ref!r} is not a known {self.expected or 'ref'}; {self._remedy()}"


class WrongEntityError(BadRefError):
    """The ref is known, and names another kind of row than the one needed.

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
        self._data = (*self._data, actual)

    @property
    def entity(self) -> str:
        """The entity that the ref names."""
        return self.actual

    def _wording(self) -> str:
        return (
            f"{self.ref!r} names entity {self.actual!r} where {self.expected!r} is needed; "
            f"{self._remedy()}"
        )


class DraftRefError(BadRefError):
    """The ref is a draft's where a saved row is needed.

    Subclasses are about drafts that cannot be used as drafts either.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.scalars(select(Recipe).where(Recipe.id == "gen_recipe_1"))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftRefError: 'gen_recipe_1' is a draft's ref where a
            saved recipe is needed; save the draft and use the ref it gets, or choose another;
            known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def _wording(self) -> str:
        return (
            f"{self.ref!r} is a draft's ref where a saved {self.expected or 'row'} is needed; "
            f"save the draft and use the ref it gets, or choose another; {self._remedy()}"
        )


class GoneRefError(BadRefError):
    """The ref is known and its row is not there: it was deleted, or it was never saved.

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
        self._data = (*self._data, reason)

    def _wording(self) -> str:
        return f"{self.ref!r} {self.reason} and cannot be used; {self._remedy()}"


class RawKeyError(BadRefError):
    """A raw key was given as text where only a ref is accepted; the text is not repeated.

    Trusted code that has keys is for `with session.raw_keys()`, or
    `execution_options(raw_keys=True)` on one statement.

    Example:
        >>> session.get(Recipe, str(chat.resolve("recipe_1")))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RawKeyError: a raw key was given as text where a ref is
            needed; give a ref; known: 'recipe_1'
            ("Soup"), 'recipe_2' ("Toast")
    """

    def _wording(self) -> str:
        return f"a raw key was given as text where a ref is needed; give a ref; {self._remedy()}"


class UnknownDraftError(DraftRefError):
    """The ref has the form of a draft's, and the conversation has no such draft.

    `known` are drafts that are pending.

    Example:
        >>> chat.discard_drafts(["gen_recipe_1"])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnknownDraftError: 'gen_recipe_1' is not a known draft; no
            such draft is pending in this conversation; read the drafts, or generate one
    """

    def _wording(self) -> str:
        what = "draft" if self.expected is None else f"draft of entity {self.expected!r}"
        return f"{self.ref!r} is not a known {what}; {self._remedy()}"

    def _known(self) -> str:
        return _pending(self, super()._known())


class DiscardedDraftError(DraftRefError):
    """The draft was discarded; `known` are drafts that are pending.

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

    def _wording(self) -> str:
        return f"{self.ref!r} was discarded and cannot be used; {self._remedy()}"

    def _known(self) -> str:
        return _pending(self, super()._known())


class SavedDraftError(DraftRefError):
    """The draft is a row by now, which is what can be changed or deleted.

    Attributes:
        saved: the ref of the row.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.add(session.get(Recipe, draft.ref))
        >>> session.commit()
        >>> chat.discard_drafts([draft.ref])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.SavedDraftError: 'gen_recipe_1' is saved as 'recipe_3' and no
            draft any more; use 'recipe_3'
    """

    def __init__(self, ref: str, saved: str) -> None:
        self.saved = saved
        super().__init__(ref, None, (saved,))
        self._data = (ref, saved)

    def _wording(self) -> str:
        return f"{self.ref!r} is saved as {self.saved!r} and no draft any more; use {self.saved!r}"


class DraftTwiceError(DraftRefError):
    """Two objects are to become the row of one draft; nothing was sent to the database.

    Code of an application adds one of them, and takes out the other.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.add_all([Recipe(id=draft.ref, name="Curry"), Recipe(id=draft.ref, name="Dal")])
        >>> session.flush()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftTwiceError: 'gen_recipe_1' is to be saved
            twice at once; save it once, and leave out the other
    """

    def _wording(self) -> str:
        return f"{self.ref!r} is to be saved twice at once; save it once, and leave out the other"


class CircularDraftsError(DraftRefError):
    """Drafts that are saved together name each other, so none can be the first.

    Attributes:
        refs: the drafts.

    Example:
        >>> raise CircularDraftsError(["gen_recipe_1", "gen_recipe_2"])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.CircularDraftsError: 'gen_recipe_1', 'gen_recipe_2' name each
            other, so that none can be saved first; leave one of these refs out, and set it once
            both are saved
    """

    def __init__(self, refs: Sequence[str]) -> None:
        self.refs = tuple(refs)
        super().__init__(self.refs[0], None, self.refs)
        self._data = (self.refs,)

    def _wording(self) -> str:
        others = " and what is inside of it" if len(self.refs) == 1 else ""
        return (
            f"{', '.join(map(repr, self.refs))}{others} name each other, so that none can be "
            "saved first; leave one of these refs out, and set it once both are saved"
        )


class StaleDraftError(DraftRefError):
    """The draft was edited after it was read: the edit would undo what somebody else has done.

    Attributes:
        version: that was read.
        newest: that the draft has.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> edited = chat.edit_draft(draft.ref, {"name": "Dal"})
        >>> chat.edit_draft(draft.ref, {"name": "Raita"}, version=draft.version)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.StaleDraftError: 'gen_recipe_1' has version 2 and was to be
            edited as of version 1; read it again, and edit what it has now
    """

    def __init__(self, ref: str, version: int, newest: int) -> None:
        self.version = version
        self.newest = newest
        super().__init__(ref, None, (ref,))
        self._data = (ref, version, newest)

    def _wording(self) -> str:
        return (
            f"{self.ref!r} has version {self.newest!r} and was to be edited as of version "
            f"{self.version!r}; read it again, and edit what it has now"
        )


class DraftContentError(RefError):
    """What was generated cannot be kept as a draft; it is not repeated.

    Attributes:
        fact: what is wrong.
        remedy: what to do about it.

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
        super().__init__(fact, remedy)

    def _wording(self) -> str:
        return f"{self.fact}; {self.remedy}"


class DraftKeyError(SetupError):
    """A key that was to be reserved for a draft is another draft's; none was reserved.

    Attributes:
        refs: the drafts that keys were to be reserved for.

    Example:
        >>> raise DraftKeyError("gen_recipe_2")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DraftKeyError: a key that was to be reserved for
            'gen_recipe_2' is another draft's; reserve keys that no other row can have, such as new
            UUIDs
    """

    def __init__(self, *refs: str) -> None:
        self.refs = refs
        super().__init__(
            f"a key that was to be reserved for {', '.join(map(repr, refs))} is another draft's",
            "reserve keys that no other row can have, such as new UUIDs",
        )
        self._data = refs


def _pending(error: DraftRefError, known: str) -> str:
    if error.known:
        return known.replace("known", "pending", 1)
    return "no such draft is pending in this conversation; read the drafts, or generate one"


class ContextError(SetupError):
    """A window, an audience, a step or a budget that no prompt can be made with.

    Example:
        >>> from alfred_refs.context import Window
        >>> Window(active=0)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ContextError: a window of 0 active turns; give 1 to 10: what
            models saw is kept for so many
    """


class TemplateError(ContextError):
    """A template of a prompt is missing, broken, or names what it is not given.

    Attributes:
        name: of the template.

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
        self._data = (name, fact, remedy)


class KeyShownError(ContextError):
    """A value that is about to reach a model has a key in it; the key is not repeated.

    Attributes:
        place: where in the value it is.
        kind: how it is spelt: `whole`, `split` or `cut`.
        masked: its first letters.

    Example:
        >>> chat.scrub("see a508000d-9b55-40f0-8886-dbdd88bd2de2", unknown="refuse")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.KeyShownError: the text shows a key, 'a508…' (whole); show
            its ref, or let scrub() mask what has none
    """

    def __init__(self, place: str, kind: str, masked: str) -> None:
        self.place = place
        self.kind = kind
        self.masked = masked
        super().__init__(
            f"{place} shows a key, {masked!r} ({kind})",
            "show its ref, or let scrub() mask what has none",
        )
        self._data = (place, kind, masked)


class MentionError(ContextError):
    """A mention in a user's text names no row that may be mentioned; its key is not repeated.

    Attributes:
        label: what the mention calls the row.
        entity: what it says the row is.

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
        self._data = (label, entity, fact)


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
"""What kind of conflict it is."""

_MOST_TOLD = 20  # conflicts of one error: a model corrects no more at once


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something in a batch of edits that cannot be done.

    Attributes:
        code: of which kind.
        edits: the numbers of the edits that it is about, from 1.
        fact: what is wrong, by position.
    """

    code: Code
    edits: tuple[int, ...]
    fact: str

    def __str__(self) -> str:
        numbers = " and ".join(map(str, self.edits))
        return f"edit{'s' if len(self.edits) > 1 else ''} {numbers}: {self.fact}"


class PositionError(RefError):
    """Edits of a list by position cannot be done together, and none was.

    Attributes:
        conflicts: all that is wrong with them.

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
        super().__init__(self.conflicts)

    def _wording(self) -> str:
        told = [str(each) for each in self.conflicts[:_MOST_TOLD]]
        more = len(self.conflicts) - len(told)
        told += [f"and {more} more conflicts"] if more else []
        return f"{'; '.join(told)}; nothing was changed, give all edits again"


class DriftError(RefError):
    """A list is not what it was when edits of it were previewed; nothing was changed.

    Attributes:
        name: of the list.
        now: its items, as they are.
        changed: the positions that are other than in the preview, if that was at hand.

    Example:
        >>> from alfred_refs.positions import EditableList, Remove
        >>> lines = EditableList(Recipe, "lines")
        >>> preview = lines.preview(session, "recipe_1", [Remove([1])])
        >>> session.get(Line, "line_2").text = "2 onions"
        >>> lines.apply(session, "recipe_1", [Remove([1])], expect=preview)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.DriftError: the list 'lines' has changed since it was
            previewed at position 2; look at it as it is now, and preview the edits again
    """

    def __init__(self, name: str, now: Any, changed: Sequence[int] | None = None) -> None:
        self.name = name
        self.now = now
        self.changed = None if changed is None else tuple(changed)
        super().__init__(name, now, changed)

    def _wording(self) -> str:
        where = ""
        if self.changed:
            where = f" at position {', '.join(map(str, self.changed[:_MOST_TOLD]))}"
        return (
            f"the list {self.name!r} has changed since it was previewed{where}; "
            "look at it as it is now, and preview the edits again"
        )


class ListError(SetupError):
    """A name is none of a list that can be edited, or its data do not say how it is ordered.

    Example:
        >>> from alfred_refs.positions import EditableList
        >>> EditableList(Recipe, "steps")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ListError: 'Recipe' has no list 'steps'; its lists:
            'lines'
    """


class OwnershipError(SetupError):
    """An `Ownership`, or the owner of a session, is put together in a way that cannot work.

    Example:
        >>> Ownership({Recipe: "user_id"}).of(None)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.OwnershipError: the owner is None; give the owner's key, or
            no owner at all
    """


class UnconfinedError(SetupError):
    """A session that has an owner was given what cannot be confined to the owner's rows.

    Attributes:
        what: what it was given, in a few words.

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
        self._data = (what, remedy)


class ForeignRowError(RefError):
    """A write is of a row, or names one, that the session's owner may not write, or not see.

    It reads the same for a row that is not there.

    Attributes:
        what: the class, column or relationship that is concerned.
        ref: the row's ref where it has one that is known; `None` where it has none.
        named: whether the row was to be named by a foreign key, and not itself written.

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
        super().__init__(what, ref, named)

    def __reduce__(self) -> tuple[type[RefError], tuple[object, ...]]:
        return _made_again, self._data  # type: ignore[return-value]

    def _wording(self) -> str:
        row = "a row" if self.ref is None else repr(self.ref)
        if self.named:
            return f"{row} in {self.what} cannot be used here; read the rows that can, and use one"
        return f"{row} of {self.what} cannot be written here; read the rows that can, and use one"


def _made_again(what: str, ref: str | None, named: bool) -> ForeignRowError:
    return ForeignRowError(what, ref, named=named)


class UnknownConversationError(RefError):
    """The conversation does not exist, or not for the owner it was opened for.

    One that belongs to somebody else reads the same as one that does not exist, and the words are
    right for an operator as well, who asks for no owner.

    Attributes:
        conversation: its id.

    Example:
        >>> registry.conversation("chat-7", owner="ann").resolve("recipe_1")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.UnknownConversationError: conversation 'chat-7' is not
            known here; check its id, and that it is opened for the owner it was begun for, if it
            has one
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(conversation)

    def _wording(self) -> str:
        return (
            f"conversation {self.conversation!r} is not known here; check its id, and that it is "
            "opened for the owner it was begun for, if it has one"
        )


class ConversationExistsError(RefError):
    """A conversation cannot be made under this id, because it is taken or was used before.

    It reads the same whoever has it. After a conversation is forgotten, its numbers are still not
    given to other rows, because a model may remember its refs.

    Attributes:
        conversation: its id.

    Example:
        >>> chat.fork("chat-7")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.ConversationExistsError: conversation 'chat-7' cannot be
            made, because its id is taken or was used before; choose an id that never was
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(conversation)

    def _wording(self) -> str:
        return (
            f"conversation {self.conversation!r} cannot be made, because its id is taken or was "
            "used before; choose an id that never was"
        )


class EntityTableError(SetupError):
    """A conversation has refs of another table's rows under an entity's name.

    One key may be of two rows, in two tables of one name. So refs are of the table for which the
    first was minted: its name, and its schema as `schema_translate_map` has it.

    Attributes:
        conversation: its id.
        entity: whose refs.
        table: which they are of.
        used: for which they were to be used.

    Example:
        >>> raise EntityTableError("chat-7", "recipe", "recipes", "archive.recipes")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.EntityTableError: conversation 'chat-7' has refs of entity
            'recipe' for table 'recipes', and they are to be used for table 'archive.recipes'; open
            a conversation for each tenant, give one entity another name by RefPolicy(names={...}),
            or, if the table was renamed, update table_name in alfred_refs_counter
    """

    def __init__(self, conversation: str, entity: str, table: str, used: str) -> None:
        self.conversation = conversation
        self.entity = entity
        self.table = table
        self.used = used
        super().__init__(
            f"conversation {conversation!r} has refs of entity {entity!r} for table {table!r}, "
            f"and they are to be used for table {used!r}",
            "open a conversation for each tenant, give one entity another name by "
            "RefPolicy(names={...}), or, if the table was renamed, update table_name in "
            "alfred_refs_counter",
        )
        self._data = (conversation, entity, table, used)


class RegistryTablesError(SetupError):
    """The registry's tables are missing, older than this version of the package, or not found.

    PostgreSQL finds none in a schema on which its role has no right.

    Attributes:
        database: the name of the database.

    Example:
        >>> raise RegistryTablesError("shop")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryTablesError: the registry's tables are missing or
            out of date in database 'shop'; run `alfred-refs migrate URL`, or upgrade the
            application's own Alembic environment if that has registry.metadata; where there are
            none yet, RefRegistry.create_tables() does too; if they are there, the role needs
            usage of their schema, which must be in its search_path
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's tables are missing or out of date in database {database!r}",
            "run `alfred-refs migrate URL`, or upgrade the application's own Alembic environment "
            "if that has registry.metadata; where there are none yet, RefRegistry.create_tables() "
            "does too; if they are there, the role needs usage of their schema, which must be in "
            "its search_path",
        )
        self._data = (database,)


class RegistryMigrationError(SetupError):
    """Two would migrate the registry's tables, or one would in a way that loses rows.

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
        alfred_refs.errors.RegistryUnreachableError: the registry's database 'shop'
            cannot be reached; check that the server runs and takes more connections, and that the
            engine's URL and credentials are right; the cause tells more
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's database {database!r} cannot be reached",
            "check that the server runs and takes more connections, and that the engine's URL "
            "and credentials are right; the cause tells more",
        )
        self._data = (database,)


class RegistryBusyError(RefError):
    """All connections of the registry's own pool were in use for as long as it waits for one.

    Attributes:
        database: the name of the database.

    Example:
        >>> raise RegistryBusyError("shop")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryBusyError: no connection to the registry's database
            'shop' became free in time; try again, or raise the engine's pool_size or pool_timeout,
            which the registry's own pool has too
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(database)

    def _wording(self) -> str:
        return (
            f"no connection to the registry's database {self.database!r} became free in time; try "
            "again, or raise the engine's pool_size or pool_timeout, which the registry's own "
            "pool has too"
        )


# How a SQLSTATE begins -> what to do; the first that fits. Asked in vain, a server that takes no
# writes or a role that may not write will say the same again.
_REMEDIES = {
    "0A000": "it may be a standby, which takes no writes: give RefRegistry the primary's engine",
    "25006": "it takes no writes: give RefRegistry the primary's engine",
    "26000": "give psycopg's connections prepare_threshold=None behind a pooler such as PgBouncer",
    "42P05": "give psycopg's connections prepare_threshold=None behind a pooler such as PgBouncer",
    "40": "it put another transaction first: try again",
    "42501": "grant the engine's user all rights on the registry's tables",
    "53100": "make room on the server's disk, then try again",
    "53": "give the server more of what it lacks, then try again",
    "55P03": "another transaction held the conversation beyond lock_timeout: try again",
    "57014": "somebody cancelled it, or it took longer than statement_timeout allows: try again",
    "": "mend what the message names, then try again",
}


class RegistryFailedError(RefError):
    """The registry's database refused a statement of ours.

    The driver's own error is left out: it prints parameters and details, which may be keys.

    Attributes:
        reason: the database's one-line message.
        sqlstate: its error code, `None` if the driver gives none.

    Example:
        >>> raise RegistryFailedError("could not extend file: No space left on device", "53100")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.RegistryFailedError: the registry's database refused a
            statement: could not extend file: No space left on device (SQLSTATE 53100); nothing was
            changed; make room on the server's disk, then try again
    """

    def __init__(self, reason: str, sqlstate: str | None) -> None:
        self.reason = reason
        self.sqlstate = sqlstate
        super().__init__(reason, sqlstate)

    def _wording(self) -> str:
        return (
            f"the registry's database refused a statement: {self.reason} (SQLSTATE "
            f"{self.sqlstate}); nothing was changed; {self._remedy()}"
        )

    def _remedy(self) -> str:
        state = self.sqlstate or ""
        return next(_REMEDIES[start] for start in _REMEDIES if state.startswith(start))
