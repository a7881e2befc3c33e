"""Source of the program: what a line of the user's code does with a result, as rules ask it.

Invariant: says only what is certain; where a name could be read in another way, it is used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_DYNAMIC = frozenset({"locals", "globals", "vars", "eval", "exec", "dir"})


class Fate(NamedTuple):
    """What becomes of the result of a statement.

    Attributes:
        kind: ``dropped``: it is kept nowhere; ``unread``: its name is never read;
            ``overwritten``: its name is given something else before it is read.
        name: The name.
        line: Of the statement that overwrites it.
        calls: Of a call that is dropped: the function's own name.
    """

    kind: str
    name: str = ""
    line: int = 0
    calls: str = ""


class OverwrittenRound(NamedTuple):
    """An assignment in a loop that each round overwrites: nothing in the loop reads the name.

    Attributes:
        name: The name.
        line, end: Of the assignment: its first line and its last.
        loop: The line of the loop.
    """

    name: str
    line: int
    end: int
    loop: int


def fate(tree: ast.Module, line: int) -> Fate | None:
    """What becomes of the result of the statement at a line; None if it is or may be used."""
    place = _statement(tree, line)
    if place is None:
        return None
    statement, block, function = place
    if isinstance(function, ast.ClassDef):
        return None  # a name of a class is read as an attribute
    if isinstance(statement, ast.Expr):
        value = statement.value
        if isinstance(value, ast.Call):
            return Fate("dropped", calls=_called(value))
        return Fate("dropped") if isinstance(value, ast.BinOp | ast.UnaryOp) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or target.id.startswith("_"):
        return None
    name = target.id
    scope = function if function is not None else tree
    if _hidden(scope, name) or _hidden(tree, name):
        return None
    if not any(_reads(node, name) for node in ast.walk(scope)):
        return Fate("unread", name)
    for later in block[block.index(statement) + 1 :]:
        if any(_reads(node, name) for node in ast.walk(later)):
            return None
        if isinstance(later, ast.Assign) and any(_stores(item, name) for item in later.targets):
            return Fate("overwritten", name, later.lineno)
        if any(_stores(node, name) for node in ast.walk(later)):
            return None
        if not isinstance(later, ast.Assign | ast.Expr | ast.AnnAssign):
            return None  # it may leave the block
    return None


def overwritten_rounds(tree: ast.Module) -> list[OverwrittenRound]:
    """Loops that call what they run over, as layers, and keep the last result only."""
    rounds = []
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For):
            continue
        items = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        for statement in loop.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(target, ast.Name) or not isinstance(statement, ast.Assign):
                continue
            called = any(
                isinstance(name, ast.Name) and name.id in items
                for call in ast.walk(statement.value)
                if isinstance(call, ast.Call)
                for name in ast.walk(call.func)
            )
            read = any(_reads(node, target.id) for part in loop.body for node in ast.walk(part))
            if called and not read and not _hidden(tree, target.id):
                end = statement.end_lineno or statement.lineno
                rounds.append(OverwrittenRound(target.id, statement.lineno, end, loop.lineno))
    return rounds


def calls_between(tree: ast.Module, first: int, last: int, *names: str) -> int:
    """The last line from ``first`` to ``last`` that calls a method or function so named; or 0."""
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and first <= node.lineno <= last and _called(node) in names
    ]
    return max(lines, default=0)


def clears_between(tree: ast.Module, first: int, last: int) -> int:
    """The last line between two, neither included, that clears gradients; or 0."""
    lines = [calls_between(tree, first + 1, last - 1, "zero_grad")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and first < node.lineno < last:
            nothing = isinstance(node.value, ast.Constant) and node.value.value is None
            if nothing and any(getattr(target, "attr", "") == "grad" for target in node.targets):
                lines.append(node.lineno)
    return max(lines)


def calls_together(tree: ast.Module, outer: str, inner: tuple[str, ...]) -> int:
    """The first line that calls ``outer`` with the result of one of some methods; or 0."""
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) == outer
        for given in node.args
        for part in ast.walk(given)
        if isinstance(part, ast.Call) and _called(part) in inner
    ]
    return min(lines, default=0)


def scheduled_factor(tree: ast.Module, line: int) -> tuple[str, int]:
    """The name that a line multiplies with and that a loop computes anew, and where; or nothing."""
    factors = {
        side.id
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and node.lineno == line
        for side in (node.left, node.right)
        if isinstance(side, ast.Name)
    }
    for loop in ast.walk(tree):
        inside = isinstance(loop, ast.For | ast.While) and (
            loop.lineno <= line <= (loop.end_lineno or 0)
        )
        for node in ast.walk(loop) if inside else ():
            if not isinstance(node, ast.Assign) or not any(map(_computes, ast.walk(node.value))):
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in factors:
                    return target.id, node.lineno
    return "", 0


def _computes(node: ast.AST) -> bool:
    """Whether an expression makes a number of a step, as schedules do."""
    if isinstance(node, ast.Call):
        return _called(node) in ("float", "int", "min", "max", "round")
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)


def call_lines(tree: ast.Module, name: str) -> list[int]:
    """The lines that call a method or function so named, without arguments or with constants."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _called(node) == name
        and all(isinstance(argument, ast.Constant) for argument in node.args)
    ]


def in_rounds(tree: ast.Module, line: int) -> bool:
    """Whether a line is in a loop or a function, and so may run again."""
    return any(
        isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and node.lineno <= line <= (node.end_lineno or 0)
        for node in ast.walk(tree)
    )


def call_at(tree: ast.Module, line: int, *names: str) -> str:
    """The name of a method or function so named that a line calls; or ``""``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno == line and _called(node) in names:
            return _called(node)
    return ""


def within(tree: ast.Module, line: int, name: str) -> bool:
    """Whether a line is in a ``with`` block, or a function, of such a call: ``no_grad``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.With | ast.FunctionDef):
            continue
        if not node.lineno <= line <= (node.end_lineno or 0):
            continue
        marks = node.decorator_list if isinstance(node, ast.FunctionDef) else [
            item.context_expr for item in node.items
        ]  # fmt: skip
        for mark in marks:
            for inner in ast.walk(mark):
                if name in (getattr(inner, "attr", ""), getattr(inner, "id", "")):
                    return True
    return False


def block_around(tree: ast.Module, line: int, name: str) -> range:
    """The lines of the smallest ``with`` block or function, around a line, of such a call."""
    blocks = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.FunctionDef)
        and node.lineno <= line <= (node.end_lineno or 0)
        and within(tree, node.lineno, name)
    ]
    return min(blocks, key=len, default=range(line, line + 1))


def names_around(tree: ast.Module, line: int) -> list[str]:
    """Names of the functions and classes around a line, the outermost first."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return [node.name for node in sorted(around, key=lambda node: node.lineno)]


def _called(call: ast.Call) -> str:
    """The function's own name: ``relu`` of ``nn.relu(x)``."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _statement(
    tree: ast.Module, line: int
) -> tuple[ast.stmt, list[ast.stmt], ast.AST | None] | None:
    """The simple statement at a line, the block that it is in, and the function around it."""
    block: list[ast.stmt] = tree.body
    function: ast.AST | None = None
    while True:
        for statement in block:
            if statement.lineno <= line <= (statement.end_lineno or 0):
                break
        else:
            return None
        inner = [part for part in _blocks(statement)
                 if part and part[0].lineno <= line <= (part[-1].end_lineno or 0)]  # fmt: skip
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = statement
        if not inner:
            return None if list(_blocks(statement)) else (statement, block, function)
        block = inner[0]


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def _hidden(scope: ast.AST, name: str) -> bool:
    """Whether a name may be read where it is not written out."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
        if isinstance(node, ast.Name) and node.id in _DYNAMIC:
            return True
        if isinstance(node, ast.Assign) and any(_stores(to, "__all__") for to in node.targets):
            return True
    return False


def _reads(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store)


def _stores(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def repeats(tree: ast.Module, line: int) -> bool:
    """Whether a line is in a loop whose rounds pass the same arguments to its calls.

    Loops that train are left out: their rounds differ.
    """
    for loop in ast.walk(tree):
        if not isinstance(loop, _LOOPS) or not loop.lineno <= line <= (loop.end_lineno or 0):
            continue
        if any(isinstance(node, ast.Call) and _called(node) in _TRAINS for node in ast.walk(loop)):
            continue
        changed = {node.id for node in ast.walk(loop)
                   if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}  # fmt: skip
        once = set(_before_the_rounds(loop))
        arguments = {
            name.id
            for call in ast.walk(loop)
            if isinstance(call, ast.Call)
            and call.lineno <= line <= (call.end_lineno or 0)
            and call not in once
            for argument in call.args
            for name in ast.walk(argument)
            if isinstance(name, ast.Name)
        }
        if arguments and arguments.isdisjoint(changed):
            return True
    return False


def _before_the_rounds(loop: ast.AST) -> Iterator[ast.AST]:
    """The parts of a loop that run once: what it runs over."""
    if isinstance(loop, ast.For):
        yield from ast.walk(loop.iter)
    elif isinstance(loop, _COMPREHENSIONS):
        yield from ast.walk(loop.generators[0].iter)


_TRAINS = ("step", "minimize", "backward")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.While, *_COMPREHENSIONS)
