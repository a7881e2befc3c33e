"""Batches that are drawn in each step and are the same each time.

For example, each step creates a generator with the same seed, or takes the first batch of a new
iterator. The source shows that a batch is drawn; data that is constant on purpose is not drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps
from nodescope.debug.watch.rules.weight_frozen import digest
from nodescope.debug.watch.target_comparisons import becomes_loss
from nodescope.ir.graph import Node

_PICKS: Final = frozenset({
    "integers", "randint", "choice", "permutation", "permuted", "shuffle", "sample", "randperm",
})  # fmt: skip
_DRAWS: Final = _PICKS | {"normal", "uniform", "standard_normal", "random", "randn", "rand"}
_SEEDS: Final = frozenset({"default_rng", "RandomState", "seed", "manual_seed", "Random"})
_TRAINS: Final = frozenset({"minimize", "step", "backward"})
_MAKES: Final = frozenset({"tensor", "as_tensor", "asarray", "from_numpy", "constant"})
_ROWS: Final = 2


def _begin(settings: Settings) -> Look:
    steps = settings["num_steps"]
    first: dict[int, bytes] = {}
    varied: set[int] = set()
    seen: dict[int, int] = {}
    drawn_at: dict[object, tuple[int, str] | None] = {}  # by source line

    def look(sight: Sight) -> Finding | None:
        value, shape = sight.value, sight.spec.shape
        if value in varied:
            return None
        if not shape or (shape[0] or 0) < _ROWS:
            varied.add(value)
            raise Inapplicable("no batch of data is drawn in each step")
        now = digest(sight.array)
        if first.setdefault(value, now) != now:
            varied.add(value)
            return None
        seen[value] = seen.get(value, 0) + 1
        if seen[value] < steps:
            raise needs_steps(steps, seen[value])
        place = sight.node.source
        if place not in drawn_at:
            drawn_at[place] = _drawn(sight.graph, sight.node)
        drawn = drawn_at[place]
        if not drawn or not _reaches_only_loss(sight.graph, sight.node):
            raise Inapplicable("no batch of data is drawn in each step")
        line, why = drawn
        return Finding(
            f"its {shape[0]} rows are the same in each of {seen[value]} steps, although line "
            f"{line} draws them in each: {why}",
            {"steps": seen[value]},
        )

    return look


def _reaches_only_loss(graph: ProgramGraph, node: Node) -> bool:
    return graph.reaches_loss(node) or becomes_loss(graph, node)


def _drawn(graph: ProgramGraph, node: Node) -> tuple[int, str] | None:
    """The line of the training loop that draws a node's data, and why it is always the same."""
    tree = graph.tree(node.source)
    if tree is None or node.source is None:
        return None
    loop = _training_loop(tree, node.source.line)
    if loop is None:
        return None
    makes = [
        call
        for statement in _statements_at(loop, node.source.line)
        for call in ast.walk(statement)
        if isinstance(call, ast.Call) and _called(call) in _MAKES and call.args
    ]
    sources = [_source_of(tree, loop, call.args[0]) for call in makes]
    return sources[0] if sources and all(sources) else None


def _source_of(tree: ast.Module, loop: ast.AST, value: ast.expr) -> tuple[int, str] | None:
    """The line of a loop that draws the data of an expression, and why it is always the same."""
    draw = _draw_in(tree, value)
    todo = _loaded(value)
    known = set(todo)
    while todo and not draw:
        name = todo.pop()
        for inside in ast.walk(loop):
            if not isinstance(inside, ast.Assign) or not _stores(inside, name):
                continue
            draw = draw or _draw_in(tree, inside)
            todo += [inner for inner in _loaded(inside.value) if inner not in known]
            known.update(todo)
    return draw


def _draw_in(tree: ast.Module, statement: ast.AST) -> tuple[int, str] | None:
    """The line that draws a batch in a statement, and the reason; None if it draws none."""
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call):
            continue
        name = _called(call)
        inner_call = call.args[0] if name == "next" and call.args else None
        if isinstance(inner_call, ast.Call) and _called(inner_call) == "iter":
            return call.lineno, (
                "next(iter(…)) begins anew each time, so it takes the first batch; make the "
                "iterator once, before the loop"
            )
        if name in _PICKS and isinstance(call.func, ast.Attribute):
            return call.lineno, (
                "its generator is made anew, or seeded with the same number, in each step; do so "
                "once, before the loop"
            )
        function = _function(tree, name)
        if function is not None and any(
            isinstance(inner, ast.Call) and _called(inner) in _SEEDS for inner in ast.walk(function)
        ) and any(
            isinstance(inner, ast.Call) and _called(inner) in _DRAWS for inner in ast.walk(function)
        ):  # fmt: skip
            return call.lineno, (
                f"{name} makes its generator anew, or seeds it with the same number, each time; "
                "do so once"
            )
    return None


def _training_loop(tree: ast.Module, line: int) -> ast.AST | None:
    """The innermost training loop around a line."""
    innermost: ast.AST | None = None
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For | ast.While):
            continue
        trains = any(isinstance(node, ast.Call) and _called(node) in _TRAINS
                     for node in ast.walk(loop))  # fmt: skip
        if trains and loop.lineno < line <= (loop.end_lineno or 0):
            innermost = loop
    return innermost


def _statements_at(loop: ast.AST, line: int) -> Iterator[ast.stmt]:
    for node in ast.walk(loop):
        if not isinstance(node, ast.Assign | ast.Expr | ast.AnnAssign | ast.AugAssign):
            continue
        if node.lineno <= line <= (node.end_lineno or 0):
            yield node


def _loaded(node: ast.AST) -> list[str]:
    return [
        name.id
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
    ]


def _stores(statement: ast.Assign, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name
        for target in statement.targets
        for node in ast.walk(target)
    )


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if node.name == name), None)


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is input data. A constant created in the same line is not drawn there."""
    return node.phase == "forward" and node.role == "input"


def _suits(nodes: Sequence[Node]) -> str:
    trains = any(node.phase == "backward" for node in nodes)
    given = any(node.role == "input" for node in nodes)
    return "it learns from batches, which must vary" if trains and given else ""


register(
    Rule(
        "batches_repeat",
        "a batch is drawn in each step, and is the same each time",
        _begin,
        needs=frozenset({"summary", "values", "history"}),
        parameters=(count("num_steps", 20, "number of steps", unit="steps", low=2),),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
