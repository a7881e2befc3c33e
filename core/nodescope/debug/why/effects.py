"""Effects of an op that its operands alone do not show: numbers lost, limited or cut off.

Invariant: numbers in, words out; nothing here knows about recordings. The words are ``""`` if there
was no such effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.debug.why.nonfinite_origins import number_text

Array = np.ndarray[Any, Any]

_LIMITS = ("clip", "maximum", "minimum", "relu6", "hardtanh", "hardsigmoid")
_SATURATES = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "erf": (-1.0, 1.0)}
COMPARISONS = {
    "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==",
    "not_equal": "!=",
}  # fmt: skip
_LABELLED = {"cross_entropy": (0, -1, 1), "nll_loss": (0, -1, 1), "embedding": (0, 0, 1)}
"""By op: the input that the labels index, its axis, and the input that holds the labels."""


def effect_of(op: str, numbers: Sequence[Any], out: Any, dtype: np.dtype[Any]) -> str:
    """The side effect of an elementwise op on its operands, as a phrase, or ``""``.

    Args:
        op: The op's name.
        numbers: The operands' elements by port.
        out: The output's element.
        dtype: The output's dtype.
    """
    if not numbers or any(not _is_real(number) for number in (*numbers, out)):
        return ""
    first, result = numbers[0], out
    if op in ("add", "subtract") and len(numbers) == 2:
        return _absorbed(op, numbers, result, dtype)
    if op == "floor_divide" and len(numbers) == 2 and float(numbers[1]):
        exact = float(first) / float(numbers[1])
        if exact != float(result):
            return (
                f"{number_text(first)} // {number_text(numbers[1])} is {number_text(result)}: "
                f"the fraction of {number_text(exact)} is dropped"
            )
    if op == "astype" and dtype.kind in "iu":
        return _converted(first, result, dtype)
    if op in _LIMITS and float(result) != float(first):
        return f"{op} limits {number_text(first)} to {number_text(result)}"
    if op in _SATURATES and float(result) in _SATURATES[op] and float(result) != float(first):
        return (
            f"{op} of {number_text(first)} is saturated at {number_text(result)}: "
            "its derivative is 0 here"
        )
    if op in COMPARISONS and len(numbers) == 2:
        sign = COMPARISONS[op]
        truth = "true" if bool(result) else "false"
        return f"{number_text(first)} {sign} {number_text(numbers[1])} is {truth}"
    return ""


def _absorbed(op: str, numbers: Sequence[Any], out: Any, dtype: np.dtype[Any]) -> str:
    one, other = (float(number) for number in numbers)
    if float(out) == one and other:
        return absorbed(one, other, dtype)
    if float(out) == other and one and op == "add":
        return absorbed(other, one, dtype)
    return ""


def absorbed(number: float, amount: float, dtype: np.dtype[Any]) -> str:
    """Why adding an amount to a number changes nothing, in words; ``""`` if it changes it."""
    if dtype.kind != "f" or not amount or not math.isfinite(number):
        return ""
    typed = dtype.type(number)
    if typed + dtype.type(amount) != typed and typed - dtype.type(amount) != typed:
        return ""
    spacing = abs(float(np.spacing(typed)))
    return (
        f"{number_text(abs(amount))} is lost beside {number_text(number)}, where {dtype.name} "
        f"numbers are {number_text(spacing)} apart"
    )


def _converted(number: Any, out: Any, dtype: np.dtype[Any]) -> str:
    value = float(number)
    if not math.isfinite(value) or value == float(out):
        return ""
    if math.trunc(value) == int(out):
        return f"astype drops the fraction of {number_text(number)}"
    return f"astype: {number_text(number)} does not fit {dtype.name} and becomes {int(out)}"


def _is_real(number: Any) -> bool:
    try:
        float(number)
    except (TypeError, ValueError):
        return False
    return not isinstance(number, complex | np.complexfloating)


def masked_row(op: str, index: tuple[int, ...], axis: int) -> str:
    """A phrase for a fully masked row of a softmax: ``row 1 is wholly masked``."""
    if op not in ("softmax", "log_softmax", "logsumexp") or not index:
        return ""
    rest = [i for place, i in enumerate(index) if place != axis % len(index)]
    if not rest:
        return "all of it is masked"
    text = str(rest[0]) if len(rest) == 1 else f"[{', '.join(map(str, rest))}]"
    return f"row {text} is wholly masked"


def out_of_range(op: str, arrays: Sequence[Array]) -> str:
    """A phrase for labels or indices out of range: ``3 of 64 labels are out of range``."""
    if op not in _LABELLED:
        return ""
    counted, axis, labelled = _LABELLED[op]
    if max(counted, labelled) >= len(arrays) or not arrays[counted].ndim:
        return ""
    labels = arrays[labelled]
    if labels.dtype.kind not in "iu":
        return ""
    count = arrays[counted].shape[axis]
    wrong = int(np.sum((labels < 0) | (labels >= count)))
    if not wrong:
        return ""
    noun = "indices" if op == "embedding" else "labels"
    verb = "is" if wrong == 1 else "are"
    return (
        f"{wrong:,} of {labels.size:,} {noun} {verb} out of range: they run from 0 to {count - 1}"
    )


def alike_words(state: str, matching: int, total: int) -> str:
    """A phrase for several such operands: ``all 12 operands are nan``; ``""`` for at most one."""
    if matching <= 1:
        return ""
    if matching == total:
        return f"all {total:,} operands are {state}"
    return f"{matching:,} of {total:,} operands are {state}"
