"""Reductions as pieces of C text: initial values, adding an element, combining parts.

float32 sums run over blocks of 256 in vector lanes, which are added up in double; float64 sums
over blocks of 128, added up with the rounding error carried along.

Invariant: maxima and minima propagate NaN; a sum's error stays below that of NumPy's pairwise
summation.
"""

from __future__ import annotations

from nodescope.engine.codegen.c_backend.expressions import CTYPES
from nodescope.engine.codegen.c_backend.unit import Reduce

BLOCK = {"float32": 256, "float64": 128}
"""Number of elements summed in vector lanes alone."""

CLAUSE = {"sum": "+", "prod": "*", "max": "max", "min": "min", "any": "|", "all": "&"}


def of_floats(reduction: Reduce) -> bool:
    """Whether it reduces floats."""
    return reduction.out.dtype.startswith("float")


def bits(reduction: Reduce) -> str:
    """The width of its elements, 32 or 64."""
    return "32" if reduction.out.dtype == "float32" else "64"


def wide(reduction: Reduce) -> str:
    """The C type in which parts of a reduction are accumulated."""
    return "f64" if reduction.how == "sum" and of_floats(reduction) else CTYPES[reduction.out.dtype]


def start(reduction: Reduce) -> str:
    """The result for no elements, in C."""
    kind = CTYPES[reduction.out.dtype]
    return {"sum": "0", "prod": "1", "any": "0", "all": "1", "max": f"NS_LEAST_{kind}",
            "min": f"NS_MOST_{kind}"}[reduction.how]  # fmt: skip


def added(reduction: Reduce, total: str, x: str) -> str:
    """C that adds an element, in the form used in vector lanes."""
    if reduction.how in ("max", "min"):
        sign = ">" if reduction.how == "max" else "<"
        text = f"{total} = {x} {sign} {total} ? {x} : {total};"
        return text + (f" n{reduction.out.id} |= {x} != {x};" if of_floats(reduction) else "")
    return f"{total} {'&' if reduction.how == 'all' else CLAUSE[reduction.how]}= {x};"


def carried(reduction: Reduce, part: str) -> str:
    """C that adds the result of a block or an inner loop to the row's total."""
    return grown(reduction, f"w{reduction.out.id}", f"c{reduction.out.id}", part)


def grown(reduction: Reduce, total: str, error: str, part: str) -> str:
    """C that adds a part to a total; a sum of doubles carries the rounding error along."""
    if reduction.how == "sum" and reduction.out.dtype == "float64":
        return (
            f"{{ const f64 x = {part}, s = {total} + x, z = s - {total}; "
            f"{error} += ({total} - (s - z)) + (x - z); {total} = s; }}"
        )
    return f"{total} = {joined(reduction, total, part)};"


def joined(reduction: Reduce, first: str, second: str) -> str:
    """A C expression that combines two parts."""
    if reduction.how in ("max", "min"):
        return f"ns_{reduction.how}imum_{CTYPES[reduction.out.dtype]}({first}, {second})"
    return f"{first} {CLAUSE[reduction.how]} {second}"
