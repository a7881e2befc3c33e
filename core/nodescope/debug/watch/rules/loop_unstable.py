"""Loops whose state oscillates with growing amplitude: explicit steps that are too long.

This happens in solvers of differential equations, and in descents whose step overshoots the minimum
by more than its distance. Only growth at the end of the loop counts: the terms of an alternating
series may also grow at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight, numbers
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, number
from nodescope.events import Array
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"add", "subtract", "where"})
_MOST: Final = 256  # elements that are compared
_MOST_ABOVE: Final = 24  # limit of nodes searched for the previous iteration
_OPPOSITE: Final = -0.9  # cosine of consecutive changes below which they are opposite
_TIMES: Final = 1.1  # least ratio of a change to the previous one
_LEAST_STEPS: Final = 3


class _State:
    """The state after an iteration: its change, and for how many rounds it has oscillated."""

    __slots__ = ("change", "elements", "is_last", "rounds", "start")

    def __init__(self, elements: Array, before: _State | None) -> None:
        self.elements = elements
        self.change: Array | None = None
        self.rounds, self.start, self.is_last = 0, 0.0, True
        if before is None or before.elements.shape != elements.shape:
            return
        before.is_last = False
        change = self.change = elements - before.elements
        if before.change is None:
            return
        size, last = float(np.linalg.norm(change)), float(np.linalg.norm(before.change))
        turned = float(change @ before.change) < _OPPOSITE * size * last
        if turned and size > _TIMES * last > 0:
            self.rounds, self.start = before.rounds + 1, before.start or last

    @property
    def grown(self) -> float:
        """The ratio of the last change to the first one of the oscillation."""
        if self.change is None or not self.start:
            return 0.0
        return float(np.linalg.norm(self.change)) / self.start


def _begin(settings: Settings) -> Look:
    least, factor = settings["rounds"], settings["factor_gt"]
    states: dict[int, _State] = {}  # by value, in the current step
    unstable = step = reported = 0
    makers: dict[int, tuple[int, Node | None]] = {}  # by node: graph version, previous iteration
    worst: tuple[int, int, float] | None = None  # value, rounds and growth in the previous step

    def look(sight: Sight) -> Finding | None:
        nonlocal step, worst, unstable, reported
        if sight.step != step:
            worst = _worst(states, least, factor, reported)
            unstable = unstable + 1 if worst is not None else 0
            states.clear()
            step = sight.step
        version, before = makers.get(sight.node.id, (-1, None))
        if version != sight.graph.version:
            before = _round_before(sight.graph, sight.node)
            makers[sight.node.id] = sight.graph.version, before
        if before is None:
            raise Inapplicable("no loop carries a state on")
        array = sight.array
        if array.dtype.kind != "f" or not array.size:
            return None
        elements = numbers(array.reshape(-1)[:: max(1, array.size // _MOST)])
        if not np.isfinite(elements).all() or float(np.abs(elements).max()) > 1e100:
            return None
        states[sight.value] = _State(elements, states.get(before.outputs[0]))
        if worst is None or worst[0] != sight.value or unstable < _LEAST_STEPS:
            return None
        reported, rounds, grown = worst
        return Finding(
            f"the state of the loop swings to and fro, farther in each of the last {rounds} "
            f"rounds: its changes have grown {grown:.3g} times; the loop is unstable: make its "
            "step shorter",
            {"rounds": rounds, "grown": grown},
        )

    return look


def _worst(
    states: dict[int, _State], least: int, factor: float, reported: int
) -> tuple[int, int, float] | None:
    """The last state of an unstable loop: the one reported before, else the worst one."""
    ends = [
        (state.grown, value, state.rounds)
        for value, state in states.items()
        if state.is_last and state.rounds >= least and state.grown > factor
    ]
    if not ends:
        return None
    grown, value, rounds = max(ends, key=lambda end: (end[1] == reported, end[0]))
    return value, rounds, grown


def _round_before(graph: ProgramGraph, node: Node) -> Node | None:
    """The node with the same line and op from which a node's result is computed, if any."""
    if node.source is None:
        return None
    todo, seen = list(node.inputs), {node.id}
    while todo and len(seen) < _MOST_ABOVE:
        maker = graph.maker(todo.pop(0))
        if maker is None or maker.is_leaf or maker.id in seen or maker.phase != "forward":
            continue
        seen.add(maker.id)
        if maker.op == node.op and maker.source == node.source:
            return maker
        todo += maker.inputs
    return None


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node belongs to an iteration of a loop other than the first."""
    return node.phase == "forward" and _round_before(graph, node) is not None


def _suits(nodes: Sequence[Node]) -> str:
    lines: dict[object, int] = {}
    for node in nodes:
        if node.op in _OPS and node.phase == "forward" and node.source is not None:
            place = node.source, node.op
            lines[place] = lines.get(place, 0) + 1
            if lines[place] > 8:
                return f"{node.name} is one of many rounds, and may grow from round to round"
    return ""


register(
    Rule(
        "loop_unstable",
        "the state of a loop swings to and fro, farther in each round: its step is too long",
        _begin,
        ops=_OPS,
        needs=frozenset({"values", "history"}),
        parameters=(
            count("rounds", 6, "hit if as many rounds in a row, or more, grow", low=3),
            number("factor_gt", 100.0, "hit if changes grow by more than this factor", low=1),
        ),
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
