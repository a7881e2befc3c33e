"""Slopes of zero: a gradient ends where a function is flat at its input.

In a backward pass, a ``where`` replaces the incoming gradient by a constant zero, selected by a
comparison of the forward pass's number. That comparison is followed here instead of the constant.
The same applies to a number that is limited by a ``maximum`` with zero.

Invariant: only chooses the operand to follow and the words; reads only the opened node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from nodescope.debug.why import effects, operand_ranking
from nodescope.debug.why.nonfinite_origins import Birth, number_text, state_of
from nodescope.debug.why.operand_ranking import Candidate
from nodescope.debug.why.value_tracing import Opened
from nodescope.ops.reading import ElementDependence

_BACKWARD: Final = ("backward", "recompute")
_LOGICAL: Final = frozenset({"logical_or", "logical_and", "logical_not", "logical_xor"})
_LIMITS: Final = frozenset({"maximum", "minimum"})


class Step(NamedTuple):
    """The explanation of a node, and the operand to follow.

    Attributes:
        birth: How the zero arose; None if another node decided it.
    """

    words: str
    birth: Birth | None
    followed: list[Candidate]


def slope_step(
    opened: Opened,
    derivation: ElementDependence,
    candidates: list[Candidate],
    out: object,
    named: Callable[[Candidate], str],
    op_of: Callable[[Candidate], str],
) -> Step | None:
    """The step from a zero to the reason for the zero slope; None if this node is not such a case.

    Args:
        opened: The node.
        derivation: The operand elements that its element depends on.
        candidates: The operands' elements.
        out: The node's element.
        named, op_of: Return an operand's name, and the op that produced it.
    """
    node, op = opened.node, opened.node.op
    backward = node.phase in _BACKWARD
    traced = [candidate for candidate in candidates if opened.points[candidate.port] is not None]
    if isinstance(out, bool | np.bool_):
        traced.sort(key=lambda candidate: op_of(candidate) not in effects.COMPARISONS)
        return _of_test(op, candidates, traced, out, backward)
    if state_of(out) != "zero":
        return None
    if op in _LIMITS and len(candidates) == 2 and len(traced) == 1:
        number = traced[0].number
        if state_of(number) != "finite":
            return None
        words = f"{op} limits {number_text(number)} to 0, and its slope is 0 there"
        return Step(words, Birth("clipped", words, candidates.index(traced[0]), "outside"), traced)
    if op == "where" and not traced:
        selectors = [
            Candidate(read.port, int(read.at[0]), _element(opened, read.port, int(read.at[0])))
            for read in derivation.reads
            if read.selects and read.at.size == 1 and opened.points[read.port] is not None
        ]
        if selectors:
            says = number_text(selectors[0].number)
            if not backward:
                # Follow only a comparison: another mask, which may hide a NaN, must not lead to it.
                compared = op_of(selectors[0]) in effects.COMPARISONS
                words = f"where puts 0 here, since {named(selectors[0])} is {says}"
                return Step(words, Birth("chosen", words, -1), selectors[:compared])
            words = f"where lets nothing through: {named(selectors[0])} is {says}"
            return Step(words, None, selectors[:1])
    return None


def _element(opened: Opened, port: int, position: int) -> object:
    number: object = operand_ranking.element(np.asarray(opened.args[port]), position)
    return number


def _of_test(
    op: str, candidates: list[Candidate], traced: list[Candidate], out: object, backward: bool
) -> Step | None:
    if not traced:
        return None
    if op in _LOGICAL and backward:
        # In ``isnan(x) or x > 0``, the comparison says more, so it comes first.
        numbers = " and ".join(number_text(candidate.number) for candidate in candidates)
        return Step(f"{op} of {numbers}", None, traced)
    dtype = np.dtype(bool)
    numbers_of = [candidate.number for candidate in candidates]
    says = effects.effect_of(op, numbers_of, out, dtype)
    if not says:
        return None
    if not backward:
        return Step(says, Birth("test", says, candidates.index(traced[0])), traced[:1])
    words = f"{says}, so the slope is 0 here"
    return Step(words, Birth("slope of zero", words, candidates.index(traced[0]), "outside"),
                traced[:1])  # fmt: skip
