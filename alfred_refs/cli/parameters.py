"""What commands take beside the database: conversations and ages."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from alfred_refs.conversation.conversation import Conversation
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.store import ConversationInfo

_AGE = re.compile(r"([0-9]{1,6})([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_OLDEST = timedelta(days=36_500)  # PostgreSQL's clock does not go back for ever

_C = TypeVar("_C", bound=Callable[..., Any])

conversation_argument = click.argument("conversation", metavar="CONVERSATION")
"""The id of a conversation."""

conversation_or_owner = click.argument("conversation", metavar="[CONVERSATION]", required=False)
"""The id of a conversation, or none where an owner is given."""


def of_owner(help_: str) -> Callable[[_C], _C]:
    """Return an option that names an owner."""
    return click.option("--owner", metavar="OWNER", help=help_)


def at_most(_: click.Context, __: click.Parameter, text: str) -> int | None:
    """Return how many `--limit` says to print; `None` is all."""
    if text == "all":
        return None
    if re.fullmatch("[0-9]{1,9}", text) is None or int(text) == 0:
        raise click.BadParameter(f"{text!r} is no limit; write a number from 1, or all.")
    return int(text)


def older_than(*, required: bool) -> Callable[[_C], _C]:
    """Return an option that chooses conversations by how long they were not used."""
    return click.option(
        "--older-than",
        metavar="AGE",
        required=required,
        callback=_age,
        help="Those not used for so long: a number of hours, days or weeks, as 12h, 90d or 2w.",
    )


def _age(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    """Return how long that is; anything but more than nothing is misuse."""
    if text is None:
        return None
    found = _AGE.fullmatch(text)
    age = int(found[1]) * _UNITS[found[2]] if found else timedelta()
    if not timedelta() < age <= _OLDEST:
        raise click.BadParameter(f"{text!r} is no age; write 12h, 90d or 2w, up to 36500d.")
    return age


def opened(registry: RefRegistry, info: ConversationInfo) -> Conversation:
    """Return a conversation, on behalf of whoever has it."""
    return registry.conversation(info.id, owner=info.owner)
