"""Clock: when a device ran the operators that were enqueued, in the host's time.

An event is enqueued after each operator. The device began an operator when it finished the previous
one in the stream, or when the operator was called if the device was idle by then. A thread of
nodescope queries the times and emits them.

A device has its own clock. An anchor relates it to the host's: an event in a separate stream, with
the host's time at which the event was seen.

Invariant: threads of the program do not wait for a device.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.adapters.torch.device.runtime import Event, Runtime
from nodescope.emit.emitter import Emitter
from nodescope.errors import ArrayError
from nodescope.events import Array, DeviceRan

_ANCHORED_NS: Final = 500_000_000
"""How long an anchor is used: clocks drift, and an elapsed time is a float of 24 bits."""
_ANCHOR_TRIES: Final = 5
_ANCHOR_NS: Final = 300_000
_INTERVAL_S: Final = 0.02
_LAST_S: Final = 5.0
"""The longest wait for devices at the end of a run, in seconds."""
_MOST: Final = 1 << 18
_now = time.perf_counter_ns


class Anchor(NamedTuple):
    """An event of a device whose host time is known.

    Attributes:
        ns: The host's time of the event, by `time.perf_counter_ns`.
    """

    event: Event
    ns: int


class Mark(NamedTuple):
    """An operator that was enqueued.

    Attributes:
        lane: The lane of its stream.
        node: The node.
        called_ns: When it was called, in nanoseconds since the run began.
        before, after: The events before it in its stream, if there is one, and after it.
    """

    lane: int
    node: int
    called_ns: int
    before: Event | None
    after: Event
    anchor: Anchor


class Block(NamedTuple):
    """Operators that were enqueued by the observer, see `native_tap.device_path`.

    Attributes:
        lanes, nodes, called_ns: As in `Mark`; the node is 0 for an event after something else.
        events: The event after each.
        last: The last event in each stream.
        library: The observer, which owns these events.
    """

    lanes: Array
    nodes: Array
    called_ns: Array
    events: Array
    last: tuple[int, ...]
    anchor: Anchor
    library: Any


class Clock:
    """The devices' times in a run.

    Args:
        runtime: The devices.
        emitter: Emits the times.
    """

    def __init__(self, runtime: Runtime, emitter: Emitter) -> None:
        self._runtime, self._emitter = runtime, emitter
        self._marks: deque[Mark | Block] = deque()
        self._ends: dict[int, int] = {}  # the last time that was emitted, by lane
        self._lanes: dict[tuple[int, int], int] = {}
        self._names: list[str] = [""]
        self._anchors: dict[int, Anchor] = {}
        self._sides: dict[int, int] = {}
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended = False
        self._polling = threading.Lock()
        self.lost = 0
        """The number of lost times: the device failed, or too many were waiting."""

    def moment(self, index: int) -> tuple[Event | None, Event] | None:
        """Enqueue an event after an operator, on the thread that called it.

        Returns:
            The event before the operator in its stream, if there is one, and this event; None while
            a CUDA graph is being captured.
        """
        runtime = self._runtime
        stream = runtime.stream(index)
        if stream is None:
            return None
        before = runtime.latest.get(index, {}).get(stream)
        if index not in self._anchors:
            self._anchor(index)
        return before, runtime.moment(index, stream)

    def mark(
        self, index: int, node: int, called_ns: int, moments: tuple[Event | None, Event]
    ) -> None:
        """Note the operator between two events.

        Args:
            index: The device.
            node: The node that has run.
            called_ns: When it was called, in nanoseconds since the run began.
            moments: As `moment` returned them.
        """
        before, after = moments
        if len(self._marks) >= _MOST:
            self.lost += 1
            return
        lane = self.lane(index, after.stream)
        self._marks.append(Mark(lane, node, called_ns, before, after, self._anchors[index]))
        if not self._wanted.is_set():
            self._wake()

    def mark_block(
        self, index: int, nodes: Array, called_ns: Array, moments: Array, library: Any
    ) -> None:
        """Note operators after which the observer enqueued events.

        Args:
            index: The device.
            nodes, called_ns: As in `Block`.
            moments: Event and stream of each, int64 of shape (moments, 2).
            library: The observer.
        """
        events = np.ascontiguousarray(moments[:, 0])
        if len(self._marks) >= _MOST or index not in self._anchors:
            self.lost += int(np.count_nonzero(nodes))
            library.give_back(events)
            return
        lanes = np.zeros(len(moments), np.int64)
        last: list[int] = []
        for stream in np.unique(moments[:, 1]).tolist():
            of = moments[:, 1] == stream
            lanes[of] = self.lane(index, stream)
            last.append(int(events[of][-1]))
        anchor = self._anchors[index]
        self._marks.append(Block(lanes, nodes, called_ns, events, tuple(last), anchor, library))
        if not self._wanted.is_set():
            self._wake()

    def lane(self, index: int, stream: int) -> int:
        """The number of a stream's lane, from 1."""
        lane = self._lanes.get((index, stream))
        if lane is None:
            lane = self._lanes[index, stream] = len(self._names)
            others = sum(of == index and at != 0 for of, at in self._lanes)
            self._names.append(f"cuda:{index}" + (f" stream {others}" if stream else ""))
        return lane

    def end(self) -> None:
        """Emit the remaining times. The program has ended, so this waits only a few seconds."""
        self._ended = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(_LAST_S)
        until = time.monotonic() + _LAST_S
        with self._runtime.driver.unhindered():
            while self.tell() and time.monotonic() < until:
                time.sleep(_INTERVAL_S / 10)
        self.lost += len(self._marks)
        self._marks.clear()

    def forked(self) -> None:
        """Discard everything, in the child of a fork."""
        self._ended = True
        self._marks.clear()

    def tell(self) -> int:
        """Emit the times that are known now. Returns the number of marks that are left."""
        with self._polling:
            ran: dict[int, list[Any]] = {}
            try:
                self._finish(ran)
            except ArrayError:  # the device has failed: the rest is lost
                self.lost += len(self._marks)
                self._marks.clear()
            for lane, rows in ran.items():
                times = np.array(rows, np.int64)
                self._emitter.bus.emit(DeviceRan(lane, self._names[lane], times))
            return len(self._marks)

    def _finish(self, ran: dict[int, list[Any]]) -> None:
        driver, marks = self._runtime.driver, self._marks
        origin = self._emitter.bus.origin_ns
        known: dict[int, int] = {}
        finished: list[Mark | Block] = []  # keeps event handles from being reused
        while marks:
            mark = marks[0]
            last = mark.last if isinstance(mark, Block) else (mark.after.handle,)
            if not all(map(driver.is_done, last)):
                return
            anchor = mark.anchor
            if (not finished or anchor is not finished[-1].anchor) and not driver.is_done(
                anchor.event.handle
            ):
                return
            finished.append(marks.popleft())
            if isinstance(mark, Block):
                self._finish_block(mark, origin, ran)
                continue
            end = anchor.ns + driver.elapsed_ns(anchor.event.handle, mark.after.handle) - origin
            known[mark.after.handle] = self._ends[mark.lane] = end
            begin = mark.called_ns
            if mark.before is not None:
                handle = mark.before.handle
                earlier = known.get(handle)
                if earlier is None:
                    earlier = anchor.ns + driver.elapsed_ns(anchor.event.handle, handle) - origin
                begin = max(begin, earlier)
            # The clocks may differ by some microseconds.
            row = (mark.node, mark.called_ns, min(begin, end), end)
            ran.setdefault(mark.lane, []).append(row)

    def _finish_block(self, block: Block, origin: int, ran: dict[int, list[Any]]) -> None:
        since = block.library.since(block.anchor.event.handle, block.events)
        if since is None:
            raise ArrayError("the device has failed")
        ends = np.frombuffer(since, np.int64) + (block.anchor.ns - origin)
        block.library.give_back(block.events)
        for lane in np.unique(block.lanes).tolist():
            of = block.lanes == lane
            end, nodes, called = ends[of], block.nodes[of], block.called_ns[of]
            before = np.concatenate([[self._ends.get(lane, 0)], end[:-1]])
            begin = np.minimum(np.maximum(called, before), end)
            rows = np.stack([nodes, called, begin, end], axis=1)[nodes > 0]
            ran.setdefault(lane, []).extend(rows.tolist())
            self._ends[lane] = int(end[-1])

    def _anchor(self, index: int) -> None:
        """Take an anchor: of several tries, the one with the quickest answer."""
        runtime, driver = self._runtime, self._runtime.driver
        stream = self._sides.get(index)
        if stream is None:
            stream = self._sides[index] = driver.side_stream(index)
        best: tuple[int, Anchor] | None = None
        for _ in range(_ANCHOR_TRIES):
            event = runtime.event(index, stream)
            began = _now()
            driver.record(index, event.handle, stream)
            while not driver.is_done(event.handle) and _now() - began < _ANCHOR_NS:
                pass
            elapsed = _now() - began
            if best is None or elapsed < best[0]:
                best = elapsed, Anchor(event, began + elapsed // 2)
        assert best is not None
        self._anchors[index] = best[1]

    def _wake(self) -> None:
        self._wanted.set()
        if self._thread is None and not self._ended:
            self._thread = threading.Thread(target=self._work, name="nodescope device", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        with contextlib.suppress(Exception), self._runtime.driver.unhindered():
            while not self._ended:
                self._wanted.wait()
                if not self.tell():
                    self._wanted.clear()
                now = _now()
                for index, anchor in tuple(self._anchors.items()):
                    if now - anchor.ns > _ANCHORED_NS and self._marks:
                        self._anchor(index)
                time.sleep(_INTERVAL_S)
