"""The rules of the pass `simplify`: patterns, their replacements, and where these are exact.

Exact means to the bit, whatever the operands are: infinities, NaN, zeros of either sign. That is
why ``x + 0`` is not ``x`` (it turns -0.0 into 0.0), ``x * 1`` is not ``x`` for complex numbers
(infinities become NaN) and a sum over a dimension of size 1 is not a reshape (NumPy starts with 0).

Invariant: each rule declared exact is tested on every dtype that it applies to.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from nodescope.passes import Rule

REAL: Final = "biuf"
NUMBERS: Final = "iuf"
WHOLE: Final = "biu"


@dataclass(frozen=True)
class Simplification:
    """A pattern and its replacement.

    Attributes:
        name: As in `Rewrite.rule`; patterns may share a name.
        before, after: Patterns, see `nodescope.passes.patterns`.
        kinds: Kinds of NumPy dtypes that ``x`` may have.
        exact: Whether results stay bit-equal.
        inner: Names of ops that must have made ``x``; any if empty.
        signs: Whether a NaN may change its sign.
    """

    name: str
    before: str
    after: str
    kinds: str = "biufc"
    exact: bool = True
    inner: tuple[str, ...] = ()
    signs: bool = False


def _table() -> Iterator[Simplification]:
    """Every rule with its patterns: long, but only data."""
    one, new = Simplification, Simplification
    # Neutral operands
    yield one("multiply_one", "multiply(x, 1)", "x", REAL)
    yield one("multiply_one", "multiply(1, x)", "x", REAL)
    yield one("multiply_one", "multiply(x, true)", "x", REAL)
    yield one("divide_one", "divide(x, 1)", "x", "f")
    yield one("floor_divide_one", "floor_divide(x, 1)", "x", "iu")
    yield one("subtract_zero", "subtract(x, 0)", "x", NUMBERS)
    yield one("add_negative_zero", "add(x, -0.0)", "x", "f")
    yield one("add_negative_zero", "add(-0.0, x)", "x", "f")
    yield one("add_zero_whole", "add(x, 0)", "x", "iu")
    yield one("add_zero_whole", "add(0, x)", "x", "iu")
    yield one("add_zero_known", "add(x, 0)", "x", "f", inner=NEVER_NEGATIVE_ZERO)
    yield one("add_zero_known", "add(0, x)", "x", "f", inner=NEVER_NEGATIVE_ZERO)
    yield one("add_zero", "add(x, 0)", "x", "f", exact=False)
    yield one("add_zero", "add(0, x)", "x", "f", exact=False)
    yield one("shift_zero", "left_shift(x, 0)", "x", "iu")
    yield one("shift_zero", "right_shift(x, 0)", "x", "iu")
    for op in ("bitwise_or", "bitwise_xor"):
        yield one("bits_zero", f"{op}(x, 0)", "x", "iu")
        yield one("bits_zero", f"{op}(0, x)", "x", "iu")
    yield one("bits_ones", "bitwise_and(x, -1)", "x", "i")
    yield one("bits_ones", "bitwise_and(-1, x)", "x", "i")
    for op, same in (("logical_and", "true"), ("logical_or", "false"), ("logical_xor", "false"),
                     ("bitwise_and", "true"), ("bitwise_or", "false"),
                     ("bitwise_xor", "false")):  # fmt: skip
        yield one("logical_same", f"{op}(x, {same})", "x", "b")
        yield one("logical_same", f"{op}({same}, x)", "x", "b")
    # Repeated operands
    for op in ("maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or"):
        yield one("idempotent", f"{op}(x, x)", "x", REAL)
    yield one("idempotent", "logical_and(x, x)", "x", "b")
    yield one("idempotent", "logical_or(x, x)", "x", "b")
    # Inverse of itself
    yield one("double_negative", "negative(negative(x))", "x")
    yield one("double_invert", "invert(invert(x))", "x", WHOLE)
    yield one("double_not", "logical_not(logical_not(x))", "x", "b")
    yield one("double_invert", "logical_not(invert(x))", "x", "b")
    yield one("double_invert", "invert(logical_not(x))", "x", "b")
    yield one("double_conjugate", "conjugate(conjugate(x))", "x")
    # No effect for this dtype, or already done
    yield one("positive", "positive(x)", "x")
    yield one("conjugate_real", "conjugate(x)", "x", REAL)
    yield one("unsigned_abs", "abs(x)", "x", "bu")
    for op in ("floor", "ceil", "trunc", "rint"):
        if op != "rint":  # which turns integers into floats
            yield one("whole_already", f"{op}(x)", "x", WHOLE)
        for within in ("floor", "ceil", "trunc", "rint"):
            yield one("whole_already", f"{op}({within}(x))", f"{within}(x)", "f")
    for op in ("abs", "fabs", "sign", "relu"):
        yield one("done_already", f"{op}({op}(x))", f"{op}(x)", "iuf")
    yield one("done_already", "abs(fabs(x))", "fabs(x)", "f")
    yield one("done_already", "fabs(abs(x))", "abs(x)", "f")
    yield one("done_already", "abs(square(x))", "square(x)", "f", signs=True)
    # Signs
    for op in ("abs", "fabs", "square"):
        yield new("even", f"{op}(negative(x))", f"{op}(x)", "if", signs=True)
    yield new("even", "square(abs(x))", "square(x)", "if", signs=True)
    yield new("add_negative", "add(x, negative(y))", "subtract(x, y)", NUMBERS, signs=True)
    yield new("add_negative", "add(negative(y), x)", "subtract(x, y)", NUMBERS, signs=True)
    yield new("subtract_negative", "subtract(x, negative(y))", "add(x, y)", NUMBERS, signs=True)
    for op in ("multiply", "divide"):
        yield new("two_negatives", f"{op}(negative(x), negative(y))", f"{op}(x, y)",
                  "if" if op == "multiply" else "f", signs=True)  # fmt: skip
        yield new("negative_scalar", f"{op}(negative(x), c)", f"{op}(x, minus(c))", "f",
                  signs=True)  # fmt: skip
    yield new("negative_scalar", "negative(multiply(x, c))", "multiply(x, minus(c))", "f",
              signs=True)  # fmt: skip
    yield new("negative_scalar", "negative(divide(x, c))", "divide(x, minus(c))", "f",
              signs=True)  # fmt: skip
    yield new("multiply_minus_one", "multiply(x, -1)", "negative(x)", "if", signs=True)
    yield new("multiply_minus_one", "divide(x, -1)", "negative(x)", "f", signs=True)
    yield new("zero_minus_whole", "subtract(0, x)", "negative(x)", "i")
    yield new("subtract_turned", "negative(subtract(x, y))", "subtract(y, x)", "i")
    # Comparisons: only those that also hold for NaN
    yield new("not_equal", "logical_not(equal(x, y))", "not_equal(x, y)")
    yield new("not_equal", "logical_not(not_equal(x, y))", "equal(x, y)")
    yield new("not_equal", "invert(equal(x, y))", "not_equal(x, y)")
    yield new("not_equal", "invert(not_equal(x, y))", "equal(x, y)")
    for less, not_less in (("less", "greater_equal"), ("greater", "less_equal")):
        yield new("not_less", f"logical_not({less}(x, y))", f"{not_less}(x, y)", WHOLE)
        yield new("not_less", f"logical_not({not_less}(x, y))", f"{less}(x, y)", WHOLE)
        yield new("not_less", f"logical_not({less}(x, c))", f"{not_less}(x, c)", WHOLE)
        yield new("not_less", f"logical_not({not_less}(x, c))", f"{less}(x, c)", WHOLE)
    yield new("equal_true", "equal(x, true)", "x", "b")
    yield new("equal_true", "not_equal(x, false)", "x", "b")
    yield new("equal_true", "equal(x, false)", "logical_not(x)", "b")
    yield new("equal_true", "not_equal(x, true)", "logical_not(x)", "b")
    # Selection
    yield one("where_same", "where(z, x, x)", "x")
    yield one("where_constant", "where(true, x, y)", "x")
    yield one("where_constant", "where(false, y, x)", "x")
    yield one("where_constant", "where(true, x, c)", "x")
    yield one("where_constant", "where(false, c, x)", "x")
    yield new("where_not", "where(logical_not(z), x, y)", "where(z, y, x)")
    yield new("where_not", "where(logical_not(z), x, c)", "where(z, c, x)")
    yield new("where_not", "where(logical_not(z), c, x)", "where(z, x, c)")
    yield one("keep_all", "keep(x, true)", "x")
    yield one("keep_twice", "keep(keep(x, z), z)", "keep(x, z)", "f")
    yield new("where_within", "where(z, where(z, x, y), w)", "where(z, x, w)")
    yield new("where_within", "where(z, w, where(z, y, x))", "where(z, w, x)")
    yield new("where_within", "where(z, where(z, x, y), c)", "where(z, x, c)")
    # Empty results
    yield new("subtract_self_whole", "subtract(x, x)", "zeros_like(x)", "iu")
    yield new("subtract_self_whole", "bitwise_xor(x, x)", "zeros_like(x)", WHOLE)
    yield new("multiply_zero_whole", "multiply(x, 0)", "zeros_like(x)", "iu")
    yield new("multiply_zero_whole", "multiply(0, x)", "zeros_like(x)", "iu")
    # Not exact, because of overflow, NaN and infinities, rounding, or the sign of zeros
    yield from _inexact()


def _inexact() -> Iterator[Simplification]:
    one = new = functools.partial(Simplification, exact=False)
    yield one("log_exp", "log(exp(x))", "x", "f")
    yield one("exp_log", "exp(log(x))", "x", "f")
    yield new("sqrt_square", "sqrt(square(x))", "abs(x)", "f")
    yield one("square_sqrt", "square(sqrt(x))", "x", "f")
    yield new("subtract_self", "subtract(x, x)", "zeros_like(x)", "f")
    yield new("divide_self", "divide(x, x)", "ones_like(x)", "f")
    yield new("multiply_zero", "multiply(x, 0)", "zeros_like(x)", "f")
    yield new("multiply_zero", "multiply(0, x)", "zeros_like(x)", "f")
    yield new("subtract_turned_float", "negative(subtract(x, y))", "subtract(y, x)", "f")
    yield new("exp_minus_one", "subtract(exp(x), 1)", "expm1(x)", "f")
    yield new("log_one_plus", "log(add(x, 1))", "log1p(x)", "f")
    yield new("add_subtract", "subtract(add(x, y), y)", "x", "f")
    yield new("multiply_divide", "divide(multiply(x, y), y)", "x", "f")


NEVER_NEGATIVE_ZERO: Final = (
    "abs", "fabs", "square", "exp", "exp2", "ones_like", "zeros_like", "astype_whole",
)  # fmt: skip
"""Ops that never return -0.0; ``astype_whole`` is a conversion from integers or booleans."""


RULES: Final = tuple(_table())


def described() -> tuple[Rule, ...]:
    """The rules by name, each with its patterns."""
    rules_by_name: dict[tuple[str, bool], list[str]] = {}
    for rule in RULES:
        rules_by_name.setdefault((rule.name, rule.exact), []).append(
            f"{rule.before} -> {rule.after}"
        )
    return tuple(
        Rule(name, texts[0] + (f", and {len(texts) - 1} more" if texts[1:] else ""), exact)
        for (name, exact), texts in rules_by_name.items()
    )
