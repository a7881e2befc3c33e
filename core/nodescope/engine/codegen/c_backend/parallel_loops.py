"""Parallel loops: which loop of a group runs in parts, and where it is split.

A part works on its own memory, or contributes partial sums, which are then added up in order.

Invariant: where a loop is split depends on shapes alone, never on the number of threads.
"""

from __future__ import annotations

import math

from nodescope.engine.codegen.c_backend.pool import PART
from nodescope.engine.codegen.c_backend.reductions import bits, carried, of_floats, wide
from nodescope.engine.codegen.c_backend.unit import Map, Reduce, Val
from nodescope.engine.codegen.c_backend.walk import DEAR, Walk

LARGE, LARGE_DEAR = 1 << 18, 1 << 16
"""Number of elements from which a loop is divided; lower if it computes expensive functions."""


class Divided(Walk):
    """A sweep that may be divided.

    Attributes:
        parts: The number of parts, which threads may share; else 0.
        grain: Iterations of the divided loop per part.
        partial: Where parts store their results for a sum: value, rounding error, whether NaN.
    """

    parts = grain = 0
    _symbol = ""
    _cut = ""
    partial: dict[Reduce, tuple[str, str, str]]
    _fold = ""  # "part": only a part of all sums; "rest": what follows when all parts are done

    def _bounds(self, name: str, size: int) -> tuple[str, str]:
        if name == self._cut:
            return "first", "last"
        return "0", self._symbol or str(size)

    def _divide(self) -> None:
        """Choose the outermost loop whose parts each work on their own memory."""
        total = math.prod(self.space)
        dear = any(isinstance(m, Map) and DEAR.search(m.how.text) for m in self.members)
        if total < (LARGE_DEAR if dear else LARGE) or self.scratched:
            return
        written = [place for _, place, _, _ in self.stores]
        written += [target for _, target in self.sums if target is not None]
        fold = self._foldable()
        if fold:
            written = [access for access in written if any(access.strides[i] for i in self.inner)]
        elif any(target is None and self.level[sum_.out] == 3 for sum_, target in self.sums):
            return
        reduced = any(self.level[sum_.out] == 1 or self._within(sum_) for sum_, _ in self.sums)
        loops = [(f"r{d}", size, walk) for d, (size, walk) in enumerate(self._walk_rows)]
        if not reduced or fold:
            loops += [(f"i{d}", size, walk) for d, (size, walk) in enumerate(self._walk_inner)]
        for name, size, walk in loops:
            innermost = name[0] == "i" and int(name[1:]) == len(self._walk_inner) - 1
            grain = max(1, PART * size // total)
            if innermost:
                grain = max(grain // 64, 1) * 64  # whole vectors
            if size >= 2 * grain and all(walk[id(access)] for access in written):
                self._cut = "j" if innermost else name
                self.parts = -(-size // grain)
                self.grain = grain
                end = self._symbol or str(size)
                self.lines.append(
                    f"const i64 first = part * {grain}, "
                    f"last = first + {grain} < {end} ? first + {grain} : {end};"
                )
                if fold:
                    self._fold = "part"
                    self.partial = {sum_: self._partial(sum_) for sum_, _ in self.sums}
                return
            if fold:
                return  # the order of a sum starts from the outermost loop

    # Sums over everything

    def _foldable(self) -> bool:
        """Whether one sweep computes all sums completely, leaving only single numbers."""
        if self._walk_rows or not self.sums or self.keep:
            return False
        if any(self.level[sum_.out] != 1 or self.phase[sum_.out] != 1 for sum_, _ in self.sums):
            return False
        for member in self.members:
            if isinstance(member, Map) and self.level[member.out] == 2 and self.phase[member.out]:
                return False
        for value, place, _, _ in self.stores:
            inside = any(place.strides[i] for i in self.inner)
            if inside is not (self._at(value)[1] == 0):
                return False
        return True

    def _within(self, reduction: Reduce) -> bool:
        """Whether a whole row is reduced to one element."""
        return set(self.inner) <= self.group.reduced[reduction.out]

    def _partial(self, reduction: Reduce) -> tuple[str, str, str]:
        def memory(dtype: str) -> str:
            buffer: Val = self.scratch((self.parts,), dtype)
            return self.pointer(buffer)

        total = memory("float64" if wide(reduction) == "f64" else reduction.out.dtype)
        error = (
            memory("float64") if reduction.how == "sum" and reduction.out.dtype == "float64" else ""
        )
        nan = (
            memory(f"uint{bits(reduction)}")
            if reduction.how in ("max", "min") and of_floats(reduction)
            else ""
        )
        return total, error, nan

    def _kept_part(self) -> list[str]:
        """Store the result of a part."""
        lines = []
        for reduction, (total, error, nan) in self.partial.items():
            number = reduction.out.id
            lines.append(f"{total}[part] = w{number};")
            if error:
                lines.append(f"{error}[part] = c{number};")
            if nan:
                lines.append(f"{nan}[part] = n{number};")
        return lines

    def _joined_parts(self) -> list[str]:
        """Combine the results of all parts, in order."""
        lines = [f"for (i64 part = 0; part < {self.parts}; part++) {{"]
        for reduction, (total, error, nan) in self.partial.items():
            lines.append(carried(reduction, f"{total}[part]"))
            if error:
                lines.append(f"c{reduction.out.id} += {error}[part];")
            if nan:
                lines.append(f"n{reduction.out.id} |= {nan}[part];")
        return [*lines, "}"]
