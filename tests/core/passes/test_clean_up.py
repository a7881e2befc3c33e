"""Passes that fold, merge, tidy views, sink broadcasts, reduce strength, enter bodies and own."""

from __future__ import annotations

import numpy as np
import pytest

import nodescope as ns
from nodescope import passes
from nodescope.ir.graph import Graph
from nodescope.passes.strength import exact_reciprocal
from tests.core.passes.checking import check, lowered, nasty, ops_of, rules

ONES = np.ones((6, 8), np.float32)


def sums(value):
    return value, np.sum(value)


CASES = [
    ("fold", lambda x: x + np.exp(ns.constant(ONES)) * 2, "float32", ["constant"] * 2, ["add"]),
    ("fold", lambda x: x + np.log(ns.constant(-ONES)), "float32", [], ["log", "add"]),
    ("fold", lambda x: x * np.ones_like(x), "float32", ["like"], ["multiply"]),
    ("fold", lambda x: np.sum(np.ones_like(x)), "float32", [], ["ones_like", "sum"]),
    ("cse", lambda x: np.exp(x) + np.exp(x), "float32", ["same"], ["exp", "add"]),
    ("cse", lambda x: np.exp(x) * 0.0 - np.exp(x) * -0.0, "float32", ["same"],
     ["exp", "multiply", "multiply", "subtract"]),
    ("cse", lambda x: x * 1 + x * 1.0, "float32", [], ["multiply", "multiply", "add"]),
    ("cse", lambda x: x * np.nan + x * np.nan, "float32", ["same"], ["multiply", "add"]),
    ("cse", lambda x: np.maximum(x, 0.0) + np.maximum(0.0, x), "float32", [],
     ["maximum", "maximum", "add"]),
    ("reshape", lambda x: x.T.T, "float32", ["two_orders"], ["transpose"]),
    ("reshape", lambda x: np.transpose(x, (0, 1)), "float32", ["same_order"], []),
    ("reshape", lambda x: np.exp(x.reshape(6, 8)), "float32", ["same_shape"], ["exp"]),
    ("reshape", lambda x: np.squeeze(np.expand_dims(x, 0), 0), "float32", ["two_shapes"],
     ["expand_dims"]),
    ("reshape", lambda x: sums(x.reshape(48).reshape(8, 6)), "float32", [],
     ["reshape", "reshape", "sum"]),
    ("reshape", lambda x: np.sum((-(x.copy().T)).T, axis=0), "float32", ["order_and_back"],
     ["copy", "transpose", "negative", "sum"]),
    ("broadcast", lambda x: np.broadcast_to(x[0], (6, 8)) + x, "float32", ["dropped"],
     ["getitem", "broadcast_to", "add"]),
    ("broadcast", lambda x: np.negative(np.broadcast_to(x[0], (6, 8))), "float32", ["sunk"],
     ["getitem", "broadcast_to", "negative", "broadcast_to"]),
    ("broadcast", lambda x: np.sum(-np.broadcast_to(x[0], (6, 8))), "float32", [],
     ["getitem", "broadcast_to", "negative", "sum"]),
    ("broadcast", lambda x: np.exp(np.broadcast_to(x[0], (6, 8))), "float32", [],
     ["getitem", "broadcast_to", "exp"]),
    ("strength", lambda x: np.power(x, 2), "float32", ["power_square"], ["square"]),
    ("strength", lambda x: np.power(x, 2), "int8", ["power_square"], ["square"]),
    ("strength", lambda x: np.power(x, ns.constant(2 * ONES)), "float32", [], ["power"]),
    ("strength", lambda x: np.power(x, 3), "float32", [], ["power"]),
    ("strength", lambda x: np.power(x, -1.0), "float32", ["power_reciprocal"], ["divide"]),
    ("strength", lambda x: x * x, "float64", ["multiply_self"], ["square"]),
    ("strength", lambda x: x * x, "complex64", [], ["multiply"]),
    ("strength", lambda x: x / 8, "float16", ["divide_power_of_two"], ["multiply"]),
    ("strength", lambda x: x / 3, "float32", [], ["divide"]),
    ("strength", lambda x: x // 8, "int8", ["shift"], ["right_shift"]),
    ("strength", lambda x: x % 8, "int32", ["mask"], ["bitwise_and"]),
    ("strength", lambda x: x % 8, "float32", [], ["remainder"]),
    ("strength", lambda x: np.where(x > 0, x, 0.0), "float32", ["keep"], ["greater", "keep"]),
    ("strength", lambda x: np.where(x > 0, x, -0.0), "float32", [], ["greater", "where"]),
    ("own", lambda x: x, "float32", [], []),
    ("own", lambda x: (x.T, x), "float32", [], ["transpose"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "dtype", "fired", "left"), CASES)
def test_a_pass_alone_and_with_all_others(name, function, dtype, fired, left):
    x = nasty(dtype)
    check(function, [x], [name], [f"{name}/{item}" for item in fired], left)
    check(function, [x])


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x: (np.negative(-x), x), 1),
        (lambda x: (np.exp(x), np.exp(x)), 1),
        (lambda x: (np.abs(x), np.abs(x).T.T), 1),
        (lambda x: (x.reshape(48).reshape(6, 8),), 0),
        (lambda x: (ns.constant(ONES) * 2, ns.constant(ONES) * 2), 2),
    ],
)
def test_results_do_not_come_to_share_memory(function, count):
    result = check(function, [nasty("float32")])
    assert sum(rule.startswith("own/") for rule in rules(result)) == count


@pytest.mark.parametrize(
    ("rule", "function"),
    [
        ("sum_of_broadcast", lambda x: np.sum(np.broadcast_to(x[0], (6, 8)))),
        ("divide_any", lambda x: x / 3),
        ("power_cube", lambda x: np.power(x, 3)),
        ("power_of_two", lambda x: np.power(2, x)),
        ("reassociate", lambda x: (x + 1.0) + 2.0),
    ],
)
def test_unsafe_rules_wait_to_be_requested(rule, function):
    x = np.linspace(0.5, 2.0, 48, dtype=np.float32).reshape(6, 8)
    without = rules(lowered(function, [x]))
    assert not any(text.endswith(f"/{rule}") for text in without)
    result = lowered(function, [x], unsafe=frozenset([rule]))
    assert any(r.endswith(f"/{rule}") for r in rules(result))


def test_reciprocals_that_are_exact():
    assert exact_reciprocal(0.25, "float32")
    assert exact_reciprocal(-1024, "float16")
    assert not exact_reciprocal(3, "float64")
    assert not exact_reciprocal(2.0**127, "float32")  # The reciprocal is subnormal.
    assert not exact_reciprocal(float("inf"), "float32")


def test_bodies_are_simplified_and_what_iterations_share_is_hoisted():
    def function(x, w):
        def step(c, row):
            return np.tanh(np.negative(-(c @ np.tanh(w).T)) + row), c * 2.0

        return ns.scan(step, x[0], x)

    x, w = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    result = check(function, [x, w])
    assert {"bodies/inside", "bodies/hoisted", "bodies/unused_input"} <= set(rules(result))
    (scan,) = [node for node in result.graph.nodes if node.op == "scan"]
    body: Graph = scan.attrs["body"]
    left = [node.op for node in body.nodes if not node.is_leaf]
    assert left.count("tanh") == 1
    assert "negative" not in left
    assert len(body.inputs) == len(scan.inputs)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches_and_loops_are_simplified(sign):
    def function(x):
        y = ns.cond(np.sum(x) > 0, lambda a: np.negative(-(a + 1.0)), np.exp, x)
        return ns.while_loop(lambda c: np.sum(c) < 100, lambda c: np.negative(-(c + 3.0)), y)

    result = check(function, [sign * np.ones((2, 3))])
    assert rules(result).count("bodies/inside") == 2


def test_nothing_to_do_is_not_a_change():
    result = lowered(lambda x: np.exp(x) + 1.0, [nasty("float32")])
    clean = [stage for stage in result.stages if passes.get(stage.name).stage < 50]
    assert clean
    assert all(item.after is item.before for item in clean)


def test_every_rule_that_fires_is_listed():
    listed = {
        f"{graph_pass.name}/{rule.name}"
        for graph_pass in passes.all_passes()
        for rule in graph_pass.rules
    }
    for name, function, dtype, _, _ in CASES:
        assert set(rules(lowered(function, [nasty(dtype)], [name]))) <= listed


def test_ops_of_is_not_fooled_by_leaves():
    assert ops_of(lowered(lambda x: x, [nasty("float32")], [])) == []
