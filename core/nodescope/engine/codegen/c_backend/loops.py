"""Loops: one group as a loop nest in C.

Rows outside, the elements of a row inside, in as many sweeps as its reductions need. What a later
sweep needs is computed again if that is cheap, else kept in a buffer of one row.

float32 sums run over blocks of 256 in vector lanes, which are added up in double; float64 sums
over blocks of 128, added up with the rounding error carried along.

Invariant: elementwise results do not depend on how the loops are cut; sums depend on shapes alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nodescope.engine.codegen.c_backend.expressions import CTYPES, literal
from nodescope.engine.codegen.c_backend.schedule import Group, aligned, shape_of
from nodescope.engine.codegen.c_backend.unit import Arg, Map, Place, Reduce, Sizes, Val, compact

_BLOCK = {"float32": 256, "float64": 128}
_STACK = 4096  # elements of a row that a buffer on the stack may have
_AGAIN = 8  # operations that are rather done again than kept
_DEAR = re.compile(
    r"_(?!where|keep|maximum|minimum|abs|fabs|sqrt|isfinite|isnan|clip|sign)\w+_f|/|fmod"
)
SPREAD = 1 << 20  # elements from which a loop is cut for several threads

Pointer = Callable[[Val], str]
Scratch = Callable[[Sizes, str], Val]


@dataclass
class _Access:
    """A place in memory that the loops walk over: strides within the space."""

    pointer: str
    kind: str
    offset: int
    strides: Sizes
    name: str = ""
    boolean: bool = False


@dataclass
class Loops:
    """The C text of one group.

    Attributes:
        group: What to compute.
        needed: Values that have to be in memory afterwards.
        pointer: The name of the pointer to a base's memory.
        scratch: Gives memory for a shape and dtype while the kernel runs.
    """

    group: Group
    needed: set[Val]
    pointer: Pointer
    scratch: Scratch
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        group = self.group
        self.space = group.space
        rank = len(self.space)
        self.rows = [i for i in range(group.split) if self.space[i] != 1]
        self.inner = [i for i in range(group.split, rank) if self.space[i] != 1]
        self.length = math.prod(self.space[i] for i in self.inner)
        self.members = group.members
        self.level: dict[Val, int] = {}
        self.phase: dict[Val, int] = {}
        self.accesses: list[_Access] = []
        self.loads: dict[tuple[int, int, Sizes], _Access] = {}
        self.producer: dict[Val, Map | Reduce] = {}
        self.keep: dict[Val, _Access | None] = {}

    # What is where

    def _load(self, v: Val) -> _Access:
        strides = self._strides(v)
        key = (v.base.id, v.offset, strides)
        found = self.loads.get(key)
        if found is None:
            found = self._access(v, strides)
            found.name = f"l{len(self.loads)}"
            self.loads[key] = found
        return found

    def _access(self, v: Val, strides: Sizes) -> _Access:
        found = _Access(self.pointer(v.base), v.base.stored, v.offset, strides,
                        boolean=v.dtype == "bool")  # fmt: skip
        self.accesses.append(found)
        return found

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
        return self.group.register(v)

    def _at(self, v: Arg) -> tuple[int, int]:
        """Level and sweep of an argument."""
        if not isinstance(v, Val):
            return 0, 0
        held = self._held(v)
        if held is None:
            return self._level_of(self._load(v).strides), 0
        return self.level[held], self.phase[held]

    def _analyse(self) -> None:
        for each in self.members:
            at = [self._at(arg) for arg in (each.args if isinstance(each, Map) else (each.arg,))]
            phase = max((p for _, p in at), default=0)
            if isinstance(each, Reduce):
                gone = self.group.reduced[each.out]
                exact = gone == set(self.inner)
                self.level[each.out] = 1 if exact else 3
                self.phase[each.out] = phase + 1
                self.producer[each.out] = each
            elif isinstance(each, Map):
                own = self.group.registers[each.out]
                self.level[each.out] = (
                    2 if any(own[i] != 1 for i in self.inner)
                    else max((n for n, _ in at), default=0) if all(n == 1 for n in own) else 1
                )  # fmt: skip
                self.phase[each.out] = phase
                self.producer[each.out] = each
        self.sweeps = 1 + max(self.phase.values(), default=0)

    # The text

    def text(self) -> list[str]:
        """Lines of C."""
        self._analyse()
        self.stores: list[tuple[Val, _Access, Val, bool]] = []  # value, place, its spec, plus zero
        self.sums: list[tuple[Reduce, _Access | None]] = []
        for each in self.members:
            if isinstance(each, Place):
                self.stores.append(
                    (each.arg, self._access(each.out, self._strides(each.out)), each.out, each.plus)
                )
            elif isinstance(each, Map):
                if each.out.base in self.needed:
                    place = self._access(each.out, self._strides(each.out))
                    self.stores.append((each.out, place, each.out, False))
            else:
                whole = self.level[each.out] == 3 and len(self.group.reduced[each.out]) == len(
                    self.rows
                ) + len(self.inner)
                stored = each.out.base in self.needed
                if whole or not (stored or self.level[each.out] == 3):
                    self.sums.append((each, None))
                else:
                    self.sums.append((each, self._access(each.out, self._strides(each.out))))
        self._choose_kept()
        self._walk_inner = self._collapsed(self.inner)
        self._walk_rows = self._collapsed(self.rows)
        lines = self.lines
        lines.append("{")
        self._begin()
        depth = 0
        for d, (size, _) in enumerate(self._walk_rows):
            lines.append(f"for (i64 r{d} = 0; r{d} < {size}; r{d}++) {{")
            depth += 1
        self._row()
        lines += ["}"] * depth
        self._end()
        lines.append("}")
        return lines

    def _collapsed(self, axes: Sequence[int]) -> list[tuple[int, dict[int, int]]]:
        """The axes merged where every access allows it: size, and stride by access."""
        walk: list[tuple[int, dict[int, int]]] = []
        for i in axes:
            size = self.space[i]
            steps = {id(each): each.strides[i] for each in self.accesses}
            if walk and all(walk[-1][1][key] == step * size for key, step in steps.items()):
                walk[-1] = (walk[-1][0] * size, steps)
            else:
                walk.append((size, steps))
        return walk

    def _choose_kept(self) -> None:
        """Which values stay in memory from one sweep to a later one."""
        wanted: dict[Val, int] = {}

        def want(v: Arg, phase: int) -> None:
            if not isinstance(v, Val):
                return
            held = self._held(v)
            if held is None or self.level[held] != 2:
                return
            if phase > wanted.get(held, -1):
                wanted[held] = phase

        for each in self.members:
            args = each.args if isinstance(each, Map) else (each.arg,)
            phase = (
                self.phase[each.out] - isinstance(each, Reduce)
                if not isinstance(each, Place)
                else self._at(each.arg)[1]
            )
            for arg in args:
                want(arg, phase)
        stored = {
            each: place for each, place, spec, plus in self.stores
            if not plus and spec is each and self.level.get(each) == 2
        }  # fmt: skip
        # Later sweeps first: what is computed again there needs its arguments there, too.
        for each in reversed(self.members):
            if not isinstance(each, Map) or self.level[each.out] != 2:
                continue
            last, here = wanted.get(each.out, -1), self.phase[each.out]
            if last <= here:
                continue
            if self._cost(each.out) <= _AGAIN:
                for arg in each.args:
                    want(arg, last)
            elif each.out in stored:
                self.keep[each.out] = stored[each.out]
            else:
                self.keep[each.out] = self._buffer(each.out)

    def _cost(self, v: Val) -> float:
        """Operations to compute a value again."""
        each = self.producer[v]
        if not isinstance(each, Map) or _DEAR.search(each.how.text):
            return math.inf
        total = 1.0
        for arg in each.args:
            held = self._held(arg) if isinstance(arg, Val) else None
            if held is not None and self.level[held] == 2:
                total += self._cost(held)
        return total

    def _buffer(self, v: Val) -> _Access:
        strides = [0] * len(self.space)
        for i, step in zip(self.inner, compact(tuple(self.space[i] for i in self.inner)),
                           strict=True):  # fmt: skip
            strides[i] = step
        kind = "u8" if v.dtype == "bool" else CTYPES[v.dtype]
        if self.length <= _STACK:
            name = f"b{v.id}"
            self.lines.insert(0, f"{kind} {name}[{max(self.length, 1)}];")
        else:
            name = self.pointer(self.scratch((self.length,), v.dtype))
        found = _Access(name, kind, 0, tuple(strides))
        self.accesses.append(found)
        return found

    # Before, within and after the rows

    def _begin(self) -> None:
        self.done: set[str] = set()
        for load in self.loads.values():
            if self._level_of(load.strides) == 0:
                self._read(load, "0")
        for each in self.members:
            if isinstance(each, Map) and self.level[each.out] == 0:
                self._compute(each)
        for value, place, spec, plus in self.stores:
            if not any(n != 1 for n in self.space) and self._at(value) == (0, 0):
                self._write(value, place, "0", plus)
        for reduce, target in self.sums:
            if self.level[reduce.out] != 3:
                continue
            kind = CTYPES[reduce.out.dtype]
            if target is None:
                wide = _wide(reduce)
                self.lines.append(f"{wide} t{reduce.out.id} = {_start(reduce)};")
                if wide == "f64" and reduce.how == "sum" and kind == "f64":
                    self.lines.append(f"f64 c{reduce.out.id} = 0;")
            else:
                count = reduce.out.size
                start = _start(reduce)
                base = f"{target.pointer} + {target.offset}"
                self.lines.append(
                    f"for (i64 j = 0; j < {count}; j++) ({base})[j] = {start};"
                    if start != "0"
                    else f"memset({base}, 0, {count} * sizeof({target.kind}));"
                )

    def _row(self) -> None:
        for access in self.accesses:
            if any(access.strides[i] for i in self.inner):
                steps = [
                    f"r{d} * {walk[id(access)]}" for d, (_, walk) in enumerate(self._walk_rows)
                    if walk[id(access)]
                ]  # fmt: skip
                offset = " + ".join([*([str(access.offset)] if access.offset else []), *steps])
                access.name = access.name or f"s{self.accesses.index(access)}"
                self.lines.append(
                    f"{access.kind} *const p{access.name} = {access.pointer}"
                    + (f" + {offset};" if offset else ";")
                )
        for load in self.loads.values():
            if self._level_of(load.strides) == 1:
                self._read(load, self._row_index(load))
        single = not any(n != 1 for n in self.space)
        for phase in range(self.sweeps):
            for each in self.members:
                if (
                    isinstance(each, Map)
                    and self.level[each.out] == 1
                    and self.phase[each.out] == phase
                ):
                    self._compute(each)
            for value, place, _, plus in self.stores:
                level, at = self._at(value)
                inside = any(place.strides[i] for i in self.inner)
                if level < 2 and not inside and at == phase and not (single and level == 0):
                    self._write(value, place, self._row_index(place), plus)
            self._sweep(phase)

    def _row_index(self, access: _Access) -> str:
        steps = [
            f"r{d} * {walk[id(access)]}" for d, (_, walk) in enumerate(self._walk_rows)
            if walk[id(access)]
        ]  # fmt: skip
        return " + ".join([str(access.offset), *steps]) if access.offset or not steps else (
            " + ".join(steps))  # fmt: skip

    def _sweep(self, phase: int) -> None:
        """One pass over the elements of a row."""
        stores = [
            (value, place, plus) for value, place, _, plus in self.stores
            if self._at(value)[1] == phase and any(place.strides[i] for i in self.inner)
        ]  # fmt: skip
        sums = [(each, target) for each, target in self.sums
                if self.phase[each.out] == phase + 1]  # fmt: skip
        kept = [(v, place) for v, place in self.keep.items()
                if self.phase[v] == phase and place is not None
                and all(place is not other for _, other, _ in stores)]  # fmt: skip
        if not stores and not sums and not kept:
            return
        outer = set(self.done)
        rows = [(each, target) for each, target in sums if self.level[each.out] == 1
                or self._within(each)]  # fmt: skip
        lines = self.lines
        block = min((_BLOCK.get(each.out.dtype, 1 << 62) for each, _ in rows if each.how == "sum"),
                    default=0)  # fmt: skip
        nested = len(self._walk_inner) > 1
        last = self._walk_inner[-1][0] if self._walk_inner else 1
        blocks = nested or (0 < block < last)
        for each, _ in rows:
            lines.append(f"{_wide(each) if blocks else CTYPES[each.out.dtype]} "
                         f"w{each.out.id} = {_start(each)};")  # fmt: skip
            if each.how in ("max", "min") and _float(each):
                lines.append(f"u{_bits(each)} n{each.out.id} = 0;")
            if blocks and each.how == "sum" and each.out.dtype == "float64":
                lines.append(f"f64 c{each.out.id} = 0;")
        depth = 0
        for d, (size, _) in enumerate(self._walk_inner[:-1]):
            lines.append(f"for (i64 i{d} = 0; i{d} < {size}; i{d}++) {{")
            depth += 1
        start, stop = "0", str(last)
        if 0 < block < last:
            lines.append(f"for (i64 j0 = 0; j0 < {last}; j0 += {block}) {{")
            lines.append(f"const i64 j1 = j0 + {block} < {last} ? j0 + {block} : {last};")
            start, stop = "j0", "j1"
            depth += 1
        clauses = []
        for each, _ in rows:
            name = f"w{each.out.id}"
            if blocks:
                name = f"a{each.out.id}"
                lines.append(f"{CTYPES[each.out.dtype]} {name} = {_start(each)};")
            clauses.append(f"reduction({_CLAUSE[each.how]}:{name})")
            if each.how in ("max", "min") and _float(each):
                clauses.append(f"reduction(|:n{each.out.id})")
        lines.append(f"#pragma omp simd {' '.join(clauses)}".rstrip())
        lines.append(f"for (i64 j = {start}; j < {stop}; j++) {{")
        for value, place, plus in stores:
            self._element(value, phase)
            self._write(value, place, self._inner_index(place), plus, named=True)
        for v, place in kept:
            self._element(v, phase)
            self._write(v, place, self._inner_index(place), False, named=True)
        for each, target in sums:
            self._element(each.arg, phase)
            x = self._name(each.arg, each.out.dtype if each.how not in ("any", "all") else "bool")
            if self.level[each.out] == 3 and not self._within(each):
                assert target is not None
                at = f"p{target.name}[{self._inner_index(target)}]"
                lines.append(f"{at} = {_joined(each, at, x)};")
            else:
                lines.append(_added(each, f"{'a' if blocks else 'w'}{each.out.id}", x))
        lines.append("}")
        if blocks:
            lines += [_carried(each, f"a{each.out.id}") for each, _ in rows]
        lines += ["}"] * depth
        self.done = outer
        for each, target in rows:
            self._finished(each, target, blocks)

    def _within(self, each: Reduce) -> bool:
        """Whether all of a row goes into one element."""
        return set(self.inner) <= self.group.reduced[each.out]

    def _finished(self, each: Reduce, target: _Access | None, blocks: bool) -> None:
        kind, number = CTYPES[each.out.dtype], each.out.id
        value = f"w{number}"
        if blocks and each.how == "sum" and each.out.dtype == "float64":
            value = f"(w{number} - w{number} == 0 ? w{number} + c{number} : w{number})"
        if each.how in ("max", "min") and _float(each):
            value = f"(n{number} ? ({kind})NAN : w{number})"
        if self.level[each.out] == 1:
            self.lines.append(f"const {kind} v{number} = ({kind}){value};")
            if target is not None:
                self._write(each.out, target, self._row_index(target), False)
            return
        if target is None:
            self.lines.append(_grown(each, f"t{number}", f"c{number}", value))
            return
        at = f"{target.pointer}[{self._row_index(target)}]"
        self.lines.append(f"{at} = {_joined(each, at, f'({kind}){value}')};")

    def _end(self) -> None:
        for each, target in self.sums:
            if self.level[each.out] == 3 and target is None:
                number, kind = each.out.id, CTYPES[each.out.dtype]
                value = f"t{number}"
                if each.how == "sum" and kind == "f64":
                    value = f"(t{number} - t{number} == 0 ? t{number} + c{number} : t{number})"
                self.lines.append(
                    f"{self.pointer(each.out.base)}[{each.out.offset}] = ({kind}){value};"
                )

    # Elements

    def _inner_index(self, access: _Access) -> str:
        steps = []
        for d, (_, walk) in enumerate(self._walk_inner):
            step = walk[id(access)]
            index = "j" if d == len(self._walk_inner) - 1 else f"i{d}"
            if step:
                steps.append(index if step == 1 else f"{index} * {step}")
        return " + ".join(steps) or "0"

    def _element(self, v: Arg, phase: int) -> None:
        """Make sure that an element of a value has a name."""
        if not isinstance(v, Val):
            return
        held = self._held(v)
        if held is None:
            load = self._load(v)
            if self._level_of(load.strides) == 2 and load.name not in self.done:
                self._read(load, self._inner_index(load), named=True)
            return
        if self.level[held] != 2 or f"v{held.id}" in self.done:
            return
        place = self.keep.get(held)
        if place is not None and self.phase[held] < phase:
            at = f"p{place.name}[{self._inner_index(place)}]"
            test = " != 0" if held.dtype == "bool" else ""
            self.lines.append(f"const {CTYPES[held.dtype]} v{held.id} = {at}{test};")
            self.done.add(f"v{held.id}")
            return
        producer = self.producer[held]
        assert isinstance(producer, Map)
        for arg in producer.args:
            self._element(arg, phase)
        self._compute(producer)

    def _read(self, load: _Access, index: str, *, named: bool = False) -> None:
        kind = "b8" if load.boolean else load.kind
        at = f"p{load.name}[{index}]" if named else (
            f"{load.pointer}[{index if index != '0' else load.offset}]")  # fmt: skip
        test = " != 0" if load.boolean else ""
        self.lines.append(f"const {kind} {load.name} = {at}{test};")
        self.done.add(load.name)

    def _compute(self, each: Map) -> None:
        name = f"v{each.out.id}"
        if name in self.done:
            return
        operands = [
            self._name(arg, dtype) for arg, dtype in zip(each.args, each.how.operands, strict=True)
        ]
        self.lines.append(f"const {CTYPES[each.out.dtype]} {name} = {each.how.fill(*operands)};")
        self.done.add(name)

    def _name(self, v: Arg, dtype: str) -> str:
        """An argument as an expression of a dtype."""
        if not isinstance(v, Val):
            found = literal(v, dtype)
            assert found is not None
            return found
        held = self._held(v)
        name = self._load(v).name if held is None else f"v{held.id}"
        own = "float64" if v.loose and held is None else v.dtype
        return name if own == dtype else f"({CTYPES[dtype]}){name}"

    def _write(
        self, value: Val, place: _Access, index: str, plus: bool, *, named: bool = False
    ) -> None:
        name = self._name(value, value.dtype)
        at = f"p{place.name}[{index}]" if named else (
            f"{place.pointer}[{index if index != '0' else place.offset}]")  # fmt: skip
        self.lines.append(f"{at} = {name}{' + 0' if plus else ''};")


_CLAUSE = {"sum": "+", "prod": "*", "max": "max", "min": "min", "any": "|", "all": "&"}


def _float(each: Reduce) -> bool:
    return each.out.dtype.startswith("float")


def _bits(each: Reduce) -> str:
    return "32" if each.out.dtype == "float32" else "64"


def _wide(each: Reduce) -> str:
    """The C type in which parts of a reduction are added up."""
    return "f64" if each.how == "sum" and _float(each) else CTYPES[each.out.dtype]


def _start(each: Reduce) -> str:
    kind = CTYPES[each.out.dtype]
    return {"sum": "0", "prod": "1", "any": "0", "all": "1", "max": f"NS_LEAST_{kind}",
            "min": f"NS_MOST_{kind}"}[each.how]  # fmt: skip


def _added(each: Reduce, total: str, x: str) -> str:
    """One more element, in the form that vector lanes know."""
    if each.how in ("max", "min"):
        sign = ">" if each.how == "max" else "<"
        text = f"{total} = {x} {sign} {total} ? {x} : {total};"
        return text + (f" n{each.out.id} |= {x} != {x};" if _float(each) else "")
    return f"{total} {'&' if each.how == 'all' else _CLAUSE[each.how]}= {x};"


def _carried(each: Reduce, part: str) -> str:
    """What a block or an inner loop found, into the row's total."""
    return _grown(each, f"w{each.out.id}", f"c{each.out.id}", part)


def _grown(each: Reduce, total: str, error: str, part: str) -> str:
    if each.how == "sum" and each.out.dtype == "float64":
        return (
            f"{{ const f64 x = {part}, s = {total} + x, z = s - {total}; "
            f"{error} += ({total} - (s - z)) + (x - z); {total} = s; }}"
        )
    return f"{total} = {_joined(each, total, part)};"


def _joined(each: Reduce, one: str, two: str) -> str:
    if each.how in ("max", "min"):
        return f"ns_{each.how}imum_{CTYPES[each.out.dtype]}({one}, {two})"
    return f"{one} {_CLAUSE[each.how]} {two}"


def elements(group: Group) -> int:
    """How many elements a group goes over, at most."""
    return max((math.prod(shape_of(each)) for each in group.members), default=0)
