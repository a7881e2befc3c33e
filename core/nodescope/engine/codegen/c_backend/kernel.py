"""Kernel: one unit as the body of a C function.

Parameters are ``char **p``, the addresses of inputs and outputs, and ``char *w``, working memory.

Invariant: the text depends on the unit alone, so that equal kernels have equal texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nodescope.engine.codegen.c_backend import products
from nodescope.engine.codegen.c_backend.loops import Loops
from nodescope.engine.codegen.c_backend.schedule import Group, Stage, schedule
from nodescope.engine.codegen.c_backend.unit import FunctionCall, Gemm, Place, Sizes, Unit, Val

ALIGN = 64


@dataclass(frozen=True)
class Body:
    """The body of a C function.

    Attributes:
        lines: Its text.
        scratch: Bytes that it needs at ``w``.
        needs: Names of functions of `helpers` that it calls.
        fails: Whether it may return a number other than 0.
        count: Number of elements of its single loop, if the function takes that instead of ``w``
            and thus serves arrays of any size; else 0.
        parts: Bodies of functions that compute a part of a loop; ``@k`` in a text is the kernel's
            name.
    """

    lines: tuple[str, ...]
    scratch: int
    needs: frozenset[str]
    fails: bool
    count: int = 0
    parts: tuple[tuple[str, ...], ...] = ()


def settle(unit: Unit) -> None:
    """Give each output its own memory, fold products, drop unused values."""
    bases = {value.base for value in unit.inputs}
    for i, v in enumerate(unit.outputs):
        own = v.base is not v and v.compact and v.size == v.base.size and v.offset == 0
        if v.base in bases or not (v.base is v or own) or v.loose:
            v = unit.outputs[i] = unit.map("copy", v)
        bases.add(v.base)
    products.fold(unit)
    needed = {value.base for value in unit.outputs}
    kept = []
    for prim in reversed(unit.prims):
        if any(out.base in needed for out in prim.writes):
            kept.append(prim)
            needed.update(read.base for read in prim.reads)
    unit.prims = kept[::-1]


class Memory:
    """The memory of a kernel's values while it runs.

    Args:
        names: Names of the given pointers, by base.
        first: The id after which those of working memory begin.
    """

    def __init__(self, names: dict[Val, str], first: int) -> None:
        self.names = dict(names)
        self.extent: dict[Val, list[int]] = {}
        self.sizes: dict[Val, int] = {}
        self.now = 0
        self._count = first

    def pointer(self, base: Val) -> str:
        """The name of the pointer to a base; a base without memory gets working memory."""
        if base not in self.names:
            self.names[base] = f"m{base.id}"
            self.sizes[base] = max(base.size, 1) * np.dtype(base.dtype).itemsize
        if base in self.sizes:
            self.extent.setdefault(base, [self.now, self.now])[1] = self.now
        return self.names[base]

    def scratch(self, shape: Sizes, dtype: str) -> Val:
        """Reserve more working memory."""
        self._count += 1
        return Val(self._count, shape, dtype)

    def declared(self) -> tuple[list[str], int]:
        """Declarations of the pointers to working memory, and its size."""
        placed: list[tuple[int, int, int, int]] = []
        lines, most = [], 0
        for base, (start, stop) in sorted(self.extent.items(), key=lambda e: -self.sizes[e[0]]):
            size = -(-self.sizes[base] // ALIGN) * ALIGN
            offset = 0
            for low, high, first, last in sorted(placed):
                if first <= stop and last >= start:
                    if offset + size <= low:
                        break
                    offset = max(offset, high)
            placed.append((offset, offset + size, start, stop))
            most = max(most, offset + size)
            lines.append((base.id, f"{base.stored} *const m{base.id} = "
                                   f"({base.stored} *)(w + {offset});"))  # fmt: skip
        return [line for _, line in sorted(lines)], most


def compose(unit: Unit) -> Body:
    """The body of a unit whose outputs are settled."""
    lines = []
    base_names: dict[Val, str] = {}
    for i, v in enumerate((*unit.inputs, *unit.outputs)):
        base = v.base
        base_names[base] = f"m{base.id}"
        const = "const " if i < len(unit.inputs) else ""
        lines.append(f"{const}{base.stored} *const m{base.id} = ({base.stored} *)p[{i}];")
    memory = Memory(base_names, unit.count)
    stages = schedule(unit)
    parts: list[list[str]] = []
    count = 0
    if len(stages) == 1 and isinstance(stages[0], Group):
        inside, count = _single(stages[0], unit.outputs, memory, parts)
    else:
        inside = staged(stages, unit.outputs, memory, parts)
    unit.count = memory._count
    declared, scratch = memory.declared()
    head = [*(["const i64 n = (i64)w;"] if count else []), *lines, *declared]
    needs = frozenset(
        name for stage in stages if isinstance(stage, FunctionCall) for name in stage.needs
    )
    fails = any(isinstance(stage, FunctionCall) and stage.fails for stage in stages)
    divided = tuple((*head, *part) for part in parts)
    return Body((*head, *inside), scratch, needs, fails, count, divided)


def _single(
    stage: Group, outputs: Sequence[Val], memory: Memory, parts: list[list[str]]
) -> tuple[list[str], int]:
    """The text of a kernel with a single group, and its element count if any number is possible."""
    loops = Loops(stage, stored([stage], outputs), memory.pointer, memory.scratch)
    return _divided(loops, loops.text(alone=True, divide=True), parts), loops.flat


def _divided(loops: Loops, text: list[str], parts: list[list[str]]) -> list[str]:
    """The text itself, or a call that runs its parts."""
    if not loops.parts:
        return text
    parts.append(text)
    count = f"(n + {loops.grain - 1}) / {loops.grain}" if loops.flat else str(loops.parts)
    call = f"ns_split(@k_{len(parts) - 1}, p, w, {count});"
    return [*loops.before, call, *loops.after]


def staged(
    stages: Sequence[Stage],
    outputs: Sequence[Val],
    memory: Memory,
    parts: list[list[str]] | None = None,
) -> list[str]:
    """The text of stages, in order.

    Args:
        parts: Collects the parts of large loops, if these may be divided: if all pointers are known
            from ``p`` and ``w``.
    """
    needed = stored(stages, outputs)
    lines: list[str] = []
    for i, stage in enumerate(stages):
        memory.now = i
        if isinstance(stage, Group):
            loops = Loops(stage, needed, memory.pointer, memory.scratch)
            text = loops.text(divide=parts is not None)
            lines += text if parts is None else _divided(loops, text, parts)
        elif isinstance(stage, Gemm):
            lines += products.text(stage, memory.pointer)
        else:
            lines.append(called(stage, memory))
    return lines


def stored(stages: Sequence[Stage], outputs: Sequence[Val]) -> set[Val]:
    """The bases that must be in memory: outputs, and values read by other stages."""
    needed = {output.base for output in outputs}
    for stage in stages:
        if isinstance(stage, Group):
            for prim in stage.members:
                needed.update(read.base for read in prim.reads if stage.register(read) is None)
                if isinstance(prim, Place):
                    needed.add(prim.out.base)
        else:
            needed.update(access.base for access in (*stage.reads, *stage.writes))
    return needed


def called(stage: FunctionCall, memory: Memory) -> str:
    """The call of a helper."""
    names: dict[str, str] = {}
    for key, values in (("o", stage.outs), ("i", stage.args)):
        for i, v in enumerate(values):
            offset = f" + {v.offset}" if v.offset else ""
            names[f"{key}{i}"] = f"({memory.pointer(v.base)}{offset})"
    text = stage.text.format(**names)
    return f"if ({text.rstrip(';')}) return 1;" if stage.fails else text
