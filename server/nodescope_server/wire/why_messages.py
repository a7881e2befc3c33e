"""The wire's part on why a number is what it is, and on what would be if it were another one.

Invariant: as in `wire`. Numbers of elements travel as they are read out, so that integers beyond
2^53, truth values and complex numbers need no form of their own; ``state`` says what kind it is.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nodescope.debug.why.answer import Kind
from nodescope.ir.graph import Phase
from nodescope.protocol import SetValue
from nodescope.record.summary import TensorSummary

NumberState = Literal["nan", "inf", "zero", "finite", "unknown"]

# ---------------------------------------------------------------- requests


class AskWhy(msgspec.Struct, frozen=True, tag="ask_why"):
    """Why an element is what it is.

    Attributes:
        value: Value id.
        index: The element; None for ``which``.
        which: ``nan inf nonfinite zero max min``: all elements that are so. ``""`` for the first
            NaN, else the first Inf, else the largest.
        seq: The moment; None for the latest.
    """

    run: str
    value: int
    index: tuple[int, ...] | None = None
    which: str = ""
    seq: int | None = None


class AskSpread(msgspec.Struct, frozen=True, tag="ask_spread"):
    """What NaN and Inf did in a training step."""

    run: str
    step: int


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Run again what depends on a value, with another content of it.

    Attributes:
        seq: The moment at which the value is taken; None for the latest.
        edit: Of a value at that moment.
        name: Of the branch; ``""`` for the edit in words.
        parent: Id of a branch to start from; 0 for what was recorded.
        steps: How many training steps beyond the moment's own are run again; None for all that
            are recorded. A branch goes at least as far as its parent.
    """

    run: str
    seq: int | None
    edit: SetValue
    name: str = ""
    parent: int = 0
    steps: int | None = 0


class GetBranches(msgspec.Struct, frozen=True, tag="get_branches"):
    """All branches of a run."""

    run: str


class GetBranch(msgspec.Struct, frozen=True, tag="get_branch"):
    """What is another one in a branch."""

    run: str
    branch: int


class RenameBranch(msgspec.Struct, frozen=True, tag="rename_branch"):
    """Call a branch something else."""

    run: str
    branch: int
    name: str


class DropBranch(msgspec.Struct, frozen=True, tag="drop_branch"):
    """Throw a branch away, with those that were forked from it."""

    run: str
    branch: int


# ---------------------------------------------------------------- answers


class WhyOperand(msgspec.Struct, frozen=True):
    """An element that another one is made from.

    Attributes:
        at: Its index; None for a number that the program wrote down.
        term: What it adds, where the result is a sum; or ``""``.
        share: Of the result, from 0 to 1, where that is a sum.
        selects: It only says what is taken.
    """

    name: str
    at: tuple[int, ...] | None
    number: str
    state: NumberState
    term: str = ""
    share: float | None = None
    selects: bool = False


class WhyLink(msgspec.Struct, frozen=True):
    """One element of one value, and how it came to be.

    Attributes:
        kind: As `nodescope.debug.why.Cause` has it.
        name: Of the value; inside of a kernel, of the node there.
        node: Id of the node that ran; of a kernel, the kernel.
        number: What it is; ``""`` where it could not be had.
        how: ``recorded``, ``recomputed``, or ``in <kernel>``.
        others: How many operands are not listed.
        birth: Of a NaN, Inf or zero that was born here: how, in a short word.
        ranges: Of a birth: what is in the op's inputs.
        file, line, code: The user's line; ``""`` and 0 if unknown.
        culprit: This is what it comes from.
    """

    kind: Kind
    name: str
    op: str
    phase: Phase
    node: int
    value: int
    seq: int
    step: int
    at: tuple[int, ...]
    number: str
    state: NumberState
    how: str
    words: str
    operands: tuple[WhyOperand, ...]
    others: int
    birth: str
    ranges: tuple[str, ...]
    file: str
    line: int
    code: str
    culprit: bool


class WhyGroup(msgspec.Struct, frozen=True):
    """Elements with the same culprit.

    Attributes:
        count: How many of those that were followed.
        text: The whole of it in a sentence or two.
        links: The chain of the first of them, back in time.
    """

    count: int
    text: str
    links: tuple[WhyLink, ...]


class WhyAnswer(msgspec.Struct, frozen=True, tag="why"):
    """Where elements come from.

    Attributes:
        elements, followed: How many were meant, and how many of them were followed.
    """

    value: int
    seq: int
    elements: int
    followed: int
    groups: tuple[WhyGroup, ...]


class BornValue(msgspec.Struct, frozen=True):
    """A node that made NaN or Inf of finite operands.

    Attributes:
        at: The first such element; None if no array could be had.
        reached: How many nodes of the step have it from here.
        source: The user's line, or ``""``.
    """

    name: str
    node: int
    seq: int
    at: tuple[int, ...] | None
    kind: str
    words: str
    ranges: tuple[str, ...]
    reached: int
    source: str


class HealedValue(msgspec.Struct, frozen=True):
    """A node that took NaN or Inf, and gave none."""

    name: str
    node: int
    seq: int
    words: str


class SpreadAnswer(msgspec.Struct, frozen=True, tag="spread"):
    """What NaN and Inf did in a step.

    Attributes:
        executions, touched, known: How many operations ran and gave such values, and how many
            executions have statistics.
        births: The first ones; the first of them is the first culprit.
        born, healed: How many there are of either; ``heals`` are the first ones.
    """

    step: int
    executions: int
    touched: int
    known: int
    births: tuple[BornValue, ...]
    born: int
    heals: tuple[HealedValue, ...]
    healed: int


class BranchInfo(msgspec.Struct, frozen=True):
    """A branch in the tree.

    Attributes:
        parent: Id of the branch that it was forked from; 0 for what was recorded.
        step, seq: The moment at which it was forked.
        last_step: The last training step that was run again.
        edit: What was changed, in words.
        node: Id of the node whose value was changed.
        changed, same, blocked: Nodes that give something else, the same bits as before, and that
            could not be run again.
        nbytes: Of the arrays that are others.
    """

    id: int
    name: str
    parent: int
    step: int
    last_step: int
    seq: int
    edit: str
    node: int
    changed: int
    same: int
    blocked: int
    nbytes: int


class ChangedValue(msgspec.Struct, frozen=True):
    """A value that is another one in a branch.

    Attributes:
        seq, step: The execution that wrote it.
        old, new: In what the branch was forked from, and in the branch.
        differ, size: How many elements differ, of how many.
        largest: The largest absolute difference of finite elements; None where there is none.
        at: Where; the first element that differs if there is no largest difference.
        before, after: That element.
        edited: It was set, not computed.
    """

    name: str
    node: int
    value: int
    seq: int
    step: int
    phase: Phase
    old: TensorSummary
    new: TensorSummary
    differ: int
    size: int
    largest: float | None
    at: tuple[int, ...]
    before: str
    after: str
    edited: bool


class BlockedNode(msgspec.Struct, frozen=True):
    """A node that depends on an edit and could not be run again."""

    name: str
    node: int
    seq: int
    reason: str


class BranchList(msgspec.Struct, frozen=True, tag="branches"):
    """The branches of a run, each after the one that it was forked from.

    Attributes:
        notes: Why branches could not be read or kept, in words.
    """

    branches: tuple[BranchInfo, ...]
    notes: tuple[str, ...] = ()


class BranchAnswer(msgspec.Struct, frozen=True, tag="branch"):
    """What is another one in a branch.

    Attributes:
        changes: In the order of the run, the edited value first; of too many, scalars and the
            first ones.
        unlisted: How many more there are.
        blocked: The first of those that could not be run.
        redone: What was run again and what was not, in words.
        changed_values: All that changed, listed or not: each node and value, once.
        blocked_nodes: All nodes that could not be run, each once.
    """

    info: BranchInfo
    changes: tuple[ChangedValue, ...]
    unlisted: int
    blocked: tuple[BlockedNode, ...]
    redone: str
    changed_values: tuple[tuple[int, int], ...]
    blocked_nodes: tuple[int, ...]


Requests = AskWhy | AskSpread | Fork | GetBranches | GetBranch | RenameBranch | DropBranch
Answers = WhyAnswer | SpreadAnswer | BranchList | BranchAnswer
