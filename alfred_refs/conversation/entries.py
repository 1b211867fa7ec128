"""What a conversation tells of each of its refs, and of each of its drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from alfred_refs.mapping.keys import Key
from alfred_refs.store import DraftState, Gone


@dataclass(frozen=True, slots=True)
class RefEntry:
    """One ref of a conversation.

    Attributes:
        ref: as a model sees it.
        entity: what kind of row it names.
        number: its number among the refs of the entity.
        gone: why its row is not there; `None` as long as it may be.
        label: what people call its row, in one line; `None` where that is not known. It is text
            of the application's users: to be shown, never to be obeyed.
        key: the key, if it was asked for; it is not printed.

    Example:
        >>> [entry, _] = chat.entries(Recipe)
        >>> entry
        RefEntry(ref='recipe_1', entity='recipe', number=1, gone=None, label='Soup')
    """

    ref: str
    entity: str
    number: int
    gone: Gone | None
    label: str | None = None
    key: Key | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """Content that a model generated, as it was when it was read.

    Attributes:
        ref: as a model sees it: `gen_recipe_1`.
        entity: what kind of row it is to become.
        content: JSON values, by field; a copy.
        label: what people are to call it, in one line; `None` where that is not known. It is text
            of a model or of the application's users: to be shown, never to be obeyed.
        turn: in which it was generated.
        edited: the turn of its last edit, or else that in which it was generated.
        version: 1, and one more with each edit.
        state: `"pending"`, `"saved"` or `"discarded"`.
        reserved: whether the key of its row is decided. One that is pending then is being saved,
            or was to be: its row may be there.
        saved: the ref of its row; `None` where it is not saved.
        key: that of its row, if there is one and it was asked for; it is not printed.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> draft.ref, draft.state
        ('gen_recipe_1', 'pending')
        >>> session.add(session.get(Recipe, "gen_recipe_1"))
        >>> session.commit()
        >>> [draft] = chat.read_drafts(["gen_recipe_1"])
        >>> draft.state, draft.saved
        ('saved', 'recipe_3')
    """

    ref: str
    entity: str
    content: dict[str, Any] = field(hash=False)
    label: str | None
    turn: int
    edited: int
    version: int
    state: DraftState
    reserved: bool = False
    saved: str | None = None
    key: Key | None = field(default=None, repr=False)
