"""Dialects: which one reruns a node, what the node reads, and why a node cannot be rerun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nodescope.debug.replay import dialects
from nodescope.debug.replay.dialects import recorded_call
from nodescope.errors import ReplayError
from nodescope.ir.attrs import GraphRef, Opaque
from nodescope.ir.graph import Graph, Node
from nodescope.ops.reading import ElementDependence, Read

Array = np.ndarray[Any, Any]


class Elsewhere:
    """The dialect ``elsewhere``, whose ops are in a table; it does not know what they read."""

    ops: dict[str, Any] = {  # noqa: RUF012 (never written to)
        "mix": lambda x, y: (x[:, ::-1] * y, x.sum()),
        "pick": lambda x, at: (x[at],),
        "grow": lambda x: (np.exp(x),),
        "bend": lambda x: (np.tanh(x),),
        "broken": lambda x: 1 // 0,
        "dice": lambda x: (np.random.default_rng().normal(size=x.shape),),
    }

    def operands(self, node: Node, attrs: dict[str, Any]) -> Any:
        return node.inputs

    def run(self, node: Node, attrs: dict[str, Any], arrays: Sequence[Array]) -> Any:
        return self.ops[node.native](*arrays)

    def reads(self, *call: Any) -> ElementDependence | None:
        return None


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    rerun = Elsewhere()
    monkeypatch.setitem(dialects._known, "elsewhere", rerun)
    return rerun


def node_of(native: str, inputs: int = 1, *, op: str = "", dialect: str = "elsewhere") -> Node:
    ports = tuple(range(1, inputs + 1))
    return Node(1, f"net/{native}", op or native, "other", ports, outputs=(9,), dialect=dialect,
                native=native)  # fmt: skip


def made(node: Node, inputs: list[Array], position: int, port: int = 0) -> ElementDependence:
    call = recorded_call(node)
    with np.errstate(all="ignore"):
        outputs = [np.asarray(output) for output in Elsewhere.ops[node.native](*inputs)]
    return call.reads(inputs, outputs, port, position)


def listed(made_of: ElementDependence) -> dict[int, list[int]]:
    return {read.port: read.at.tolist() for read in made_of.reads}


X = np.arange(1.0, 7.0).reshape(2, 3)


def test_an_attribute_of_which_only_the_text_is_known_is_refused() -> None:
    node = Node(1, "net/dropout", "multiply", "elementwise", attrs={"x": (1, Opaque("<Rng>"))})
    with pytest.raises(ReplayError) as caught:
        recorded_call(node)
    assert caught.value.message == (
        "net/dropout: its attribute x cannot be restored; recorded was only the text '<Rng>'"
    )
    assert "can be run again" in caught.value.hint


def test_a_body_that_is_kept_elsewhere_is_missing() -> None:
    loop = Node(1, "loop", "scan", "control", attrs={"body": GraphRef(3), "carries": 1})
    with pytest.raises(ReplayError, match="does not hold the graph of its body"):
        recorded_call(loop)
    whole = Node(1, "loop", "scan", "control", attrs={"body": Graph(3, "static")})
    assert recorded_call(whole).rerun is not None


def test_a_dialect_without_rerun_says_what_why_and_how() -> None:
    call = recorded_call(node_of("aten::mm.default", 2, op="matmul", dialect="no such library"))
    with pytest.raises(ReplayError) as refused:
        call.run([X, X])
    assert refused.value.message == (
        "net/aten::mm.default: aten::mm.default cannot be run again: it is an op of no such "
        "library, and nothing that is installed runs these"
    )
    assert refused.value.hint == "record at --level values: what is recorded needs no running"


def test_the_elements_that_a_dialect_declares_are_used(elsewhere: Elsewhere) -> None:
    told = ElementDependence((Read(0, np.array([2])),))
    elsewhere.reads = lambda *call: told  # type: ignore[method-assign]
    assert made(node_of("mix", 2), [X, X], 0) is told


def test_the_canonical_name_tells_elementwise_ops(
    elsewhere: Elsewhere,
) -> None:
    result = made(node_of("bend", op="tanh"), [X], 4)
    assert listed(result) == {0: [4]}
    assert result.exact
    assert result.note == ""


def test_without_a_rule_elements_are_found_by_running_on_other_numbers(
    elsewhere: Elsewhere,
) -> None:
    result = made(node_of("mix", 2), [X, X], 3)
    assert listed(result) == {0: [5], 1: [3]}
    assert not result.exact
    assert result.note == "found by running mix on other numbers"
    assert listed(made(node_of("mix", 2), [X, X], 0, port=1)) == {0: [0, 1, 2, 3, 4, 5]}


def test_an_infinity_does_not_hide_other_elements(elsewhere: Elsewhere) -> None:
    assert listed(made(node_of("grow"), [1e4 * X], 2)) == {0: [2]}
    assert listed(made(node_of("grow"), [np.full((2, 3), np.nan)], 2)) == {0: [2]}


def test_integers_say_what_is_taken(elsewhere: Elsewhere) -> None:
    result = made(node_of("pick", 2), [np.arange(5.0), np.array([3, 1])], 0)
    assert listed(result) == {0: [3], 1: [0, 1]}
    assert [read.port for read in result.reads if read.selects] == [1]


@pytest.mark.parametrize("native", ["dice", "mix"])
def test_if_elements_cannot_be_found_all_are_reported_as_inexact(
    elsewhere: Elsewhere, native: str
) -> None:
    inputs = [X] if native == "dice" else [np.ones((2, 40_000)), np.ones((2, 40_000))]
    port = 0 if native == "dice" else 1
    result = made(node_of(native, len(inputs)), inputs, 0, port)
    assert all(len(at) == inputs[0].size for at in listed(result).values())
    assert not result.exact
    assert result.note == f"which elements matter to {native} could not be found out"


def test_an_error_of_the_operation_is_reported(elsewhere: Elsewhere) -> None:
    with pytest.raises(ReplayError, match="net/broken: broken raised ZeroDivisionError"):
        recorded_call(node_of("broken")).run([X])
