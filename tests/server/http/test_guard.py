"""The guard: nothing passes without a secret, the right Host and the right Origin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from websockets.exceptions import InvalidStatus

from nodescope.link import proof
from nodescope_server.http import guard
from nodescope_server.http.guard import MAX_TOKENS, Guard, Secrets
from tests.parts import in_parts
from tests.server.support import BEARER, Live, serving
from tests.unencrypted import NO_CERTIFICATES

PORT = 7711
HERE = f"127.0.0.1:{PORT}"


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """The guarded application, which reports what reaches it."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        return
    await PlainTextResponse(f"inside {scope['path']}")(scope, receive, send)


class Door:
    """A guard, and methods that send requests to it."""

    def __init__(self) -> None:
        self.keys = Secrets("bearer-of-the-test")
        self.guard = Guard(inside, self.keys, PORT)
        self.cookie = {"Cookie": f"nodescope_{PORT}={self.keys.cookie}"}
        self.bearer = {"Authorization": "Bearer bearer-of-the-test"}

    def ask(
        self,
        path: str,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        method: str = "GET",
        host: str = HERE,
        client: str = "127.0.0.1",
    ) -> httpx.Response:
        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(self.guard, client=(client, 4242))
            base = f"http://{HERE}"
            async with httpx.AsyncClient(transport=transport, base_url=base) as http:
                sent = headers.items() if isinstance(headers, Mapping) else headers
                return await http.request(method, path, headers=[("Host", host), *sent])

        return asyncio.run(run())

    def connect(self, headers: Mapping[str, str], *, path: str = "/api/stream") -> int:
        """The status of a handshake: 101 if it was accepted."""
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        scope: dict[str, Any] = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "client": ("127.0.0.1", 4242),
            "extensions": {"websocket.http.response": {}},
            "headers": [
                (name.lower().encode(), value.encode())
                for name, value in {"Host": HERE, **headers}.items()
            ],
        }
        asyncio.run(self.guard(scope, receive, send))
        return 101 if sent[0]["type"] == "websocket.accept" else int(sent[0]["status"])


@pytest.fixture
def door() -> Door:
    return Door()


def test_cookie_and_bearer_let_in(door: Door) -> None:
    assert door.ask("/api/runs", door.cookie).text == "inside /api/runs"
    assert door.ask("/api/runs", door.bearer).text == "inside /api/runs"
    for name in ("localhost", "[::1]"):
        assert door.ask("/", door.cookie, host=f"{name}:{PORT}").status_code == 200


@in_parts(1)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": f"nodescope_{PORT}=wrong"},
        {"Cookie": f"nodescope_{PORT}="},
        {"Cookie": f"nodescope_{PORT}"},
        {"Cookie": "nodescope_7712=bearer-of-the-test"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic bearer-of-the-test"},
        {"Authorization": "Bearer bearer-of-the-tesé"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/assets/index.js", "/link", "/no/such"])
def test_without_a_secret_nothing_answers(door: Door, headers: dict[str, str], path: str) -> None:
    answer = door.ask(path, [(k, v.encode("latin-1")) for k, v in headers.items()])  # type: ignore[misc]
    assert answer.status_code == 401
    assert "inside" not in answer.text
    assert "start nodescope again" in answer.text


@pytest.mark.parametrize(
    "host",
    ["", "127.0.0.1", "localhost", "127.0.0.1:7712", "evil.example:7711", "127.0.0.1:7711.evil",
     "127.0.0.1:7711@evil", "LOCALHOST:7711", "127.0.0.1:07711", "127.1:7711"],
)  # fmt: skip
def test_a_foreign_host_is_refused(door: Door, host: str) -> None:
    assert door.ask("/api/runs", door.cookie, host=host).status_code == 400


def test_two_hosts_are_refused(door: Door) -> None:
    headers = [("Host", HERE), *door.cookie.items()]
    assert door.ask("/api/runs", headers).status_code == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_methods_with_effects_need_the_own_origin(door: Door, method: str) -> None:
    foreign = {**door.cookie, "Origin": "http://evil.example"}
    assert door.ask("/api/runs", foreign, method=method).status_code == 403
    assert door.ask("/api/runs", door.cookie, method=method).status_code == 403
    own = {**door.cookie, "Origin": f"http://{HERE}"}
    assert door.ask("/api/runs", own, method=method).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", f"https://{HERE}", f"http://localhost:{PORT}", "http://127.0.0.1",
     f"http://{HERE}/", f"http://{HERE}.evil"],
)  # fmt: skip
def test_sockets_need_the_exact_origin(door: Door, origin: str) -> None:
    assert door.connect({**door.cookie, "Origin": origin}) == 403
    assert door.connect({**door.bearer, "Origin": origin}) == 403


def test_sockets_of_the_page_and_of_programs(door: Door) -> None:
    assert door.connect({**door.cookie, "Origin": f"http://{HERE}"}) == 101
    assert door.connect(door.cookie) == 403  # Every browser sends an Origin.
    assert door.connect({}) == 401
    assert door.connect(door.bearer) == 101
    assert door.connect(door.bearer, path="/link") == 101


def test_a_page_can_not_pose_as_a_program(door: Door) -> None:
    own = {**door.cookie, "Origin": f"http://{HERE}"}
    assert door.connect(own, path="/link") == 403
    assert door.ask("/api/tokens", own, method="POST").status_code == 403
    assert door.ask("/api/tokens/", own, method="POST").status_code == 403
    assert door.connect({**door.bearer, "Origin": f"http://{HERE}"}, path="/link") == 403


def test_other_machines_are_refused(door: Door) -> None:
    assert door.ask("/api/runs", door.bearer, client="192.0.2.7").status_code == 403
    assert door.ask("/api/runs", door.bearer, client="::1").status_code == 200


def test_the_printed_address_lets_one_browser_in_once(door: Door) -> None:
    token = door.keys.mint()
    first = door.ask(f"/?token={token}&run=abc")
    assert first.status_code == 303
    assert first.headers["location"] == "/?run=abc"
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"nodescope_{PORT}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    headers = {"Cookie": cookie.partition(";")[0]}
    # A browser that did not receive the answer asks again.
    assert door.ask(f"/?token={token}").headers["set-cookie"] == cookie
    assert door.ask("/", headers).text == "inside /"

    again = door.ask(f"/?token={token}")
    assert again.status_code == 403
    assert "used already" in again.text
    assert "set-cookie" not in again.headers
    # The browser that was let in may use the link again, because its cookie counts.
    assert door.ask(f"/?token={token}", headers).status_code == 303


def test_a_token_whose_cookie_does_not_come_back_is_used_up_soon(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: now))
    token = door.keys.mint()
    assert door.keys.redeem(token)
    now += 9
    assert door.keys.redeem(token)
    now += 2
    assert not door.keys.redeem(token)
    assert door.keys.was_used(token)


def test_a_link_of_an_earlier_server_is_explained(door: Door) -> None:
    answer = door.ask(f"/?token={Secrets().mint()}")
    assert answer.status_code == 403
    assert "The server that printed this link has ended" in answer.text


def test_what_does_not_use_the_token_up(door: Door) -> None:
    token = door.keys.mint()
    assert door.ask(f"/?token={token}", method="HEAD").status_code == 401
    assert door.ask(f"/?token={token}", {"Sec-Purpose": "prefetch"}).status_code == 403
    assert door.ask(f"/?token={token}", host="evil:1").status_code == 400
    assert door.ask(f"/api/runs?token={token}").status_code == 401
    assert door.ask(f"/?token={token}x&token={token}").status_code == 403
    assert door.ask(f"/?token={token}").status_code == 303


def test_unused_tokens_are_not_kept_for_ever(door: Door) -> None:
    tokens = [door.keys.mint() for _ in range(MAX_TOKENS + 1)]
    assert not door.keys.redeem(tokens[0])
    assert door.keys.redeem(tokens[1])
    assert door.keys.redeem(tokens[-1])
    door.keys.came_back()
    assert not door.keys.redeem(tokens[-1])


def test_secrets_are_long_and_different() -> None:
    seen = {secret for _ in range(50) for keys in [Secrets()]
            for secret in (keys.bearer, keys.cookie, keys.mint())}  # fmt: skip
    assert len(seen) == 150
    assert min(map(len, seen)) >= 43  # 256 bits in base 64.


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/?token=wrong", 303)])
def test_every_answer_is_protected(door: Door, path: str, status: int) -> None:
    answer = door.ask(path, door.cookie)
    assert answer.status_code == status
    for item in (answer, door.ask(path), door.ask(path, host="evil:1")):
        policy = item.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert item.headers["x-content-type-options"] == "nosniff"
        assert item.headers["referrer-policy"] == "no-referrer"
        assert item.headers["cache-control"] == "no-store"
        assert "evil" not in policy


def test_the_policy_names_the_own_socket(door: Door) -> None:
    policy = door.ask("/", door.cookie, host=f"localhost:{PORT}").headers["content-security-policy"]
    assert f"connect-src 'self' ws://localhost:{PORT};" in policy


def test_a_proof_of_the_token_is_as_good_as_the_token_once() -> None:
    with serving() as live:
        number = proof.nonce()

        def says(side: str = "program", port: int = live.port, token: str = BEARER) -> str:
            return f"{proof.SCHEME} {number}:{proof.proof(token, side, port, number)}"

        def opens(authorization: str) -> str:
            """The server's proof, or ``""`` if it refuses."""
            try:
                socket = live.socket("/link", {"Authorization": authorization})
            except InvalidStatus:
                return ""
            shown = socket.response.headers[proof.HEADER]
            socket.close()
            return shown

        without = f"{proof.SCHEME} :{proof.proof(BEARER, 'program', live.port, '')}"
        wrong = (says("server"), says(port=live.port + 1), says(token="x"), without)
        assert [opens(item) for item in wrong] == [""] * 4
        assert proof.is_proof(opens(says()), BEARER, "server", live.port, number)
        assert opens(says()) == ""  # A proof that was overheard does not work again.


def test_a_personal_address_lets_in_its_own_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user who reads it in a browser's arguments gains nothing, and cannot use it up."""
    with serving() as live:
        url = f"{live.base}/?token={live.app.keys.mint(personal=True)}"
        for owner in (4321, None):
            monkeypatch.setattr("nodescope.link.owner.owner_of", lambda *_, owner=owner: owner)
            assert httpx.get(url, verify=NO_CERTIFICATES).status_code == 403
        monkeypatch.undo()
        assert httpx.get(url, verify=NO_CERTIFICATES).status_code == 303
        live.app.keys.came_back()
        assert httpx.get(url, verify=NO_CERTIFICATES).status_code == 403  # The address works once.


def test_a_server_that_is_started_again_knows_its_pages_and_no_other_does() -> None:
    cookie = Secrets("the same token").cookie
    assert cookie == Secrets("the same token").cookie
    assert len({cookie, Secrets("another token").cookie, Secrets().cookie, Secrets().cookie}) == 4


def test_what_an_earlier_listener_heard_is_of_no_use(live: Live) -> None:
    """A restarted server has the token and the port of its predecessor."""
    fresh = Secrets(BEARER)
    old = proof.nonce()  # A nonce that a listener overheard before the server was restarted.
    later = Secrets(BEARER)
    assert fresh.is_new(old)
    assert not later.is_new(old)
    assert not later.is_new("z" * 64)
    assert not later.is_new("")
    assert later.is_new(proof.nonce())
    nonce = proof.nonce()
    assert live.app.keys.is_new(nonce)
    assert not live.app.keys.is_new(nonce)
    ago = "0" * 16 + "a" * 48
    shown = proof.proof(BEARER, "program", live.port, ago)
    with pytest.raises(InvalidStatus):
        live.socket("/link", {"Authorization": f"{proof.SCHEME} {ago}:{shown}"})
