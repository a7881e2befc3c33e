"""One check for every pass: which rules fired, and that results do not change.

Invariant: bits are compared, not numbers; only the payload of a NaN is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nodescope as ns
from nodescope.ops.plan import Plan
from nodescope.passes.pipeline import Lowered, LoweringOptions, lower

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0]


def nasty(dtype: str, shape: tuple[int, ...] = (6, 8), seed: int = 0) -> Any:
    """An array of difficult numbers: zeros of both signs, infinities, NaN, ends of the range."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    size = int(np.prod(shape))
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        info = np.iinfo(dtype)
        ends = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
        result = rng.integers(info.min, info.max, size, dtype, endpoint=True)
        result[: min(size, 6)] = ends[: min(size, 6)]
        return rng.permutation(result).reshape(shape)
    if kind == "c":
        parts = [nasty("float64", shape, seed + i) for i in (1, 2)]
        result = np.empty(shape, dtype)
        with np.errstate(all="ignore"):
            result.real, result.imag = parts
        return result
    info = np.finfo(dtype)
    ends = [*SPECIAL, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal]
    result = (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype(dtype)
    result[: min(size, len(ends))] = np.array(ends, dtype)[: min(size, len(ends))]
    return rng.permutation(result).reshape(shape)


def same_bits(first: Any, other: Any) -> bool:
    """Whether two arrays are equal: dtype, shape, every bit, signs of zeros; any NaN is a NaN."""
    if first.dtype != other.dtype or first.shape != other.shape:
        return False
    if first.dtype.kind == "c":
        return same_bits(first.real, other.real) and same_bits(first.imag, other.imag)
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, other))
    both = np.isnan(first) & np.isnan(other)
    return bool(np.all(both | ((first == other) & (np.signbit(first) == np.signbit(other)))))


def lowered(
    function: Callable[..., Any], inputs: Sequence[Any], passes: Sequence[str] | None = None,
    **options: Any,
) -> Lowered:  # fmt: skip
    """A function's graph after some passes."""
    with np.errstate(all="ignore"):
        program = ns.compile(function).graph(*inputs)
    return lower(program.graph, program.constants, passes, LoweringOptions(**options))


def rules(result: Lowered) -> list[str]:
    """Which rules fired, as ``pass/rule``."""
    return [f"{rewrite.pass_name}/{rewrite.rule}" for rewrite in result.rewrites]


def ops_of(result: Lowered) -> list[str]:
    """Ops of the lowered graph, without leaves."""
    return [node.op for node in result.graph.nodes if not node.is_leaf]


def run(graph: Any, arrays: Any, inputs: Sequence[Any]) -> list[Any]:
    """A graph's outputs, node by node."""
    with np.errstate(all="ignore"):
        return Plan(graph, arrays).run([np.asarray(value) for value in inputs])


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
        function: A function of arrays.
        inputs: The inputs for tracing.
        passes: Names of passes; the default ones if None.
        fired: Rules that must have fired, as ``pass/rule``; not checked if None.
        left: Ops that must remain, in order; not checked if None.
        options: The options of the lowering.
    """
    with np.errstate(all="ignore"):
        program = ns.compile(function).graph(*inputs)
        result = lower(program.graph, program.constants, passes, LoweringOptions(**options))
    if fired is not None:
        assert rules(result) == list(fired), rules(result)
    if left is not None:
        assert ops_of(result) == list(left), ops_of(result)
    for feeds in layouts_of(inputs):
        wanted = run(program.graph, program.constants, feeds)
        actual = run(result.graph, result.arrays, feeds)
        assert len(wanted) == len(actual)
        for i, (first, other) in enumerate(zip(wanted, actual, strict=True)):
            assert same_bits(first, other), f"output {i}:\n{first}\n{other}\n{rules(result)}"
        assert_owned(program, result, feeds)
    return result


def layouts_of(inputs: Sequence[Any]) -> list[list[Any]]:
    """The inputs in their own layout, in column order, with gaps, and reversed."""
    results = [list(inputs)]
    results.append([np.asfortranarray(value) for value in inputs])
    results.append([_gaps(np.asarray(value)) for value in inputs])
    results.append([np.flip(np.flip(np.asarray(value)).copy()) for value in inputs])
    return results


def _gaps(array: Any) -> Any:
    if not array.ndim:
        return array
    wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    part = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    part[...] = array
    return part


def assert_owned(program: Any, result: Lowered, inputs: Sequence[Any]) -> None:
    """Check that results share memory only where those of the traced graph do."""
    if not any(stage.name == "own" for stage in result.stages):
        return
    feeds = [np.asarray(item) for item in inputs]
    wanted = run(program.graph, program.constants, feeds)
    actual = run(result.graph, result.arrays, feeds)
    for i, (first, other) in enumerate(zip(wanted, actual, strict=True)):
        held = [*feeds, *result.arrays.values()]
        if any(np.shares_memory(other, item) for item in held):
            known = [*feeds, *program.constants.values()]
            assert any(np.shares_memory(first, item) for item in known), f"output {i}"
        for j in range(i):
            if np.shares_memory(other, actual[j]):
                assert np.shares_memory(first, wanted[j]), f"outputs {j} and {i}"
