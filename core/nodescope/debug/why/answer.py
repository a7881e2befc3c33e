"""Answers: a chain of causes as data.

Invariant: frozen; rendering needs no further lookups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nodescope.debug.why.nonfinite_origins import Birth, state_of
from nodescope.ir.graph import Phase, SourceLocation

Kind = Literal[
    "leaf", "birth", "passed", "computed", "updated", "missing", "limit", "raised", "set"
]  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """An operand's element from which another element is computed.

    Attributes:
        name: The value's name, or the text of a Python scalar.
        port: The input port of the op.
        at: The element's index; None for a Python scalar or a whole value.
        number: The element's content; None for a whole value.
        term: The term that it adds, if the result is a sum.
        share: Its share of a sum, from 0 to 1. The share of a product within the sum is given at
            the product's first factor only.
        selects: Whether it only selects which element is taken.
    """

    name: str
    port: int
    at: tuple[int, ...] | None
    number: Any
    term: Any = None
    share: float | None = None
    selects: bool = False


@dataclass(frozen=True)
class Cause:
    """One element of one value, and its origin.

    Attributes:
        kind: ``birth`` (NaN, Inf or zero computed from operands that are not), ``passed`` (the
            same kind of number as an operand), ``computed`` (any other number), ``updated`` (a
            weight changed by an optimizer), ``leaf`` (it entered the graph here), ``missing`` (the
            recording lacks data), ``limit`` (not followed further), ``raised`` (the operation
            raised, so there is no element) or ``set`` (edited in a what-if branch).
        name: The value's name.
        op, phase: Op and phase of the node that produced it.
        value, seq, step: Value id, and seq and step of the execution that wrote it.
        at, number: Index and content of the element; ``()`` and None if unavailable.
        recorded: The element in the recorded run, if it differs in the branch.
        how: ``recorded``, ``recomputed``, ``in <kernel>`` or ``in the branch``.
        words: An explanation; for an operation that raised, in addition to the error.
        error: The message of an operation that raised, else ``""``.
        birth: For a birth: how the number arose.
        operands: The most important operands; ``others`` counts those not listed.
        ranges: For a birth: descriptions of the op's inputs.
        source, line: The user's line, and its text.
        causes: The causes of the operands that were followed.
    """

    kind: Kind
    name: str
    op: str
    phase: Phase
    value: int
    seq: int
    step: int
    at: tuple[int, ...] = ()
    number: Any = None
    recorded: Any = None
    how: str = ""
    words: str = ""
    error: str = ""
    birth: Birth | None = None
    operands: tuple[Operand, ...] = ()
    others: int = 0
    ranges: tuple[str, ...] = ()
    source: SourceLocation | None = None
    line: str = ""
    causes: tuple[Cause, ...] = ()

    @property
    def is_nonfinite(self) -> bool:
        """Whether the element is NaN or Inf."""
        return state_of(self.number) in ("nan", "inf")

    def chain(self) -> list[Cause]:
        """This cause, its first cause, the first cause of that, and so on."""
        links = [self]
        while links[-1].causes:
            links.append(links[-1].causes[0])
        return links

    def culprit(self) -> Cause:
        """The cause to blame: a birth, a leaf, or the point where the data ends.

        For a NaN computed from an Inf, the birth of the Inf is to blame. The same holds for a birth
        from finite numbers that were themselves computed from NaN, such as a count of elements that
        compare equal. An operation that raised is itself to blame, unless an input has NaN or Inf.
        """
        best = self if self.kind == "raised" else None
        chain = self.chain()
        if chain[-1].kind == "set":
            return chain[-1]
        broken = [cause.is_nonfinite for cause in chain]
        if best is not None and not any(broken[1:2]):
            return best
        for at, cause in enumerate(chain):
            behind = any(broken[at + 1 :])
            if best is not None and not broken[at] and at and not behind:
                return best
            if cause.birth is not None:
                best = cause
                if cause.birth.trait != "infinite" and not behind:
                    return best
        end = chain[-1]
        return end if best is None or end.kind in ("leaf", "missing", "limit") else best


@dataclass(frozen=True)
class Why:
    """The answer to a ``why`` query.

    Attributes:
        target: The target's text.
        elements: The number of elements that the target selects.
        followed: The number of elements that were followed.
        groups: One entry per culprit: the number of elements, and the cause of the first one.
        note: A remark on the chosen step, or ``""``.
    """

    target: str
    elements: int
    followed: int
    groups: tuple[tuple[int, Cause], ...]
    note: str = ""

    @property
    def root(self) -> Cause:
        """The cause of the first element."""
        return self.groups[0][1]

    @property
    def culprit(self) -> Cause:
        """The cause to blame for the first element."""
        return self.root.culprit()
