"""Branches: what would have happened with a different value.

After the edited execution, every execution with a changed input is rerun, in the order of the run.
An execution whose results stay bit-identical has no further effect.

Invariant: a branch is computed once and then only read. Nodes that could not be rerun are listed
with the reason, and so is everything that depends on them.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nodescope.console_output import shape_words
from nodescope.debug.replay.arrays import Difference, difference
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.debug.replay.operand_sources import same
from nodescope.debug.replay.replay_view import ReplayView
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.ir.graph import Node
from nodescope.record.rows import FAILED, EditRow, Execution

MOST_CHANGED_BYTES = 1 << 29
"""The limit on bytes of changed values, old and new, of one branch."""

Key = tuple[int, int]
"""A value and the seq of the execution that wrote it."""


class ChangedValue(NamedTuple):
    """A value that differs in a branch.

    Attributes:
        node: The name of the node that produces it.
        value, seq: Value id, and the seq of the execution that wrote it.
        old, new: The array in the parent branch or recording, and in this branch.
        edited: Whether the value was set by an edit rather than computed.
    """

    node: str
    value: int
    seq: int
    old: Array
    new: Array
    edited: bool = False

    @property
    def difference(self) -> Difference:
        """The difference between the old and the new array."""
        gap = difference(self.old, self.new, self.node, self.value, self.seq)
        return gap or Difference(self.node, self.value, self.seq, 0, self.new.size)


class Blocked(NamedTuple):
    """A node that depends on an edit and could not be rerun."""

    node: str
    seq: int
    reason: str


@dataclass(frozen=True)
class Branch:
    """The values that an edit changed.

    Attributes:
        name: The branch's name.
        step: The training step in which it starts.
        parent: The name of the branch that it starts from, or None.
        until: The last seq that was rerun.
        changes: The changed values in the order of the run, edited values first.
        same: The names of rerun nodes whose results did not change.
        blocked: The nodes that could not be rerun.
        overlay: The arrays that replace recorded ones, including the parent's.
        stuck: The reason for each value that could not be computed, including the parent's.
        edited: The previous array of each edited value, including the parent's.
    """

    name: str
    step: int
    parent: str | None
    until: int
    changes: tuple[ChangedValue, ...]
    same: tuple[str, ...]
    blocked: tuple[Blocked, ...]
    overlay: Mapping[Key, Array] = field(repr=False)
    stuck: Mapping[Key, str] = field(repr=False, default_factory=dict)
    edited: Mapping[Key, Array] = field(repr=False, default_factory=dict)

    def value(self, value: int) -> ChangedValue | None:
        """The last change of a value; None if the branch does not change it."""
        changes = [change for change in self.changes if change.value == value]
        return changes[-1] if changes else None

    def digest(self) -> bytes:
        """A digest of the changes: equal only if the same values changed to the same bits."""
        digest = hashlib.blake2b(digest_size=16)
        for change in self.changes:
            array = np.ascontiguousarray(change.new)
            digest.update(repr((change.value, change.seq, array.dtype.str, array.shape)).encode())
            digest.update(array.tobytes())
        return digest.digest()


def grow(
    replay: ReplayView, name: str, edits: Mapping[int, Any], until: int, base: Branch | None
) -> Branch:
    """Compute a branch; see `Replay.what_if`.

    Raises:
        ReplayError: An edit does not fit its value.
    """
    growth = _Growth(replay, base)
    start = min((growth.edit(value, content) for value, content in edits.items()), default=until)
    if base is not None:
        start = min(start, base.until)
    for event in _happened(replay, start, until):
        if base is not None and event.seq > base.until:
            growth.go_beyond()
        if isinstance(event, EditRow):
            growth.changed_by_hand(event)
        else:
            growth.run(event)
    return Branch(
        name, replay.step, base.name if base is not None else None, until, tuple(growth.changes),
        tuple(growth.same), tuple(growth.blocked), growth.overlay, growth.stuck, growth.edited,
    )  # fmt: skip


class _Growth:
    """A branch under construction.

    Attributes:
        overlay, stuck, edited: See `Branch`.
        changes, same, blocked: See `Branch`.
    """

    def __init__(self, replay: ReplayView, base: Branch | None) -> None:
        self._replay = replay
        self.overlay: dict[Key, Array] = dict(base.overlay) if base is not None else {}
        self.stuck: dict[Key, str] = dict(base.stuck) if base is not None else {}
        self.edited: dict[Key, Array] = dict(base.edited) if base is not None else {}
        self.changes: list[ChangedValue] = []
        self.same: list[str] = []
        self.blocked: list[Blocked] = []
        # Values that differ from the parent branch or recording, or could not be computed.
        self._changed: set[Key] = set()
        # By value id alone: an operand may come from an execution before the latest.
        self._touched = {value for value, _ in (*self.overlay, *self.stuck)}
        self._beyond = False
        self._made = 0

    def edit(self, value: int, content: Any) -> int:
        """Set a value; return the seq at which the change takes effect. Raises `ReplayError`."""
        source = self._replay.book.source(value, self._replay.last + 1)
        if source is None:
            raise ReplayError(f"value {value} has not been computed yet at this point")
        name = self._node(source.execution).name
        old = self._now(source)
        new = fitted(content, old, name)
        self._set(ChangedValue(name, value, source.seq, old, new, edited=True))
        return source.seq

    def _set(self, change: ChangedValue) -> None:
        key = (change.value, change.seq)
        self._changed.add(key)
        self._touched.add(change.value)
        self.stuck.pop(key, None)
        self.overlay[key] = change.new
        if change.edited:
            self.edited.setdefault(key, change.old)
        else:
            self.edited.pop(key, None)
        self.changes.append(change)

    def go_beyond(self) -> None:
        """Continue past the end of the parent branch: treat all of its changes as changes here."""
        if not self._beyond:
            self._beyond = True
            self._changed.update(self.overlay, self.stuck)

    def changed_by_hand(self, edit: EditRow) -> None:
        """Mark a value that the user edited in the run as unknown, if its old content changed."""
        replay = self._replay
        before = replay.book.source(edit.value, edit.seq)
        key = (edit.value, edit.seq)
        if before is None or key in self._changed:
            return
        if (edit.value, before.seq) in self._changed:
            name = replay.book.values.get(edit.value, f"value {edit.value}")
            done = f"changed by hand ({edit.how})"
            reason = f"{done}; with another value its result is unknown"
            self._block(name, edit.seq, reason, {key: f"{name} was changed by hand before"})

    def run(self, execution: Execution) -> None:
        """Rerun an execution if it depends on a changed value."""
        replay, node = self._replay, self._node(execution)
        outputs = [ValueSource(value, execution) for value in node.outputs]
        keys = [(output.value, output.seq) for output in outputs]
        if self._changed.intersection(keys):
            return  # an output was edited or is already marked
        raised = bool(execution.flags & FAILED)
        try:
            sources = self._sources(execution)
            operand_keys = [(operand.value, operand.seq) for operand in sources]
            doubted = execution.seq in replay.doubted and self._touched.intersection(node.inputs)
            if not self._changed.intersection(operand_keys) and not doubted:
                return
            if doubted:
                raise ReplayError("its inputs are unknown: no recorded values reproduce its result")
            for key in operand_keys:
                if key in self.stuck:
                    raise ReplayError(self.stuck[key])
            if self._made > MOST_CHANGED_BYTES:
                raise ReplayError(
                    f"the changed values upstream already take {MOST_CHANGED_BYTES >> 20} MiB"
                )
            if node.is_leaf:
                self._left_alone(sources[0], outputs[0])
            arrays = [self._now(operand) for operand in sources]
            olds = [] if raised else [self._now(output) for output in outputs]
            try:
                outputs_now = replay.run(execution, arrays)
            except ReplayError:
                if raised:
                    return  # it raised in the run as well
                raise
            if raised:
                error = replay.recording.failure(execution.seq) or "an exception"
                raise ReplayError(
                    f"it raised {error}; now it would not, and what the program would have done "
                    "next is unknown"
                )
        except ReplayError as error:
            reason = f"{node.name} could not be run"
            self._block(node.name, execution.seq, error.message, dict.fromkeys(keys, reason))
            return
        before = len(self.changes)
        for source, old, new in zip(outputs, olds, outputs_now, strict=False):
            key = (source.value, source.seq)
            if difference(old, new, node.name, *key) is not None:
                self._set(ChangedValue(node.name, *key, old, new))
                self._made += old.nbytes + new.nbytes
            elif self.stuck.pop(key, None) is not None:
                self._changed.add(key)  # its users can be rerun now
        if len(self.changes) == before:
            self.same.append(node.name)

    def _block(self, name: str, seq: int, reason: str, keys: Mapping[Key, str]) -> None:
        self.blocked.append(Blocked(name, seq, reason))
        self.stuck.update(keys)
        self._changed.update(keys)
        self._touched.update(value for value, _ in keys)

    def _node(self, execution: Execution) -> Node:
        return self._replay.book.node(execution.node, execution.seq)

    def _now(self, source: ValueSource) -> Array:
        array = self.overlay.get((source.value, source.seq))
        return array if array is not None else self._replay.written(source).array

    def _sources(self, execution: Execution) -> list[ValueSource]:
        """The sources of an execution's operands.

        If one is unknown: raises `ReplayError` if a known one has changed, else returns ``[]``.
        """
        replay, inputs = self._replay, self._node(execution).inputs
        try:
            if self._touched.intersection(inputs):
                return replay.sources(execution)
            return replay.book.sources(execution)
        except ReplayError:
            sources = (replay.book.source(value, execution.seq) for value in inputs)
            if any(source and (source.value, source.seq) in self._changed for source in sources):
                raise
            return []  # no known input has changed

    def _left_alone(self, assigned: ValueSource, leaf: ValueSource) -> None:
        """Raise `ReplayError` if the program changed a leaf after its last recorded assignment."""
        replay = self._replay
        if not same(replay.written(leaf).array, replay.written(assigned).array):
            name = self._node(leaf.execution).name
            raise ReplayError(
                f"the program has since changed {name} in a way that was not recorded"
            )


def _happened(replay: ReplayView, start: int, until: int) -> Iterator[Execution | EditRow]:
    """Executions and edits in ``(start, until]``, in order."""
    edits = (edit for edit in replay.recording.edits(start) if edit.seq <= until)
    ran = replay.recording.executions(start, until)
    return heapq.merge(ran, edits, key=lambda row: row.seq)


def fitted(content: Any, old: Array, name: str) -> Array:
    """An edit as an array of the value's shape and dtype.

    Raises:
        ReplayError: The shape differs, or the dtype cannot be converted.
    """
    array = np.asarray(content)
    if array.shape != old.shape:
        raise ReplayError(
            f"{name} has shape {shape_words(old.shape)}; "
            f"it cannot be set to shape {shape_words(array.shape)}"
        )
    weak = isinstance(content, bool | int | float | complex)
    if not weak and not np.can_cast(array.dtype, old.dtype, "same_kind"):
        raise ReplayError(f"{name} is {old.dtype}; {array.dtype} cannot be converted to it")
    with np.errstate(all="ignore"):
        converted = array.astype(old.dtype)
    converted.flags.writeable = False
    return converted
