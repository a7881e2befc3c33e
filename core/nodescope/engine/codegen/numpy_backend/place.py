"""Placing: which values are placed in planned memory, where, and which steps run tile by tile.

Invariant: values that the caller gets, or may still hold after the call, are never placed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nodescope.engine.codegen.numpy_backend.observe import ObservedProgram
from nodescope.engine.codegen.numpy_backend.steps import (
    COPY,
    INTO,
    MADE,
    VIEW,
    Group,
    Loop,
    ProgramArray,
    Step,
    same_layout,
)
from nodescope.passes.memory import ALIGNMENT, MemoryPlan, ProgramStep, plan_memory

TILE_BYTES = 1 << 17
"""Size of each operand of a tile: a dozen of them fit into the second-level cache."""

TILED_FROM = 12 << 20
"""Total bytes of a kernel's results and operands from which it runs in tiles. Smaller ones stay
within the caches, and more calls would cost more than they save.
"""


@dataclass(eq=False)
class Tiled:
    """A node whose steps run together, tile by tile.

    Attributes:
        before: Steps on smaller operands, which run first.
        steps: Steps of a tile.
        after: Views of the results, for later users.
        needed: Values used outside of the tiles.
        flat: Whether tiles are cut from the flat elements; from the leading dimension if not.
        shape: Shape of the results.
        size: Size of a tile: elements if flat, else rows.
        offsets: Offsets within ``scratch`` of values that only exist in a tile.
        scratch: Bytes of scratch memory.
    """

    before: list[Step]
    steps: list[Step]
    after: list[Step]
    needed: tuple[ProgramArray, ...]
    flat: bool
    shape: tuple[int, ...]
    size: int
    offsets: dict[ProgramArray, int] = field(default_factory=dict)
    scratch: int = 0

    @property
    def outs(self) -> tuple[ProgramArray, ...]:
        """The values that it makes."""
        return self.needed

    @property
    def reads(self) -> list[ProgramArray]:
        """The values that it takes from outside."""
        own = {v for step in self.steps for v in step.outs}
        return [v for step in self.steps for v in step.reads if v not in own]


@dataclass(eq=False)
class Turns:
    """The places of a loop's values.

    Attributes:
        rows: Values made directly in a row of a stack, with its position.
        flips: Values made alternately in two buffers, with the offsets of both.
        copied: Positions of stacks whose row is copied.
        offsets: Offsets within ``scratch`` of values of one iteration, like ``flips``.
        scratch: Bytes of scratch memory.
    """

    rows: dict[ProgramArray, int] = field(default_factory=dict)
    flips: dict[ProgramArray, tuple[int, int]] = field(default_factory=dict)
    copied: list[int] = field(default_factory=list)
    offsets: dict[ProgramArray, int] = field(default_factory=dict)
    scratch: int = 0


Item = Step | Tiled | Loop


@dataclass(eq=False)
class MemoryPlacement:
    """A program's memory.

    Attributes:
        items: The code to run for each node.
        offsets: Offsets of values in the arena.
        scratch: Offsets of the scratch memory of tiled nodes and loops in the arena.
        turns: Placements by loop.
        memory: The plan.
    """

    items: list[tuple[Group, list[Item]]]
    offsets: dict[ProgramArray, int]
    scratch: dict[Tiled | Loop, int]
    turns: dict[Loop, Turns]
    memory: MemoryPlan


def place(program: ObservedProgram) -> MemoryPlacement:
    """Decide where every value is placed."""
    items: list[tuple[Group, list[Item]]] = []
    for group in program.groups:
        tiled = tiling(group)
        if tiled is None:
            items.append((group, list(group.steps)))
        else:
            items.append((group, [*tiled.before, tiled, *tiled.after]))
    turns: dict[Loop, Turns] = {}
    kept = {root for value in program.outputs for root in value.roots}
    offsets, scratch, memory = _plan([i for _, i_ in items for i in i_], kept, turns)
    return MemoryPlacement(items, offsets, scratch, turns, memory)


# Arenas


def _plan(
    items: Sequence[Item],
    kept: Iterable[ProgramArray],
    turns: dict[Loop, Turns],
    also: Iterable[ProgramArray] = (),
) -> tuple[dict[ProgramArray, int], dict[Tiled | Loop, int], MemoryPlan]:
    """Offsets of values and of scratch.

    Args:
        items: The code, in order.
        kept: Roots that must not be placed.
        turns: Receives the decisions about loops.
        also: Values that are used after the last item.
    """
    outside = set(kept)
    values: dict[int, ProgramArray] = {}
    sizes: dict[int, int] = {}
    bases: dict[int, tuple[int, ...]] = {}
    moments = []
    owners: dict[int, Tiled | Loop] = {}
    extra = itertools.count(-1, -1)
    for item in items:
        makes = [out.id for out in item.outs]
        for value in (*item.outs, *item.reads):
            values[value.id] = value
            if value.roots != (value,):
                bases[value.id] = tuple(root.id for root in value.roots)
        for value in item.outs:
            if _placeable(item, value) and value not in outside:
                sizes[value.id] = value.nbytes
        reads = [read.id for read in item.reads]
        if not isinstance(item, Step):
            if isinstance(item, Loop):
                turns[item] = _turns(item, turns)
                size = turns[item].scratch
            else:
                size = item.scratch
            if size:
                number = next(extra)
                owners[number] = item
                sizes[number] = size
                makes.append(number)
        moments.append(ProgramStep(tuple(makes), tuple(reads), tuple(_replaces(item))))
    moments.append(ProgramStep((), tuple(value.id for value in also)))
    plan = plan_memory(moments, sizes, bases)
    offsets = {values[v]: at for v, at in plan.offsets.items() if v >= 0}
    scratch = {owners[v]: at for v, at in plan.offsets.items() if v < 0}
    return offsets, scratch, plan


def _placeable(item: Item, value: ProgramArray) -> bool:
    if isinstance(item, Step) and item.kind not in MADE:
        return False
    return value.roots == (value,) and value.nbytes > 0 and value.plain


def _replaces(item: Item) -> list[tuple[int, int]]:
    """Pairs of a result and an operand whose place the result may take.

    Tested over all ufuncs and dtypes: a result written over an operand of the same layout is
    bit-identical to one computed elsewhere.
    """
    if isinstance(item, Loop):
        return []
    if isinstance(item, Step):
        if item.kind != INTO or not item.elementwise:
            return []
        out = item.outs[0]
    else:
        # The one output must be written last, because tiles of operands are read until then.
        final = item.steps[-1]
        if len(item.needed) != 1 or final.kind != INTO or final.outs[0] is not item.needed[0]:
            return []
        out = item.needed[0]
    return [(out.id, read.id) for read in item.reads if same_layout(out, read)]


# Loops


def _turns(loop: Loop, turns: dict[Loop, Turns]) -> Turns:
    result = Turns()
    produced = {
        value
        for step in loop.steps if isinstance(step, Step) and step.kind in MADE
        for value in step.outs if value.roots == (value,) and value.plain and value.nbytes
    }  # fmt: skip
    for at, value in enumerate(loop.results):
        if value in produced and value.contiguous and value.shape and value not in result.rows:
            result.rows[value] = at
        else:
            result.copied.append(at)
    handed_on = {root for value in loop.ends for root in value.roots}
    natural: set[ProgramArray] = set()
    flips = []
    for value in loop.ends:
        if value in result.rows or value in flips:
            continue
        # The holder in this iteration must be released: its buffer is the next to be used.
        holders = {c for c, e in zip(loop.carries, loop.ends, strict=True) if value in e.roots}
        if value in produced and not holders & handed_on:
            flips.append(value)
        else:
            natural.update(value.roots)
    kept = {*natural, *result.rows, *flips}
    after = {loop.results[at] for at in result.copied} | set(loop.ends)
    result.offsets, scratch, plan = _plan(loop.steps, kept, turns, after)
    size = plan.arena_bytes
    for value in flips:
        step = -(-value.nbytes // ALIGNMENT) * ALIGNMENT
        result.flips[value] = (size, size + step)
        size += 2 * step
    result.scratch = size
    for inner, at in scratch.items():
        if isinstance(inner, Loop):
            _shift(inner, turns, at)
    return result


def _shift(loop: Loop, turns: dict[Loop, Turns], by: int) -> None:
    inner = turns[loop]
    inner.offsets = {value: at + by for value, at in inner.offsets.items()}
    inner.flips = {value: (a + by, b + by) for value, (a, b) in inner.flips.items()}
    for step in loop.steps:
        if isinstance(step, Loop):
            _shift(step, turns, by)


# Tiles


def tiling(group: Group) -> Tiled | None:
    """How a node runs tile by tile, or None if it should not."""
    steps = [step for step in group.steps if isinstance(step, Step)]
    if not group.whole or sum(step.kind != VIEW for step in steps) < 2:
        return None
    shape = max((v.shape for s in steps for v in s.outs), key=math.prod)
    inside = [s for s in steps if s.outs[0].shape == shape]
    before = [s for s in steps if s.outs[0].shape != shape]
    own = {v: step for step in inside for v in step.outs}
    if not shape or any(v in own for step in before for v in step.reads):
        return None
    reads = {v for step in inside for v in step.reads if v not in own}
    large = [v for v in (*reads, *own) if v.shape == shape]
    if sum(v.nbytes for v in large) < TILED_FROM:
        return None
    if not all(v.plain and v.contiguous for v in own):
        return None
    needed, after = [], []
    for value in group.outs:
        if value not in own:
            continue
        producer = own[value]
        if producer.kind == VIEW and producer.args[0] in own and value.roots == (producer.args[0],):
            after.append(producer)
            value = producer.args[0]
        if value.roots != (value,):
            return None
        needed.append(value)
    inner_reads = {v for step in inside for v in step.reads}
    inside = [s for s in inside if s.kind != VIEW or s.outs[0] in inner_reads]
    flat = all(v.contiguous if v.shape == shape else math.prod(v.shape) == 1 for v in reads)
    width = max((v.dtype.itemsize for v in large), default=1)
    elements = TILE_BYTES // width
    size, extent, inner = elements, math.prod(shape), 1
    if not flat:
        inner, extent = math.prod(shape[1:]), shape[0]
        whole = 64 // math.gcd(64, inner)  # rows begin at multiples of 64 elements
        size = max(elements // (inner * whole), 1) * whole
    if extent < 2 * size:
        return None
    tile = Tiled(before, inside, after, tuple(dict.fromkeys(needed)), flat, shape, size)
    _plan_tile(tile, size * inner)
    return tile


def _plan_tile(tiled: Tiled, elements: int) -> None:
    values: dict[int, ProgramArray] = {}
    sizes, bases = {}, {}
    moments = []
    for step in tiled.steps:
        out = step.outs[0]
        values[out.id] = out
        if out.roots != (out,):
            bases[out.id] = tuple(root.id for root in out.roots)
        elif out not in tiled.needed and step.kind in (INTO, COPY):
            sizes[out.id] = elements * out.dtype.itemsize
        moments.append(
            ProgramStep((out.id,), tuple(v.id for v in step.reads), tuple(_replaces(step)))
        )
    plan = plan_memory(moments, sizes, bases)
    tiled.offsets = {values[v]: at for v, at in plan.offsets.items()}
    tiled.scratch = plan.arena_bytes
