"""A clip that passes no gradient: from the first step on, all of its input is outside the range.

Outside the range, the slope of a clip is zero, so nothing before it is trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
)
from nodescope.debug.watch.suiting import has_ops
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    steps, latest, passes = 0, -1, False

    def look(sight: Sight) -> Finding | None:
        nonlocal steps, latest, passes
        if passes or not sight.size:
            return None
        ends = _ends(sight)
        if ends is None:
            return None
        summary = sight.inputs[0].summary
        lowest, highest, (low, high) = summary.min, summary.max, ends
        if summary.nan_count or summary.inf_count or lowest is None or highest is None:
            return None
        if lowest <= high and highest >= low:  # some of it is inside, or it is on both sides
            passes = True
            return None
        steps += sight.step != latest
        latest = sight.step
        if steps < least:
            raise needs_steps(least, steps)
        if not sight.graph.reaches_loss(sight.node):
            return None
        return Finding(
            f"all of its input, in [{lowest:.6g}, {highest:.6g}], has been outside the range "
            f"[{low:.6g}, {high:.6g}] in all {steps} steps: the slope of a clip is zero there, "
            "so nothing before it is trained",
            {"steps": steps, "lowest": lowest, "highest": highest},
        )

    return look


def _ends(sight: Sight) -> tuple[float, float] | None:
    """The range of a clip; None if its bounds are arrays."""
    low, high = sight.attrs.get("low"), sight.attrs.get("high")
    ends = (-math.inf if low is None else low), (math.inf if high is None else high)
    if len(sight.inputs) != 1 or not all(isinstance(end, int | float) for end in ends):
        return None
    return float(ends[0]), float(ends[1])


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a forward clip's input depends on a parameter."""
    return node.phase == "forward" and any(
        leaf.role == "parameter" for leaf in graph.leaves(node.outputs[0])
    )


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    return has_ops(frozenset({"clip"}), "outside of its range no gradient passes")(nodes)


register(
    Rule(
        "clipped_layer",
        "all of the input of a clip is outside its range from the first step on",
        per_value(_begin),
        ops=frozenset({"clip"}),
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 10, "number of steps, from the first one", unit="steps", low=1),
        ),
        lasting=True,
        concerns=_concerns,
        suits=_suits,
    )
)
