"""Faults in the back ends, and in the memory that they plan.

Invariant: each replaces real code of `nodescope.engine.codegen` or of `nodescope.passes.memory`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from nodescope.engine.codegen.c_backend import layouts, loops, prelude, toolchain
from nodescope.engine.codegen.numpy_backend import expand, place, runner, steps, tile_text
from nodescope.engine.codegen.numpy_backend.writer import ProgramWriter
from nodescope.passes import memory
from tests.conformance.planted import Patch, planted


@planted("nan_lost", found_by="numpy", help="max does not see NaN")
def _(patch: Patch) -> None:
    fits, _ = expand._TABLE["max"]
    patch.setitem(expand._TABLE, "max", (fits, expand._reducing(np.fmax)))


@planted("relu_nan", found_by="numpy", help="relu(NaN) is 0")
def _(patch: Patch) -> None:
    fits, _ = expand._TABLE["relu"]
    patch.setitem(expand._TABLE, "relu", (fits, lambda rec, x: rec.into(np.fmax, x, 0)))


@planted("softmax_axis", found_by="numpy", help="softmax adds up along another axis")
def _(patch: Patch) -> None:
    def wrong(rec: Any, x: Any, axis: int) -> Any:
        raised = rec.into(np.exp, rec.into(np.subtract, x, expand._max(rec, x, axis, True)))
        return rec.into(np.divide, raised, expand._sum(rec, raised, -axis - 1, True))

    patch.setitem(expand._TABLE, "softmax", (expand._floats, wrong))


@planted("strong_scalar", found_by="numpy", help="a Python number is taken as a float64")
def _(patch: Patch) -> None:
    patch.setattr(steps, "_box", lambda number, dtype, kinds: np.float64(number))


@planted("operand_forgotten", found_by="numpy", help="a place is free before its last use")
def _(patch: Patch) -> None:
    step = place.ProgramStep

    def blind(makes: Any, reads: Any, replaces: Any = ()) -> Any:
        return step(makes, reads[:1], replaces)

    patch.setattr(place, "ProgramStep", blind)


@planted("views_forgotten", found_by="numpy", help="a place is free while a view of it is used")
def _(patch: Patch) -> None:
    plan = memory.plan_memory

    def blind(moments: Any, sizes: Mapping[int, int], bases: Any = None, kept: Any = ()) -> Any:
        return plan(moments, sizes, {}, kept)

    patch.setattr(place, "plan_memory", blind)


@planted("stale_offset", found_by="numpy", help="every value stands at the begin of the arena")
def _(patch: Patch) -> None:
    at = ProgramWriter.planned
    patch.setattr(
        ProgramWriter, "planned", lambda self, value, offset, name="": at(self, value, 0, name)
    )


@planted("results_in_arena", found_by="numpy", help="results stand in memory that is used again")
def _(patch: Patch) -> None:
    plan = place._plan

    def blind(items: Any, kept: Any, turns: Any, also: Any = ()) -> Any:
        return plan(items, (), turns, also)

    patch.setattr(place, "_plan", blind)


@planted("one_layout", found_by="numpy", help="a program runs on feeds of other strides")
def _(patch: Patch) -> None:
    run = runner.NumpyRunner.run

    def careless(self: Any, feeds: Any) -> Any:
        if self._last is not None:
            return self._last[1].run(feeds)
        return run(self, feeds)

    patch.setattr(runner.NumpyRunner, "run", careless)


@planted("shared_buffers", found_by="threads", help="two threads write into the same buffers")
def _(patch: Patch) -> None:
    run = runner.Variant.run

    def shared(self: Any, feeds: Any) -> Any:
        if not self._free:
            return run(self, feeds)
        return self._free[0](*feeds)

    patch.setattr(runner.Variant, "run", shared)


@planted("tail", found_by="tiles", help="the elements after the last whole tile are left out")
def _(patch: Patch) -> None:
    tiles = tile_text.tiles

    def short(arena: Any, extent: int, size: int, inner: Any, kinds: Any) -> Any:
        return tiles(arena, extent - extent % size, size, inner, kinds)

    patch.setattr(tile_text, "tiles", short)


@planted("tile_overlap", found_by="tiles", help="values of one tile stand in the same place")
def _(patch: Patch) -> None:
    plan = place._plan_tile

    def together(tiled: Any, elements: int) -> None:
        plan(tiled, elements)
        tiled.offsets = dict.fromkeys(tiled.offsets, 0)

    patch.setattr(place, "_plan_tile", together)


def _in_c(patch: Patch, function: str, old: str, new: str) -> None:
    text = prelude._DEFINED[function]
    assert old in text, f"{function} has changed"
    patch.setitem(prelude._DEFINED, function, text.replace(old, new))


@planted("c_nan_lost", found_by="c", help="a maximum in C does not see NaN")
def _(patch: Patch) -> None:
    _in_c(patch, "ns_maximum_f32", "(a > b) | (a != a)", "a > b")


@planted("c_where", found_by="c", help="where chooses the other operand")
def _(patch: Patch) -> None:
    _in_c(patch, "ns_where_f32", "c ? a : b", "c ? b : a")


@planted("c_ulps", found_by="c", help="tanh is off by a few hundred units in the last place")
def _(patch: Patch) -> None:
    text = prelude._DEFINED["ns_tanh_f32"]
    changed = text.replace("ns_tanh_f32(f32", "ns_true_tanh_f32(f32")
    wrong = "\nNS_INLINE f32 ns_tanh_f32(f32 x) { return ns_true_tanh_f32(x) * 1.00003f; }\n"
    patch.setitem(prelude._DEFINED, "ns_tanh_f32", changed + wrong)


@planted("c_contraction", found_by="c", help="a * b + c is rounded once")
def _(patch: Patch) -> None:
    find = toolchain.compiler

    def careless() -> Any:
        result = find()
        flags = tuple(flag.replace("contract=off", "contract=fast") for flag in result.flags)
        return dataclasses.replace(result, flags=flags, key=f"{result.key}-contracted")

    patch.setattr(toolchain, "compiler", careless)


@planted("c_start", found_by="c", help="a maximum begins with 0")
def _(patch: Patch) -> None:
    start = loops.start
    patch.setattr(loops, "start", lambda item: "0" if item.how == "max" else start(item))


@planted("c_reduced_nan", found_by="c", help="a reduction in C loses NaN")
def _(patch: Patch) -> None:
    added = loops.added
    patch.setattr(loops, "added", lambda item, total, x: added(item, total, x).split(" n")[0])


@planted("c_literal", found_by="c", help="numbers stand in C with four digits")
def _(patch: Patch) -> None:
    literal = loops.literal

    def short(value: Any, dtype: str) -> str | None:
        if isinstance(value, float) and np.isfinite(value):
            value = float(f"{value:.4g}")
        return literal(value, dtype)

    patch.setattr(loops, "literal", short)


@planted("range_too_short", found_by="c", help="a value's place is free at its last use")
def _(patch: Patch) -> None:
    ranges = memory.live_ranges

    def short(moments: Any, bases: Any = None) -> dict[int, tuple[int, int]]:
        result = ranges(moments, bases)
        return {v: (first, max(first, last - 1)) for v, (first, last) in result.items()}

    patch.setattr(memory, "live_ranges", short)


@planted("c_axes", found_by="c", help="a transpose in C turns the wrong way")
def _(patch: Patch) -> None:
    viewed = layouts.viewed

    def wrong(name: str, attrs: dict[str, Any], shape: Any, strides: Any, out: Any) -> Any:
        if name == "transpose" and attrs["axes"] is not None:
            attrs = {"axes": tuple(int(item) for item in np.argsort(attrs["axes"]))}
        return viewed(name, attrs, shape, strides, out)

    patch.setattr(layouts, "viewed", wrong)
