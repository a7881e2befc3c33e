"""A moving average of weights that was initialised to zero, used while that zero still matters.

After n updates, ``a = d * a + (1 - d) * w`` still contains the share ``d ** n`` of its initial
value. An average that began with the weights is also zero if the weights were, as biases often are.
So nothing is reported if another average with the same decay did not begin at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, percent
from nodescope.ir.graph import Node

_USES: Final = frozenset({"assign", "matmul", "conv1d", "conv2d", "embedding"})
_OPS: Final = frozenset({"add"}) | _USES
_ROUNDING: Final = 1e-6


class _Form(NamedTuple):
    """A sum that is a moving average.

    Attributes:
        decay: The share of the average that an update keeps.
        port: The input port of the sum for that share.
        of: The averaged value.
    """

    decay: float
    port: int
    of: int


class _Average:
    """An average: the line of its update, its number of updates, and whether it began at zero."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.updates = 0
        self.from_zero = False


def _begin(settings: Settings) -> Look:
    least = settings["share"] / 100
    averages: dict[int, _Average] = {}  # by the value of an average
    kept_in: dict[int, Node] = {}  # by the value of a variable: the average stored in it
    from_weights: set[float] = set()  # the decays of averages that did not begin at zero

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if node.op == "add":
            form = _form(graph, node)
            if form is None:
                raise Inapplicable("it keeps no moving average")
            known = averages.get(sight.value)
            if known is None:
                known = averages[sight.value] = _Average(node.source.line if node.source else 0)
                known.from_zero = _is_zero(sight, form.port)
                if not known.from_zero:
                    from_weights.add(form.decay)
            known.updates += 1
            return None
        return _judge(sight, averages, kept_in, from_weights, least)

    return look


def _judge(
    sight: Sight,
    averages: dict[int, _Average],
    kept_in: dict[int, Node],
    from_weights: set[float],
    least: float,
) -> Finding | None:
    """The finding on a node that uses an average in place of a weight."""
    node, graph = sight.node, sight.graph
    place = 0 if node.op == "embedding" else 1
    maker = graph.given(node.inputs[place]) if len(node.inputs) > place else None
    if maker is not None and maker.outputs[0] not in averages and node.op != "assign":
        maker = kept_in.get(graph.held_in(node.inputs[place]))
    average = averages.get(maker.outputs[0]) if maker is not None else None
    if maker is None or average is None:
        raise Inapplicable("no average of weights is used")
    form = _form(graph, maker)
    if form is None or not average.from_zero or form.decay in from_weights:
        return None
    if node.op == "assign" and _is_kept_in(graph, maker, form, node.inputs[0]):
        kept_in[graph.held_in(node.inputs[0])] = maker
        return None  # the average itself is updated
    share = form.decay**average.updates
    if share < least:
        return None
    weight = graph.maker(graph.held_in(form.of))
    line = f" in line {average.line}" if average.line else ""
    return Finding(
        f"it uses the moving average{f' of {weight.name}' if weight else ''} that was "
        f"initialised to zero{line}: after {average.updates} updates with {form.decay:g}, "
        f"{share:.0%} of it is still that zero; initialise it with the weights, or divide by 1 - "
        f"{form.decay:g}**{average.updates}",
        {"share": 100 * share, "updates": average.updates},
    )


def _is_kept_in(graph: ProgramGraph, average: Node, form: _Form, variable: int) -> bool:
    """Whether a variable stores an average: the average is computed from the variable."""
    kept = graph.maker(average.inputs[form.port])
    before = {average.inputs[form.port], *(kept.inputs if kept is not None else ())}
    return graph.held_in(variable) in {graph.held_in(value) for value in before}


def _is_zero(sight: Sight, port: int) -> bool:
    inputs = sight.inputs
    if len(inputs) <= port:
        raise MissingData("the inputs of the average were not recorded")
    summary = inputs[port].summary
    return summary.min == summary.max == 0.0


def _form(graph: ProgramGraph, node: Node) -> _Form | None:
    """The form of a node that averages weights; None for other nodes."""
    if node.op != "add" or len(node.inputs) != 2 or node.phase != "forward":
        return None
    for kept, new in ((0, 1), (1, 0)):
        form = _of_shares(graph, node, kept, new) or _of_difference(graph, node, kept, new)
        weight = graph.maker(graph.held_in(form.of)) if form is not None else None
        if form is not None and weight is not None and weight.is_weight:
            return form
    return None


def _of_shares(graph: ProgramGraph, node: Node, kept: int, new: int) -> _Form | None:
    """``d * a + (1 - d) * w``"""
    old, fresh = _scaled(graph, node.inputs[kept]), _scaled(graph, node.inputs[new])
    if old is None or fresh is None or not 0.5 < old[0] < 1:
        return None
    return _Form(old[0], kept, fresh[1]) if abs(old[0] + fresh[0] - 1) < _ROUNDING else None


def _of_difference(graph: ProgramGraph, node: Node, kept: int, new: int) -> _Form | None:
    """``a + (1 - d) * (w - a)``"""
    scaled = _scaled(graph, node.inputs[new])
    apart = graph.maker(scaled[1]) if scaled is not None else None
    if scaled is None or apart is None or apart.op != "subtract" or len(apart.inputs) != 2:
        return None
    if apart.inputs[1] != node.inputs[kept] or not 0 < scaled[0] < 0.5:
        return None
    return _Form(1 - scaled[0], kept, apart.inputs[0])


def _scaled(graph: ProgramGraph, value: int) -> tuple[float, int] | None:
    """The number that a value is multiplied by, and the value."""
    maker = graph.maker(value)
    if maker is None or maker.op != "multiply" or len(maker.inputs) != 1:
        return None
    number = maker.attrs.get("x1", maker.attrs.get("x2"))
    return (float(number), maker.inputs[0]) if isinstance(number, int | float) else None


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "forward" and (node.op in _USES or _form(graph, node) is not None)


def _suits(nodes: Sequence[Node]) -> str:
    graph = ProgramGraph(source=lambda file: "")
    for node in nodes:
        graph.define(node)
    for node in nodes:
        if _form(graph, node) is not None:
            return f"{node.name} is a moving average of weights, which must not start at zero"
    return ""


register(
    Rule(
        "average_from_zero",
        "a moving average of weights that was initialised to zero is used while that zero still "
        "matters",
        _begin,
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(percent("share", 5, "hit if the initial zero makes up at least this share"),),
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
