"""Several functions, traces and calls in one step: each trace is compared with its own call."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.compare.calls import CapturedCall, calls
from nodescope.compare.result import ComparedFunction, Comparison
from nodescope.ir.graph import Graph, Node
from tests.core.compare.programs import compared


def worst(result: Comparison) -> list[tuple[str, str]]:
    """Measured values that are not bit-equal, or could not be measured."""
    return [
        (function.owner, node.name)
        for function in result.functions
        for node in function.nodes
        for value in node.values
        if value.compiled and (value.worst is None or not value.worst.equal)
    ]


def eager_of(function: ComparedFunction) -> set[int]:
    return {node.eager for node in function.nodes if node.role == "op"}


def test_traces_and_functions_of_one_step_are_kept_apart(tmp_path: Path) -> None:
    def program() -> None:
        @ns.compile
        def first(x: ns.Tensor) -> ns.Tensor:
            return np.sum(np.exp(x) + 1)

        @ns.compile
        def second(x: ns.Tensor, k: float) -> ns.Tensor:
            return np.sum(np.exp(x) * k + 2)

        first(ns.tensor([1.0, 2.0], np.float32))
        for size, factor in ((3, 2.0), (4, 2.0), (4, 3.0)):
            second(ns.tensor(np.arange(size), np.float32), factor)
        first(ns.tensor([4.0], np.float32))

    result = compared(tmp_path, program)
    assert len(result.functions) == 5
    assert worst(result) == []
    eager_nodes = [item for function in result.functions for item in eager_of(function)]
    assert 0 not in eager_nodes
    assert len(eager_nodes) == len(set(eager_nodes))


def test_each_call_is_found_in_its_scope(tmp_path: Path) -> None:
    def program() -> None:
        @ns.compile
        def f(x: ns.Tensor, k: float) -> ns.Tensor:
            with ns.name_scope("inner"):
                return np.tanh(x) * k

        for scope, factor in (("a", 2.0), ("b", 3.0)):
            with ns.name_scope(scope):
                f(ns.tensor([1.0, 2.0]), factor)

    result = compared(tmp_path, program)
    assert [function.base for function in result.functions] == ["a", "b"]
    assert worst(result) == []


def test_data_from_before_the_step_belongs_to_it(tmp_path: Path) -> None:
    def program() -> None:
        x = ns.tensor([1.0, np.nan], name="x")
        f = ns.compile(lambda x: np.exp(x) + 1, name="f")
        for _ in ns.steps(range(2)):
            f(x)

    (function,) = compared(tmp_path, program).functions
    leaf = function.nodes[0]
    assert (leaf.family, leaf.matched) == ("leaf", "inputs")
    assert leaf.eager in function.beside
    assert leaf.values[0].worst is not None
    assert leaf.values[0].worst.equal


def test_functions_that_run_nothing(tmp_path: Path) -> None:
    def program() -> None:
        @ns.compile
        def same(x: ns.Tensor) -> ns.Tensor:
            return x

        @ns.compile
        def unused(x: ns.Tensor) -> ns.Tensor:
            np.exp(x)
            return x

        @ns.compile
        def number(x: ns.Tensor) -> float:
            return 3.0

        for f in (same, unused, number):
            f(ns.tensor([1.0]))

    result = compared(tmp_path, program)
    assert [function.owner for function in result.functions] == ["same", "unused", "number"]
    for function in result.functions:
        assert function.kernels == ()
        assert function.steps == ()
        assert all(value.why for node in function.nodes for value in node.values)
    assert result.functions[1].fates == {"eliminated": 1}


def test_a_name_like_that_of_a_trace_is_distinguished(tmp_path: Path) -> None:
    def program() -> None:
        twin = ns.compile(lambda x: x * 2, name="f#2")
        f = ns.compile(lambda x: x + 1, name="f")
        twin(ns.tensor([1.0]))
        f(ns.tensor([1.0]))
        f(ns.tensor([1.0, 2.0]))

    owners = [function.owner for function in compared(tmp_path, program).functions]
    assert owners == ["f#2", "f", "f#3"]


def test_calls_are_counted_by_the_node_that_opens_them() -> None:
    def node(number: int, scope: str, origin: int, graph: int = 0) -> Node:
        return Node(number, f"{scope}/add_{number}", "add", "elementwise", scope=scope,
                    origin=(origin,), graph=graph)  # fmt: skip

    final = Graph(7, "static", nodes=(node(1, "net", 1), node(2, "net", 1), node(3, "", 2)))
    ran = [
        node(11, "a/net", 1, 7), node(12, "a/net", 1, 7), node(13, "a", 2, 7),
        node(14, "other", 1),
        node(15, "net", 1, 7), node(16, "net", 1, 7), node(17, "", 2, 7),
    ]  # fmt: skip
    assert calls(ran, {7: final}) == [CapturedCall(7, "a"), CapturedCall(7, "")]
