"""The text of nodes that run tile by tile.

Invariant: each element is computed by the same calls as without tiles; only how many at a time
differs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodescope.engine.codegen.numpy_backend.place import Tiled
from nodescope.engine.codegen.numpy_backend.steps import MADE, VIEW, Step, Value
from nodescope.engine.codegen.numpy_backend.writer import Writer


def write_tiled(w: Writer, tiled: Tiled) -> None:
    """A node that runs tile by tile."""
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
    w.space["tiles"] = tiles
    w.bind.append(f"    tiles{number} = tiles(arena, {extent}, {tiled.size}, {inner!r}, [{kinds}])")
    for value, _ in temps:
        w.names[value] = f"t{value.id}"
    w.line(f"for i, j{''.join(f', t{value.id}' for value, _ in temps)} in tiles{number}:")
    keep, w.indent = w.indent, w.indent + "    "
    for name, whole in cut:
        w.line(f"{name} = {whole}[i:j]")
    for step in tiled.steps:
        _tile_step(w, step, tiled)
    w.indent = keep
    if cut:
        w.line(f"{' = '.join(name for name, _ in cut)} = None")
    w.names = outer


def _cut(w: Writer, tiled: Tiled, value: Value, cut: list[tuple[str, str]]) -> None:
    """Name a tile's part of a value, or the whole of what is broadcast."""
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


def _tile_step(w: Writer, step: Step, tiled: Tiled) -> None:
    out = step.outs[0]
    if step.kind == VIEW:
        w.line(f"x{out.id} = {step.text.format(w.names[step.args[0]])}")
        w.names[out] = f"x{out.id}"
    elif step.kind in MADE:
        w.line(w.into(step, w.names[out]))
    else:
        made = f"{w.function(step)}({w.arguments(step)})"
        if out in tiled.needed:
            w.line(f"{w.names[out]}[...] = {made}")
        else:
            w.line(f"{w.new(out)} = {made}")


def tiles(
    arena: Any, extent: int, size: int, inner: tuple[int, ...], kinds: list[tuple[int, Any]]
) -> list[tuple[Any, ...]]:
    """For each tile its begin and end, and its arrays in the arena."""
    whole = [np.ndarray((size, *inner), dtype, arena, at) for at, dtype in kinds]
    found: list[tuple[Any, ...]] = [
        (i, i + size, *whole) for i in range(0, extent - size + 1, size)
    ]
    rest = extent % size
    if rest:
        found.append((extent - rest, extent, *(each[:rest] for each in whole)))
    return found
