"""Who may look: a token once, a cookie from then on; and what a page of ours may load."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = ("", "0.0.0.0", "::")
READING = ("GET", "HEAD")
SHORTEST_TOKEN = 16  # characters of one that somebody chose
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# A redirect would not do: browsers leave a strict cookie out of one that follows from a link on
# another site. `refresh` begins a navigation of our own.
WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Understudy</title>'
    '<link rel="icon" href="data:,">'  # else browsers ask for one that is not there
    '<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Open the dashboard</a></p></html>'
)


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


class TokenGate:
    """Lets nobody in without the token or the cookie that it was exchanged for.

    Parameters
    ----------
    app : ASGI application
        What is behind it.
    token : str
        The secret in the printed address.
    host : str
        The address the server listens at.
    port : int
        Its port: cookies do not tell ports apart, so it is in the cookie's name.
    """

    def __init__(self, app: ASGIApp, token: str, host: str, port: int) -> None:
        self.app, self._token, self._host = app, token, host
        self.cookie = f"understudy-{port}"
        # not the token itself: what is in a browser's store opens no other server's door
        self._value = hmac.new(token.encode(), b"cookie", sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(HTTPConnection(scope))
        app: ASGIApp = self.app if refusal is None else refusal

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
            await send(message)

        await app(scope, receive, with_headers)

    def _refusal(self, asked: HTTPConnection) -> Response | None:
        """What is answered in place of what was asked for; None where it may be answered."""
        if not self._is_our_name(asked.headers):
            return PlainTextResponse("This server does not answer under that name.", 400)
        if asked.scope["method"] not in READING:
            return PlainTextResponse("Everything here is read-only.", 405, {"allow": "GET, HEAD"})
        if not _is_own_origin(asked.headers):
            return PlainTextResponse("Asked for by a page of another origin.", 403)
        token = asked.query_params.get("token")
        if token is not None and asked.url.path == "/":
            if _same(token, self._token):
                welcome = HTMLResponse(WELCOME)
                welcome.set_cookie(self.cookie, self._value, httponly=True, samesite="strict")
                return welcome
            return _no_entry("The token in this address is wrong.")
        if _same(asked.cookies.get(self.cookie, ""), self._value):
            return None
        return _no_entry("Open the address that understudy dashboard printed, with its token.")

    def _is_our_name(self, headers: Mapping[str, str]) -> bool:
        """Whether the host is one that leads here: names of others may be pointed at this machine.

        Ports are not compared, since an SSH tunnel begins at any.
        """
        name = _name_of(headers.get("host", ""))
        if name in LOOPBACK or name == self._host.lower():
            return True
        if self._host not in EVERYWHERE:
            return False
        return _is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())


def refuse_open(host: str, token: str | None) -> None:
    """Refuse to be seen by others without a token that was chosen on purpose."""
    if host not in LOOPBACK and token is None:
        raise ValueError(
            f"--host {host}: others can then reach the page; choose a secret with --token "
            f"({SHORTEST_TOKEN} characters or more), or leave --host out and use an SSH tunnel"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ValueError(f"--token: expected {SHORTEST_TOKEN} characters or more, got {len(token)}")


def _same(a: str, b: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(a.encode(errors="replace"), b.encode())


def _no_entry(words: str) -> Response:
    return PlainTextResponse(f"401: {words}\n", 401)


def _is_own_origin(headers: Headers) -> bool:
    """Browsers say who asks; a link on another site may lead here, and nothing else of it."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return False
    site = headers.get("sec-fetch-site", "none")
    return site in ("same-origin", "none") or headers.get("sec-fetch-mode") == "navigate"


def _name_of(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
