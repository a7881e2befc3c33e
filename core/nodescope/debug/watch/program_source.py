"""Program source: what a line of the user's code does with a result, for rules.

Invariant: reports only what is certain; if a name could be read in another way, it counts as used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_DYNAMIC = frozenset({"locals", "globals", "vars", "eval", "exec", "dir"})


class Fate(NamedTuple):
    """The fate of a statement's result.

    Attributes:
        kind: ``dropped``: it is not assigned; ``unread``: its name is never read; ``overwritten``:
            its name is assigned again before it is read.
        name: The name to which it is assigned.
        line: The line of the statement that overwrites it.
        calls: For a dropped call, the function's own name.
    """

    kind: str
    name: str = ""
    line: int = 0
    calls: str = ""


class OverwrittenRound(NamedTuple):
    """An assignment in a loop that every iteration overwrites: nothing in the loop reads the name.

    Attributes:
        name: The assigned name.
        line, end: The first and the last line of the assignment.
        loop: The line of the loop.
    """

    name: str
    line: int
    end: int
    loop: int


@lru_cache(maxsize=4096)
def fate(tree: ast.Module, line: int) -> Fate | None:
    """The fate of the result of the statement at a line; None if it is or may be used."""
    place = _statement(tree, line)
    if place is None:
        return None
    statement, block, function = place
    if isinstance(function, ast.ClassDef):
        return None  # names in a class body are read as attributes
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
            return None  # the statement may leave the block
    return None


def overwritten_rounds(tree: ast.Module) -> list[OverwrittenRound]:
    """Loops that call each item, such as a layer, and keep only the last result."""
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


class Kept(NamedTuple):
    """A name for a tensor that is written to through another name.

    Attributes:
        name: The name that is not used for the write.
        written: The name used for the write.
        line: The line that binds one name to the other.
        augments: Whether the write is an augmented assignment, such as ``a += 1``.
        reads: First and last line of each statement that reads the name after the write, as long as
            the name certainly still refers to that tensor.
    """

    name: str
    written: str
    line: int
    augments: bool
    reads: tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def kept_names(tree: ast.Module, line: int) -> tuple[Kept, ...]:
    """Other names for the tensor that a line writes to in place: ``b`` in ``b = a; a.add_(1)`` and
    in ``a = b; a.add_(1)``.
    """
    place = _statement(tree, line)
    if place is None:
        return ()
    statement, _, function = place
    scope = tree if function is None else function
    written = _written(statement)
    if not written or isinstance(function, ast.ClassDef):
        return ()
    statements = [part for part in ast.walk(scope) if isinstance(part, ast.stmt)]
    simple = [part for part in statements if not list(_blocks(part))]
    simple.sort(key=lambda part: part.lineno)
    kept, augments = [], isinstance(statement, ast.AugAssign)
    for other in simple:
        if other.lineno >= statement.lineno or not isinstance(other, ast.Assign):
            continue
        target, value = other.targets[0], other.value
        if not isinstance(target, ast.Name) or not isinstance(value, ast.Name):
            continue
        names = {target.id, value.id}
        if len(names) < 2 or written not in names or not _leads_to(scope, other, statement):
            continue
        (name,) = names - {written}
        if _hidden(scope, name) or _hidden(scope, written):
            continue
        between = [part for part in statements if other.lineno < part.lineno < statement.lineno]
        if any(_binds(part, name) or _binds(part, written) for part in between):
            continue
        reads = []
        for later in statements:
            if later.lineno <= (statement.end_lineno or 0):
                continue
            if later in simple and any(_reads(node, name) for node in ast.walk(later)):
                reads.append((later.lineno, later.end_lineno or later.lineno))
            if _binds(later, name):
                break
        kept.append(Kept(name, written, other.lineno, augments, tuple(reads)))
    return tuple(kept)


def _written(statement: ast.stmt) -> str:
    """The plain name of the tensor that a statement writes to in place; else ``""``."""
    if isinstance(statement, ast.AugAssign):
        return statement.target.id if isinstance(statement.target, ast.Name) else ""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    if isinstance(function, ast.Attribute) and function.attr.endswith("_"):
        return function.value.id if isinstance(function.value, ast.Name) else ""
    first = value.args[0] if value.args else None
    return first.id if isinstance(first, ast.Name) else ""


def _leads_to(scope: ast.AST, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether the first statement always runs before the second one in the same call."""
    todo = [getattr(scope, "body", [])]
    while todo:
        block = todo.pop()
        if first in block:
            after = block[block.index(first) + 1 :]
            return any(second in ast.walk(part) for part in after)
        for part in block:
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                todo += _blocks(part)
    return False


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement, without those nested in it, may bind a name to another object."""
    if isinstance(statement, ast.AugAssign):
        return False  # for a tensor, it writes in place and binds nothing new
    inner = {id(node) for block in _blocks(statement) for part in block for node in ast.walk(part)}
    return any(_stores(node, name) for node in ast.walk(statement) if id(node) not in inner)


def calls_between(tree: ast.Module, first: int, last: int, *names: str) -> int:
    """The last line from ``first`` to ``last`` that calls one of these functions, or 0."""
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and first <= node.lineno <= last and _called(node) in names
    ]
    return max(lines, default=0)


def clears_between(tree: ast.Module, first: int, last: int) -> int:
    """The last line strictly between two lines that clears gradients, or 0."""
    lines = [calls_between(tree, first + 1, last - 1, "zero_grad")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and first < node.lineno < last:
            nothing = isinstance(node.value, ast.Constant) and node.value.value is None
            if nothing and any(getattr(target, "attr", "") == "grad" for target in node.targets):
                lines.append(node.lineno)
    return max(lines)


def calls_together(tree: ast.Module, outer: str, inner: tuple[str, ...]) -> int:
    """The first line that calls ``outer`` on the result of one of the ``inner`` calls, or 0."""
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
    """A factor in a line that a loop around it recomputes, and that line; or ``""`` and 0."""
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
    """Whether an expression converts or rounds numbers, as schedules do with the step."""
    if isinstance(node, ast.Call):
        return _called(node) in ("float", "int", "min", "max", "round")
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)


def call_lines(tree: ast.Module, name: str) -> list[int]:
    """The lines that call a method of this name without arguments, or with constants only."""
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
    """The first of these functions or methods that a line calls, or ``""``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno == line and _called(node) in names:
            return _called(node)
    return ""


def within(tree: ast.Module, line: int, name: str) -> bool:
    """Whether a line is in a ``with`` block, or a decorated function, of this name: ``no_grad``."""
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
    """The lines of the smallest such block around a line, as in `within`; else the line alone."""
    blocks = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.FunctionDef)
        and node.lineno <= line <= (node.end_lineno or 0)
        and within(tree, node.lineno, name)
    ]
    return min(blocks, key=len, default=range(line, line + 1))


def names_around(tree: ast.Module, line: int) -> list[str]:
    """The names of the functions and classes around a line, outermost first."""
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
    """The simple statement at a line, its block, and the innermost function or class around it."""
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
    """Whether a name may be read without appearing in the source."""
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
    """Whether a line is in a loop that passes the same arguments to its calls in every iteration.

    Training loops are excluded: their iterations differ.
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
    """The nodes of a loop's iterable, which runs only once."""
    if isinstance(loop, ast.For):
        yield from ast.walk(loop.iter)
    elif isinstance(loop, _COMPREHENSIONS):
        yield from ast.walk(loop.generators[0].iter)


_TRAINS = ("step", "minimize", "backward")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.While, *_COMPREHENSIONS)
