"""The pass `bodies`: changes inside loops and branches have no effect outside them."""

from __future__ import annotations

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.tensor import make
from nodescope.ir.graph import Graph
from nodescope.passes.pipeline import LoweringOptions, settled
from tests.core.passes.checking import check, nasty, ops_of, rules

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32) * 30


def depths(graph, depth=0):
    """The ops of all bodies, each with its depth."""
    results = []
    for node in graph.nodes:
        if depth and not node.is_leaf:
            results.append((depth, node.op))
        for attr in node.attrs.values():
            if isinstance(attr, Graph):
                results += depths(attr, depth + 1)
    return results


def test_bodies_in_bodies_are_simplified_to_the_last():
    def twice_negative(c):
        return np.negative(-(c + 1.0))

    def function(x):
        def inner(c, _):
            c = ns.cond(np.sum(c) > 0, twice_negative, np.exp, c)
            return twice_negative(c), None

        def outer(c, row):
            return ns.scan(inner, c + row, None, length=2)[0], twice_negative(c)

        return ns.scan(outer, x[0], x)

    result = check(function, [X])
    left = depths(result.graph)
    assert max(depth for depth, _ in left) == 3
    assert "negative" not in {op for _, op in left}


# Memory: each of these once returned a result that shared the memory of another value


def carried(x):
    return ns.scan(lambda c, _: (np.positive(c), None), x, None, length=3)[0]


def swapped(x):
    k = make(X, kind="constant")
    start = (np.positive(k), k, np.sum(x) * 0)
    return ns.while_loop(lambda c: c[2] < 3, lambda c: (c[1], c[0], c[2] + 1), start)[:2]


def chosen(x):
    k = make(X, kind="constant")
    return ns.cond(np.sum(x) > 1e9, np.exp, lambda a: a, np.negative(k))


def branches(x):
    return ns.cond(np.sum(x) > 1e9, lambda a: (a + 1, a), lambda a: (np.positive(a), -a), x)


def one_for_two(x):
    return ns.scan(lambda c, _: ((c[0] + 1, c[0] + 1), None), (x, x), None, length=2)[0]


@pytest.mark.parametrize("function", [carried, swapped, chosen, branches, one_for_two])
def test_results_of_loops_share_no_memory(function):
    check(function, [X])


def test_what_is_hoisted_is_not_a_carry():
    def function(x):
        return ns.scan(lambda c, row: (np.exp(x), np.exp(x) + c), x, x)[0], np.exp(x)

    check(function, [X], ["bodies", "cse", "own"])


# Layouts: sums are added up in memory order


def test_the_layout_of_a_carry_is_kept_for_the_next_iteration():
    def function(x):
        def step(c, _):
            total = np.sum(c)
            return np.copy(np.positive(c)) + total, total

        return ns.scan(step, x, None, length=3)

    check(function, [X])


def test_the_layout_of_a_branch_result_is_kept():
    def function(x):
        return np.sum(ns.cond(np.sum(x) > 1e9, np.exp, np.copy, x))

    check(function, [X])


def test_constants_of_bodies_are_folded_only_to_rows():
    w = make(np.arange(12.0).reshape(3, 4), kind="constant")
    program = ns.compile(lambda x: (x @ np.transpose(w), x + np.negative(w))).graph(X)
    result, arrays, done = settled(
        program.graph, program.constants, ["fold"], [], LoweringOptions(), 3
    )
    assert [item.rule for item in done] == ["constant"]
    assert "transpose" in {node.op for node in result.nodes}
    assert all(array.flags.c_contiguous for array in arrays.values())


def test_nodes_that_only_an_unused_input_needs_are_removed():
    def function(x):
        y = np.exp(x)
        return ns.scan(lambda c, row: (c + row, (y * c, row)[1]), x[0], x)

    result = check(function, [nasty("float32")])
    assert "bodies/unused" in rules(result)
    assert "exp" not in ops_of(result)
