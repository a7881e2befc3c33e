"""Dropout that leaves almost nothing: the share to keep was passed as the share to drop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict, percent
from nodescope.ir.graph import Node


def _study(settings: Settings) -> Study:
    most = settings["share"] / 100

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        for node in graph.forward():
            share = node.attrs.get("p")
            if node.op != "dropout" or not isinstance(share, int | float):
                continue
            if share >= most and graph.reaches_loss(node):
                yield Verdict(
                    node,
                    f"dropout sets {100 * share:.3g}% of its input to zero; was {share:g} meant as "
                    f"the share to keep (p={1 - share:.3g})?",
                    {"share": 100 * share},
                )
            else:
                yield Verdict(node)

    return study


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.op == "dropout" and node.phase == "forward":
            return f"{node.name} must leave enough of its input to learn from"
    return ""


register(
    graph_rule(
        "dropout_takes_most",
        "dropout sets nearly all of its input to zero",
        _study,
        suits=_suits,
        parameters=(percent("share", 90, "hit from this share of zeros on"),),
    )
)
