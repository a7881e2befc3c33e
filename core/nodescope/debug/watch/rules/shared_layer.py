"""One object used as several layers: ``[Block()] * 4`` is four times the same block."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node, SourceLocation
from nodescope.ir.scopes import is_within, split_number

_LEAST_AXES: Final = 2  # least number of axes of a layer's weight; biases are left out


class _Place(NamedTuple):
    """A place in a list of modules: ``tower/blocks_3`` is the fourth of ``tower/blocks``."""

    path: str
    modules: str
    number: int


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    weights = [node for node in graph.nodes.values() if _is_weight(graph, node)]
    names = {node.name for node in weights}
    reported: set[str] = set()
    for weight in weights:
        uses = _in_a_row(graph, weight)
        if len(uses) < 2 or not graph.reaches_loss(uses[0]):
            yield Verdict(weight)
            continue
        place = _place(weight.name)
        free = _free(place, names) if place is not None else []
        inside = place is not None and _stays_inside(graph, uses, place.path)
        # A recurrent cell also reuses its weights, without leaving its own module in between.
        needed = len(uses) - 1
        repeated = len(free) == needed >= 2 if inside else len(free) >= needed
        line = _repeated_list(graph, uses[0].source)
        if not (repeated or line):
            yield Verdict(weight)
            continue
        what = place.path if place is not None and repeated else weight.name
        called = f"{place.modules}[{place.number}]" if what != weight.name and place else what
        if what in reported:
            continue
        reported.add(what)
        where = f" (line {line})" if line else ""
        yield Verdict(
            uses[1],
            f"{called} is a single object used {len(uses)} times in succession{where}, so these "
            "layers share their parameters; create one object per layer, as in [Layer() for _ "
            "in range(n)]",
            {"uses": len(uses)},
        )


def _is_weight(graph: ProgramGraph, node: Node) -> bool:
    if node.role not in ("parameter", "buffer") or not node.outputs or node.phase == "optimizer":
        return False
    return len(graph.shape(node.outputs[0]) or ()) >= _LEAST_AXES


def _in_a_row(graph: ProgramGraph, weight: Node) -> list[Node]:
    """The nodes that read a weight, each computed from the result of the previous one."""
    value = weight.outputs[0]
    readers = [
        node
        for node in graph.forward()
        if node.op != "transpose" and any(graph.held_in(item) == value for item in node.inputs)
    ]
    row: list[Node] = []
    for reader in readers:
        if not row or row[-1].id in graph.above(reader.outputs[0]) - {reader.id}:
            row.append(reader)
    return row if len({node.op for node in row}) == 1 else row[:1]


def _place(name: str) -> _Place | None:
    """The innermost list position in a parameter's name; None if there is none."""
    parts = name.split("/")[:-1]
    for depth in range(len(parts), 0, -1):
        modules, number = split_number(parts[depth - 1])
        if number is not None:
            above, path = "/".join(parts[: depth - 1]), "/".join(parts[:depth])
            return _Place(path, f"{above}/{modules}".lstrip("/"), number)
    return None


def _free(place: _Place, names: set[str]) -> list[int]:
    """The earlier positions without parameters: the same object, or a module without any."""
    return [
        index
        for index in range(place.number)
        if not any(name.startswith(f"{place.modules}_{index}/") for name in names)
    ]


def _stays_inside(graph: ProgramGraph, uses: list[Node], path: str) -> bool:
    """Whether all nodes between the first two uses are in the module itself, as in a cell."""
    first, second = uses[0], uses[1]
    between = graph.above(second.outputs[0]) - graph.above(first.outputs[0])
    return all(
        _is_inside(graph.nodes[number].scope, path)
        for number in between - {second.id}
        if not graph.nodes[number].is_leaf
        and first.id in graph.above(graph.nodes[number].outputs[0])
    )


def _is_inside(scope: str, path: str) -> bool:
    """Whether a scope is that of a module, or within it, ignoring outer scopes."""
    return is_within(scope, path) or f"/{path}/" in f"/{scope}/"


def _repeated_list(graph: ProgramGraph, source: SourceLocation | None) -> int:
    """The line of a ``[Layer(…)] * n`` over whose items a loop around this line runs; or 0."""
    tree = graph.tree(source)
    if tree is None or source is None:
        return 0
    repeated: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _repeats(node.value):
            repeated[_name(node.targets[0])] = node.lineno
    for loop in ast.walk(tree) if repeated else ():
        if isinstance(loop, ast.For) and loop.lineno <= source.line <= (loop.end_lineno or 0):
            line = repeated.get(_name(loop.iter))
            if line is not None:
                return line
    return 0


def _repeats(value: ast.expr) -> bool:
    """Whether an expression is a list of one call, times a number."""
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Mult)
        and isinstance(value.left, ast.List)
        and len(value.left.elts) == 1
        and isinstance(value.left.elts[0], ast.Call)
    )


def _name(target: ast.expr) -> str:
    if isinstance(target, ast.Attribute):
        return f".{target.attr}"
    return target.id if isinstance(target, ast.Name) else ""


def _suits(nodes: Sequence[Node]) -> str:
    layers = [node for node in nodes if node.role == "parameter" and node.phase != "optimizer"]
    if len(layers) < _LEAST_AXES or not any(node.phase == "backward" for node in nodes):
        return ""
    return f"it has {len(layers)} parameters; one layer must not stand in for several"


register(
    graph_rule(
        "shared_layer",
        "one object is used as several layers, which therefore share their parameters",
        stateless(_judge),
        suits=_suits,
    )
)
