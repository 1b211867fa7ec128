"""The server: tools listed as the toolset tells of them, and called for whoever a request is of.

    server_of(desk, lambda ctx: (thread_of(ctx.request), user_of(ctx.request)), name="shop")

What a model can mend comes back as a result with `isError`, the same JSON as text and as
structured content. Anything else is an internal error, of which the client reads nothing and the
log, named `alfred_refs.mcp`, everything.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.shared.exceptions import MCPError

from alfred_refs.errors import SetupError
from alfred_refs.tools import TOOLS, BoundToolset

from .principals import OwnerOf, Principals, Request, Whose, subject_of
from .resources import Resources
from .work import Work

_log = logging.getLogger("alfred_refs.mcp")

_P = TypeVar("_P")
_R = TypeVar("_R")

_FRESH = CacheHint(ttl_ms=300_000, scope="public")  # lists are the same for all who ask
_LISTS: tuple[CacheableMethod, ...] = (
    *("tools/list", "resources/list", "resources/templates/list", "prompts/list"),
)

# What programs may go by; nothing is required, for an answer may be an error, and have more.
_ANSWER = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "rows": {"type": "array", "items": {"type": "object"}},
        "count": {"type": "integer"},
        "more": {"type": "boolean"},
        "cursor": {"type": "string"},
        "error": {"type": "object"},
    },
}


def server_of(
    desk: BoundToolset,
    whose: Whose | None = None,
    *,
    name: str,
    version: str = "",
    instructions: str | None = None,
    read_only: bool = False,
    owner_of: OwnerOf | None = None,
) -> Server[Any]:
    """Return a server that offers a toolset's tools, to be run on any transport of the SDK.

    Args:
        desk: the tools, and what makes their sessions. Synchronous sessions work in threads, as
            many as the engine has connections: a call that the client cancels is finished and
            committed. With asynchronous ones it is rolled back.
        whose: says in which conversation a request is, and for which owner; it may be awaited.
            Without it that is the conversation that the client names, or else one for each
            principal of access tokens.
        name: the server's, for hosts.
        version: the server's.
        instructions: what hosts tell models of the server.
        read_only: whether tools that change something are left out: not listed, and unknown.
        owner_of: says whose rows an access token is for, `None` where there is none; its subject,
            unless this is given.

    Raises:
        SetupError: `owner_of` is given beside `whose`, or where rows have no owners, or there is
            no bound toolset.
    """
    given: Any = desk
    if not isinstance(given, BoundToolset):
        raise SetupError(
            f"a server was asked for on a {type(given).__name__}",
            "give what Toolset.bind(sessions, registry=registry) returns",
        )
    has_owners = desk.toolset.ownership is not None
    if owner_of is not None and (whose is not None or not has_owners):
        raise SetupError(
            "owner_of is given, and " + ("whose is too" if whose else "the toolset has no owners"),
            "let whose tell the owner, or give Toolset(..., owner=Ownership(...))",
        )
    if whose is None:
        whose = Principals((owner_of or subject_of) if has_owners else None)
    work = Work(desk, whose)
    tools, resources = _Tools(work, read_only=read_only), Resources(work)
    return Server(
        name,
        version=version,
        instructions=instructions,
        cache_hints=dict.fromkeys(_LISTS, _FRESH),
        on_list_tools=_sealed(tools.list),
        on_call_tool=_sealed(tools.call),
        on_list_resources=_sealed(resources.list),
        on_list_resource_templates=_sealed(resources.templates),
        on_read_resource=_sealed(resources.read),
        on_list_prompts=_sealed(resources.prompts),
        on_get_prompt=_sealed(resources.prompt),
    )


class _Tools:
    """Lists the tools, and calls them."""

    def __init__(self, work: Work, *, read_only: bool) -> None:
        self._work = work
        self._listed = {
            each["name"]: types.Tool.model_validate(
                {"outputSchema": _ANSWER if each["name"] in TOOLS else {"type": "object"}} | each
            )
            for each in work.desk.schemas("mcp")
            if not read_only or work.desk.reads(each["name"])
        }

    async def list(self, _: Request, __: Any) -> types.ListToolsResult:
        """Tell which tools there are."""
        return types.ListToolsResult(tools=[*self._listed.values()])

    async def call(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call a tool."""
        if params.name not in self._listed:
            known = ", ".join(map(repr, self._listed))
            raise MCPError(
                types.INVALID_PARAMS, f"there is no tool {params.name!r}; known: {known}"
            )
        answer = await self._work.call(request, params.name, params.arguments)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=answer.value,
            is_error=answer.failed,
        )


def _sealed(
    handle: Callable[[Request, _P], Awaitable[_R]],
) -> Callable[[Request, _P], Awaitable[_R]]:
    """Let no more of an exception out than that there was one.

    The SDK does so too, but not for clients of 2025: those it sends the exception's text.
    """

    @wraps(handle)
    async def sealed(request: Request, params: _P) -> _R:
        try:
            return await handle(request, params)
        except MCPError:
            raise
        except Exception:  # noqa: BLE001  # the log is told, and nobody else
            _log.exception("%s failed", request.method)
        # here and not where it was caught: there that would be its context
        raise MCPError(types.INTERNAL_ERROR, "Internal server error")

    return sealed
