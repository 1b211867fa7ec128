"""Drafts that cannot be used as they were to be, and content that cannot be kept as one."""

from __future__ import annotations

from collections.abc import Sequence

from .bad_refs import DraftRefError
from .root import RefError
from .setup import SetupError


class UnknownDraftError(DraftRefError):
    """The ref has the form of a draft's, and the conversation has no such draft.

    `known` are drafts that are pending.

    Example:
        >>> chat.discard_drafts(["gen_recipe_1"])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.drafts.UnknownDraftError: 'gen_recipe_1' is not a known draft; no
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
        alfred_refs.errors.drafts.DiscardedDraftError: 'gen_recipe_1' was discarded and cannot
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
        alfred_refs.errors.drafts.SavedDraftError: 'gen_recipe_1' is saved as 'recipe_3' and no
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

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> session.add_all([Recipe(id=draft.ref, name="Curry"), Recipe(id=draft.ref, name="Dal")])
        >>> session.flush()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.drafts.DraftTwiceError: 'gen_recipe_1' is to be saved by two
            objects; add one of them, and take out the other
    """

    def _wording(self) -> str:
        return (
            f"{self.ref!r} is to be saved by two objects; add one of them, and take out the other"
        )


class CircularDraftsError(DraftRefError):
    """Drafts that are saved together name each other, so none can be the first.

    Attributes:
        refs: the drafts.

    Example:
        >>> raise CircularDraftsError(["gen_recipe_1", "gen_recipe_2"])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.drafts.CircularDraftsError: 'gen_recipe_1', 'gen_recipe_2' name each
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
        alfred_refs.errors.drafts.StaleDraftError: 'gen_recipe_1' has version 2 and was to be
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
        alfred_refs.errors.drafts.DraftContentError: 'nme' is no field of a draft of 'Recipe';
            use some of 'name', 'servings', 'user_id', 'lines'
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
        alfred_refs.errors.drafts.DraftKeyError: a key that was to be reserved for
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
