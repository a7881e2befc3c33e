"""Loops: one group as a loop nest in C.

Invariant: elementwise results do not depend on how the loops are cut; sums depend on shapes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.engine.codegen.c_backend.expressions import CTYPES, literal
from nodescope.engine.codegen.c_backend.parallel_loops import Divided
from nodescope.engine.codegen.c_backend.pieces import cut, staged
from nodescope.engine.codegen.c_backend.reductions import (
    BLOCK,
    CLAUSE,
    added,
    bits,
    carried,
    grown,
    joined,
    of_floats,
    start,
    wide,
)
from nodescope.engine.codegen.c_backend.unit import Arg, Map, Reduce, Val
from nodescope.engine.codegen.c_backend.walk import Access

_FLAT = 16  # elements; smaller loops are unrolled


class Loops(Divided):
    """The C text of one group.

    Attributes:
        flat: The number of elements, if it is a single loop without sums; else 0.
        before, after: Code that must run before the parts, and after them.
    """

    flat = 0

    def text(self, *, alone: bool = False, divide: bool = False) -> list[str]:
        """Lines of C.

        Args:
            alone: Whether a single loop may run over ``n`` elements; `flat` is then set.
            divide: Whether to divide a large loop into parts; the text is then that of part number
                ``part``.
        """
        self._prepare()
        self.before: list[str] = []
        self.after: list[str] = []
        single = not self._walk_rows and len(self._walk_inner) == 1 and not self.sums
        if alone and single and self._walk_inner[0][0] >= _FLAT:
            self.flat = self._walk_inner[0][0]
            self._symbol = "n"
        lines = self.lines
        lines.append("{")
        if divide:
            self._divide()
            if self._fold:
                rest = Loops(self.group, self.needed, self.pointer, self.scratch)
                rest._fold, rest.partial, rest.parts = "rest", self.partial, self.parts
                self.after = rest.text()
        self._begin()
        depth = 0
        for d, (size, _) in enumerate(self._walk_rows):
            low, high = self._bounds(f"r{d}", size)
            lines.append(f"for (i64 r{d} = {low}; r{d} < {high}; r{d}++) {{")
            depth += 1
        self._row()
        lines += ["}"] * depth
        self._end()
        lines.append("}")
        return lines

    # Before, within and after the rows

    def _begin(self) -> None:
        self.done: set[str] = set()
        for load in self.loads.values():
            if self._level_of(load.strides) == 0:
                self._read(load, "0")
        for member in self.members:
            if isinstance(member, Map) and self.level[member.out] == 0:
                self._compute(member)
        for value, place, _, plus in self.stores:
            if not any(n != 1 for n in self.space) and self._at(value) == (0, 0):
                self._write(value, place, "0", plus)
        for reduce, target in self.sums:
            if self.level[reduce.out] != 3:
                continue
            kind = CTYPES[reduce.out.dtype]
            if target is None:
                broad = wide(reduce)
                self.lines.append(f"{broad} t{reduce.out.id} = {start(reduce)};")
                if broad == "f64" and reduce.how == "sum" and kind == "f64":
                    self.lines.append(f"f64 c{reduce.out.id} = 0;")
            else:
                count = reduce.out.size
                first = start(reduce)
                base = f"{target.pointer} + {target.offset}"
                (self.before if self.parts else self.lines).append(
                    f"for (i64 j = 0; j < {count}; j++) ({base})[j] = {first};"
                    if first != "0"
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
            for member in self.members:
                if (
                    isinstance(member, Map)
                    and self.level[member.out] == 1
                    and self.phase[member.out] == phase
                ):
                    self._compute(member)
            for value, place, _, plus in self.stores:
                level, at = self._at(value)
                inside = any(place.strides[i] for i in self.inner)
                if level < 2 and not inside and at == phase and not (single and level == 0):
                    self._write(value, place, self._row_index(place), plus)
            self._sweep(phase)
            if self._fold == "part":
                break

    def _row_index(self, access: Access) -> str:
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
        sums = [(reduction, target) for reduction, target in self.sums
                if self.phase[reduction.out] == phase + 1]  # fmt: skip
        kept = [(v, place) for v, place in self.keep.items()
                if self.phase[v] == phase and place is not None
                and all(place is not other for _, other, _ in stores)]  # fmt: skip
        if not stores and not sums and not kept:
            return
        outer = set(self.done)
        rows = [(reduction, target) for reduction, target in sums if self.level[reduction.out] == 1
                or self._within(reduction)]  # fmt: skip
        lines = self.lines
        block = min(
            (
                BLOCK.get(reduction.out.dtype, 1 << 62)
                for reduction, _ in rows
                if reduction.how == "sum"
            ),
            default=0,
        )
        nested = len(self._walk_inner) > 1
        last = self._walk_inner[-1][0] if self._walk_inner else 1
        blocks = nested or (0 < block < last) or self._fold != ""
        for reduction, _ in rows:
            lines.append(f"{wide(reduction) if blocks else CTYPES[reduction.out.dtype]} "
                         f"w{reduction.out.id} = {start(reduction)};")  # fmt: skip
            if reduction.how in ("max", "min") and of_floats(reduction):
                lines.append(f"u{bits(reduction)} n{reduction.out.id} = 0;")
            if blocks and reduction.how == "sum" and reduction.out.dtype == "float64":
                lines.append(f"f64 c{reduction.out.id} = 0;")
        if self._fold == "rest" and phase == 0:
            lines += self._joined_parts()
            for reduction, target in rows:
                self._finished(reduction, target, blocks)
            return
        depth = 0
        for d, (size, _) in enumerate(self._walk_inner[:-1]):
            low, high = self._bounds(f"i{d}", size)
            lines.append(f"for (i64 i{d} = {low}; i{d} < {high}; i{d}++) {{")
            depth += 1
        low, high = self._bounds("j", last)
        if not sums and not kept and last >= _FLAT:
            pieces = self._pieces(stores, phase)
            if pieces:
                lines += staged(pieces, low, high)
                lines += ["}"] * depth
                self.done = outer
                return
        if 0 < block < last:
            lines.append(f"for (i64 j0 = {low}; j0 < {high}; j0 += {block}) {{")
            lines.append(f"const i64 j1 = j0 + {block} < {high} ? j0 + {block} : {high};")
            low, high = "j0", "j1"
            depth += 1
        clauses = []
        for reduction, _ in rows:
            name = f"w{reduction.out.id}"
            if blocks:
                name = f"a{reduction.out.id}"
                lines.append(f"{CTYPES[reduction.out.dtype]} {name} = {start(reduction)};")
            clauses.append(f"reduction({CLAUSE[reduction.how]}:{name})")
            if reduction.how in ("max", "min") and of_floats(reduction):
                clauses.append(f"reduction(|:n{reduction.out.id})")
        lines.append(f"#pragma omp simd {' '.join(clauses)}".rstrip())
        lines.append(f"for (i64 j = {low}; j < {high}; j++) {{")
        for value, place, plus in stores:
            self._element(value, phase)
            self._write(value, place, self._inner_index(place), plus, named=True)
        for v, place in kept:
            self._element(v, phase)
            self._write(v, place, self._inner_index(place), False, named=True)
        for reduction, target in sums:
            self._element(reduction.arg, phase)
            x = self._name(
                reduction.arg,
                reduction.out.dtype if reduction.how not in ("any", "all") else "bool",
            )
            if self.level[reduction.out] == 3 and not self._within(reduction):
                assert target is not None
                at = f"p{target.name}[{self._inner_index(target)}]"
                lines.append(f"{at} = {joined(reduction, at, x)};")
            else:
                lines.append(added(reduction, f"{'a' if blocks else 'w'}{reduction.out.id}", x))
        lines.append("}")
        if blocks:
            lines += [carried(reduction, f"a{reduction.out.id}") for reduction, _ in rows]
        lines += ["}"] * depth
        self.done = outer
        if self._fold == "part":
            lines += self._kept_part()
            return
        for reduction, target in rows:
            self._finished(reduction, target, blocks)

    def _pieces(self, stores: Sequence[tuple[Val, Access, bool]], phase: int) -> list[list[str]]:
        """The statements for one element, cut into several loops where that is faster."""
        lines, self.lines = self.lines, []
        done = set(self.done)
        for value, _, _ in stores:
            self._element(value, phase)
        cuts = cut(self.lines)
        if cuts:
            for value, place, plus in stores:  # written last: they may reuse operands' memory
                self._write(value, place, self._inner_index(place), plus, named=True)
            cuts[-1] += self.lines[sum(map(len, cuts)) :]
        else:
            self.done = done
        self.lines = lines
        return cuts

    def _finished(self, reduction: Reduce, target: Access | None, blocks: bool) -> None:
        kind, number = CTYPES[reduction.out.dtype], reduction.out.id
        value = f"w{number}"
        if blocks and reduction.how == "sum" and reduction.out.dtype == "float64":
            value = f"(w{number} - w{number} == 0 ? w{number} + c{number} : w{number})"
        if reduction.how in ("max", "min") and of_floats(reduction):
            value = f"(n{number} ? ({kind})NAN : w{number})"
        if self.level[reduction.out] == 1:
            self.lines.append(f"const {kind} v{number} = ({kind}){value};")
            if target is not None:
                self._write(reduction.out, target, self._row_index(target), False)
            return
        if target is None:
            self.lines.append(grown(reduction, f"t{number}", f"c{number}", value))
            return
        at = f"{target.pointer}[{self._row_index(target)}]"
        self.lines.append(f"{at} = {joined(reduction, at, f'({kind}){value}')};")

    def _end(self) -> None:
        for reduction, target in self.sums:
            if self.level[reduction.out] == 3 and target is None:
                number, kind = reduction.out.id, CTYPES[reduction.out.dtype]
                value = f"t{number}"
                if reduction.how == "sum" and kind == "f64":
                    value = f"(t{number} - t{number} == 0 ? t{number} + c{number} : t{number})"
                self.lines.append(
                    f"{self.pointer(reduction.out.base)}[{reduction.out.offset}] = ({kind}){value};"
                )

    # Elements

    def _inner_index(self, access: Access) -> str:
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
        register = self._held(v)
        if register is None:
            load = self._load(v)
            if self._level_of(load.strides) == 2 and load.name not in self.done:
                self._read(load, self._inner_index(load), named=True)
            return
        if self.level[register] != 2 or f"v{register.id}" in self.done:
            return
        place = self.keep.get(register)
        if place is not None and self.phase[register] < phase:
            at = f"p{place.name}[{self._inner_index(place)}]"
            test = " != 0" if register.dtype == "bool" else ""
            self.lines.append(f"const {CTYPES[register.dtype]} v{register.id} = {at}{test};")
            self.done.add(f"v{register.id}")
            return
        producer = self.producer[register]
        assert isinstance(producer, Map)
        for arg in producer.args:
            self._element(arg, phase)
        self._compute(producer)

    def _read(self, load: Access, index: str, *, named: bool = False) -> None:
        kind = "b8" if load.boolean else load.kind
        at = f"p{load.name}[{index}]" if named else (
            f"{load.pointer}[{index if index != '0' else load.offset}]")  # fmt: skip
        test = " != 0" if load.boolean else ""
        self.lines.append(f"const {kind} {load.name} = {at}{test};")
        self.done.add(load.name)

    def _compute(self, prim: Map) -> None:
        name = f"v{prim.out.id}"
        if name in self.done:
            return
        operands = [
            self._name(arg, dtype) for arg, dtype in zip(prim.args, prim.how.operands, strict=True)
        ]
        self.lines.append(f"const {CTYPES[prim.out.dtype]} {name} = {prim.how.fill(*operands)};")
        self.done.add(name)

    def _name(self, v: Arg, dtype: str) -> str:
        """An argument as an expression of a dtype."""
        if not isinstance(v, Val):
            text = literal(v, dtype)
            assert text is not None
            return text
        register = self._held(v)
        name = self._load(v).name if register is None else f"v{register.id}"
        own = "float64" if v.loose and register is None else v.dtype
        return name if own == dtype else f"({CTYPES[dtype]}){name}"

    def _write(
        self, value: Val, place: Access, index: str, plus: bool, *, named: bool = False
    ) -> None:
        name = self._name(value, value.dtype)
        at = f"p{place.name}[{index}]" if named else (
            f"{place.pointer}[{index if index != '0' else place.offset}]")  # fmt: skip
        self.lines.append(f"{at} = {name}{' + 0' if plus else ''};")
