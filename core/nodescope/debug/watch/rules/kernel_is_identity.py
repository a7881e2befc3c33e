"""A kernel so narrow that no two points are similar: its matrix is the identity.

Its exponentials underflow wherever two points differ, so nothing is predicted between known points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
    per_value,
)
from nodescope.debug.watch.suiting import has_ops
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    steps, rows, rest = settings["num_steps"], settings["rows"], settings["rest"]
    seen = alike = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, alike
        shape, summary = sight.spec.shape, sight.summary
        square = len(shape) >= 2 and shape[-1] == shape[-2] and (shape[-1] or 0) >= rows
        if not square or summary.mean is None or not sight.graph.reaches_loss(sight.node):
            raise Inapplicable("no kernel is computed from distances of points")
        seen += 1
        size = shape[-1] or 1
        others = summary.mean * size - 1  # the mean sum of a row without its diagonal element
        ones = summary.max == 1 and summary.norm is not None and math.isclose(
            summary.norm**2, sight.size / size, rel_tol=rest
        )  # fmt: skip
        alike = alike + 1 if ones and abs(others) < rest else 0
        if alike < steps:
            if seen < steps:
                raise needs_steps(steps, seen)
            return None
        return Finding(
            f"it is the identity: of {size} points none is near another, the rest of a row sums "
            f"to {abs(others):.2g}; what is learned at one point does not apply to others. Make "
            "the kernel as wide as the distances, or scale the points",
            {"rest": abs(others)},
        )

    return look


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    return has_ops(frozenset({"exp"}), "it may be a kernel, which is to have neighbours")(nodes)


register(
    Rule(
        "kernel_is_identity",
        "a kernel of distances is the identity: no point is near another",
        per_value(_begin),
        ops=frozenset({"exp"}),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 5, "number of consecutive steps", unit="steps", low=1),
            count("rows", 8, "number of points required", low=2),
            number("rest", 1e-3, "hit if all others in a row sum to less than this", low=0),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
    )
)
