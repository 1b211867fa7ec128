"""Access to the inspector: operators, access on this machine, and checks of each request.

An application passes a function that returns the `Operator` of a request:

    def operator_of(request: Request) -> Operator | None:
        user = user_of(request.session)
        return Operator(user.name, owner=user.tenant_id) if user.is_staff else None

`LocalAccess` is such a function for one person at this machine, as `alfred-refs inspect` uses it:
the first request has a random token in its URL, all others a cookie.

>>> from alfred_refs.inspector import LocalAccess
>>> access = LocalAccess(by="ann")
>>> access.query == f"?token={access.token}"
True

`Guard` is in front of all pages:

- a request that may change something must come from a page of the same origin, by the headers
  `Sec-Fetch-Site` and `Origin` that browsers send;
- each response has headers that forbid scripts, frames, and caching.

Limits: TLS and rate limits are missing: put a proxy in front.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alfred_refs.errors import SetupError

LOOPBACK = ("127.0.0.1", "localhost")
"""The hosts that are served by default."""

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # with "no-referrer", browsers would send `Origin: null` with the forms
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Operator:
    """A person who uses the inspector.

    Attributes:
        by: the person's name or id, as text; it is stored with each decision.
        owner: the owner whose conversations the operator sees and decides, as
            `BoundToolset.call` takes it; `None` for a toolset without `Ownership`; `...` for the
            conversations of all owners.

    Raises:
        SetupError: `by` is empty.

    Example:
        >>> from alfred_refs.inspector import Operator
        >>> Operator("ann", owner=7).owner, Operator("root", owner=...).owner
        (7, Ellipsis)
    """

    by: str
    owner: Any = field(repr=False)

    def __post_init__(self) -> None:
        if not self.by:
            raise SetupError("an operator has no name", "give by=, such as the user's id")


_Found = Operator | Response | None

Authenticate = Callable[[Request], _Found] | Callable[[Request], Awaitable[_Found]]
"""Returns the operator of a request, `None`, or a response such as a redirect to a login page.

It may be a coroutine function; others run in a thread.
"""


class LocalAccess:
    """Access for one person at this machine: a token in the first URL, then a cookie.

    Args:
        by: the person, as for `Operator`.
        owner: as for `Operator`.

    Attributes:
        token: the random token that authenticates the operator.
        operator: the person.

    Example:
        >>> from alfred_refs.inspector import LocalAccess
        >>> len(LocalAccess(by="ann").token)
        43
    """

    def __init__(self, by: str, owner: Any = ...) -> None:
        self.token = secrets.token_urlsafe(32)
        self.operator = Operator(by, owner)
        self._secret = secrets.token_urlsafe(32)
        # a separate name for each instance, because cookies of one host are shared by all ports
        self._cookie = f"alfred_refs_{secrets.token_hex(4)}"

    @property
    def query(self) -> str:
        """The query of the first URL."""
        return f"?token={self.token}"

    def __call__(self, request: Request) -> _Found:
        """Return the operator, or the redirect that sets the cookie."""
        given = request.query_params.get("token")
        if given is not None and _is_equal(given, self.token):
            others = [each for each in request.query_params.multi_items() if each[0] != "token"]
            response = RedirectResponse(f"?{urlencode(others)}" if others else ".", 303)
            response.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict")
            return response
        cookie = request.cookies.get(self._cookie, "")
        return self.operator if _is_equal(cookie, self._secret) else None


def _is_equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), secret.encode())


async def operator_of(authenticate: Authenticate, request: Request) -> _Found:
    """Call the application's function for a request, and check its result.

    Raises:
        SetupError: the result is not one of the allowed values.
    """
    found: Any = await run_in_threadpool(authenticate, request)
    if isinstance(found, Awaitable):
        found = await found
    if found is None or isinstance(found, Operator | Response):
        return found
    raise SetupError(
        f"authenticate returned a {type(found).__name__}",
        "return Operator(by=..., owner=...), a response, or None",
    )


class Guard:
    """Refuses requests from other sites, and adds security headers to all responses.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, if it does not come from another site."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app = self._app
        if scope["method"] not in _SAFE_METHODS and not is_same_origin(Headers(scope=scope)):
            app = PlainTextResponse("This request comes from another site.", 403)
        await app(scope, receive, send_with_headers)


def is_same_origin(headers: Headers) -> bool:
    """Return whether a request comes from a page of its own host.

    One of the two headers must be present, and neither may contradict. Only hosts and ports of
    origins are compared: behind a proxy with TLS, the application does not know its scheme.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None and origin is None:
        return False
    is_from_host = origin is None or _host_of(origin) == headers.get("host")
    return site in (None, "same-origin") and is_from_host


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
