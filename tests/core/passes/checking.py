"""One check for every pass: what it found, and that nobody can tell.

Invariant: bits are compared, not numbers; only what is inside of a NaN is left aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nodescope as ns
from nodescope.ops.plan import Plan
from nodescope.passes.pipeline import Lowered, Options, lower

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0]


def nasty(dtype: str, shape: tuple[int, ...] = (6, 8), seed: int = 0) -> Any:
    """An array of what is hard: zeros of both signs, infinities, NaN, the ends of the range."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    size = int(np.prod(shape))
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        info = np.iinfo(dtype)
        ends = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
        found = rng.integers(info.min, info.max, size, dtype, endpoint=True)
        found[: min(size, 6)] = ends[: min(size, 6)]
        return rng.permutation(found).reshape(shape)
    if kind == "c":
        parts = [nasty("float64", shape, seed + i) for i in (1, 2)]
        found = np.empty(shape, dtype)
        with np.errstate(all="ignore"):
            found.real, found.imag = parts
        return found
    info = np.finfo(dtype)
    ends = [*SPECIAL, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal]
    found = (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype(dtype)
    found[: min(size, len(ends))] = np.array(ends, dtype)[: min(size, len(ends))]
    return rng.permutation(found).reshape(shape)


def same_bits(one: Any, other: Any) -> bool:
    """Whether two arrays are equal: dtype, shape, every bit, signs of zeros; any NaN is a NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind == "c":
        return same_bits(one.real, other.real) and same_bits(one.imag, other.imag)
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    both = np.isnan(one) & np.isnan(other)
    return bool(np.all(both | ((one == other) & (np.signbit(one) == np.signbit(other)))))


def lowered(
    function: Callable[..., Any], inputs: Sequence[Any], passes: Sequence[str] | None = None,
    **options: Any,
) -> Lowered:  # fmt: skip
    """A function's graph after some passes."""
    with np.errstate(all="ignore"):
        program = ns.compile(function).graph(*inputs)
    return lower(program.graph, program.constants, passes, Options(**options))


def rules(found: Lowered) -> list[str]:
    """Which rules fired, as ``pass/rule``."""
    return [f"{each.pass_name}/{each.rule}" for each in found.rewrites]


def ops_of(found: Lowered) -> list[str]:
    """Ops of the lowered graph, without leaves."""
    return [node.op for node in found.graph.nodes if not node.is_leaf]


def run(graph: Any, arrays: Any, inputs: Sequence[Any]) -> list[Any]:
    """A graph's outputs, node by node."""
    with np.errstate(all="ignore"):
        return Plan(graph, arrays).run([np.asarray(each) for each in inputs])


def check(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    passes: Sequence[str] | None = None,
    fired: Sequence[str] | None = None,
    left: Sequence[str] | None = None,
    **options: Any,
) -> Lowered:
    """Lower a function and compare traced and lowered graph on inputs of several layouts.

    Args:
        function: Of arrays.
        inputs: What it is traced with.
        passes: Names; the usual ones if None.
        fired: Rules that must have fired, as ``pass/rule``; None for not saying.
        left: Ops that must be left, in order; None for not saying.
        options: Of the lowering.
    """
    with np.errstate(all="ignore"):
        program = ns.compile(function).graph(*inputs)
        found = lower(program.graph, program.constants, passes, Options(**options))
    if fired is not None:
        assert rules(found) == list(fired), rules(found)
    if left is not None:
        assert ops_of(found) == list(left), ops_of(found)
    for given in layouts_of(inputs):
        wanted = run(program.graph, program.constants, given)
        got = run(found.graph, found.arrays, given)
        assert len(wanted) == len(got)
        for i, (one, other) in enumerate(zip(wanted, got, strict=True)):
            assert same_bits(one, other), f"output {i}:\n{one}\n{other}\n{rules(found)}"
        assert_owned(program, found, given)
    return found


def layouts_of(inputs: Sequence[Any]) -> list[list[Any]]:
    """The inputs as they are, in columns, with gaps, and backwards."""
    found = [list(inputs)]
    found.append([np.asfortranarray(each) for each in inputs])
    found.append([_gaps(np.asarray(each)) for each in inputs])
    found.append([np.flip(np.flip(np.asarray(each)).copy()) for each in inputs])
    return found


def _gaps(array: Any) -> Any:
    if not array.ndim:
        return array
    wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    part = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    part[...] = array
    return part


def assert_owned(program: Any, found: Lowered, given: Sequence[Any]) -> None:
    """Results share memory with feeds, constants and each other only where the traced ones do."""
    if not any(stage.name == "own" for stage in found.stages):
        return
    feeds = [np.asarray(each) for each in given]
    wanted = run(program.graph, program.constants, feeds)
    got = run(found.graph, found.arrays, feeds)
    for i, (one, other) in enumerate(zip(wanted, got, strict=True)):
        held = [*feeds, *found.arrays.values()]
        if any(np.shares_memory(other, each) for each in held):
            known = [*feeds, *program.constants.values()]
            assert any(np.shares_memory(one, each) for each in known), f"output {i}"
        for j in range(i):
            if np.shares_memory(other, got[j]):
                assert np.shares_memory(one, wanted[j]), f"outputs {j} and {i}"
