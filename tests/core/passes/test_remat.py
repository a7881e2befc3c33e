"""Remat: values are recomputed where memory exceeds its limit, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.ir.verify import verify
from nodescope.passes.lifetimes import Lifetimes, lifetimes
from nodescope.passes.pipeline import Lowered
from tests.core.passes.checking import check
from tests.core.passes.programs import char_transformer, kernels, lowered_program

X = np.linspace(-1, 1, 400, dtype=np.float32).reshape(20, 20)
W = X[::-1].copy()


def held(graph: Any) -> Lifetimes:
    specs = {value.id: value.spec for value in graph.values}
    return lifetimes(graph.nodes, specs.__getitem__, graph.outputs)


def wide(w: Any) -> Any:
    """Holds three matrices at once."""
    v = w @ w
    return (v @ w) @ v


def late_user(x: Any, w: Any) -> Any:
    """exp(x) is used first and last; meanwhile three large products are held."""
    e = np.exp(x)
    first = np.sum(e)
    w = wide(w)
    return np.sum(w @ e) + first


def remat(function: Any, *inputs: Any, limit: int, also: Any = ()) -> Lowered:
    return check(function, inputs, (*also, "remat"), backend="c", memory_bytes=limit)


def test_nothing_is_done_without_a_limit() -> None:
    result = check(late_user, (X, W), ("remat",))
    assert result.graph.nodes == result.traced.nodes or not result.rewrites


def test_a_value_is_computed_again_before_its_late_user() -> None:
    before = held(check(late_user, (X, W), ()).graph).peak
    result = remat(late_user, X, W, limit=before - 1)
    copies = [node for node in result.graph.nodes if node.phase == "recompute"]
    assert [node.op for node in copies] == ["exp"]
    assert copies[0].scope.startswith("recompute")
    assert held(result.graph).peak < before
    (rewrite,) = result.rewrites
    assert rewrite.change == "recomputed"
    assert "bytes fewer" in rewrite.note
    (original,) = [n for n in result.graph.nodes if n.op == "exp" and n.phase == "forward"]
    fate = result.provenance.fates[original.id]
    assert set(fate.into) == {original.id, copies[0].id}
    order = [node.id for node in result.graph.nodes]
    users = [n.id for n in result.graph.nodes if copies[0].outputs[0] in n.inputs]
    assert order.index(users[0]) == order.index(copies[0].id) + 1


def test_nothing_is_computed_again_within_the_limit() -> None:
    assert not remat(late_user, X, W, limit=1 << 30).rewrites


def test_the_saved_memory_is_reported() -> None:
    (stage,) = remat(late_user, X, W, limit=100).stages
    (note,) = stage.notes
    assert "values are recomputed: peak " in note
    assert "still over 100" in note


def test_costly_nodes_are_kept() -> None:
    def late(x: Any) -> Any:
        p = x @ x
        first = np.sum(p)
        return np.sum(wide(x) @ p) + first

    result = remat(late, X, limit=100)
    assert sum(node.op == "matmul" for node in result.graph.nodes) == sum(
        node.op == "matmul" for node in result.traced.nodes
    )


def chain(x: Any, w: Any) -> Any:
    """The last of three cheap values is used late; those behind it are gone by then."""
    a = np.exp(x)
    b = np.tanh(a)
    c = np.sqrt(np.abs(b))
    first = np.sum(c)
    w = wide(w)
    return np.sum(w @ c) + first


def test_what_a_copy_needs_is_computed_again_too() -> None:
    before = held(check(chain, (X, W), ()).graph).peak
    result = remat(chain, X, W, limit=before - 1)
    copies = [node.op for node in result.graph.nodes if node.phase == "recompute"]
    assert copies == ["exp", "tanh", "abs", "sqrt"]
    assert held(result.graph).peak < before


def test_kernels_are_computed_again_with_ids_of_their_own() -> None:
    result = remat(chain, X, W, limit=100, also=("fuse",))
    copies = [node for node in result.graph.nodes if node.phase == "recompute"]
    assert [node.op for node in copies] == ["fused"]
    body = copies[0].attrs["body"]
    verify(body)
    ids = [n.id for k in result.graph.nodes if k.op == "fused" for n in k.attrs["body"].nodes]
    assert len(ids) == len(set(ids))
    assert kernels(result)["elementwise"] == 1 or kernels(result)["reduction"] >= 1


def mlp(x: Any, *weights: Any) -> Any:
    def loss(*weights: Any) -> Any:
        h = x
        for w in weights:
            h = np.tanh(h @ w) * ns.sigmoid(h)
        return np.mean(np.square(h))

    return ns.grad(loss, argnums=tuple(range(len(weights))))(*weights)


@pytest.mark.parametrize("also", [(), ("fuse",), ("patterns", "fuse")])
def test_gradients(also: tuple[str, ...]) -> None:
    weights = [np.eye(20, dtype=np.float32) * (i + 1) / 2 for i in range(4)]
    before = held(check(mlp, (X, *weights), also, backend="c").graph).peak
    result = remat(mlp, X, *weights, limit=int(before * 0.8), also=also)
    assert held(result.graph).peak <= before
    assert any(rewrite.change == "recomputed" for rewrite in result.rewrites) == (
        held(result.graph).peak < before
    )


def test_a_transformer() -> None:
    program = char_transformer()
    before = held(program.graph).peak
    result = lowered_program(program, ("remat",), memory_bytes=int(before * 0.95))
    assert held(result.graph).peak <= before * 0.95
