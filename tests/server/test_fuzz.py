"""Every route, with any parameter and body, and every request of a page, with any field: answered.

The routes come from the server's own description, the requests from the wire's own types, so that
what is added is tried, too.
"""

from __future__ import annotations

import asyncio
import math
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

import nodescope as ns
from nodescope_server import wire
from tests.depth import examples
from tests.server.support import BEARER, WAIT_S, Live, Page, serving

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
    with serving(folder=tmp_path_factory.mktemp("folder")) as running:
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
    """Sensible and senseless values of a parameter."""
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
    with httpx.Client(base_url=live.base, headers=headers, timeout=WAIT_S) as client:

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
    """Plain data in the shape of a type, with values that are no good."""
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
