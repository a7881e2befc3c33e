"""The guard: one deny-by-default ASGI layer around the whole application.

A request passes only if it comes from this machine, names this server exactly (Host), comes from
its own page (Origin, if a browser sends one) and carries a secret of this launch: the cookie of a
browser, or the bearer token of a program. The printed address contains a token that is exchanged
for the cookie. The token expires once the browser sends the cookie back; until then, a browser that
lost the answer may ask again.

Browsers send cookies by host, whatever the port: another server on this machine that is opened in
the same browser sees ours. The cookie's name contains our port, and the secret ends with this
launch; users who share a machine with hostile servers can open the page in a private window. A
separate host name (``x.localhost``) would isolate the cookie, but not every browser resolves one.

Invariant: a new route gets all of this automatically; no route can opt out. Secrets are compared in
constant time and never logged.
"""

from __future__ import annotations

import hmac
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import Literal
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nodescope.link import proof
from nodescope.link.owner import is_users
from nodescope_server.http.pages import refusal

Role = Literal["browser", "program"]

# Only programs (debuggees, `nodescope open`) may use these; a page never needs them.
PROGRAM_ONLY = ("/link", "/api/tokens")
MAX_TOKENS = 64
ASKS_AGAIN_S = 10.0
"""How long a browser that has been given the cookie may ask for it again."""
MAX_NUMBERS = 10_000


class Secrets:
    """The secrets of one launch, 256 bits each.

    Args:
        bearer: The token for programs; generated if empty.
    """

    def __init__(self, bearer: str = "") -> None:
        self.bearer = bearer or secrets.token_urlsafe(32)
        # A server restarted with the same token knows the pages of the previous one.
        self.cookie = hmac.new(
            self.bearer.encode(), b"the cookie of browsers", "sha256"
        ).hexdigest()
        self._tokens: list[str] = []
        self._redeemed: dict[str, float] = {}  # since when; their cookie has not come back yet
        self._used: deque[str] = deque(maxlen=MAX_TOKENS)
        self._personal: set[str] = set()
        self._numbers: dict[str, None] = {}
        self._since_ns = time.monotonic_ns()
        self._lock = threading.Lock()

    def is_new(self, number: str) -> bool:
        """Whether a program's nonce is from this launch and unused; marks it as used."""
        if proof.made_ns(number) < self._since_ns:
            return False  # an earlier listener on this port may have overheard it
        with self._lock:
            used = number in self._numbers
            self._numbers[number] = None
            if len(self._numbers) > MAX_NUMBERS:
                del self._numbers[next(iter(self._numbers))]
        return not used

    def mint(self, *, personal: bool = False) -> str:
        """A new one-use token for an address. Beyond 64 unused ones, the oldest is dropped.

        Args:
            personal: Whether only this user's processes can use it, so that other users may see it,
                as in the arguments of a browser.
        """
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens = [*self._tokens[-MAX_TOKENS + 1 :], token]
            if personal:
                self._personal.add(token)
            self._personal.intersection_update(self._tokens)
        return token

    def redeem(self, token: str, is_own: Callable[[], bool] = lambda: True) -> bool:
        """Whether a token is valid: until the cookie comes back, or for ten seconds.

        Args:
            is_own: Whether the presenter is this user; called for a personal token.
        """
        now = time.monotonic()
        with self._lock:
            matches = [minted for minted in self._tokens if _same(minted, token)]
            if not self._personal.isdisjoint(matches) and not is_own():
                return False  # and the token stays valid for its owner
            self._use_up(now - ASKS_AGAIN_S)
            valid = [minted for minted in matches if minted in self._tokens]
            self._redeemed.update({minted: now for minted in valid if minted not in self._redeemed})
        return bool(valid)

    def came_back(self) -> None:
        """Note that a browser has sent the cookie: redeemed tokens are now used up."""
        if self._redeemed:
            with self._lock:
                self._use_up(math.inf)

    def was_used(self, token: str) -> bool:
        """Whether a token belongs to this launch and is used up."""
        with self._lock:
            return any(_same(used, token) for used in self._used)

    def _use_up(self, until: float) -> None:
        done = [token for token, since in self._redeemed.items() if since <= until]
        for token in done:
            del self._redeemed[token]
            self._used.append(token)
        self._tokens = [minted for minted in self._tokens if minted not in done]


class Guard:
    """Passes on permitted requests, and adds protective headers to responses.

    Args:
        app: The guarded application.
        keys: The secrets of this launch.
        port: The server's port, which is part of Host, Origin and the cookie's name.
    """

    def __init__(self, app: ASGIApp, keys: Secrets, port: int) -> None:
        self._app = app
        self._keys = keys
        self._port = port
        self.cookie_name = f"nodescope_{port}"
        names = ("127.0.0.1", "localhost", "[::1]")
        # Browsers omit port 80.
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = self._judge(scope, headers)
        if answer is None and scope["type"] == "websocket":
            await self._app(scope, receive, self._proving(headers, send))
            return
        host = headers.get("host", "")
        send = _with_headers(send, host if host in self._hosts else "")
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await answer(scope, receive, send)
        else:
            await _refuse_socket(answer, scope, receive, send)

    def _judge(self, scope: Scope, headers: Headers) -> Response | None:
        """The refusal (or the redirection that sets the cookie), or None to let pass."""
        if not _is_loopback(scope):
            return refusal(scope, 403, "This server only accepts connections from its own machine.")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return refusal(
                scope, 400, "The Host header does not name this server.", "Use the printed address."
            )
        if len(headers.getlist("origin")) > 1 or len(headers.getlist("authorization")) > 1:
            return refusal(scope, 400, "A header was sent twice.")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            return refusal(scope, 403, "The request comes from another website.")
        role = self._role(headers)
        if role == "browser":
            self._keys.came_back()
        if role == "program":
            # A page of any site can make a browser send a request, but cannot set this header.
            if origin is not None:
                return refusal(scope, 403, "A bearer token may not come from a web page.")
            return None
        if scope["type"] == "http" and scope["path"] == "/":
            entry = self._enter(scope, headers, role)
            if entry is not None:
                return entry
        if role is None:
            return refusal(
                scope,
                401,
                "Access denied: this address lacks its token.",
                "Open the whole address that nodescope printed in the terminal, with ?token=…; use"
                " the browser in which it was opened first, or start nodescope again: it prints a"
                " new link.",
            )
        if scope["path"].rstrip("/") in PROGRAM_ONLY:
            return refusal(scope, 403, "Only programs with the bearer token may use this.")
        unsafe = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if unsafe and origin is None:
            return refusal(scope, 403, "The Origin header is missing.")
        return None

    def _proving(self, headers: Headers, send: Send) -> Send:
        """Prove to a requesting program that this server knows the token."""
        number = _challenge(headers)[0]
        if not number:
            return send
        server_proof = proof.proof(self._keys.bearer, "server", self._port, number)

        async def proving(message: Message) -> None:
            if message["type"] == "websocket.accept":
                proof_header = (proof.HEADER.lower().encode(), server_proof.encode())
                message = {**message, "headers": [*message.get("headers", ()), proof_header]}
            await send(message)

        return proving

    def _role(self, headers: Headers) -> Role | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(token.strip(), self._keys.bearer):
            return "program"
        number, digest = _challenge(headers)
        if number and proof.is_proof(digest, self._keys.bearer, "program", self._port, number):
            return "program" if self._keys.is_new(number) else None
        good = False
        for line in headers.getlist("cookie"):
            for pair in line.split(";"):
                name, _, value = pair.strip().partition("=")
                # No early exit: the time does not reveal which cookie was right.
                good |= name == self.cookie_name and _same(value, self._keys.cookie)
        return "browser" if good else None

    def _enter(self, scope: Scope, headers: Headers, role: Role | None) -> Response | None:
        """Exchange the token in the address for the cookie; None if there is none to exchange."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        if not tokens or scope["method"] != "GET":
            return None
        query_left = urlencode([(name, value) for name, value in query if name != "token"])
        onward = RedirectResponse(f"/?{query_left}" if query_left else "/", status_code=303)
        if role is not None:
            return onward  # the same browser again, which already has the cookie
        purpose = headers.get("sec-purpose", "") + headers.get("purpose", "")
        if "prefetch" in purpose:
            return refusal(scope, 403, "A prefetch would use up the token.")
        if len(tokens) > 1 or not self._keys.redeem(tokens[0], lambda: _is_own(scope)):
            if self._keys.was_used(tokens[0]):
                reason = "This link has been used already."
                hint = "Use the browser in which it was opened first, or start nodescope again: it"
            else:
                reason = "The server that printed this link has ended, or it is another user's."
                hint = "Start nodescope again: it"
            return refusal(scope, 403, reason, f"{hint} prints a new link.")
        onward.set_cookie(
            self.cookie_name, self._keys.cookie, httponly=True, samesite="strict", path="/"
        )
        return onward


def _challenge(headers: Headers) -> tuple[str, str]:
    """The nonce that a program has chosen, and its own proof; empty if there is none."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    number, _, digest = credentials.strip().partition(":")
    if scheme != proof.SCHEME or len(number) > proof.MAX_NONCE or not number.isalnum():
        return "", ""
    return number, digest


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(), right.encode())


def _is_loopback(scope: Scope) -> bool:
    client = scope.get("client")
    try:
        return client is not None and ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _is_own(scope: Scope) -> bool:
    """Whether the connection was made by a process of this user."""
    client, server = scope.get("client"), scope.get("server")
    return client is not None and server is not None and is_users(client, server)


def _with_headers(send: Send, host: str) -> Send:
    """Add the protective headers to all responses, including errors."""
    # Safari does not count a WebSocket to the same host as 'self'.
    socket = f" ws://{host}" if host else ""
    policy = (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        f"font-src 'self'; worker-src 'self' blob:; connect-src 'self'{socket}; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    fixed = {
        b"content-security-policy": policy.encode(),
        b"x-content-type-options": b"nosniff",
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"no-referrer",
        b"cross-origin-opener-policy": b"same-origin",
        b"cross-origin-resource-policy": b"same-origin",
    }

    async def guarded(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            present = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in fixed.items() if name not in present]
            if b"cache-control" not in present:
                added.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return guarded


async def _refuse_socket(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Deny the handshake with the response, so that the client learns the reason."""
    await receive()  # websocket.connect
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    start = {"status": answer.status_code, "headers": answer.raw_headers}
    await send({"type": "websocket.http.response.start", **start})
    await send({"type": "websocket.http.response.body", "body": bytes(answer.body)})
