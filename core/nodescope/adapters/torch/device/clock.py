"""Clock: when a device came to what the operators enqueued, in the host's time.

An event is enqueued behind each operator. The device came to the operator where it was done with
what was before it in the stream, or where it was called if it had nothing to do by then. A thread
of nodescope asks for the times, and emits them.

A device counts time by itself. What that is in the host's time is told by an anchor: an event in
a stream of its own, with the host's time at which it was seen.

Invariant: threads of the program do not wait.
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
"""For how long an anchor is good: clocks drift, and a device tells a time in 24 bits."""
_ANCHOR_TRIES: Final = 5
_ANCHOR_NS: Final = 300_000
_INTERVAL_S: Final = 0.02
_LAST_S: Final = 5.0
"""At the end of a run, at most so long is waited for what a device still has to do."""
_MOST: Final = 1 << 18
_now = time.perf_counter_ns


class Anchor(NamedTuple):
    """A moment of a device.

    Attributes:
        ns: By `time.perf_counter_ns`.
    """

    event: Event
    ns: int


class Mark(NamedTuple):
    """An operator that was enqueued.

    Attributes:
        lane: Its stream's.
        node: The node.
        called_ns: When it was called, in nanoseconds since the run began.
        before, after: The moment before it in its stream, if one was noted, and the one after it.
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
        lanes, nodes, called_ns: As in `Mark`; the node is 0 for a moment that is no operator's.
        events: The moment after each.
        last: The last moment in each stream.
        library: The observer, whose events these are.
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
        emitter: What the times are emitted by.
    """

    def __init__(self, runtime: Runtime, emitter: Emitter) -> None:
        self._runtime, self._emitter = runtime, emitter
        self._marks: deque[Mark | Block] = deque()
        self._ends: dict[int, int] = {}  # by lane, the last moment that was emitted
        self._lanes: dict[tuple[int, int], int] = {}
        self._names: list[str] = [""]
        self._anchors: dict[int, Anchor] = {}
        self._sides: dict[int, int] = {}
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended = False
        self._polling = threading.Lock()
        self.lost = 0
        """How many times are not known, as the device has failed or too much waited."""

    def moment(self, index: int) -> tuple[Event | None, Event] | None:
        """Note the moment after an operator, on the thread that called it.

        Returns:
            The moment before it in its stream, if one was noted, and that moment; None while a
            graph is captured.
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
        """Note which operator it was.

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
        """Note operators that the observer has enqueued.

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
        """Emit what is left. The program has ended, and is not kept for long."""
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
        """Forget all, in the child of a fork."""
        self._ended = True
        self._marks.clear()

    def tell(self) -> int:
        """Emit the times that are known now; how many are not."""
        with self._polling:
            ran: dict[int, list[Any]] = {}
            try:
                self._finish(ran)
            except ArrayError:  # the device has failed, and tells nothing any more
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
        finished: list[Mark | Block] = []  # so that no handle is used again meanwhile
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
            # The clocks agree but for some microseconds.
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
        """Note what the device's time is in the host's: that of the quickest of some answers."""
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
