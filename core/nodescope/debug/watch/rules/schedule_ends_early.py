"""A learning rate that is almost zero long before training ends, or from the start.

A schedule is reported once for all weights whose updates it scales.
"""

from __future__ import annotations

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
    number,
    per_value,
    percent,
)
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    """Each value has its own state; the set of reported schedules is shared."""
    reported: set[float] = set()
    return per_value(lambda settings: _begin_value(settings, reported))(settings)


def _begin_value(settings: Settings, reported: set[float]) -> Look:
    factor, least = settings["factor"], settings["num_steps"]
    share = settings["share"] / 100
    largest = 0.0
    steps = fell_at = 0
    known = -1, False  # graph version, whether the node scales an update

    def look(sight: Sight) -> Finding | None:
        nonlocal largest, steps, fell_at, known
        rate = _rate(sight)
        if known[0] != sight.graph.version:
            known = sight.graph.version, _goes_into_a_parameter(sight)
        if rate is None or not known[1]:
            return None
        steps += 1
        largest = max(largest, rate)
        if largest in reported:
            return None
        if not largest and steps >= least:
            reported.add(largest)
            return Finding(
                f"the learning rate is 0 in each of {steps} updates, so nothing is learned; is it "
                "computed by integer division, or does its warm-up never begin?",
                {"rate": 0.0, "largest": 0.0},
            )
        if rate > largest * factor or not largest:
            fell_at = 0
            return None
        fell_at = fell_at or steps
        if steps - fell_at < max(least, share * fell_at):
            return None
        reported.add(largest)
        return Finding(
            f"the learning rate, as it is applied, has been below {factor:g} of its maximum, "
            f"{largest:.3g}, for {steps - fell_at} updates (it is {rate:.3g}), so "
            "nothing more is learned; make the schedule as long as the training",
            {"rate": rate, "largest": largest},
        )

    return look


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node may scale an update by a number."""
    if len(node.inputs) != 1 or node.phase == "backward":
        return False
    return node.phase == "optimizer" or node.inputs[0] in graph.slopes


def _goes_into_a_parameter(sight: Sight) -> bool:
    """Whether a node's result is subtracted from a parameter, perhaps after Adam's division."""
    node, graph = sight.node, sight.graph
    for reader in graph.readers(node.outputs[0]):
        if reader.op == "subtract" and len(reader.inputs) == 2 and graph.updates(reader):
            return reader.inputs[1] == node.outputs[0]
        if reader.op == "divide" and node.phase == "optimizer":  # by Adam's root mean square
            return any(graph.updates(last) for last in graph.readers(reader.outputs[0]))
    return False


def _rate(sight: Sight) -> float | None:
    for name in ("x2", "x1"):
        rate = sight.attrs.get(name)
        if isinstance(rate, int | float) and not isinstance(rate, bool):
            return abs(float(rate))
    return None


def _suits(nodes: Sequence[Node]) -> str:
    optimizes = any(node.phase == "optimizer" and node.op == "multiply" for node in nodes)
    return (
        "it has an optimizer, whose learning rate a schedule may reduce to almost zero"
        if optimizes
        else ""
    )


register(
    Rule(
        "schedule_ends_early",
        "the learning rate is almost zero long before training ends",
        _begin,
        ops=frozenset({"multiply"}),
        needs=frozenset({"history"}),
        explains=True,
        suits=_suits,
        concerns=_concerns,
        parameters=(
            number(
                "factor",
                1e-4,
                "share of the largest rate that counts as almost zero",
                low=0,
                high=1,
            ),
            count("num_steps", 20, "number of updates at such a rate", low=1, unit="steps"),
            percent("share", 50.0, "such updates as a share of the updates before them"),
        ),
    )
)
