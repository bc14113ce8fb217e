"""Who may talk to the page, and how much they may send.

The page has no accounts: it is for the person at this machine. So it answers only requests that name this machine as
their host (a page elsewhere cannot reach it through a rebound name), changes nothing without a header that no foreign
page can set, and asks for a token as soon as it listens on more than loopback.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MARK = "x-fedsuper"  # a header of our own: other sites' pages cannot send it without this server's consent
COOKIE = "fedsuper-token"
MEGABYTE = 10**6
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class TooLargeError(Exception):
    """More bytes came than one upload may have."""


@dataclass(frozen=True)
class Door:
    """What is let in: hosts by name (None: any), a token (None: none needed), bytes a request."""

    hosts: frozenset[str] | None = LOOPBACK
    token: str | None = None
    upload_mb: int = 512

    @property
    def limit(self) -> int:
        """The most bytes a request may bring."""
        return self.upload_mb * MEGABYTE


class Gatekeeper:
    """ASGI middleware in front of the whole page."""

    def __init__(self, app: App, door: Door) -> None:
        self.app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        try:
            await self.app(scope, self._bounded(receive), _with_headers(send))
        except TooLargeError:
            await _refuse(413, self._too_large())(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = _host_name(headers.get("host", ""))
        if self.door.hosts is not None and host not in self.door.hosts:
            return _refuse(421, f"this page answers on {', '.join(sorted(self.door.hosts))} only, not as '{host[:80]}'")
        refusal = self._token_refusal(scope, headers)
        if refusal is not None:
            return refusal
        if scope["method"] not in ("GET", "HEAD") and MARK not in headers:
            return _refuse(403, "only the page itself may send images")
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.door.limit:
            return _refuse(413, self._too_large())
        return None

    def _token_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The token comes once in the address, then in a cookie of this page alone."""
        if self.door.token is None:
            return None
        query = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if query and hmac.compare_digest(query.encode(), self.door.token.encode()):
            answer = RedirectResponse(scope["path"])
            answer.set_cookie(COOKIE, self.door.token, httponly=True, samesite="strict")
            return answer
        shown = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if hmac.compare_digest(shown.encode(), self.door.token.encode()):
            return None
        return _refuse(401, "open the address that `fedsuper serve` printed: it carries the token")

    def _bounded(self, receive: Receive) -> Receive:
        """Counts what really comes: a header may lie about its length."""
        received = 0

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.door.limit:
                raise TooLargeError
            return message

        return bounded

    def _too_large(self) -> str:
        return f"the upload is larger than {self.door.upload_mb} MB; use `fedsuper predict` for such files"


def _refuse(status: int, problem: str) -> JSONResponse:
    return JSONResponse({"problem": problem}, status_code=status, headers={"connection": "close"})


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
