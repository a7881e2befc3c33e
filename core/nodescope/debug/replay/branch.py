"""Branches: what would have been, had a value been another one.

From the edited execution on, every execution with a changed input is run again, in the order of the
run; one that gives the same bits as before changes nothing further.

Invariant: a branch is made once and then only read. What could not be run is listed with its
reason, and so is what depends on it.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nodescope.debug.replay.arrays import Difference, difference
from nodescope.debug.replay.book import Source
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.record.rows import EditRow, Execution

if TYPE_CHECKING:
    from nodescope.debug.replay.replay import Replay

MOST_CHANGED_BYTES = 1 << 29
"""Bytes of changed values, old and new, that one branch may make."""

Key = tuple[int, int]
"""A value and the seq of the execution that wrote it."""


class Change(NamedTuple):
    """A value that is another one in a branch.

    Attributes:
        node: Name of the node that makes it.
        value, seq: Which value, of which execution.
        old, new: Before, in the branch or recording it was forked from, and now.
        edited: It was set, not computed.
    """

    node: str
    value: int
    seq: int
    old: Array
    new: Array
    edited: bool = False

    @property
    def difference(self) -> Difference:
        """How far old and new are apart."""
        found = difference(self.old, self.new, self.node, self.value, self.seq)
        return found or Difference(self.node, self.value, self.seq, 0, self.new.size)


class Blocked(NamedTuple):
    """A node that depends on an edit and could not be run."""

    node: str
    seq: int
    reason: str


@dataclass(frozen=True)
class Branch:
    """The values that an edit changed.

    Attributes:
        name: Its own.
        step: The training step it was forked in.
        parent: The branch that it was forked from, or None.
        until: The last seq that was run.
        changes: In the order of the run, the edited values first.
        same: Nodes that ran again and gave what they had given.
        blocked: Nodes that could not be run.
        overlay: Every array that is another one than recorded, those of the parent included.
    """

    name: str
    step: int
    parent: str | None
    until: int
    changes: tuple[Change, ...]
    same: tuple[str, ...]
    blocked: tuple[Blocked, ...]
    overlay: Mapping[Key, Array] = field(repr=False)

    def value(self, value: int) -> Change | None:
        """The last change of a value; None if the branch leaves it as it was."""
        found = [each for each in self.changes if each.value == value]
        return found[-1] if found else None

    def digest(self) -> bytes:
        """Of every array that is another one: the same only where all bits are."""
        found = hashlib.blake2b(digest_size=16)
        for each in self.changes:
            array = np.ascontiguousarray(each.new)
            found.update(repr((each.value, each.seq, array.dtype.str, array.shape)).encode())
            found.update(array.tobytes())
        return found.digest()

    def describe(self) -> dict[str, Any]:
        """The branch as plain data: names and numbers, no arrays."""
        return {
            "name": self.name,
            "step": self.step,
            "parent": self.parent,
            "until": self.until,
            "edits": [_told(each) for each in self.changes if each.edited],
            "changes": [_told(each) for each in self.changes if not each.edited],
            "same": list(self.same),
            "blocked": [each._asdict() for each in self.blocked],
        }


def _told(change: Change) -> dict[str, Any]:
    found = change.difference
    return {
        "node": change.node,
        "value": change.value,
        "seq": change.seq,
        "shape": list(change.new.shape),
        "dtype": change.new.dtype.name,
        "differ": found.count,
        "size": found.size,
        "largest": found.largest,
        "first": {"at": list(found.at), "old": repr(found.one), "new": repr(found.other)},
    }


def grow(
    replay: Replay, name: str, edits: Mapping[int, Any], until: int, base: Branch | None
) -> Branch:
    """Make a branch; see `Replay.fork`.

    Raises:
        ReplayError: An edit does not fit its value.
    """
    overlay: dict[Key, Array] = dict(base.overlay) if base is not None else {}
    changed: set[Key] = set()
    changes: list[Change] = []
    same: list[str] = []
    blocked: list[Blocked] = []
    stuck: dict[Key, str] = {}
    made = 0
    for value, given in edits.items():
        source = replay.book.source(value, replay.last + 1)
        if source is None:
            raise ReplayError(f"value {value} was not computed up to here")
        node = replay.book.node(source.execution.node, source.execution.seq)
        old = _now(replay, overlay, source)
        new = fitted(given, old, node.name)
        key = (value, source.seq)
        changed.add(key)
        overlay[key] = new
        changes.append(Change(node.name, value, source.seq, old, new, edited=True))
    start = min((each.seq for each in changes), default=until)
    # By id alone: an operand may be of an execution before the latest.
    touched = {value for value, _ in (*overlay, *changed)}
    for execution in _happened(replay, start, until):
        if isinstance(execution, EditRow):
            by_hand = _by_hand(replay, execution, changed, stuck)
            if by_hand is not None:
                blocked.append(by_hand)
                stuck[execution.value, execution.seq] = f"{by_hand.node} was changed by hand before"
            continue
        node = replay.book.node(execution.node, execution.seq)
        try:
            sources = replay.book.sources(execution)
            if touched.intersection(node.inputs):
                sources = replay.sources(execution)
        except ReplayError:
            continue  # it did not run, or what it took is not known to depend on anything
        keys = [(each.value, each.seq) for each in sources]
        if not (changed.intersection(keys) or any(key in stuck for key in keys)):
            continue
        if any((value, execution.seq) in changed for value in node.outputs):
            continue  # it was edited itself
        try:
            for key in keys:
                if key in stuck:
                    raise ReplayError(stuck[key])
            if made > MOST_CHANGED_BYTES:
                raise ReplayError(
                    f"the changed values before it take {MOST_CHANGED_BYTES >> 20} MiB already"
                )
            arrays = [_now(replay, overlay, each) for each in sources]
            outputs = replay.run(execution, arrays)
            olds = [_now(replay, overlay, Source(v, execution)) for v in node.outputs]
        except ReplayError as error:
            reason = error.message
            blocked.append(Blocked(node.name, execution.seq, reason))
            stuck.update({(v, execution.seq): f"{node.name} could not be run"
                          for v in node.outputs})  # fmt: skip
            touched.update(node.outputs)
            continue
        before = len(changes)
        _compare(execution, node.name, node.outputs, olds, outputs, changed, overlay, changes, same)
        touched.update(each.value for each in changes[before:])
        made += sum(each.old.nbytes + each.new.nbytes for each in changes[before:])
    return Branch(
        name, replay.step, base.name if base is not None else None, until, tuple(changes),
        tuple(same), tuple(blocked), overlay,
    )  # fmt: skip


def _happened(replay: Replay, start: int, until: int) -> Iterator[Execution | EditRow]:
    """What ran and what a person changed in ``(start, until]``, in order."""
    edits = (each for each in replay.recording.edits(start) if each.seq <= until)
    ran = replay.recording.executions(start, until)
    return heapq.merge(ran, edits, key=lambda each: each.seq)


def _by_hand(
    replay: Replay, edit: EditRow, changed: set[Key], stuck: Mapping[Key, str]
) -> Blocked | None:
    """Why what a person made of a value is not known, if it would have been another value."""
    before = replay.book.source(edit.value, edit.seq)
    if before is None or (edit.value, edit.seq) in changed:
        return None
    key = (edit.value, before.seq)
    if key not in changed and key not in stuck:
        return None
    name = replay.book.values.get(edit.value, f"value {edit.value}")
    reason = f"changed by hand there ({edit.how}); of another value that makes what is not known"
    return Blocked(name, edit.seq, reason)


def _compare(
    execution: Execution,
    name: str,
    values: tuple[int, ...],
    olds: list[Array],
    outputs: tuple[Array, ...],
    changed: set[Key],
    overlay: dict[Key, Array],
    changes: list[Change],
    same: list[str],
) -> None:
    moved = False
    for value, old, new in zip(values, olds, outputs, strict=False):
        if difference(old, new, name, value, execution.seq) is None:
            continue
        moved = True
        key = (value, execution.seq)
        changed.add(key)
        overlay[key] = new
        changes.append(Change(name, value, execution.seq, old, new))
    if not moved:
        same.append(name)


def _now(replay: Replay, overlay: Mapping[Key, Array], source: Source) -> Array:
    found = overlay.get((source.value, source.seq))
    return found if found is not None else replay.written(source).array


def fitted(given: Any, old: Array, name: str) -> Array:
    """An edit as an array of the value's shape and dtype.

    Raises:
        ReplayError: Its shape is another one, or its dtype does not convert.
    """
    array = np.asarray(given)
    if array.shape != old.shape:
        raise ReplayError(f"{name} has shape {old.shape}; it cannot become {array.shape}")
    weak = isinstance(given, bool | int | float | complex)
    if not weak and not np.can_cast(array.dtype, old.dtype, "same_kind"):
        raise ReplayError(f"{name} is {old.dtype}; {array.dtype} does not fit into it")
    with np.errstate(all="ignore"):
        found = array.astype(old.dtype)
    found.flags.writeable = False
    return found
