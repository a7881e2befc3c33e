"""Tile text: the code for nodes that run tile by tile.

Invariant: each element is computed by the same calls as without tiles; only the number computed at
a time differs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from nodescope.engine.codegen.numpy_backend.place import Tiled
from nodescope.engine.codegen.numpy_backend.shares import run_shares, shares
from nodescope.engine.codegen.numpy_backend.steps import MADE, VIEW, ProgramArray, Step
from nodescope.engine.codegen.numpy_backend.writer import ProgramWriter


def write_tiled(w: ProgramWriter, tiled: Tiled) -> None:
    """Write a node that runs tile by tile."""
    number = tiled.needed[0].id if tiled.needed else tiled.steps[-1].outs[0].id
    outer, w.names = w.names, dict(w.names)
    cut: list[tuple[str, str]] = []
    for value in tiled.needed:
        if value not in outer:
            dtype = w.constant(value.dtype)
            w.line(f"v{value.id} = empty({value.shape!r}, {dtype})")
            outer[value] = w.names[value] = f"v{value.id}"
    for value in dict.fromkeys([*tiled.reads, *tiled.needed]):
        _cut(w, tiled, value, cut)
    temps = sorted(tiled.offsets.items(), key=lambda pair: pair[0].id)
    offset = w.placed.scratch.get(tiled, 0)
    inner = () if tiled.flat else tiled.shape[1:]
    extent = math.prod(tiled.shape) if tiled.flat else tiled.shape[0]
    kinds = "".join(f"({offset + at}, {w.constant(v.dtype)}), " for v, at in temps)
    steps, full = _filled(tiled)
    kinds += "".join(f"(None, {w.constant(constant)}), " for constant in full)
    count = shares(math.prod(tiled.shape))
    w.space["tiles"] = tiles
    tiles_text = f"tiles(arena, {extent}, {tiled.size}, {inner!r}, [{kinds}])"
    if count > 1:
        w.space |= {"split": split, "run_shares": run_shares}
        tiles_text = f"split({tiles_text}, {count}, [{kinds}])"
    w.bind.append(f"    tiles{number} = {tiles_text}")
    for value, _ in temps:
        w.names[value] = f"t{value.id}"
    for i, value in enumerate(full.values()):
        w.names[value] = f"o{i}"
    keep, source = w.indent, f"tiles{number}"
    if count > 1:
        w.line(f"def share{number}(part, turns):")
        w.indent, source = w.indent + "    ", "map(part.__getitem__, turns)"
    loop_names = [
        *(f"t{value.id}" for value, _ in temps),
        *(w.names[value] for value in full.values()),
    ]
    w.line(f"for {', '.join(['i', 'j', *loop_names])} in {source}:")
    w.indent += "    "
    for name, whole in cut:
        w.line(f"{name} = {whole}[i:j]")
    for step in steps:
        _tile_step(w, step, tiled)
    w.indent = keep
    if count > 1:
        w.line(f"run_shares(share{number}, tiles{number})")
    elif cut:
        w.line(f"{' = '.join(name for name, _ in cut)} = None")
    w.names = outer


_SLOW_SCALAR = (np.minimum, np.maximum, np.fmin, np.fmax)
"""Ufuncs whose loops over two arrays take a third of the time of those over an array and a
number.
"""


def _filled(tiled: Tiled) -> tuple[list[Step], dict[Any, ProgramArray]]:
    """The steps, some with constant-filled arrays in place of numbers."""
    full: dict[Any, ProgramArray] = {}
    steps = []
    for step in tiled.steps:
        out = step.outs[0]
        if step.fn in _SLOW_SCALAR and all(
            argument.dtype == out.dtype
            and argument.strides is not None
            and argument.shape == tiled.shape
            if argument.__class__ is ProgramArray
            else isinstance(argument, np.generic) and argument.dtype == out.dtype
            and (argument != 0 or zeros_alike(step.fn, argument.dtype, bool(np.signbit(argument))))
            for argument in step.args
        ):  # fmt: skip
            args = [
                argument if argument.__class__ is ProgramArray else _number(full, argument)
                for argument in step.args
            ]
            step = dataclasses.replace(step, args=tuple(args))
        steps.append(step)
    return steps, {value.array: value for value in full.values()}


@functools.cache
def zeros_alike(ufunc: np.ufunc, dtype: np.dtype[Any], negative: bool) -> bool:
    """Whether this machine's loops give the same zero for an array of zeros as for a number.

    Of two zeros, either may count as the smaller. All other numbers differ, or are identical to the
    bit.
    """
    number = dtype.type(-0.0 if negative else 0)
    if dtype.kind in "iu":
        return True
    x = np.where(np.arange(200) % 3 == 0, -0.0, 0.0).astype(dtype)
    return all(
        np.array_equal(np.signbit(left_part), np.signbit(other))
        for part in (x[begin:end] for begin in (0, 1) for end in (*range(2, 20), 33, 70, 200))
        for full in (np.full(len(part), number),)
        for left_part, other in ((ufunc(part, number), ufunc(part, full)),
                           (ufunc(number, part), ufunc(full, part)))
    )  # fmt: skip


def _number(full: dict[Any, ProgramArray], array: Any) -> ProgramArray:
    key = (array.dtype, array.tobytes())
    return full.setdefault(key, ProgramArray(-1, array, None, None))


def _cut(w: ProgramWriter, tiled: Tiled, value: ProgramArray, cut: list[tuple[str, str]]) -> None:
    """Name a tile's part of a value, or the whole value if it is broadcast."""
    if value.strides is None:
        return
    whole = w.names[value]
    if value.shape == tiled.shape:
        if tiled.flat and len(tiled.shape) > 1:
            w.line(f"f{value.id} = {whole}.reshape(-1)")
            whole = f"f{value.id}"
        w.names[value] = f"x{value.id}"
        cut.append((f"x{value.id}", whole))
    elif tiled.flat and value.shape:
        w.line(f"f{value.id} = {whole}.reshape(())")
        w.names[value] = f"f{value.id}"
    elif len(value.shape) == len(tiled.shape) and value.shape[0] != 1:
        w.names[value] = f"x{value.id}"
        cut.append((f"x{value.id}", whole))


def _tile_step(w: ProgramWriter, step: Step, tiled: Tiled) -> None:
    out = step.outs[0]
    if step.kind == VIEW:
        w.line(f"x{out.id} = {step.text.format(w.names[step.args[0]])}")
        w.names[out] = f"x{out.id}"
    elif step.kind in MADE:
        w.line(w.into(step, w.names[out]))
    else:
        expression = f"{w.function(step)}({w.arguments(step)})"
        if out in tiled.needed:
            w.line(f"{w.names[out]}[...] = {expression}")
        else:
            w.line(f"{w.new(out)} = {expression}")


def tiles(
    arena: Any, extent: int, size: int, inner: tuple[int, ...], kinds: list[tuple[int | None, Any]]
) -> list[tuple[Any, ...]]:
    """For each tile its begin and end, and its arrays.

    Args:
        kinds: An array's place in the arena, and its dtype; or None, and its constant element.
    """
    whole = [
        np.full((size, *inner), dtype) if at is None else
        np.ndarray((size, *inner), dtype, arena, at) for at, dtype in kinds
    ]  # fmt: skip
    tiles_made: list[tuple[Any, ...]] = [
        (i, i + size, *whole) for i in range(0, extent - size + 1, size)
    ]
    rest = extent % size
    if rest:
        tiles_made.append((extent - rest, extent, *(array[:rest] for array in whole)))
    return tiles_made


def split(
    whole: list[tuple[Any, ...]], count: int, kinds: list[tuple[int | None, Any]]
) -> list[list[tuple[Any, ...]]]:
    """The tiles for each of several threads, with separate temporaries."""
    first = whole[0][2:]
    sizes = [0 if at is None else at + array.nbytes
             for (at, _), array in zip(kinds, first, strict=True)]  # fmt: skip
    low = min((at for at, _ in kinds if at is not None), default=0)
    parts = [whole]
    for _ in range(min(count, len(whole)) - 1):
        arena = np.empty(max([low, *sizes]) - low, np.uint8)
        own = [
            # Arrays that share memory in the arena share it here, too.
            spec if at is None else np.ndarray(spec.shape, spec.dtype, arena, at - low)
            for (at, _), spec in zip(kinds, first, strict=True)
        ]
        parts.append([(i, j, *(array[: j - i] for array in own)) for i, j, *_ in whole])
    return parts
