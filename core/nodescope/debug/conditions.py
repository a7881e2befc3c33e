"""Conditions: a small expression language over the values at a node.

``isnan(value).any()``, ``step > 10 and mean(abs(value)) < 1e-6``, ``shape(inputs[0])[0] != 32``.
The text is parsed by Python's ``ast`` and compiled to closures through the tables of `vocabulary`;
a node type, name, function or operator that is not in a table is refused with its column.

Invariant: never `eval`, `exec` or attribute access; evaluation writes to nothing and raises nothing
but `ConditionError`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.debug.vocabulary import (
    BINARY,
    COMPARE,
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    NAMES,
    Eval,
    Scene,
    bounded,
    check_pair,
    compared,
    index_of,
    operand,
    reason,
    truth,
)
from nodescope.errors import ConditionError
from nodescope.registry import did_you_mean

MAX_LENGTH: Final = 512
MAX_DEPTH: Final = 20


class Expression:
    """A compiled expression; calling it with a `Scene` gives a number, an array or a tuple.

    Attributes:
        text: The text as it was given.
        names: The names that it uses.
    """

    __slots__ = ("_run", "names", "text")

    def __init__(self, text: str, names: frozenset[str], run: Eval) -> None:
        self.text = text
        self.names = names
        self._run = run

    def __call__(self, scene: Scene) -> Any:
        """Evaluate.

        Raises:
            ConditionError: It has no value here; nothing else is ever raised.
        """
        return self._found(scene)

    def _found(self, scene: Scene) -> Any:
        try:
            with np.errstate(all="ignore"):
                return self._run(scene)
        except ConditionError:
            raise
        except Exception as error:
            raise ConditionError(reason(error)) from None


class Condition(Expression):
    """A compiled condition; calling it with a `Scene` gives its truth."""

    __slots__ = ()

    def __call__(self, scene: Scene) -> bool:
        """Evaluate.

        Raises:
            ConditionError: It does not give a truth value here; nothing else is ever raised.
        """
        found = self._found(scene)
        try:
            return truth(found)
        except ConditionError:
            raise
        except (TypeError, ValueError) as error:
            raise ConditionError(reason(error)) from None


def compile_condition(text: str) -> Condition:
    """Compile ``text``, at most `MAX_LENGTH` characters and `MAX_DEPTH` levels deep.

    Raises:
        ConditionError: It is not a condition; ``column`` points at the fault.
    """
    return Condition(*_compiled(text))


def compile_expression(text: str) -> Expression:
    """Compile an expression, as `compile_condition` does.

    Raises:
        ConditionError: It is not one; ``column`` points at the fault.
    """
    return Expression(*_compiled(text))


def _compiled(text: str) -> tuple[str, frozenset[str], Eval]:
    if len(text) > MAX_LENGTH:
        raise ConditionError(
            f"the condition is too long ({len(text)} characters, at most {MAX_LENGTH})",
            column=MAX_LENGTH,
        )
    body = text.strip()
    if not body:
        raise ConditionError("the condition is empty", column=0, hint="for example value.max() > 3")
    indent = len(text) - len(text.lstrip())
    for column, char in enumerate(body):
        if not char.isprintable():
            raise ConditionError(
                f"a condition is one line of printable text, not {char!r}", column=indent + column
            )
    try:
        tree = ast.parse(body, mode="eval")
    except SyntaxError as error:
        # Offset 0 means that the text ended too early.
        column = indent + (error.offset - 1 if error.offset else len(body))
        raise ConditionError(f"not an expression: {error.msg}", column=column) from None
    except (MemoryError, RecursionError, ValueError):
        raise ConditionError("the condition is nested too deeply", column=indent) from None
    compiler = _Compiler(body, indent)
    with np.errstate(all="ignore"):
        run, _ = compiler.compile(tree.body, 1)
    return text, frozenset(compiler.names), run


# ---------------------------------------------------------------- compilation


class _Compiler:
    """Turns nodes of the syntax tree into closures. ``compile`` gives (closure, is constant)."""

    def __init__(self, text: str, indent: int) -> None:
        self._text = text.encode()
        self._indent = indent
        self.names: set[str] = set()

    def error(self, node: ast.expr, message: str, hint: str = "") -> ConditionError:
        # ast counts columns in UTF-8 bytes, people count characters.
        column = len(self._text[: node.col_offset].decode(errors="replace"))
        return ConditionError(message, column=self._indent + column, hint=hint)

    def compile(self, node: ast.expr, depth: int) -> tuple[Eval, bool]:
        if depth > MAX_DEPTH:
            raise self.error(node, f"the condition is nested too deeply (at most {MAX_DEPTH})")
        run, constant = self._compile(node, depth + 1)
        if not constant:
            return run, False
        # Constants are folded here, so that an absurd one is refused before the program runs.
        try:
            result = run(Scene(None))
        except ConditionError as error:
            raise self.error(node, error.message, error.hint) from None
        except Exception as error:
            raise self.error(node, reason(error)) from None
        return (lambda scene: result), True

    def _compile(self, node: ast.expr, depth: int) -> tuple[Eval, bool]:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return (lambda scene: bounded(number)), True
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() as op, operand=inner):
                return self._unary(op, *self.compile(inner, depth))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return self._binary(
                    BINARY[type(op)], self.compile(left, depth), self.compile(right, depth)
                )
            case ast.BoolOp(op=op, values=values):
                parts = [self.compile(each, depth) for each in values]
                runs = tuple(run for run, _ in parts)
                constant = all(each for _, each in parts)
                if isinstance(op, ast.And):
                    return (lambda scene: all(truth(run(scene)) for run in runs)), constant
                return (lambda scene: any(truth(run(scene)) for run in runs)), constant
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare(node, left, ops, rights, depth)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(node, name, args, depth)
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]) if (
                name in METHODS
            ):
                return self._call(node, name, [inner], depth)
            case ast.Subscript(value=inner, slice=index) if not isinstance(index, ast.Slice):
                container, index_run = self.compile(inner, depth), self.compile(index, depth)
                run, at = container[0], index_run[0]
                constant = container[1] and index_run[1]
                return (lambda scene: index_of(run(scene), at(scene))), constant
            case ast.Tuple(elts=elements):
                parts = [self.compile(each, depth) for each in elements]
                runs = tuple(run for run, _ in parts)
                return (lambda scene: tuple(run(scene) for run in runs)), all(c for _, c in parts)
        raise self._refusal(node)

    def _name(self, node: ast.expr, name: str) -> tuple[Eval, bool]:
        if name in CONSTANTS:
            number = CONSTANTS[name]
            return (lambda scene: number), True
        if name not in NAMES:
            if name in FUNCTIONS:
                raise self.error(node, f"{name} is a function", f"write {name}(value)")
            near = did_you_mean(name, NAMES) or f"known are {', '.join(NAMES)}"
            raise self.error(node, f"unknown name {name!r}", near)
        self.names.add(name)
        return NAMES[name], False

    def _unary(self, op: ast.unaryop, run: Eval, constant: bool) -> tuple[Eval, bool]:
        if isinstance(op, ast.Not):
            return (lambda scene: not truth(run(scene))), constant
        if isinstance(op, ast.USub):
            return (lambda scene: -operand(run(scene))), constant
        return (lambda scene: +operand(run(scene))), constant

    def _binary(
        self, apply: Callable[[Any, Any], Any], left: tuple[Eval, bool], right: tuple[Eval, bool]
    ) -> tuple[Eval, bool]:
        run_a, run_b = left[0], right[0]

        def run(scene: Scene) -> Any:
            a, b = run_a(scene), run_b(scene)
            check_pair(a, b)
            return bounded(apply(a, b))

        return run, left[1] and right[1]

    def _compare(
        self,
        node: ast.expr,
        left: ast.expr,
        ops: list[ast.cmpop],
        rights: list[ast.expr],
        depth: int,
    ) -> tuple[Eval, bool]:
        if not all(type(op) in COMPARE for op in ops):
            raise self.error(node, "only < <= > >= == != compare here")
        first, constant = self.compile(left, depth)
        tests: list[tuple[Callable[[Any, Any], Any], Eval]] = []
        for op, right in zip(ops, rights, strict=True):
            other, other_constant = self.compile(right, depth)
            constant = constant and other_constant
            tests.append((COMPARE[type(op)], other))
        if len(tests) == 1:
            ((compare, other),) = tests
            return (lambda scene: compared(compare, first(scene), other(scene))), constant

        def chain(scene: Scene) -> bool:
            a = first(scene)
            for compare, other in tests:
                b = other(scene)
                if not truth(compared(compare, a, b)):
                    return False
                a = b
            return True

        return chain, constant

    def _call(
        self, node: ast.expr, name: str, args: list[ast.expr], depth: int
    ) -> tuple[Eval, bool]:
        if name not in FUNCTIONS:
            near = did_you_mean(name, FUNCTIONS) or f"known are {', '.join(FUNCTIONS)}"
            raise self.error(node, f"unknown function {name!r}", near)
        count, function = FUNCTIONS[name]
        if len(args) != count:
            raise self.error(node, f"{name} takes {count} argument{'s'[: count > 1]}")
        parts = [self.compile(each, depth) for each in args]
        constant = all(each for _, each in parts)
        if count == 1:
            run = parts[0][0]
            return (lambda scene: function(run(scene))), constant
        first, second = parts[0][0], parts[1][0]
        return (lambda scene: function(first(scene), second(scene))), constant

    def _refusal(self, node: ast.expr) -> ConditionError:
        match node:
            case ast.Attribute(attr=name):
                hint = f"write {name}(...)" if name in FUNCTIONS else ""
                return self.error(node, f"attributes such as .{name} cannot be read", hint)
            case ast.Call(keywords=[_, *_]):
                return self.error(node, "functions take no keywords here")
            case ast.Call():
                return self.error(node, "only the functions of the language can be called")
            case ast.Constant(value=other):
                return self.error(node, f"{type(other).__name__} constants have no use here")
        return self.error(node, f"{type(node).__name__} is not part of the condition language")
