"""NewestRecorder: a recorder that keeps the newest values in full, whatever it keeps of the rest.

Invariant: as for `Recorder`. The held arrays are bounded, see `HeldValues`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodescope.arrays import to_numpy
from nodescope.events import Array, Event, NodeFinished, Prices, RunStarted, StepStarted
from nodescope.ir.graph import Node
from nodescope.record import shutdown
from nodescope.record.batch import QueuedRecord
from nodescope.record.buffers import layouts_of
from nodescope.record.newest.first_nonfinite import Span
from nodescope.record.newest.held_values import (
    SHARE_BYTES,
    SHARE_NS,
    STEPS,
    Held,
    HeldValues,
    Whole,
)
from nodescope.record.queue_writer import MIB
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed, Keeping

_RECORD_BYTES = 320


class NewestRecorder(Recorder):
    """Records a run into a file. A probe.

    Args:
        path, options: As of `Recorder`.
        newest: Keep the newest steps whole, whatever the level.
        chosen_level: Whether a person chose the level, which is only told.
    """

    def __init__(
        self, path: str | Path, *, newest: bool = False, chosen_level: bool = True, **options: Any
    ) -> None:
        self._chosen_level = chosen_level
        self._told: Keeping | None = None
        self._recent: HeldValues | None = None
        self._kept: dict[int, int] = {}  # by value, the execution
        self._share_ns = SHARE_NS
        self._nonfinite_steps: tuple[int, ...] = ()
        super().__init__(path, **options)
        if newest:
            most_bytes = min(self._queue_bytes, self._budget_bytes, 64 * MIB)
            recent = HeldValues(most_bytes, self._buffers.give_back)
            recent.checked = recent.needed_from = 0
            self._recent = recent
            self._newest, self._plain = True, False

    def keep(self, node: Node, value: int, array: Array, seq: int, step: int = 0) -> None:
        """Keep the elements of a value that an execution has just given, whatever its level."""
        level = self.level if not self._by_node else self._level(node)
        if self._off or level == "values" or self._kept.get(value) == seq:
            return
        self._kept[value] = seq
        if array.__class__ is not np.ndarray:
            try:
                array = to_numpy(array)
            except Exception:  # of the library
                return
        if self._recent is not None and not self._recent.kept(value, seq):
            return
        item = Held(
            seq, step, ((value, array.copy()),), array.nbytes, summarised=level == "summary"
        )
        self._note(Whole((item,)), array.nbytes + _RECORD_BYTES, always=False)

    def use_prices(self, prices: Prices) -> None:
        """What making events takes has been measured; of no interest where there is no limit."""

    def keep_whole(self, *, everything: bool, nodes: frozenset[int]) -> None:
        """Keep every element from now on: of all nodes, or of some that somebody looks at."""
        self._everything, self._watched = everything, nodes
        self._by_node, self._plain = True, False
        self._tell_keeping()

    def keeping(self) -> Keeping:
        """What is kept, and what was not for another reason than that."""
        recent = self._recent
        with self._lock:
            too_large = self._writer.too_large
            unwritten, behind = self.unwritten, self._waiting.given_up
            # Arrays whose statistics the queue kept while the disk was full are the disk's, too.
            behind -= self._disk_losses.behind(self._losses())
            over_budget = self._dropped_blobs - behind - too_large - unwritten.arrays
            return Keeping(
                level=self.level,
                budget_bytes=self._budget_bytes,
                chosen=self._chosen_level,
                everything=self._everything,
                nodes=tuple(sorted(self._watched)),
                over_budget=over_budget,
                behind=behind,
                unwritten=unwritten or None,
                newest_steps=STEPS if recent is not None else 0,
                newest_bytes=recent.most_bytes if recent is not None else 0,
                too_large=too_large + (recent.too_large if recent is not None else 0),
                made_room=recent.made_room if recent is not None else 0,
                nonfinite_steps=self._nonfinite_steps,
            )

    def emit(self, event: Event) -> None:
        """As of `Recorder`."""
        super().emit(event)
        if event.__class__ is RunStarted:
            self._tell_keeping()

    def close(
        self, timeout_s: float = shutdown.STILL_S, slow: Callable[[], None] = lambda: None
    ) -> bool:
        """As of `Recorder`."""
        if not self._forked and not self._closing:
            self._share()
            self._tell_keeping()
        return super().close(timeout_s, slow)

    def _final_record(self) -> Keeping | None:
        now = self.keeping()
        return now if now.unwritten and now != self._told else None

    def _step_begins(self, event: StepStarted) -> None:
        super()._step_begins(event)
        recent = self._recent
        if recent is None or not event.observed:
            return
        if event.time_ns > self._share_ns and recent.nbytes < SHARE_BYTES:
            self._share(event.time_ns)
        with self._lock:
            recent.step(event.step)

    def _call_begins(self) -> None:
        """An outermost call outside of steps begins, and is observed."""
        if self._recent is not None:
            with self._lock:
                self._recent.call()

    def _remember(self, event: NodeFinished, copies: Sequence[tuple[int, Any]] | None) -> None:
        """Hold what an execution gave; ``copies`` are those that wait to be summarised."""
        recent = self._recent
        if recent is None:
            return
        if any(array.__class__ is not np.ndarray for array in event.outputs):
            return  # those of other libraries are kept by level only
        nbytes = sum([array.nbytes for array in event.outputs])
        if not recent.fits(nbytes):
            for _, array in copies or ():
                self._buffers.give_back(array)
            return
        node = event.node
        late = copies is None and self._level(node) != "summary"
        if copies is None:
            copy = self._buffers.copy
            try:
                copies = [(value, copy(array)) for value, array in zip(node.outputs, event.outputs)]  # noqa: B905
            except MemoryError:
                return
        layouts = layouts_of(node.outputs, event.outputs)
        with self._lock:
            recent.add(
                Held(
                    self._here.seq, event.step, tuple(copies), nbytes, layouts,
                    event.attrs if late else None, not late,
                )
            )  # fmt: skip
        if event.end_ns > self._share_ns and not event.step and recent.nbytes < SHARE_BYTES:
            self._share(event.end_ns)

    def _share(self, now_ns: int = 0) -> None:
        """Write what is held of the newest steps."""
        if self._recent is None or self._off:
            return
        with self._lock:
            self._write_whole(self._recent.take())
        if now_ns:
            self._share_ns = now_ns + SHARE_NS
            self._tell_keeping()

    def _looked_at(self, spans: Sequence[Span]) -> None:
        """Let go of older values that are finite, and write those around the first NaN."""
        recent, steps = self._recent, self._nonfinite_steps
        if recent is None:
            return
        with self._lock:
            recent.checked = self._batch.nonfinite.checked
            recent.needed_from = self._batch.nonfinite.needed_from
            for span in spans:
                if self._write_whole(recent.take_between(span.first, span.end)):
                    steps = (*steps, span.step)
        if steps != self._nonfinite_steps:
            self._nonfinite_steps = tuple(sorted({*steps}))
            self._tell_keeping()

    def _write_whole(self, whole: Whole) -> bool:
        """Queue held executions to be written; False if there are none."""
        if whole.items:
            self._enqueue(whole, sum(item.nbytes for item in whole.items) + _RECORD_BYTES)
        return bool(whole.items)

    def _enqueue(self, record: Whole | Keeping | Governed, weight: int) -> None:
        """Queue what has a number, but is no record of the calling thread."""
        with self._lock:
            self._seq = seq = self._seq + 1
            self._queued += weight
            self._queue.append(QueuedRecord(seq, weight, record))
        if not self._awake:
            self._wake()

    def _tell_keeping(self) -> None:
        """Record what is kept, where that is news."""
        now = self.keeping()
        if now == self._told or self._off:
            return
        self._told = now
        self._enqueue(now, _RECORD_BYTES)
