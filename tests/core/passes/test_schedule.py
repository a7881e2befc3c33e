"""Schedule: an order that holds less memory, deterministic, with side effects in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import optim
from nodescope.ir.graph import Graph, Node, TensorSpec, Value
from nodescope.ir.verify import verify
from nodescope.passes.pipeline import lower
from tests.core.passes.checking import check
from tests.core.passes.programs import (
    char_transformer,
    digits_mlp,
    layer_step,
    lowered_program,
)
from tests.core.passes.test_remat import held

X = np.ones((20, 20), np.float32)


def order(graph: Any) -> list[str]:
    return [node.op for node in graph.nodes if not node.is_leaf]


def test_a_node_whose_operands_stay_comes_before_its_user() -> None:
    def early(x: Any) -> Any:
        e = np.exp(x)  # x is a feed, which is held anyway.
        w = x
        for _ in range(3):
            w = w @ w
        return w + e

    result = check(early, (X,), ("schedule",))
    assert order(result.graph) == ["matmul", "matmul", "matmul", "exp", "add"]
    assert held(result.graph).area < held(result.traced).area


def test_a_node_with_which_operands_die_comes_at_once() -> None:
    def late(x: Any) -> Any:
        large = x @ x
        first = np.sum(large)
        w = x
        for _ in range(3):
            w = w @ w
        return np.sum(w) + np.max(large) + first

    result = check(late, (X,), ("schedule",))
    assert sorted(order(result.graph)[:3]) == ["matmul", "max", "sum"]
    assert held(result.graph).area < held(result.traced).area


def test_an_order_that_is_good_stays() -> None:
    result = check(lambda x: np.tanh(np.exp(x) + 1.0), (X,), ("schedule",))
    assert result.graph.nodes == tuple(result.traced.nodes) or order(result.graph) == [
        "exp", "add", "tanh",
    ]  # fmt: skip
    assert not result.rewrites


def test_one_note_reports_the_saved_memory() -> None:
    result = lowered_program(char_transformer(), ("schedule",))
    (rewrite,) = result.rewrites
    assert (rewrite.rule, rewrite.change) == ("reorder", "rewritten")
    assert rewrite.before == rewrite.after
    assert "nodes moved: peak " in rewrite.note
    before, after = held(result.traced), held(result.graph)
    assert (after.peak, after.area) < (before.peak, before.area)
    moved = set(rewrite.before)
    stayed = [node.id for node in result.graph.nodes if node.id not in moved]
    assert stayed == [node.id for node in result.traced.nodes if node.id not in moved]


def test_reordering_does_not_change_fates() -> None:
    result = lowered_program(char_transformer(), ("schedule",))
    assert result.rewrites
    assert {fate.kind for fate in result.provenance.fates.values()} == {"kept"}
    assert all(node.origin == (node.id,) for node in result.graph.nodes)


def test_the_same_each_time() -> None:
    program = char_transformer()
    first, second = (lowered_program(program, ("schedule",)).graph.nodes for _ in range(2))
    assert [node.id for node in first] == [node.id for node in second]


def test_updates_follow_their_gradients() -> None:
    """If gradients have no other users, they are not all held at the end."""
    program = layer_step(optim.SGD, keep=False)
    result = lowered_program(program, ("patterns", "schedule"), backend="c")
    verify(result.graph)
    assert held(result.graph).peak <= held(program.graph).peak
    names = [n.attrs.get("pattern", n.op) for n in result.graph.nodes]
    assert "sgd" in names


@pytest.mark.parametrize("passes", [("schedule",), ("patterns", "fuse", "schedule")])
def test_samples(passes: tuple[str, ...]) -> None:
    for program in (digits_mlp(), char_transformer()):
        result = lowered_program(program, passes, backend="c")
        verify(result.graph)
        assert held(result.graph).peak <= held(program.graph).peak


def test_effects_keep_their_order() -> None:
    """Reads and writes of a variable, with nodes between them that could be moved."""
    spec = TensorSpec((4,), "float32")
    nodes = (
        Node(1, "v", "parameter", "leaf", outputs=(1,), role="parameter"),
        Node(2, "read", "read", "leaf", (1,), outputs=(2,), role="buffer"),
        Node(3, "exp", "exp", "elementwise", (2,), outputs=(3,)),
        Node(4, "write", "assign_add", "update", (1, 2), (2,), (4,)),
        Node(5, "again", "read", "leaf", (1,), (4,), (5,), role="buffer"),
        Node(6, "log", "log", "elementwise", (5,), outputs=(6,)),
        Node(7, "set", "assign", "update", (1, 6), (5,), (7,)),
        Node(8, "add", "add", "elementwise", (3, 6), outputs=(8,)),
    )
    graph = Graph(1, "static", (1,), (7, 8), nodes,
                  tuple(Value(i, spec, f"v{i}") for i in range(1, 9)))  # fmt: skip
    result = lower(graph, {}, ("schedule",))
    effects = [n.id for n in result.graph.nodes if n.op in ("read", "assign_add", "assign")]
    assert effects == [2, 4, 5, 7]


def test_control_inputs_are_kept() -> None:
    spec = TensorSpec((4,), "float32")
    nodes = (
        Node(1, "exp", "exp", "elementwise", (1,), outputs=(2,)),
        Node(2, "log", "log", "elementwise", (1,), outputs=(3,)),
        Node(3, "sum", "sqrt", "elementwise", (3,), (1,), (4,)),
        Node(4, "add", "add", "elementwise", (2, 4), outputs=(5,)),
    )
    graph = Graph(1, "static", (1,), (5,), nodes,
                  tuple(Value(i, spec, f"v{i}") for i in range(1, 6)))  # fmt: skip
    result = lower(graph, {}, ("schedule",))
    ids = [node.id for node in result.graph.nodes]
    assert ids.index(1) < ids.index(3)
