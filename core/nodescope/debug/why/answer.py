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
    """An element that another one is made from.

    Attributes:
        name: The value's, or the text of a Python scalar.
        port: Of the op.
        at: Its index; None for a Python scalar, and for a value as a whole.
        number: What it is; None for a value as a whole.
        term: What it adds to the result, where that is a sum.
        share: Of the result, from 0 to 1, where that is a sum; of a product in it, at the first of
            its factors.
        selects: It only says what is taken.
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
        kind: ``birth`` (NaN, Inf or zero of operands that are none), ``passed`` (on from an
            operand), ``computed`` (any other number), ``updated`` (a
            weight, by its gradient), ``leaf`` (it entered here), ``missing`` (the
            recording does not hold enough), ``limit`` (followed no further), ``raised`` (there
            is no element: the operation raised) or ``set`` (by the edit of a what-if branch).
        name: Of the value.
        op, phase: Of the node that made it.
        value, seq, step: Which value, written by which execution, in which step.
        at, number: Which element, and what it is; None where it could not be had.
        recorded: What it is in the recorded run, if the branch has another one.
        how: ``recorded``, ``recomputed``, ``in <kernel>`` or ``in the branch``.
        words: What happened here; of an operation that raised, besides the error.
        error: Of an operation that raised: its message.
        birth: Of a birth: how.
        operands: What matters, first; ``others`` are not listed.
        ranges: Of a birth: what is in the op's inputs.
        source, line: The user's line, and its text.
        causes: The operands that are followed.
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
        """This cause, its own first cause, and so on."""
        links = [self]
        while links[-1].causes:
            links.append(links[-1].causes[0])
        return links

    def culprit(self) -> Cause:
        """The end of the chain: a birth, a leaf, or where nothing more is known.

        A NaN that was born of an Inf is the fault of what made the Inf, and so is one of numbers
        that were made of NaN, such as of a count of elements that compare equal. An operation that
        raised is at fault itself, unless it was given NaN or Inf.
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
    """The answer.

    Attributes:
        target: The target's text.
        elements: How many elements were meant.
        followed: How many of them were followed.
        groups: Those with the same culprit together: how many, and the cause of the first.
        note: What else is known of the moment, or ``""``.
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
        """Where the first element's chain ends."""
        return self.root.culprit()
