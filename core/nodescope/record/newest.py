"""NewestRecorder: a recorder that keeps the newest whole, whatever is kept of the rest.

Invariant: that of `Recorder`. What is held for those who may look is bounded, see `Recent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nodescope.events import Array, Event, NodeFinished, RunStarted, StepStarted
from nodescope.ir.graph import Node
from nodescope.record import ending
from nodescope.record.batch import Noted
from nodescope.record.buffers import layouts_of
from nodescope.record.held import SHARE_BYTES, SHARE_NS, STEPS, Held, Recent, Whole
from nodescope.record.recorder import MIB, Recorder
from nodescope.record.rows import Keeping

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
        self._recent: Recent | None = None
        self._kept: dict[int, int] = {}  # by value, the execution
        self._share_ns = SHARE_NS
        super().__init__(path, **options)
        if newest:
            most = min(self._queue_bytes, self._budget_bytes, 64 * MIB)
            self._recent = Recent(most, self._buffers.give_back)
            self._newest, self._plain = True, False

    def keep(self, node: Node, value: int, array: Array, seq: int, step: int = 0) -> None:
        """Keep the elements of a value that an execution has just given, whatever its level."""
        level = self.level if not self._by_node else self._level(node)
        if self._off or level == "values" or self._kept.get(value) == seq:
            return
        self._kept[value] = seq
        if self._recent is not None and not self._recent.kept(value, seq):
            return
        item = Held(
            seq, step, ((value, array.copy()),), array.nbytes, summarised=level == "summary"
        )
        self._note(Whole((item,)), array.nbytes + _RECORD_BYTES, always=False)

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
            return Keeping(
                level=self.level,
                budget_bytes=self._budget_bytes,
                chosen=self._chosen_level,
                everything=self._everything,
                nodes=tuple(sorted(self._watched)),
                over_budget=self._dropped_blobs - self._waiting.given_up - too_large,
                behind=self._waiting.given_up,
                newest_steps=STEPS if recent is not None else 0,
                newest_bytes=recent.most_bytes if recent is not None else 0,
                too_large=too_large + (recent.too_large if recent is not None else 0),
                made_room=recent.made_room if recent is not None else 0,
            )

    def emit(self, event: Event) -> None:
        """As of `Recorder`."""
        super().emit(event)
        if event.__class__ is RunStarted:
            self._tell_keeping()

    def close(
        self, timeout_s: float = ending.STILL_S, slow: Callable[[], None] = lambda: None
    ) -> bool:
        """As of `Recorder`."""
        if not self._forked and not self._closing:
            self._share()
            self._tell_keeping()
        return super().close(timeout_s, slow)

    def _step_begins(self, event: StepStarted) -> None:
        super()._step_begins(event)
        recent = self._recent
        if recent is None or not event.observed:
            return
        if event.time_ns > self._share_ns and recent.nbytes < SHARE_BYTES:
            self._share(event.time_ns)
        with self._lock:
            recent.step(event.step)

    def _remember(self, event: NodeFinished, copies: Sequence[tuple[int, Any]] | None) -> None:
        """Hold what an execution gave; ``copies`` are those that wait to be summarised."""
        recent = self._recent
        if recent is None:
            return
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
            whole = self._recent.take()
            if whole.items:
                self._seq = seq = self._seq + 1  # of a record, but of none of this thread's
                weight = sum(item.nbytes for item in whole.items) + _RECORD_BYTES
                self._queued += weight
                self._queue.append(Noted(seq, weight, whole))
        if whole.items and not self._awake:
            self._wake()
        if now_ns:
            self._share_ns = now_ns + SHARE_NS
            self._tell_keeping()

    def _tell_keeping(self) -> None:
        """Record what is kept, where that is news."""
        now = self.keeping()
        if now == self._told or self._off:
            return
        self._told = now
        with self._lock:
            self._seq = seq = self._seq + 1
            self._queued += _RECORD_BYTES
            self._queue.append(Noted(seq, _RECORD_BYTES, now))
        if not self._awake:
            self._wake()
