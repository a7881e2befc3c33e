"""Newest values: keeps all values of a run's last steps, whatever its level.

Invariant: its memory is bounded, see `HeldValues`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import msgspec
import numpy as np

from nodescope.events import NodeFinished, NodesFinished, StepStarted
from nodescope.record.buffers import Buffers, layouts_of
from nodescope.record.captures import capture, known_bytes
from nodescope.record.newest.held_block import HeldBlock
from nodescope.record.newest.held_values import (
    SHARE_BYTES,
    SHARE_NS,
    STEPS,
    Held,
    HeldValues,
    Whole,
)
from nodescope.record.newest.nonfinite_retention import FirstNonfinite, Span
from nodescope.record.queued import RECORD_BYTES
from nodescope.record.rows import Keeping


class NewestValues:
    """The values of the newest executions, held for a recorder.

    Args:
        most_bytes: Upper limit of held arrays.
        buffers: The buffers of the copies.
        lock: The recorder's lock.
        enqueue: Queues a record to be written, with its weight.
        on_report: Called when something was written that is reported to the user.

    Attributes:
        held: The held copies.
        nonfinite_steps: Steps that were written whole because of a first NaN or Inf; 0 stands for
            executions outside of steps.
    """

    def __init__(
        self, most_bytes: int, buffers: Buffers, lock: RLock,
        enqueue: Callable[[Whole, int], None], on_report: Callable[[], None],
    ) -> None:  # fmt: skip
        self.held = HeldValues(most_bytes, self._give_back)
        self.held.checked = self.held.needed_from = 0
        self.nonfinite_steps: tuple[int, ...] = ()
        self._buffers, self._lock = buffers, lock
        self._enqueue, self._on_report = enqueue, on_report
        self._share_ns = SHARE_NS

    def step_begins(self, event: StepStarted) -> None:
        """Note that an observed training step begins."""
        self._share_when_due(event.time_ns)
        with self._lock:
            self.held.step(event.step)

    def call_begins(self) -> None:
        """Note that an outermost call outside of steps begins and is observed."""
        with self._lock:
            self.held.call()

    def remember(
        self, event: NodeFinished, seq: int, copies: Sequence[tuple[int, Any]] | None, *, late: bool
    ) -> None:
        """Hold the outputs of an execution.

        Args:
            event: The execution.
            seq: Its seq.
            copies: The copies that wait to be summarised, by value.
            late: Whether its attributes and statistics are not recorded otherwise.
        """
        if any(array.__class__ is not np.ndarray for array in event.outputs):
            if self.fits_elsewhere(event.outputs):
                captured, _, _ = capture(event, "values", self.held.most_bytes)
                self.hold(event, seq, captured, late=late)
            return
        nbytes = sum([array.nbytes for array in event.outputs])
        if not self.held.fits(nbytes):
            for _, array in copies or ():
                self._buffers.give_back(array)
            return
        outputs = event.node.outputs
        if copies is None:
            copy = self._buffers.copy
            try:
                copies = [(value, copy(array)) for value, array in zip(outputs, event.outputs)]  # noqa: B905
            except MemoryError:
                return
        layouts = layouts_of(outputs, event.outputs)
        attrs = event.attrs if late else None
        with self._lock:
            self.held.add(
                Held(seq, event.step, tuple(copies), nbytes, layouts, attrs, not late)
            )  # fmt: skip
        if not event.step:
            self._share_when_due(event.end_ns)

    def fits_elsewhere(self, outputs: Sequence[Any]) -> bool:
        """Whether arrays of another library may be held; not if any size is unknown."""
        nbytes = known_bytes(outputs)
        return nbytes is not None and self.held.fits(nbytes)

    def hold(
        self, event: NodeFinished, seq: int, captured: Sequence[tuple[int, Any]], *, late: bool
    ) -> None:
        """Like `remember`, for captures of another library's arrays, by value."""
        if not captured:
            return
        nbytes = sum([content.nbytes for _, content in captured])
        attrs = event.attrs if late else None
        with self._lock:
            self.held.add(Held(seq, event.step, tuple(captured), nbytes, (), attrs, not late))
        if not event.step:
            self._share_when_due(event.end_ns)

    def hold_block(self, event: NodesFinished, seq: int, viewed: frozenset[int]) -> None:
        """Hold the outputs of executions that were reported together, the first of which is
        ``seq``. Outputs of viewed nodes are written at once.
        """
        block = HeldBlock.of(event, seq, viewed)
        if block is None:
            return
        with self._lock:
            held = self.held
            large = block.larger_than(held.most_bytes)
            held.too_large += large
            held.made_room += block.missing - large
            held.add(block)

    def share(self) -> None:
        """Write the held values of the newest steps."""
        with self._lock:
            self._write(self.held.take())

    def looked_at(self, spans: Sequence[Span], nonfinite: FirstNonfinite) -> None:
        """Release older finite values, and write those around the first NaN."""
        steps = self.nonfinite_steps
        with self._lock:
            self.held.checked = nonfinite.checked
            self.held.needed_from = nonfinite.needed_from
            for span in spans:
                if self._write(self.held.take_between(span.first, span.end)):
                    steps = (*steps, span.step)
        if steps != self.nonfinite_steps:
            self.nonfinite_steps = tuple(sorted({*steps}))
            self._on_report()

    def completed(self, keeping: Keeping) -> Keeping:
        """``keeping`` with the values kept here and their losses. Called under the recorder's
        lock.
        """
        held = self.held
        return msgspec.structs.replace(
            keeping,
            newest_steps=STEPS,
            newest_bytes=held.most_bytes,
            too_large=keeping.too_large + held.too_large,
            made_room=held.made_room,
            nonfinite_steps=self.nonfinite_steps,
        )

    def _give_back(self, copied: Any) -> None:
        if copied.__class__ is np.ndarray:  # otherwise another library owns the memory
            self._buffers.give_back(copied)

    def _share_when_due(self, now_ns: int) -> None:
        if now_ns > self._share_ns and self.held.nbytes < SHARE_BYTES:
            self.share()
            self._share_ns = now_ns + SHARE_NS
            self._on_report()

    def _write(self, whole: Whole) -> bool:
        """Queue held executions to be written; False if there are none."""
        if whole.items:
            self._enqueue(whole, sum(item.nbytes for item in whole.items) + RECORD_BYTES)
        return bool(whole.items)
