"""Detaching: a node where it is seen, an alias where it is not; no gradient, the same memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording


def _nodes(program: Callable[[], Any], path: Path) -> list[Node]:
    with ns.record(path, level="values"):
        program()
    with Recording.open(path) as recording:
        return [row.node for row in recording.nodes()]


def test_detach_is_a_node_with_its_line(tmp_path: Path) -> None:
    def program() -> None:
        w = ns.parameter(np.ones(3), name="w")
        doubled = w * 2
        cut = doubled.detach()
        (ns.stop_gradient(w) * cut * w).sum().backward()

    nodes = _nodes(program, tmp_path / "run.nscope")
    detach_nodes = [node for node in nodes if node.op == "detach"]
    makers = {value: node.name for node in nodes for value in node.outputs}
    assert [[makers[value] for value in node.inputs] for node in detach_nodes] == [
        ["multiply"],
        ["w"],
    ]
    lines = [node.source.line for node in detach_nodes if node.source is not None]
    first = program.__code__.co_firstlineno
    assert lines == [first + 3, first + 4]
    assert {node.phase for node in detach_nodes} == {"forward"}
    assert not any(set(node.inputs) & {detach_nodes[0].outputs[0]} for node in nodes
                   if node.phase == "optimizer")  # fmt: skip


@pytest.mark.parametrize("observed", [False, True])
def test_detach_ends_gradients_and_shares_memory(observed: bool, tmp_path: Path) -> None:
    def program() -> list[Any]:
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        cut = (w * 3).detach()
        assert not cut.requires_grad
        (cut * w).sum().backward()
        plain = ns.tensor(np.zeros(3))
        view = plain.detach()
        view[1] = 7.0
        named = w.detach()
        return [w.grad, plain, view, named.name, named.numpy().tolist()]

    if observed:
        with ns.record(tmp_path / "run.nscope"):
            gradient, plain, view, name, elements = program()
    else:
        gradient, plain, view, name, elements = program()
    assert gradient.tolist() == [3.0, 6.0]
    assert plain.tolist() == view.tolist() == [0.0, 7.0, 0.0]
    assert (name, elements) == ("w", [1.0, 2.0])


def _refused(observed: bool, path: Path) -> str:
    def write() -> None:
        x = ns.parameter(np.ones(3), name="w") * 2
        x.detach()[0] = 5.0

    around = ns.record(path) if observed else contextlib.nullcontext()
    with around, pytest.raises(NodescopeError) as raised:
        write()
    return str(raised.value)


def test_a_write_that_would_lose_a_gradient_is_refused_alike(tmp_path: Path) -> None:
    assert _refused(False, tmp_path / "a.nscope") == _refused(True, tmp_path / "b.nscope")


def test_a_compiled_function_detaches_without_a_kernel() -> None:
    @ns.compile
    def product(x: Any) -> Any:
        return np.sum((x * 3).detach() * x)

    value, gradient = ns.value_and_grad(product)(ns.tensor(np.arange(3.0)))
    assert value.item() == 15.0
    assert gradient.tolist() == [0.0, 3.0, 6.0]
    text = str(product.explain())
    assert "detach" in text


def test_unobserved_detach_is_not_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    from nodescope import ops

    w = ns.parameter(np.ones(3), name="w")
    monkeypatch.setattr(ops, "get", None)
    assert w.detach().data is w.data


def test_a_gradient_that_ends_is_reported_at_detach(tmp_path: Path) -> None:
    from nodescope.debug.report.gradient_ends import gradient_end

    def program() -> None:
        below = ns.parameter(np.ones((2, 3)), name="below")
        above = ns.parameter(np.ones((3, 1)), name="above")
        optimizer = ns.optim.SGD([below, above], lr=0.1)
        for _ in ns.steps(range(3)):
            hidden = np.tanh(ns.tensor(np.ones((4, 2))) @ below)
            seen = hidden.detach()
            optimizer.minimize(np.mean((seen @ above) ** 2))

    nodes = _nodes(program, tmp_path / "run.nscope")
    values = {node.name: node.outputs[0] for node in nodes if node.outputs}
    with Recording.open(tmp_path / "run.nscope") as recording:
        told = gradient_end(recording, values["below"])
    line = program.__code__.co_firstlineno + 6
    assert f"its gradient ends at detach (test_detach.py:{line})" in told
    assert "detach() cuts tanh off before matmul_1" in told
