"""Whose a request is where no function of the application says so: by its token and its `_meta`.

The protocol has no sessions, so each request says by itself in which conversation it is. A client
that says nothing has one of its own. What it says is its word, and chooses among the conversations
of one owner: those of others the registry refuses. Where rows have no owners, and tokens tell
clients apart, the names are each principal's own:

    token of Ada, _meta {"alfred-refs/conversation": "chat-7"}     with an Ownership    "chat-7"
                                                                   without     "mcp:5f0c…:chat-7"
    token of Ada, no _meta                                                            "mcp:5f0c…"
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, principal_components
from mcp.server.context import ServerRequestContext

from alfred_refs.errors import ConversationIdError

CONVERSATION = "alfred-refs/conversation"
"""Under which name in `_meta` a client says in which conversation a request is."""

Request = ServerRequestContext[Any, Any]

Caller = tuple[str, Any]
"""A conversation's id, and its owner; `None` where the toolset has no `Ownership`."""

Whose = Callable[[Request], Caller | Awaitable[Caller]]

OwnerOf = Callable[[AccessToken | None], Any]

_ID = "mcp"  # what ids begin with that are made here
_DIGITS = 24  # of a hash: 96 bits


@dataclass(frozen=True, slots=True)
class Principals:
    """Says in which conversation a request is, and for which owner.

    Attributes:
        owner_of: says whose rows a token is for; `None` where rows have no owners.
    """

    owner_of: OwnerOf | None

    def __call__(self, request: Request) -> Caller:
        """Return the conversation and the owner of a request.

        Raises:
            ConversationIdError: what the client names is no text.
        """
        token = get_access_token()
        owner = None if self.owner_of is None else self.owner_of(token)
        named = (request.meta or {}).get(CONVERSATION)
        if named is None:
            return _own(token, owner), owner
        if not isinstance(named, str):
            raise ConversationIdError("a conversation is named by no text", "name it by one")
        is_anybodys = token is not None and self.owner_of is None
        return f"{_own(token, owner)}:{named}" if is_anybodys else named, owner


def subject_of(token: AccessToken | None) -> str | None:
    """Return whom a token is of."""
    return None if token is None else token.subject


def _own(token: AccessToken | None, owner: Any) -> str:
    """Return the id of a principal's own conversation; the only client's is the shortest."""
    if token is None and owner is None:
        return _ID
    who = [*(principal_components(token) if token is not None else ()), str(owner)]
    digest = hashlib.sha256(json.dumps(who).encode()).hexdigest()
    return f"{_ID}:{digest[:_DIGITS]}"
