"""Inputs that are the same in every row and step, while their targets differ.

Examples are tokens that are all unknown, a column filled with one number, or a buffer whose entries
are all the same array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps
from nodescope.debug.watch.target_comparisons import target_port
from nodescope.ir.graph import Node

_COMPARES: Final = frozenset({
    "mse", "huber", "subtract", "cross_entropy", "nll_loss", "bce", "bce_with_logits", "kl_div",
})  # fmt: skip
_DATA: Final = ("input", "constant")


def _begin(settings: Settings) -> Look:
    steps, rows = settings["num_steps"], settings["rows"]
    firsts: dict[int, bytes] = {}  # by value: the common content of all rows
    varied: set[int] = set()
    seen: dict[int, int] = {}
    targets: dict[int, Node | None] = {}  # by value, as long as nothing of `known` changes
    known = -1, 0

    def look(sight: Sight) -> Finding | None:
        nonlocal known
        value, spec = sight.value, sight.spec
        if value in varied:
            return None
        if not spec.shape or (spec.shape[0] or 0) < rows:
            varied.add(value)
            raise Inapplicable(f"no input has {rows} rows")
        array = sight.array
        first = array[:1].tobytes()
        if firsts.setdefault(value, first) != first or bool(np.any(array != array[:1])):
            varied.add(value)
            return None
        seen[value] = seen.get(value, 0) + 1
        if seen[value] < steps:
            raise needs_steps(steps, seen[value])
        if known != (now := (sight.graph.version, len(varied))):
            known = now
            targets.clear()
        if value not in targets:
            targets[value] = _target(sight.graph, sight.node, varied)
        target = targets[value]
        if target is None:
            return None
        shown = np.array2string(array.reshape(-1)[:3], precision=4, separator=", ")
        return Finding(
            f"all {spec.shape[0]} rows are equal, and the same in each of {seen[value]} steps "
            f"(they begin {shown}), while {target.name} varies, so it cannot be predicted; check "
            "how the data are generated or read",
            {"rows": spec.shape[0] or 0, "steps": seen[value]},
        )

    return look


def _target(graph: ProgramGraph, data: Node, varied: set[int]) -> Node | None:
    """A varying target whose predictions have no other varying input; None if there is none."""
    latest = None
    for node in graph.forward():
        if node.op not in _COMPARES or not graph.reaches_loss(node):
            continue
        port = target_port(graph, node)
        if port is None:
            continue
        above = [graph.nodes[number] for number in graph.above(node.inputs[1 - port])]
        if data.id not in {maker.id for maker in above}:
            continue
        leaves = [maker for maker in above if maker.role in _DATA]
        if any(maker.family == "random" for maker in above):
            return None
        if any(leaf.outputs[0] in varied and graph.shape(leaf.outputs[0]) for leaf in leaves):
            return None
        given = graph.given(node.inputs[port])
        if given is not None and given.outputs[0] in varied:
            latest = given
    return latest


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is data."""
    return node.phase == "forward" and node.role in _DATA


def _suits(nodes: Sequence[Node]) -> str:
    trains = any(node.phase == "backward" for node in nodes)
    given = any(node.role == "input" for node in nodes)
    return "it learns from inputs, which must vary" if trains and given else ""


register(
    Rule(
        "inputs_constant",
        "inputs are the same in every row and step, while their targets differ",
        _begin,
        needs=frozenset({"summary", "values", "history"}),
        parameters=(
            count("num_steps", 10, "number of steps", unit="steps", low=1),
            count("rows", 8, "inputs with fewer rows are skipped", low=2),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
