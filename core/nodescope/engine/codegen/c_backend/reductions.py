"""Reductions as pieces of C text: where they start, how an element joins, how parts join.

float32 sums run over blocks of 256 in vector lanes, which are added up in double; float64 sums
over blocks of 128, added up with the rounding error carried along.

Invariant: NaN comes through maxima and minima; a sum's error stays below that of NumPy's pairwise
summation.
"""

from __future__ import annotations

from nodescope.engine.codegen.c_backend.expressions import CTYPES
from nodescope.engine.codegen.c_backend.unit import Reduce

BLOCK = {"float32": 256, "float64": 128}
"""Elements whose sum is formed in vector lanes alone."""

CLAUSE = {"sum": "+", "prod": "*", "max": "max", "min": "min", "any": "|", "all": "&"}


def of_floats(each: Reduce) -> bool:
    """Whether it reduces floats."""
    return each.out.dtype.startswith("float")


def bits(each: Reduce) -> str:
    """The width of its elements, 32 or 64."""
    return "32" if each.out.dtype == "float32" else "64"


def wide(each: Reduce) -> str:
    """The C type in which parts of a reduction are added up."""
    return "f64" if each.how == "sum" and of_floats(each) else CTYPES[each.out.dtype]


def start(each: Reduce) -> str:
    """What it gives for no elements, in C."""
    kind = CTYPES[each.out.dtype]
    return {"sum": "0", "prod": "1", "any": "0", "all": "1", "max": f"NS_LEAST_{kind}",
            "min": f"NS_MOST_{kind}"}[each.how]  # fmt: skip


def added(each: Reduce, total: str, x: str) -> str:
    """One more element, in the form that vector lanes know."""
    if each.how in ("max", "min"):
        sign = ">" if each.how == "max" else "<"
        text = f"{total} = {x} {sign} {total} ? {x} : {total};"
        return text + (f" n{each.out.id} |= {x} != {x};" if of_floats(each) else "")
    return f"{total} {'&' if each.how == 'all' else CLAUSE[each.how]}= {x};"


def carried(each: Reduce, part: str) -> str:
    """What a block or an inner loop found, into the row's total."""
    return grown(each, f"w{each.out.id}", f"c{each.out.id}", part)


def grown(each: Reduce, total: str, error: str, part: str) -> str:
    """A part into a total; a sum of doubles keeps the rounding error beside it."""
    if each.how == "sum" and each.out.dtype == "float64":
        return (
            f"{{ const f64 x = {part}, s = {total} + x, z = s - {total}; "
            f"{error} += ({total} - (s - z)) + (x - z); {total} = s; }}"
        )
    return f"{total} = {joined(each, total, part)};"


def joined(each: Reduce, one: str, two: str) -> str:
    """Two parts as one."""
    if each.how in ("max", "min"):
        return f"ns_{each.how}imum_{CTYPES[each.out.dtype]}({one}, {two})"
    return f"{one} {CLAUSE[each.how]} {two}"
