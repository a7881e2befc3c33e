"""Wire messages for *why*, the origin of a number, and for *what-if*.

Invariant: as in `wire`. Numbers are sent as text, so that integers beyond 2^53, truth values and
complex numbers need no special form; ``state`` gives the kind.
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
    """Get the origin of an element.

    Attributes:
        value: Value id.
        index: The element; None for ``which``.
        which: ``nan inf nonfinite zero max min``: all elements of that kind. ``""`` for the first
            NaN, else the first Inf, else the largest.
        seq: The moment; None for the latest.
        branch: The what-if branch in which it is asked; 0 for the recorded run.
    """

    run: str
    value: int
    index: tuple[int, ...] | None = None
    which: str = ""
    seq: int | None = None
    branch: int = 0


class AskSpread(msgspec.Struct, frozen=True, tag="ask_spread"):
    """Get the history of NaN and Inf in a training step."""

    run: str
    step: int


class WhatIf(msgspec.Struct, frozen=True, tag="what_if"):
    """Rerun the dependents of a value, with another content.

    Attributes:
        seq: The moment of the value; None for the latest.
        edit: The edit of a value at that moment.
        name: The name of the branch; ``""`` for the description of the edit.
        parent: Id of a branch to start from; 0 for the recorded run.
        steps: Number of training steps to rerun beyond the moment's own; None for all recorded
            ones. A branch goes at least as far as its parent.
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
    """Get the changes in a branch."""

    run: str
    branch: int


class RenameBranch(msgspec.Struct, frozen=True, tag="rename_branch"):
    """Rename a branch."""

    run: str
    branch: int
    name: str


class DropBranch(msgspec.Struct, frozen=True, tag="drop_branch"):
    """Delete a branch, with its descendants."""

    run: str
    branch: int


# ---------------------------------------------------------------- answers


class WhyOperand(msgspec.Struct, frozen=True):
    """An element that another one depends on.

    Attributes:
        at: Its index; None for a literal number in the program, and for a value as a whole.
        number: The element; ``""`` for a value as a whole.
        term: Its term, if the result is a sum; or ``""``.
        share: Its share of the result, from 0 to 1, if that is a sum.
        selects: Whether it only selects.
    """

    name: str
    at: tuple[int, ...] | None
    number: str
    state: NumberState
    term: str = ""
    share: float | None = None
    selects: bool = False


class WhyLink(msgspec.Struct, frozen=True):
    """One element of one value, and its cause.

    Attributes:
        kind: As in `nodescope.debug.why.Cause`.
        name: The value's name; inside a kernel, the node's.
        node: Id of the executed node; for a kernel, the kernel's.
        number: The element; ``""`` if unavailable.
        how: ``recorded``, ``recomputed``, ``in <kernel>`` or ``in the branch``.
        recorded: The element in the recorded run, if it differs in the branch; else ``""``.
        error: Of an operation that raised: its message.
        others: Number of operands not listed.
        birth: For a NaN, Inf or zero that arose here: how, in a short word.
        ranges: For such an origin: the contents of the op's inputs.
        file, line, code: The user's line; ``""`` and 0 if unknown.
        culprit: Whether this is the origin.
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
    error: str = ""
    recorded: str = ""


class WhyGroup(msgspec.Struct, frozen=True):
    """Elements with the same culprit.

    Attributes:
        count: Number of followed elements in the group.
        text: A summary in a sentence or two.
        links: The chain of the first element, back in time.
    """

    count: int
    text: str
    links: tuple[WhyLink, ...]


class WhyAnswer(msgspec.Struct, frozen=True, tag="why"):
    """The origin of elements.

    Attributes:
        elements, followed: Number of elements requested, and of those followed.
        branch: The branch in which one of them differs from the recorded run; 0 for none.
    """

    value: int
    seq: int
    elements: int
    followed: int
    groups: tuple[WhyGroup, ...]
    branch: int = 0


class BornValue(msgspec.Struct, frozen=True):
    """A node that made NaN or Inf from finite operands.

    Attributes:
        at: The first such element; None if no array is available.
        label: What it is among those of the step: ``first culprit``, ``healed`` …
        reached: The nodes that it reached, in words: ``reached 4 nodes, the loss among them``.
        source: The user's line, or ``""``.
    """

    name: str
    node: int
    seq: int
    at: tuple[int, ...] | None
    kind: str
    words: str
    ranges: tuple[str, ...]
    label: str
    reached: str
    source: str


class HealedValue(msgspec.Struct, frozen=True):
    """A node that took NaN or Inf, but returned none."""

    name: str
    node: int
    seq: int
    words: str


class SpreadAnswer(msgspec.Struct, frozen=True, tag="spread"):
    """The history of NaN and Inf in a step.

    Attributes:
        executions, touched, known: Numbers of operations that ran, that returned such values, and
            of executions with statistics.
        births: The first origins; the first one is the culprit.
        born, healed: Numbers of both; ``heals`` lists the first ones.
        others: All births except the first, in words.
    """

    step: int
    executions: int
    touched: int
    known: int
    births: tuple[BornValue, ...]
    born: int
    heals: tuple[HealedValue, ...]
    healed: int
    others: str


class BranchInfo(msgspec.Struct, frozen=True):
    """A branch in the tree.

    Attributes:
        parent: Id of the parent branch; 0 for the recorded run.
        step, seq: The moment at which it starts.
        last_step: The last training step that was rerun.
        edit: Description of the edit.
        node: Id of the node whose value was changed.
        changed, same, blocked: Numbers of nodes whose results changed, stayed bit-identical, and
            that could not be rerun.
        nbytes: Size of the arrays that changed.
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
    """A value that differs in a branch.

    Attributes:
        seq, step: The execution that wrote it.
        old, new: The value in the branch's parent, and in the branch.
        differ, size: Number of elements that differ, and total number.
        largest: The largest absolute difference of finite elements; None if there is none.
        at: Its index; that of the first differing element if there is no largest difference.
        before, after: That element.
        edited: Whether it was set rather than computed.
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
    """A node that depends on an edit and could not be rerun."""

    name: str
    node: int
    seq: int
    reason: str


class BranchList(msgspec.Struct, frozen=True, tag="branches"):
    """The branches of a run, each after its parent.

    Attributes:
        notes: Why branches could not be read or stored.
    """

    branches: tuple[BranchInfo, ...]
    notes: tuple[str, ...] = ()


class BranchAnswer(msgspec.Struct, frozen=True, tag="branch"):
    """The changes in a branch.

    Attributes:
        changes: In the order of the run, the edited value first; if too many, scalars and the first
            ones.
        unlisted: Number of further changes.
        blocked: The first nodes that could not be rerun.
        redone: A description of what was rerun and what was not.
        changed_values: All changed values, listed or not: each node and value, once.
        blocked_nodes: All nodes that could not be rerun, each once.
    """

    info: BranchInfo
    changes: tuple[ChangedValue, ...]
    unlisted: int
    blocked: tuple[BlockedNode, ...]
    redone: str
    changed_values: tuple[tuple[int, int], ...]
    blocked_nodes: tuple[int, ...]


Requests = AskWhy | AskSpread | WhatIf | GetBranches | GetBranch | RenameBranch | DropBranch
Answers = WhyAnswer | SpreadAnswer | BranchList | BranchAnswer
