"""A term of the loss whose weight should rise with the steps, but is 0 in all of them.

A constant weight may be 0 on purpose, so only a weight that is computed in the loop is judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import scheduled_factor
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
)
from nodescope.debug.watch.target_comparisons import becomes_loss
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    steps = settings["num_steps"]
    zero = 0
    other = False

    def look(sight: Sight) -> Finding | None:
        nonlocal zero, other
        node, graph = sight.node, sight.graph
        factor = sight.attrs.get("x1", sight.attrs.get("x2"))
        if not isinstance(factor, int | float):
            raise Inapplicable("no number weighs a term of the loss")
        other |= factor != 0
        zero += factor == 0
        if other:
            return None
        if zero < steps:
            raise needs_steps(steps, zero)
        tree = graph.tree(node.source)
        if tree is None or node.source is None or not becomes_loss(graph, node):
            return None
        name, line = scheduled_factor(tree, node.source.line)
        if not name:
            return None
        term = graph.maker(node.inputs[0])
        return Finding(
            f"{term.name if term is not None else 'a term'} is weighed with {name}, which is 0 in "
            f"each of {zero} steps: it takes no part in the loss. Line {line} computes {name}; is "
            "it divided in whole numbers, or over more steps than there are?",
            {"steps": zero},
        )

    return look


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "forward" and len(node.inputs) == 1


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op == "multiply" and node.phase == "forward" and len(node.inputs) == 1:
            return f"{node.name} may weigh a term of the loss"
    return ""


register(
    Rule(
        "term_stays_zero",
        "a term of the loss is weighed with 0 in all steps, by a weight that is to change",
        per_value(_begin),
        ops=frozenset({"multiply"}),
        needs=frozenset({"history"}),
        parameters=(count("num_steps", 20, "so many steps", unit="steps", low=1),),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
