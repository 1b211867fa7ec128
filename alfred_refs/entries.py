"""What a conversation tells of each of its refs."""

from __future__ import annotations

from dataclasses import dataclass, field

from .keys import Key
from .store import Gone


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
    """

    ref: str
    entity: str
    number: int
    gone: Gone | None
    label: str | None = None
    key: Key | None = field(default=None, repr=False)
