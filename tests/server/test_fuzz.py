"""The server answers every route with any parameters, and every page request with any fields.

The routes come from the server's own description, the requests from the wire's types, so new ones
are tested automatically.
"""

from __future__ import annotations

import asyncio
import math
import re
import typing
from pathlib import Path
from types import UnionType
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

import nodescope as ns
from nodescope.link import messages
from nodescope_server import wire
from tests.depth import examples
from tests.server.support import BEARER, WAIT_S, Live, Page, serving
from tests.unencrypted import NO_CERTIFICATES

# The server runs in a thread of this process, and may draw random numbers while Hypothesis draws
# an example.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)

LARGE = 1 << 63
NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 3, 7, 255, 20_001, 2**31, 2**53 + 1, LARGE - 1, LARGE, -LARGE, 2 * LARGE - 1]
)
TEXTS = st.sampled_from(
    ["", " ", "\x00", "\u202e", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "nan",
     "-1", "1e999", "9" * 400, "../../etc/passwd", "/dev/zero", "/", "%00", "__proto__", "a" * 5000,
     "0" * 16, "*", "[", "x > (", "{}", "\U0001f4a5", "op:exp", "1..", "3, :, ::0"]
)  # fmt: skip
FLOATS = st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e308, 5e-324])
SETTINGS = settings(
    max_examples=examples(300), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
                           HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> typing.Iterator[Live]:
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(folder=tmp_path_factory.mktemp("folder")) as running,
    ):
        # Recent recordings of other tests may have ended with an error.
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield running


@pytest.fixture(scope="module")
def run(live: Live, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recording that the server has open."""
    path: Path = tmp_path_factory.mktemp("runs") / "run.nscope"
    weight = ns.parameter([1.0, 2.0], name="w")
    with ns.record(path, level="values"):
        for step in ns.steps(range(3)):
            (weight * float(step)).sum()
    return asyncio.run(live.app.runs.open(path)).info.id


def value_for(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Valid and invalid values of a parameter."""
    texts = TEXTS | NUMBERS.map(str)
    return texts | st.sampled_from(schema["enum"]) if "enum" in schema else texts


def test_any_parameter_and_body_is_answered(live: Live, run: str) -> None:
    routes = [
        (method, path, about)
        for path, methods in live.get("/api/openapi.json").json()["paths"].items()
        for method, about in methods.items()
    ]
    assert len(routes) > 12
    answered: set[int] = set()
    headers = {"Authorization": f"Bearer {BEARER}"}
    with httpx.Client(
        base_url=live.base, headers=headers, timeout=WAIT_S, verify=NO_CERTIFICATES
    ) as client:

        @SETTINGS
        @given(st.data())
        def ask(data: st.DataObject) -> None:
            method, path, about = data.draw(st.sampled_from(routes))
            query = []
            for item in about.get("parameters", ()):
                drawn = data.draw(value_for(item["schema"]))
                if item["in"] == "path":
                    drawn = run if item["name"] == "run" and data.draw(st.booleans()) else drawn
                    path = path.replace(f"{{{item['name']}}}", quote(drawn, safe=""))
                elif data.draw(st.booleans()):
                    query += [(item["name"], drawn)] * data.draw(st.integers(1, 2))
            more: dict[str, Any] = {}
            if method not in ("get", "head"):
                body = data.draw(
                    st.recursive(
                        st.none() | st.booleans() | NUMBERS | TEXTS,
                        lambda inner: st.lists(inner, max_size=3)
                        | st.dictionaries(
                            st.sampled_from(["path", "paths", "id", "name", "before", "after"]),
                            inner, max_size=4,
                        ),
                        max_leaves=6,
                    )
                    | st.binary(max_size=20)
                )  # fmt: skip
                more["content"] = body if isinstance(body, bytes) else msgspec.json.encode(body)
            answer = client.request(method.upper(), path, params=query, **more)
            answered.add(answer.status_code)
            text = answer.text[:2000]
            assert answer.status_code < 500 or answer.status_code in (501, 503, 507), text
            for word in ("Traceback", "defect", "Error:", "nodescope failed"):
                assert word not in text or "export" in path, (method, path, query, text)

        ask()
        assert {200, 404, 422} <= answered
        assert client.get("/api/health").json()["status"] == "ok"


def strategy(kind: Any, run: str) -> st.SearchStrategy[Any]:
    """Plain data in the shape of a type, with invalid values."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return st.one_of([strategy(argument, run) for argument in arguments])
    if origin is typing.Literal:
        return st.sampled_from(list(arguments))
    if origin is typing.Annotated:
        return strategy(arguments[0], run)
    if origin in (tuple, list):
        inner = strategy(arguments[0], run) if arguments else st.none()
        if origin is tuple and len(arguments) > 1 and arguments[1] is not Ellipsis:
            return st.tuples(*[strategy(argument, run) for argument in arguments]).map(list)
        return st.lists(inner, max_size=3)
    if origin is dict:
        return st.dictionaries(TEXTS, strategy(arguments[1], run), max_size=2)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return NUMBERS
    if kind is float:
        return FLOATS
    if kind is str:
        return TEXTS
    if kind is bytes:
        return st.binary(max_size=20)
    if kind is type(None):
        return st.none()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        about = msgspec.structs.fields(kind)
        fields = {item.encode_name: strategy(item.type, run) for item in about}
        if "run" in fields:
            fields["run"] = st.just(run)
        config = kind.__struct_config__
        if config.tag is not None:
            fields[config.tag_field or "type"] = st.just(config.tag)
        return st.fixed_dictionaries(fields)
    return st.none() | NUMBERS | TEXTS


KINDS = typing.get_args(wire.RequestBody)
DEEP = 2_000
ODD = st.sampled_from(
    [None, True, -1, 2**64 - 1, math.nan, math.inf, "", "\x00", "__proto__", b"\xed\xa0\x80", [],
     {},
     {"__proto__": {"type": "set_value"}}, {"type": "__proto__"}, [[[]]] * 3, ["a"] * 5000,
     [0] * 70_000]
)  # fmt: skip
RAW = st.sampled_from(
    [b"", b"\xc1", b"\x91" * DEEP, b"\x81\xa1a" * DEEP, b"\xdf\xff\xff\xff\xff",
     b"\xc6\xff\xff\xff\xff",
     b"\xdd\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\x82\xa2id\x01\xa4body\xa1\xed",
     "{}", "\x00"]
)  # fmt: skip


@st.composite
def broken(draw: st.DrawFn, run: str) -> bytes | str:
    """A request with a wrong type, an extra field or a wrong byte, or cut short."""
    kind = draw(st.sampled_from(KINDS))
    body = draw(strategy(kind, run))
    if body and draw(st.booleans()):
        field = draw(st.sampled_from([*body, "__proto__"]))
        body = {**body, field: draw(ODD)}
    message = draw(st.just({"id": 1, "body": body}) | st.just({"id": draw(ODD), "body": body}))
    frame = bytearray(msgspec.msgpack.encode(message))
    at = draw(st.integers(0, len(frame) - 1))
    how = draw(st.sampled_from(["whole", "cut", "byte", "raw"]))
    if how == "byte":
        frame[at] = draw(st.integers(0, 255))
    if how == "raw":
        raw: bytes | str = draw(RAW)
        return raw
    return bytes(frame[:at] if how == "cut" else frame)


def test_a_frame_that_is_not_a_request_is_answered_or_ends_its_connection(
    live: Live, run: str, capfd: pytest.CaptureFixture[str]
) -> None:
    outcomes: set[int | str] = set()
    pages = [Page(live)]
    held = len(live.app.stream._browsers)

    @settings(SETTINGS, max_examples=examples(600))
    @given(broken(run))
    def send(frame: bytes | str) -> None:
        page = pages[0]
        try:
            page.socket.send(frame)
            page.socket.send(msgspec.msgpack.encode(wire.Request(77, wire.Subscribe("none"))))
            while not (isinstance(said := page._next(), wire.Response) and said.id == 77):
                if isinstance(said, wire.Response) and isinstance(said.body, wire.Failed):
                    assert "nodescope failed" not in said.body.message, (frame, said)
            outcomes.add("answered")
        except ConnectionClosed as closed:
            outcomes.add(closed.rcvd.code if closed.rcvd is not None else "lost")
            page.close()
            pages[0] = Page(live)

    send()
    assert {"answered", 1007} <= outcomes <= {"answered", 1003, 1007, 1008, 1009}
    assert live.get("/api/health").status_code == 200
    pages[0].close()
    assert len(live.app.stream._browsers) <= held
    assert capfd.readouterr() == ("", "")


def test_a_frame_that_is_not_a_message_of_a_program_ends_its_connection(
    live: Live, capfd: pytest.CaptureFixture[str]
) -> None:
    kinds = typing.get_args(messages.FromDebuggee)
    bearer = {"Authorization": f"Bearer {BEARER}"}

    @settings(SETTINGS, max_examples=examples(60))
    @given(st.data())
    def send(data: st.DataObject) -> None:
        link = live.socket("/link", bearer)
        body = data.draw(strategy(data.draw(st.sampled_from(kinds)), "x"))
        body[data.draw(st.sampled_from([*body, "__proto__"]))] = data.draw(ODD)
        frame = msgspec.msgpack.encode(body)
        frame = frame[: data.draw(st.integers(0, len(frame)))] or b"\xc1"
        link.send(data.draw(st.just(frame) | RAW))
        link.close()

    send()
    assert live.get("/api/health").status_code == 200
    assert capfd.readouterr() == ("", "")


def test_any_method_and_any_json_is_answered(
    live: Live, run: str, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = list(live.get("/api/openapi.json").json()["paths"])
    bodies = st.sampled_from(
        [b"", b"[" * 100_000, b'{"a":' * DEEP, b'{"path": NaN}', b'{"path": 1e999}', b"\xff\xfe",
         b'{"id": "\\ud800"}', b'{"__proto__": {"path": "/"}}', b"9" * 100_000]
    )  # fmt: skip
    parts = st.sampled_from(
        ["%ed%a0%80", "%00", "..%2f..", "%", "%ff", "a" * 3000, run, "__proto__"]
    )
    headers = {"Authorization": f"Bearer {BEARER}"}
    with httpx.Client(
        base_url=live.base, headers=headers, timeout=WAIT_S, verify=NO_CERTIFICATES
    ) as client:

        @settings(SETTINGS, max_examples=examples(600))
        @given(
            st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE",
            "X"]),
            st.sampled_from(paths), bodies, parts,
            st.sampled_from(["application/json", "text/plain", "multipart/form-data", "\xff"]),
        )  # fmt: skip
        def ask(method: str, path: str, body: bytes, part: str, kind: str) -> None:
            path = re.sub(r"\{\w+\}", part, path)
            told = client.request(
                method, path, content=body, headers={"Content-Type": kind.encode("latin-1")}
            )
            assert told.status_code < 500 or told.status_code == 501, (
                method,
                path,
                told.text[:500],
            )

        ask()
    assert live.get("/api/health").status_code == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "kind", [item for item in KINDS if item is not wire.Initialize], ids=lambda item: item.__name__
)
def test_any_request_of_a_page_is_answered(kind: Any, live: Live, run: str) -> None:
    pages = [Page(live)]
    shape = strategy(kind, run)

    @settings(SETTINGS, max_examples=examples(60))
    @given(shape, st.integers(1, 1 << 31))
    def ask(body: Any, number: int) -> None:
        pages[0].socket.send(msgspec.msgpack.encode({"id": number, "body": body}))
        if kind is wire.Alive:
            return
        while True:
            message = pages[0]._next()
            if isinstance(message, wire.Response):
                break
        assert message.id == number
        if isinstance(message.body, wire.Failed):
            text = f"{message.body.message} {message.body.hint}"
            assert "nodescope failed" not in text, (body, text)
            assert "defect" not in text, (body, text)
            assert message.body.message

    ask()
    assert pages[0].ask(wire.Unsubscribe(run)) == wire.Done()
    pages[0].close()
