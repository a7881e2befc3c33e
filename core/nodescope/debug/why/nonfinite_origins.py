"""Origins: how an op produces NaN, Inf or zero from operands that are neither, in words.

Invariant: numbers in, words out; nothing here knows about recordings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.ir.dtypes import as_dtype
from nodescope.ops.traits import traits_of

Numbers = list[Any] | np.ndarray[Any, Any]


@dataclass(frozen=True)
class Birth:
    """The origin of a number.

    Attributes:
        kind: A short name: ``log of a negative``, ``0/0``, ``overflow`` …
        words: A description with the numbers.
        blame: The index of the operand to blame among those given, or -1.
        trait: What is wrong with that operand: ``negative``, ``zero``, ``large`` …
    """

    kind: str
    words: str
    blame: int = -1
    trait: str = ""


def state_of(number: Any) -> str:
    """``nan``, ``inf``, ``zero`` or ``finite``."""
    try:
        value = complex(number)
    except (TypeError, ValueError):
        return "finite"
    if value != value:
        return "nan"
    if math.isinf(value.real) or math.isinf(value.imag):
        return "inf"
    return "zero" if value == 0 else "finite"


def number_text(number: Any, digits: int = 4) -> str:
    """A number as text: integers exactly, others with the given number of significant digits."""
    if isinstance(number, bool | np.bool_):
        return str(bool(number))
    if isinstance(number, int | np.integer):
        return str(int(number))
    try:
        value = complex(number)
    except (TypeError, ValueError):
        return str(number)
    if value.imag or isinstance(number, complex | np.complexfloating):
        return f"{value.real:.{digits}g}{value.imag:+.{digits}g}j"
    return f"{value.real:.{digits}g}"


def distinct_texts(number: Any, other: Any, digits: int = 4) -> tuple[str, str]:
    """Two numbers as text with enough digits to differ: 1.5391 and 1.5393."""
    for precision in range(digits, 18):
        texts = number_text(number, precision), number_text(other, precision)
        if texts[0] != texts[1]:
            return texts
    return number_text(number, digits), number_text(other, digits)  # equal, or both NaN


def birth(
    op: str,
    numbers: Numbers,
    out: Any,
    dtype: str,
    terms: Numbers | None = None,
    count: int | None = None,
) -> Birth:
    """How an op produced NaN, Inf or zero from operands that are not.

    Args:
        op: The op's name.
        numbers: The operands' elements: one per port for an elementwise op, else the elements that
            the result depends on.
        out: The output's element.
        dtype: The output's dtype.
        terms: The terms of a sum; a selection if there are very many.
        count: The total number of elements or terms; if None, the number given.
    """
    state = state_of(out)
    if state == "nan":
        return _nan(op, numbers, terms)
    if state == "inf":
        return _inf(op, numbers, dtype, terms, count)
    return _zero(op, numbers, terms, count)


def _nan(op: str, numbers: Numbers, terms: Numbers | None) -> Birth:
    if not len(numbers):
        return Birth("empty reduction", f"{op} of no elements")
    states = [state_of(number) for number in numbers]
    first = numbers[0]
    real = [_real(number) for number in numbers]
    traits = traits_of(op)
    if traits.pole is not None and real[0] < traits.pole:
        return Birth("log of a negative number", f"{op} of {number_text(first)}", 0, "negative")
    if op == "sqrt" and real[0] < 0:
        return Birth("sqrt of a negative number", f"sqrt of {number_text(first)}", 0, "negative")
    if traits.domain is not None:
        return Birth(
            f"{op} outside {traits.domain.text}", f"{op} of {number_text(first)}", 0, "outside"
        )
    if "oscillates" in traits.effects and states[0] == "inf":
        return Birth(f"{op} of inf", f"{op} of {number_text(first)}", 0, "infinite")
    if op in ("power", "float_power") and len(numbers) > 1 and real[0] < 0:
        words = f"{number_text(first)} to the power of {number_text(numbers[1])}"
        return Birth("power of a negative number", words, 0, "negative")
    if op in ("divide", "floor_divide", "remainder", "fmod") and len(numbers) == 2:
        words = f"{number_text(first)} / {number_text(numbers[1])}"
        if states[:2] == ["zero", "zero"]:
            return Birth("0/0", words, 1, "zero")
        if states[1] == "zero":
            return Birth("division by zero", words, 1, "zero")
        return Birth("inf/inf", words, 0, "infinite")
    if op == "multiply" and set(states[:2]) == {"zero", "inf"}:
        words = f"{number_text(first)} * {number_text(numbers[1])}"
        return Birth("0*inf", words, states.index("inf"), "infinite")
    if op in ("add", "subtract") and states[:2] == ["inf", "inf"]:
        sign = "+" if op == "add" else "-"
        return Birth(
            "inf-inf", f"{number_text(first)} {sign} {number_text(numbers[1])}", 0, "infinite"
        )
    if op in ("softmax", "log_softmax", "logsumexp") and "inf" in states:
        return _row(op, numbers, states)
    if op in ("prod", "cumprod") and {"zero", "inf"} <= set(states):
        at = states.index("inf")
        return Birth("0*inf", f"{op} of {number_text(numbers[at])} and 0", at, "infinite")
    if terms is not None:
        return _added(op, terms)
    if "inf" in states:
        at = states.index("inf")
        return Birth("nan from inf", f"{op} with {number_text(numbers[at])} among its operands", at,
                     "infinite")  # fmt: skip
    sample = ", ".join(map(number_text, numbers[:4]))
    return Birth("nan from finite operands", f"{op} of {sample}")


def _row(op: str, numbers: Numbers, states: list[str]) -> Birth:
    at = states.index("inf")
    if all(state == "inf" and _real(n) < 0 for state, n in zip(states, numbers, strict=True)):
        words = f"{op} of a row of {len(numbers)} elements, all -inf"
        return Birth("softmax of all -inf", words, at, "infinite")
    return Birth(
        "inf-inf", f"{op} of a row that contains {number_text(numbers[at])}", at, "infinite"
    )


def _added(op: str, terms: Numbers) -> Birth:
    states = [state_of(term) for term in terms]
    if "nan" in states:
        at = states.index("nan")
        return Birth("0*inf", f"a term of {op} is 0*inf", at, "infinite")
    infinite = [i for i, state in enumerate(states) if state == "inf"]
    if len(infinite) > 1:
        return Birth("inf-inf", f"{op} adds inf and -inf", infinite[0], "infinite")
    if not infinite:
        return Birth("overflow inside", f"{op}: partial sums overflow to inf and -inf", -1)
    return Birth("nan from inf", f"{op} with an infinite term", infinite[0], "infinite")


def _inf(op: str, numbers: Numbers, dtype: str, terms: Numbers | None, count: int | None) -> Birth:
    if not len(numbers):
        return Birth("empty reduction", f"{op} of no elements")
    real = [_real(number) for number in numbers]
    states = [state_of(number) for number in numbers]
    if real and real[0] == traits_of(op).pole:
        return Birth("log of zero", f"{op} of {number_text(numbers[0])}", 0, "zero")
    if op == "reciprocal" or (op in ("divide", "floor_divide") and states[-1] == "zero"):
        over = "1" if op == "reciprocal" else number_text(numbers[0])
        return Birth(
            "division by zero", f"{over} / {number_text(numbers[-1])}", len(numbers) - 1, "zero"
        )
    if op in ("power", "float_power") and len(numbers) > 1 and real[0] == 0:
        words = f"0 to the power of {number_text(numbers[1])}"
        return Birth("division by zero", words, 0, "zero")
    if op == "arctanh":
        return Birth("arctanh of 1", f"arctanh of {number_text(numbers[0])}", 0, "outside")
    largest = _largest(dtype)
    beyond = f", above the largest {dtype}, {largest}" if largest else ""
    # Terms say more than their factors: the largest factor may belong to another term.
    weighed = real if terms is None or not len(terms) else [_size(term) for term in terms]
    blame = int(np.argmax([abs(weight) if weight == weight else 0.0 for weight in weighed]))
    if terms is not None and len(terms) > 2:
        terms_in_all = len(terms) if count is None else count
        return Birth("overflow", f"{op} of {terms_in_all:,} terms{beyond}", blame, "large")
    if len(numbers) <= 2:
        words = f"{op} of {' and '.join(map(number_text, numbers))}{beyond}"
    else:
        words = f"{op} over {len(numbers) if count is None else count:,} elements{beyond}"
    return Birth("overflow", words, blame, "large")


def _zero(op: str, numbers: Numbers, terms: Numbers | None, count: int | None) -> Birth:
    sample = " and ".join(map(number_text, numbers[:2]))
    if not len(numbers):
        return Birth("filled in", f"{op} fills in a zero here")
    effects = traits_of(op).effects
    if "clips" in effects:
        return Birth("clipped", f"{op} of {sample}", 0, "outside")
    if "rounds" in effects:
        return Birth("rounded to zero", f"{op} of {sample}", 0, "small")
    if "adds" in effects and (terms is None or any(state_of(term) != "zero" for term in terms)):
        summed = sample
        if terms is not None and len(terms) > 2:
            summed = f"{len(terms) if count is None else count:,} terms cancel"
        return Birth("cancellation", f"{op}: {summed}", -1)
    if op == "softmax" and len(numbers) > 1:
        beside = number_text(max(numbers, key=_real))
        return Birth(
            "underflow", f"softmax of {number_text(numbers[0])} beside {beside}", 0, "small"
        )
    if op in ("exp", "exp2", "sigmoid", "softmax"):
        return Birth("underflow", f"{op} of {sample}", 0, "large")
    if op in ("multiply", "divide", "square", "power", "astype", "prod", "reciprocal", "matmul"):
        return Birth("underflow", f"{op} of {sample}", int(np.argmin(np.abs([_real(n) for n in
                     numbers]))) if op != "divide" else 0, "small")  # fmt: skip
    return Birth("zero", f"{op} of {sample} is zero")


def _real(number: Any) -> float:
    try:
        return float(complex(number).real)
    except (TypeError, ValueError):
        return math.nan


def _size(number: Any) -> float:
    return abs(complex(number))


def _largest(dtype: str) -> str:
    kind = as_dtype(dtype)
    if kind.kind not in "fc" and dtype != "bfloat16":
        return ""
    return {"bfloat16": "3.39e+38"}.get(dtype) or f"{float(np.finfo(kind).max):.6g}"
