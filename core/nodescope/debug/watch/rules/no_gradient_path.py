"""A parameter of an optimizer that no gradient reaches: where the path was cut.

An optimizer records a ``no_op`` for a parameter without a gradient. A parameter that no optimizer
holds is frozen on purpose, and so is one that is used under ``no_grad``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.gradient_cuts import (
    OPTIMIZER,
    Cut,
    cleared,
    copied,
    cut_of,
    has_idle_weights,
    left_graph,
)
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict
from nodescope.ir.graph import Node

_LEAST_STEPS: Final = 3


def _study(settings: Settings) -> Study:
    left_out = 0

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        nonlocal left_out
        skipped: dict[str, Node] = {}
        updated: set[str] = set()
        for node in graph.nodes.values():
            if node.phase == "optimizer":
                name = node.scope.removeprefix(OPTIMIZER)
                if node.op == "no_op":
                    skipped[name] = node
                elif node.writes:
                    updated.add(name)
        left_out += bool(skipped)
        weights = [node for node in graph.nodes.values() if node.is_weight]
        reached = {
            graph.held_in(value) for value in graph.gradients if graph.maker(value) is not None
        }
        cuts: dict[int, tuple[Cut, list[str]]] = {}
        for weight in weights:
            # A part may be frozen for some time, so only the end of the run counts.
            if weight.name not in skipped or not over or left_out < _LEAST_STEPS:
                yield Verdict(weight)
                continue
            if weight.outputs[0] not in reached:
                cut = cut_of(graph, weight)
            elif weight.name not in updated:
                step = skipped[weight.name]
                cut = cleared(graph, weight, step) or left_graph(graph, weight)
                cut = cut or copied(graph, weight, step)
            else:
                cut = None
            if cut is None:
                yield Verdict(weight)
            else:
                cuts.setdefault(cut.node.id, (cut, []))[1].append(weight.name)
        for cut, names in cuts.values():
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            yield Verdict(
                cut.node,
                f"{names[0]}{more} is given to the optimizer, but no gradient "
                f"{'is left for it' if cut.by == 'zero_grad' else 'reaches it'}: {cut.words}",
                {"parameters": len(names)},
            )

    return study


register(
    graph_rule(
        "no_gradient_path",
        "no gradient reaches a parameter that the optimizer is given",
        _study,
        suits=has_idle_weights,
        aliases=("detached",),
    )
)
