"""Attributes: what is encoded comes back exactly, bit for bit, or says that it cannot."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.ir.attrs import (
    Device,
    Dtype,
    GraphRef,
    Layout,
    Opaque,
    Port,
    decode_attrs,
    decode_node,
    encode,
    opaque_in,
    plain,
    plain_attrs,
)
from nodescope.ir.graph import Graph, Node
from tests.depth import examples

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), FLOATS, st.text(max_size=9), st.binary(max_size=4),
    st.builds(complex, FLOATS, FLOATS), st.just(Ellipsis), st.builds(Port, st.integers(0, 3)),
    st.builds(slice, *[st.none() | st.integers()] * 3),
    st.sampled_from([
        np.float32(0.1), np.int8(-3), np.dtype("float16"), np.bool_(True), Dtype("fp8_e4m3"),
        Device("cuda:1"), Layout("channels_last"), GraphRef(7), Opaque("<Generator>"),
    ]),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5
)


def bits(value: Any) -> Any:
    """Something that is equal exactly if the values are the same, NaN included."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return ("complex", bits(value.real), bits(value.imag))
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return (type(value), repr(value))


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
@settings(max_examples=examples(200), deadline=None)
def test_attributes_come_back_exactly(attrs: dict[str, Any]) -> None:
    result = decode_attrs(encode(attrs))
    assert {name: bits(value) for name, value in result.items()} == {
        name: bits(value) for name, value in attrs.items()
    }


def test_graphs_within_attributes_come_back() -> None:
    inner = Node(1, "get", "getitem", "index", attrs={"index": (slice(0, 2, None), Port(0))})
    node = Node(2, "loop", "scan", "control", attrs={"body": Graph(3, "static", nodes=(inner,))})
    assert decode_node(encode(node)) == node


def test_an_array_comes_back_and_a_large_one_only_as_text() -> None:
    small = np.arange(6, dtype=np.int16).reshape(2, 3)
    result = decode_attrs(encode({"a": small, "b": np.zeros(100_000)}))
    assert (result["a"].dtype, result["a"].tolist()) == (small.dtype, small.tolist())
    assert result["b"] == Opaque("array float64 [100000]")


class _Silent:
    def __repr__(self) -> str:
        raise RuntimeError


def test_what_has_no_encoding_is_known_by_its_text() -> None:
    result = decode_attrs(encode({"f": math.floor, "broken": _Silent(), "plain": 1}))
    assert result["f"] == Opaque("<built-in function floor>")
    assert result["broken"] == Opaque("<_Silent>")
    assert opaque_in((1, (2, result["f"]))) == "<built-in function floor>"
    assert opaque_in(result["plain"]) == ""


@pytest.mark.parametrize(
    "attrs",
    [{"x": {"attr": "slice"}}, {"x": {"attr": "complex", "real": "a", "imag": 0}},
     {"x": {"attr": "scalar", "dtype": "int8", "data": b""}},
     {"x": {"attr": "bigint", "digits": "12a"}}],
)  # fmt: skip
def test_what_is_damaged_is_refused(attrs: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode_attrs(msgspec.msgpack.encode(attrs))


def test_a_later_version_may_know_more_kinds() -> None:
    result = decode_attrs(msgspec.msgpack.encode({"x": {"attr": "sparsity", "pattern": "2:4"}}))
    assert result == {"x": Opaque("sparsity of another version")}


def test_a_person_reads_words() -> None:
    index = (0, slice(None, 8, 2), Port(0), Ellipsis, None)
    attrs = {"index": index, "dtype": np.dtype("float32"), "axis": (0, 1), "body": GraphRef(4)}
    assert plain_attrs(attrs) == {
        "index": "0, :8:2, index_0, ..., None", "dtype": "float32", "axis": [0, 1],
        "body": "graph 4",
    }  # fmt: skip
    ordinary = {"axis": 1, "keepdims": True}
    assert plain_attrs(ordinary) is ordinary
    assert plain("alpha", np.float32(0.5)) == 0.5
    assert plain_attrs({"x2": 2**70}) == {"x2": str(2**70)}
