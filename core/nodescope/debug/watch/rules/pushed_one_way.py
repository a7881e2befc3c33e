"""Scores that a loss pushes in one direction only, so that all become alike.

A loss over pairs pushes the scores of true pairs up and those of false pairs down. If a sign is
missing, or there are no false pairs, every score rises, and the representations collapse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_LEVELS_OFF: Final = frozenset({"logsigmoid", "softplus", "sigmoid", "relu"})
_RISES: Final = _LEVELS_OFF | {
    "mean", "sum", "reshape", "squeeze", "expand_dims", "astype", "copy", "getitem", "exp", "log",
    "sqrt", "tanh", "add", "maximum", "clip", "concatenate", "stack",
}  # fmt: skip
_MOST: Final = 200


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    if len(graph.losses) != 1:
        return  # in adversarial training, another loss pushes back
    (loss,) = graph.losses
    pushed = _pushed(graph, loss)
    if not pushed:
        return
    first = next(iter(pushed.values()))[1]
    signs = {sign for sign, _ in pushed.values()}
    if len(pushed) < 2 or len(signs) > 1 or not _share_weights(graph, list(pushed)):
        yield Verdict(first)
        return
    way = "up" if signs == {-1} else "down"
    names = [graph.nodes[score].name for score in pushed]
    places = [level for _, level in pushed.values()]
    last = places[-1]
    line = f" (line {last.source.line})" if last.source is not None else ""
    yield Verdict(
        last,
        f"with {last.name}{line} the loss pushes every score {way}, those of {names[0]} as well as "
        f"those of {names[-1]}, and nothing pushes any back, so they all become alike; for false "
        "pairs it must have the other sign",
        {"scores": len(pushed)},
    )


def _pushed(graph: ProgramGraph, loss: int) -> dict[int, tuple[int, Node]]:
    """By node that computes scores: the sign of the loss's change with them (1, -1, or 0 if both),
    and the saturating function between scores and loss.

    Empty if another part of the loss depends on weights.
    """
    pushed: dict[int, tuple[int, Node]] = {}
    todo: list[tuple[int, int, Node | None]] = [(loss, 1, None)]
    seen: set[tuple[int, int]] = set()
    while todo:
        value, sign, level = todo.pop(0)
        maker = graph.maker(value)
        if maker is None or (value, sign) in seen or len(seen) > _MOST:
            continue
        seen.add((value, sign))
        if not any(leaf.is_weight for leaf in graph.leaves(value)):
            continue
        level = maker if maker.op in _LEVELS_OFF and level is None else level
        factor = _sign(maker)
        if maker.op == "subtract" and len(maker.inputs) == 2:
            todo += [(maker.inputs[0], sign, level), (maker.inputs[1], -sign, level)]
        elif maker.op in _RISES and not (level is not None and _adds_weight(graph, maker)):
            todo += [(given, sign, level) for given in maker.inputs]
        elif factor:
            todo.append((maker.inputs[0], sign * factor, level))
        elif level is None or maker.is_leaf:
            return {}
        else:
            before = pushed.get(maker.id, (sign, level))
            pushed[maker.id] = (sign if before[0] == sign else 0), before[1]
    return {} if len(seen) > _MOST else pushed


def _adds_weight(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node adds a bias, so that its result is a score, but the bias is not."""
    makers = graph.makers(node) if node.op == "add" and len(node.inputs) == 2 else []
    return sum(maker.is_weight for maker in makers) == 1


def _sign(node: Node) -> int:
    """Whether a result rises (1) or falls (-1) with its only input; 0 if unknown."""
    if len(node.inputs) != 1:
        return 0
    if node.op == "negative":
        return -1
    if node.op == "subtract":
        return -1 if "x1" in node.attrs else 1
    numbers = [(name, node.attrs[name]) for name in ("x1", "x2") if name in node.attrs]
    if len(numbers) != 1 or not isinstance(numbers[0][1], int | float) or not numbers[0][1]:
        return 0
    name, number = numbers[0]
    if node.op == "multiply" or (node.op == "divide" and name == "x2"):
        return 1 if number > 0 else -1
    return 0


def _share_weights(graph: ProgramGraph, scores: list[int]) -> bool:
    """Whether all scores share some weights, and none of them is computed from a difference."""
    common: set[int] | None = None
    for score in scores:
        above = graph.above(graph.nodes[score].outputs[0])
        for node in (graph.nodes[item] for item in above):
            if node.op == "subtract" and len(node.inputs) == 2:
                return False  # a difference pushes its two sides in opposite directions
        weights = {item for item in above if graph.nodes[item].is_weight}
        common = weights if common is None else common & weights
    return bool(common)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in _LEVELS_OFF and node.phase == "forward":
            return f"{node.name} may push scores, which something must push back"
    return ""


register(
    graph_rule(
        "pushed_one_way",
        "a loss pushes all scores the same way, so they become alike",
        stateless(_judge),
        suits=_suits,
        aliases=("no_negatives",),
    )
)
