"""Walks: what the loops of a group read, write and keep, and in which sweep over a row.

Rows are the outer loops, the elements of a row the inner one, in as many sweeps as the reductions
need. Values needed by a later sweep are recomputed if that is cheap, otherwise kept in a buffer for
one row.

Invariant: a value is read back only in sweeps after the one that wrote it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodescope.engine.codegen.c_backend.expressions import CTYPES
from nodescope.engine.codegen.c_backend.schedule import Group, aligned
from nodescope.engine.codegen.c_backend.unit import Arg, Map, Place, Reduce, Sizes, Val, compact

_STACK = 4096  # limit of elements for a row buffer on the stack
_AGAIN = 8  # limit of operations that are recomputed rather than kept
DEAR = re.compile(
    r"_(?!where|keep|maximum|minimum|abs|fabs|sqrt|isfinite|isnan|clip|sign)\w+_f|/|fmod"
)

Pointer = Callable[[Val], str]
Scratch = Callable[[Sizes, str], Val]


@dataclass
class Access:
    """A place in memory that the loops traverse, with a stride for each dimension of the space."""

    pointer: str
    kind: str
    offset: int
    strides: Sizes
    name: str = ""
    boolean: bool = False


class Walk:
    """The traversal of one group by loops.

    Args:
        group: The group to compute.
        needed: Values that must be in memory afterwards.
        pointer: The name of the pointer to a base's memory.
        scratch: Returns memory for a shape and dtype while the kernel runs.
    """

    def __init__(self, group: Group, needed: set[Val], pointer: Pointer, scratch: Scratch) -> None:
        self.group, self.needed = group, needed
        self.pointer, self.scratch = pointer, scratch
        self.lines: list[str] = []
        self._known: dict[Val, Val | None] = {}
        self.space = group.space
        rank = len(self.space)
        self.rows = [i for i in range(group.split) if self.space[i] != 1]
        self.inner = [i for i in range(group.split, rank) if self.space[i] != 1]
        self.length = math.prod(self.space[i] for i in self.inner)
        self.members = group.members
        self.level: dict[Val, int] = {}
        self.phase: dict[Val, int] = {}
        self.accesses: list[Access] = []
        self.loads: dict[tuple[int, int, Sizes], Access] = {}
        self.producer: dict[Val, Map | Reduce] = {}
        self.keep: dict[Val, Access | None] = {}
        self.scratched = False  # whether a row buffer is in shared working memory

    # Placement

    def _load(self, v: Val) -> Access:
        strides = self._strides(v)
        key = (v.base.id, v.offset, strides)
        access = self.loads.get(key)
        if access is None:
            access = self._access(v, strides)
            access.name = f"l{len(self.loads)}"
            self.loads[key] = access
        return access

    def _access(self, v: Val, strides: Sizes) -> Access:
        access = Access(self.pointer(v.base), v.base.stored, v.offset, strides,
                        boolean=v.dtype == "bool")  # fmt: skip
        self.accesses.append(access)
        return access

    def _strides(self, v: Val) -> Sizes:
        rank = len(self.space)
        shape = aligned(v.shape, rank)
        assert shape is not None
        strides = ((0,) * (rank - len(v.strides)) + v.strides)[-rank:] if rank else ()
        return tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))

    def _level_of(self, strides: Sizes) -> int:
        if any(strides[i] for i in self.inner):
            return 2
        return 1 if any(strides[i] for i in self.rows) else 0

    def _held(self, v: Val) -> Val | None:
        if v not in self._known:
            self._known[v] = self.group.register(v)
        return self._known[v]

    def _at(self, v: Arg) -> tuple[int, int]:
        """Level and sweep of an argument."""
        if not isinstance(v, Val):
            return 0, 0
        register = self._held(v)
        if register is None:
            return self._level_of(self._load(v).strides), 0
        return self.level[register], self.phase[register]

    def _analyse(self) -> None:
        for member in self.members:
            at = [
                self._at(arg) for arg in (member.args if isinstance(member, Map) else (member.arg,))
            ]
            phase = max((p for _, p in at), default=0)
            if isinstance(member, Reduce):
                reduced_axes = self.group.reduced[member.out]
                exact = reduced_axes == set(self.inner)
                self.level[member.out] = 1 if exact else 3
                self.phase[member.out] = phase + 1
                self.producer[member.out] = member
            elif isinstance(member, Map):
                own = self.group.registers[member.out]
                self.level[member.out] = (
                    2 if any(own[i] != 1 for i in self.inner)
                    else max((n for n, _ in at), default=0) if all(n == 1 for n in own) else 1
                )  # fmt: skip
                self.phase[member.out] = phase
                self.producer[member.out] = member
        self.sweeps = 1 + max(self.phase.values(), default=0)

    def _prepare(self) -> None:
        """Determine everything that the text needs."""
        self._analyse()
        self.stores: list[tuple[Val, Access, Val, bool]] = []  # value, place, target, whether + 0
        self.sums: list[tuple[Reduce, Access | None]] = []
        for member in self.members:
            if isinstance(member, Place):
                self.stores.append(
                    (
                        member.arg,
                        self._access(member.out, self._strides(member.out)),
                        member.out,
                        member.plus,
                    )
                )
            elif isinstance(member, Map):
                if member.out.base in self.needed:
                    place = self._access(member.out, self._strides(member.out))
                    self.stores.append((member.out, place, member.out, False))
            else:
                whole = self.level[member.out] == 3 and len(self.group.reduced[member.out]) == len(
                    self.rows
                ) + len(self.inner)
                stored = member.out.base in self.needed
                if whole or not (stored or self.level[member.out] == 3):
                    self.sums.append((member, None))
                else:
                    self.sums.append((member, self._access(member.out, self._strides(member.out))))
        self._choose_kept()
        self._walk_inner = self._collapsed(self.inner)
        self._walk_rows = self._collapsed(self.rows)

    def _collapsed(self, axes: Sequence[int]) -> list[tuple[int, dict[int, int]]]:
        """The axes merged where every access allows it: size, and stride by access."""
        walk: list[tuple[int, dict[int, int]]] = []
        for i in axes:
            size = self.space[i]
            steps = {id(access): access.strides[i] for access in self.accesses}
            if walk and all(walk[-1][1][key] == step * size for key, step in steps.items()):
                walk[-1] = (walk[-1][0] * size, steps)
            else:
                walk.append((size, steps))
        return walk

    def _choose_kept(self) -> None:
        """Choose the values that stay in memory for a later sweep."""
        last_phase: dict[Val, int] = {}

        def want(v: Arg, phase: int) -> None:
            if not isinstance(v, Val):
                return
            register = self._held(v)
            if register is None or self.level[register] != 2:
                return
            if phase > last_phase.get(register, -1):
                last_phase[register] = phase

        for member in self.members:
            args = member.args if isinstance(member, Map) else (member.arg,)
            phase = (
                self.phase[member.out] - isinstance(member, Reduce)
                if not isinstance(member, Place)
                else self._at(member.arg)[1]
            )
            for arg in args:
                want(arg, phase)
        stored = {
            value: place for value, place, spec, plus in self.stores
            if not plus and spec is value and self.level.get(value) == 2
        }  # fmt: skip
        # Later sweeps first: a value recomputed there needs its arguments there as well.
        for member in reversed(self.members):
            if not isinstance(member, Map) or self.level[member.out] != 2:
                continue
            last, phase_here = last_phase.get(member.out, -1), self.phase[member.out]
            if last <= phase_here:
                continue
            if self._cost(member.out) <= _AGAIN:
                for arg in member.args:
                    want(arg, last)
            elif member.out in stored:
                self.keep[member.out] = stored[member.out]
            else:
                self.keep[member.out] = self._buffer(member.out)

    def _cost(self, v: Val) -> float:
        """Operations to recompute a value."""
        producer = self.producer[v]
        if not isinstance(producer, Map) or DEAR.search(producer.how.text):
            return math.inf
        total = 1.0
        for arg in producer.args:
            register = self._held(arg) if isinstance(arg, Val) else None
            if register is not None and self.level[register] == 2:
                total += self._cost(register)
        return total

    def _buffer(self, v: Val) -> Access:
        strides = [0] * len(self.space)
        for i, step in zip(self.inner, compact(tuple(self.space[i] for i in self.inner)),
                           strict=True):  # fmt: skip
            strides[i] = step
        kind = "u8" if v.dtype == "bool" else CTYPES[v.dtype]
        if self.length <= _STACK:
            name = f"buf{v.id}"  # b8 is a type
            self.lines.insert(0, f"{kind} {name}[{max(self.length, 1)}];")
        else:
            name = self.pointer(self.scratch((self.length,), v.dtype))
            self.scratched = True
        access = Access(name, kind, 0, tuple(strides))
        self.accesses.append(access)
        return access
