"""Schedule: primitives of a unit grouped into loops over the same elements.

A `Group` is one loop nest: rows outside, the elements of a row inside. Reductions of whole rows can
be used within it; others are available when it ends. Values used in their own group stay in
registers.

Invariant: everything that a stage reads from memory was written by earlier stages.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodescope.engine.codegen.c_backend.unit import (
    FunctionCall,
    Gemm,
    Map,
    Place,
    Reduce,
    Sizes,
    Unit,
    Val,
)

_MOST = 96  # limit of primitives in a group: more would not fit into registers


class Group:
    """One loop nest.

    Attributes:
        space: Sizes of its loops.
        members: Its primitives, in order.
        registers: Values computed in it that can be used at once, with their shape within
            ``space``.
        exact: Reductions used within it: exactly those of whole rows.
    """

    def __init__(self) -> None:
        self.space: Sizes = ()
        self.members: list[Map | Reduce | Place] = []
        self.registers: dict[Val, Sizes] = {}
        self.reduced: dict[Val, frozenset[int]] = {}
        self.exact: set[Val] = set()
        self.split = 0

    def aligned(self, shape: Sizes) -> Sizes | None:
        """A shape extended to the dimensions of the space, or None if it has more."""
        return aligned(shape, len(self.space))

    def register(self, v: Val) -> Val | None:
        """The register that holds a value, perhaps in another shape, or None."""
        value: Val | None = v
        shape = self.aligned(v.shape)
        while value is not None and shape is not None:
            register_shape = self.registers.get(value)
            if register_shape is not None:
                fits = all(a in (1, b) for a, b in zip(register_shape, shape, strict=True))
                return value if fits else None
            value = value.source
        return None

    def accepts(self, prim: Map | Reduce | Place, ready: Iterable[Val]) -> bool:
        """Add a primitive to the group if it fits.

        Args:
            prim: The primitive.
            ready: Its arguments that are in memory before this group.
        """
        if len(self.members) >= _MOST:
            return False
        shape = shape_of(prim)
        grown = self._space(prim, shape)
        if grown is None:
            return False
        before = self.space, self.registers, self.split
        if grown != self.space:
            self.registers = {register: (1,) * len(grown) for register in self.registers}
            self.space = grown
        used: set[Val] = set()
        known = {id(value) for value in ready}
        for read in prim.reads:
            register = self.register(read)
            if register is None and id(read) not in known:
                self.space, self.registers, self.split = before
                return False
            if register is not None and register in self.reduced:
                used.add(register)
        own = self.aligned(shape)
        assert own is not None
        reduced = dict(self.reduced)
        if isinstance(prim, Reduce):
            more = len(grown) - len(prim.arg.shape)
            reduced_axes = frozenset(i + more for i in prim.axes if prim.arg.shape[i] != 1)
            reduced[prim.out] = reduced_axes
            own = tuple(1 if i in reduced_axes else n for i, n in enumerate(grown))
        split = _split(grown, reduced, self.exact | used)
        small = own != grown and not isinstance(prim, Reduce)
        if split is None or (small and not self._scalar(prim, own, split)):
            self.space, self.registers, self.split = before
            return False
        self.split, self.reduced = split, reduced
        self.exact |= used
        self.members.append(prim)
        if not isinstance(prim, Place):
            self.registers[prim.out] = own
        return True

    def _space(self, prim: Map | Reduce | Place, shape: Sizes) -> Sizes | None:
        """The common space of the group and the primitive, or None."""
        if not self.members or shape == self.space:
            return shape
        aligned_space = self.aligned(shape)
        if aligned_space == self.space:
            return self.space
        alone = all(n == 1 for n in self.space)
        if alone and not self.reduced and all(isinstance(m, Map) for m in self.members):
            return shape if len(shape) >= len(self.space) else None
        if aligned_space is None or isinstance(prim, (Reduce, Place)):
            return None
        fits = all(a in (1, b) for a, b in zip(aligned_space, self.space, strict=True))
        return self.space if fits else None

    def _scalar(self, prim: Map | Reduce | Place, own: Sizes, split: int) -> bool:
        """Whether a smaller value is one number per row, or one in total."""
        if isinstance(prim, Place) or any(n != 1 for n in own[split:]):
            return False
        if all(n == 1 for n in own):
            return True
        registers = [self.register(read) for read in prim.reads]
        return any(
            register is not None and self.registers[register] == own for register in registers
        )


Stage = Group | Gemm | FunctionCall


def aligned(shape: Sizes, rank: int) -> Sizes | None:
    """A shape with leading ones added or removed; None if it has more dimensions."""
    more = rank - len(shape)
    if more >= 0:
        return (1,) * more + shape
    return shape[-more:] if all(n == 1 for n in shape[:-more]) else None


def shape_of(prim: Map | Reduce | Place) -> Sizes:
    """The space of a primitive."""
    return prim.out.shape if isinstance(prim, Map) else prim.arg.shape


def _split(space: Sizes, reduced: dict[Val, frozenset[int]], exact: set[Val]) -> int | None:
    """The number of leading dimensions that are rows, chosen so that each reduction covers whole
    rows or no part of a row; None if there is no such number.
    """
    real = [i for i, n in enumerate(space) if n != 1]
    if not reduced:
        return 0
    for k in [0, *(i + 1 for i in real[:-1])]:
        inner = {i for i in real if i >= k}
        if all(
            (inner == reduced_axes)
            if v in exact
            else (inner <= reduced_axes or not inner & reduced_axes)
            for v, reduced_axes in reduced.items()
        ):
            return k
    return None


def schedule(unit: Unit) -> list[Stage]:
    """The stages of a unit, in order."""
    stages: list[Stage] = []
    ready: dict[Val, int] = {value.base: -1 for value in unit.inputs}

    def written(v: Val) -> int:
        return ready.get(v.base, -1)

    for prim in unit.prims:
        if isinstance(prim, (Gemm, FunctionCall)):
            stages.append(prim)
            for out in prim.writes:
                ready[out.base] = len(stages) - 1
            continue
        args = prim.reads
        first = max((written(argument) for argument in args), default=0)
        if isinstance(prim, Place):
            first = max(first, written(prim.out))
        place = len(stages)
        for i in range(max(first, 0), len(stages)):
            stage = stages[i]
            if not isinstance(stage, Group):
                continue
            if isinstance(prim, Place) and written(prim.out) == i and _clash(stage, prim.out):
                continue
            memory = [argument for argument in args if written(argument) < i]
            if stage.accepts(prim, memory):
                place = i
                break
        else:
            group = Group()
            accepted = group.accepts(prim, args)
            assert accepted, "a group takes its first primitive"
            stages.append(group)
        base = prim.out.base
        ready[base] = max(place, ready.get(base, -1))
    return stages


def _clash(group: Group, target: Val) -> bool:
    """Whether a primitive in the group may have written to the same elements."""
    for member in group.members:
        if isinstance(member, Place) and member.out.base is target.base:
            first, second = member.out, target
            apart = first.offset != second.offset and first.strides == second.strides
            if not apart or not (_within(first) and _within(second)):
                return True
    return False


def _within(v: Val) -> bool:
    """Whether a part is a range along one dimension of its base."""
    whole = v.base
    if len(v.shape) != len(whole.shape) or v.strides != whole.strides:
        return False
    return sum(a != b for a, b in zip(v.shape, whole.shape, strict=True)) <= 1
