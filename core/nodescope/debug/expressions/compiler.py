"""Conditions: a small expression language over the values at a node.

``isnan(value).any()``, ``step > 10 and mean(abs(value)) < 1e-6``, ``shape(inputs[0])[0] != 32``.
The text is parsed by Python's ``ast`` and compiled to closures through the tables of `builtins`;
a node type, name, function or operator that is not in a table is refused with its column.

Invariant: never uses `eval`, `exec` or attribute access; evaluation writes to nothing and raises
only `ConditionError`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.arrays.lazy import LazyArray
from nodescope.debug.expressions.builtins import (
    BINARY,
    COMPARE,
    CONSTANTS,
    FUNCTIONS,
    HELD,
    LOGICAL,
    METHODS,
    NAMES,
    TRUTHS,
    Eval,
    LazyScene,
    Scene,
    bounded,
    check_pair,
    compared,
    held_input,
    index_of,
    operand,
    reason,
    truth,
)
from nodescope.debug.expressions.fast_paths import QUIET, QUIET_OF_TRUTHS, against
from nodescope.debug.expressions.statistics import OF_ARRAY, OF_TEST, TESTS
from nodescope.errors import ConditionError
from nodescope.registry import did_you_mean

MAX_LENGTH: Final = 512
MAX_DEPTH: Final = 20


# Python's parser warns about a number directly followed by a word, as in "1or 2".
_NUMBER: Final = re.compile(r"\b\d\w*(?:\.\w*)?")
_WORDS: Final = ("and", "else", "for", "if", "in", "is", "not", "or")
# The mirrored comparison, for a constant on the left.
_SWAPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


class _Part(NamedTuple):
    """A compiled part of an expression.

    Attributes:
        run: Computes its value.
        constant: Whether the value is independent of the scene.
        quiet: Whether it cannot cause NumPy warnings.
        logical: Whether its values are truth values.
        held: Returns its value as an array that may not be fetched yet; None if it is not an array.
        test: The function of which its value is the result for ``held``, or ``""``.
    """

    run: Eval
    constant: bool
    quiet: bool = False
    logical: bool = False
    held: Eval | None = None
    test: str = ""


class Expression:
    """A compiled expression; calling it with a `Scene` returns a number, an array or a tuple.

    For a `LazyScene`, the array may be a `LazyArray`.

    Attributes:
        text: The original text.
        names: The names that it uses.
    """

    __slots__ = ("_lazy_part", "_quiet", "_run", "names", "text")

    def __init__(self, text: str, names: frozenset[str], part: _Part) -> None:
        self.text = text
        self.names = names
        self._run = part.run
        self._quiet = part.quiet
        self._lazy_part: _Part | None = None  # for a `LazyScene`, compiled when first needed

    def _run_lazily(self, scene: Scene, *, held: bool = False) -> Any:
        """Its value for a `LazyScene`; with ``held``, an array is returned unfetched."""
        if self._lazy_part is None:
            self._lazy_part = _compiled(self.text, lazy=True)[2]
        part = self._lazy_part
        if held and part.held is not None and not part.test:
            return part.held(scene)
        with np.errstate(all="ignore"):
            return part.run(scene)

    def __call__(self, scene: Scene) -> Any:
        """Evaluate.

        Raises:
            ConditionError: The expression has no value here; no other exception is raised.
        """
        try:
            if type(scene) is LazyScene:
                return self._run_lazily(scene, held=True)
            if self._quiet:
                return self._run(scene)
            with np.errstate(all="ignore"):
                return self._run(scene)
        except ConditionError:
            raise
        except RecursionError:
            raise  # the program used up the stack; the condition is not at fault
        except Exception as error:
            raise ConditionError(reason(error)) from None


class Condition(Expression):
    """A compiled condition; calling it with a `Scene` gives its truth."""

    __slots__ = ()

    @property
    def bare(self) -> Eval:
        """The condition for scenes of NumPy's arrays, without a check of its result or its errors.

        Raises whatever its functions raise. `Condition` itself says what is wrong then.
        """
        return self._run if self._quiet else self

    def __call__(self, scene: Scene) -> bool:
        """Evaluate.

        Raises:
            ConditionError: The condition has no truth value here; no other exception is raised.
        """
        try:
            if type(scene) is LazyScene:
                return truth(self._run_lazily(scene))
            if self._quiet:
                result = self._run(scene)
                return bool(result) if type(result) in TRUTHS else truth(result)
            with np.errstate(all="ignore"):
                return truth(self._run(scene))
        except ConditionError:
            raise
        except RecursionError:
            raise  # the program used up the stack; the condition is not at fault
        except Exception as error:
            raise ConditionError(reason(error)) from None


def compile_condition(text: str) -> Condition:
    """Compile ``text``, at most `MAX_LENGTH` characters and `MAX_DEPTH` levels deep.

    Raises:
        ConditionError: The text is not a condition; ``column`` points at the fault.
    """
    return Condition(*_compiled(text))


def compile_expression(text: str) -> Expression:
    """Compile an expression, as `compile_condition` does.

    Raises:
        ConditionError: The text is not an expression; ``column`` points at the fault.
    """
    return Expression(*_compiled(text))


def _compiled(text: str, lazy: bool = False) -> tuple[str, frozenset[str], _Part]:
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
        if not char.isprintable() or char == "\\":
            raise ConditionError(
                f"a condition must be one printable line, not {char!r}", column=indent + column
            )
    for number in _NUMBER.finditer(body):
        if number[0].endswith(_WORDS):
            raise ConditionError(
                f"{number[0]!r} is not a number", column=indent + number.start(),
                hint="a space is missing after the number",
            )  # fmt: skip
    try:
        tree = ast.parse(body, mode="eval")
    except SyntaxError as error:
        # Offset 0 means that the text ended too early.
        column = indent + (error.offset - 1 if error.offset else len(body))
        raise ConditionError(f"not an expression: {error.msg}", column=column) from None
    except (MemoryError, RecursionError, ValueError):
        raise ConditionError("the condition is nested too deeply", column=indent) from None
    compiler = _Compiler(body, indent, lazy)
    with np.errstate(all="ignore"):
        part = compiler.compile(tree.body, 1)
    return text, frozenset(compiler.names), part


# ---------------------------------------------------------------- compilation


class _Compiler:
    """Turns nodes of the syntax tree into closures.

    Args:
        text: The text of the expression.
        indent: The number of typed characters before it.
        lazy: Whether to compile for a `LazyScene`.
    """

    def __init__(self, text: str, indent: int, lazy: bool) -> None:
        self._lazy = lazy
        self._text = text.encode()
        self._indent = indent
        self.names: set[str] = set()

    def error(self, node: ast.expr, message: str, hint: str = "") -> ConditionError:
        # ast counts columns in UTF-8 bytes, users count characters.
        column = len(self._text[: node.col_offset].decode(errors="replace"))
        return ConditionError(message, column=self._indent + column, hint=hint)

    def compile(self, node: ast.expr, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            raise self.error(node, f"the condition is nested too deeply (at most {MAX_DEPTH})")
        part = self._compile(node, depth + 1)
        if not part.constant:
            return part
        # Constants are folded here, so that an absurd one is refused before the program runs.
        try:
            result = part.run(Scene(None))
        except ConditionError as error:
            raise self.error(node, error.message, error.hint) from None
        except Exception as error:
            raise self.error(node, reason(error)) from None
        return _Part(lambda scene: result, True, True, part.logical)

    def _compile(self, node: ast.expr, depth: int) -> _Part:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return _Part(lambda scene: bounded(number), True)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() as op, operand=inner):
                return self._unary(op, self.compile(inner, depth))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return self._binary(
                    BINARY[type(op)], self.compile(left, depth), self.compile(right, depth)
                )
            case ast.BoolOp(op=op, values=values):
                return self._bool_op(op, [self.compile(element, depth) for element in values])
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare(node, left, ops, rights, depth)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(node, name, args, depth)
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]) if (
                name in METHODS
            ):
                return self._call(node, name, [inner], depth)
            case ast.Subscript(value=inner, slice=index) if not isinstance(index, ast.Slice):
                container, at = self.compile(inner, depth), self.compile(index, depth)
                run, place = container.run, at.run
                if container.held is not None and not container.test:
                    run = container.held
                if self._lazy and isinstance(inner, ast.Name) and inner.id == "inputs":
                    held = lambda scene: held_input(scene, place(scene))  # noqa: E731
                    return _Part(lambda scene: index_of(run(scene), place(scene)), False, held=held)
                return _Part(
                    lambda scene: index_of(run(scene), place(scene)),
                    container.constant and at.constant,
                    container.quiet and at.quiet,
                )
            case ast.Tuple(elts=elements):
                parts = [self.compile(element, depth) for element in elements]
                runs = tuple(part.run for part in parts)
                return _Part(
                    lambda scene: tuple(run(scene) for run in runs),
                    all(part.constant for part in parts),
                    all(part.quiet for part in parts),
                )
        raise self._refusal(node)

    def _name(self, node: ast.expr, name: str) -> _Part:
        if name in CONSTANTS:
            number = CONSTANTS[name]
            return _Part(lambda scene: number, True)
        if name not in NAMES:
            if name in FUNCTIONS:
                raise self.error(node, f"{name} is a function", f"write {name}(value)")
            near = did_you_mean(name, NAMES) or f"one of {', '.join(NAMES)}"
            raise self.error(node, f"unknown name {name!r}", near)
        self.names.add(name)
        return _Part(NAMES[name], False, True, held=HELD.get(name) if self._lazy else None)

    def _unary(self, op: ast.unaryop, part: _Part) -> _Part:
        run = part.run
        if isinstance(op, ast.Not):
            quiet = part.quiet and part.logical
            return _Part(lambda scene: not truth(run(scene)), part.constant, quiet, True)
        if isinstance(op, ast.USub):
            return _Part(lambda scene: -operand(run(scene)), part.constant)
        return _Part(lambda scene: +operand(run(scene)), part.constant)

    def _binary(self, apply: Callable[[Any, Any], Any], left: _Part, right: _Part) -> _Part:
        run_a, run_b = left.run, right.run

        def run(scene: Scene) -> Any:
            a, b = run_a(scene), run_b(scene)
            check_pair(a, b)
            return bounded(apply(a, b))

        return _Part(run, left.constant and right.constant)

    def _bool_op(self, op: ast.boolop, parts: list[_Part]) -> _Part:
        runs = tuple(part.run for part in parts)
        constant = all(part.constant for part in parts)
        quiet = all(part.quiet and part.logical for part in parts)
        ends = isinstance(op, ast.Or)

        def run(scene: Scene) -> bool:
            for evaluate in runs:
                if truth(evaluate(scene)) is ends:
                    return ends
            return not ends

        return _Part(run, constant, quiet, True)

    def _compare(
        self,
        node: ast.expr,
        left: ast.expr,
        ops: list[ast.cmpop],
        rights: list[ast.expr],
        depth: int,
    ) -> _Part:
        if not all(type(op) in COMPARE for op in ops):
            raise self.error(node, "only the comparisons < <= > >= == != can be used here")
        parts = [self.compile(side, depth) for side in (left, *rights)]
        constant = all(part.constant for part in parts)
        if len(ops) == 1:
            return self._pair(type(ops[0]), *parts)
        first, *rest = (part.run for part in parts)
        tests = tuple(zip((COMPARE[type(op)] for op in ops), rest, strict=True))

        def chain(scene: Scene) -> bool:
            a = first(scene)
            for compare, other in tests:
                b = other(scene)
                if not truth(compared(compare, a, b)):
                    return False
                a = b
            return True

        return _Part(chain, constant, False, True)

    def _pair(self, op: type[ast.cmpop], left: _Part, right: _Part) -> _Part:
        if left.constant and not right.constant:
            op, left, right = _SWAPPED[op], right, left
        compare, run_a, run_b = COMPARE[op], left.run, right.run
        if right.constant and not left.constant:
            short = against(compare, run_a, run_b(Scene(None)))
            if short is not None:
                return _Part(short, False, left.quiet, True)
        return _Part(
            lambda scene: compared(compare, run_a(scene), run_b(scene)),
            left.constant and right.constant, False, True,
        )  # fmt: skip

    def _call(self, node: ast.expr, name: str, args: list[ast.expr], depth: int) -> _Part:
        if name not in FUNCTIONS:
            near = did_you_mean(name, FUNCTIONS) or f"one of {', '.join(FUNCTIONS)}"
            raise self.error(node, f"unknown function {name!r}", near)
        count, function = FUNCTIONS[name]
        if len(args) != count:
            raise self.error(node, f"{name} takes {count} argument{'s'[: count > 1]}")
        parts = [self.compile(argument, depth) for argument in args]
        constant = all(part.constant for part in parts)
        first = parts[0].run
        if count == 1:
            return self._reduction(name, function, parts[0])
        second = parts[1].run
        return _Part(lambda scene: function(first(scene), second(scene)), constant)

    def _reduction(self, name: str, function: Callable[..., Any], part: _Part) -> _Part:
        """A function of one argument; for an unfetched array, computed from its statistics."""
        run, constant = part.run, part.constant
        over = QUIET.get(name)
        if over is None and part.logical:
            over = QUIET_OF_TRUTHS.get(name)
        of_whole = over(run) if over is not None else lambda scene: function(run(scene))
        whole = _Part(of_whole, constant, over is not None and part.quiet, name in LOGICAL)
        held = part.held
        if held is None:
            return whole
        reduce = OF_TEST.get((name, part.test)) if part.test else OF_ARRAY.get(name)
        if reduce is None:
            return whole._replace(held=held, test=name) if name in TESTS else whole

        def reduced(scene: Scene) -> Any:
            array = held(scene)
            return reduce(array) if isinstance(array, LazyArray) else of_whole(scene)

        return whole._replace(run=reduced)

    def _refusal(self, node: ast.expr) -> ConditionError:
        match node:
            case ast.Attribute(attr=name):
                hint = f"write {name}(...)" if name in FUNCTIONS else ""
                return self.error(node, f"attributes such as .{name} cannot be read", hint)
            case ast.Call(keywords=[_, *_]):
                return self.error(node, "functions take no keyword arguments here")
            case ast.Call():
                return self.error(node, "only built-in functions can be called")
            case ast.Constant(value=other):
                return self.error(node, f"{type(other).__name__} constants cannot be used here")
        return self.error(node, f"{type(node).__name__} is not part of the condition language")
