"""Value tracing: values at a moment, with the nodes that computed them, also inside kernels.

Invariant: a point is opened on demand, and opening only reads; a kernel's nodes are rerun on its
real inputs, and the run itself does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nodescope.debug.replay.arrays import alike, differing, gaps
from nodescope.debug.replay.branch import Branch
from nodescope.debug.replay.dialects import ENGINE, RecordedCall, recorded_call
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.debug.replay.replay import Replay
from nodescope.debug.why.body_frames import (
    MOST_INSIDE,
    BodyFrame,
    Point,
    frame_of,
    point_of,
    scan_frames,
    while_frames,
)
from nodescope.debug.why.nonfinite_origins import number_text
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.ir.graph import Graph, Node
from nodescope.ops.calls import Scalar

IN_BRANCH = "in the branch"
MOST_AGAIN = 1 << 20
"""The total number of elements up to which a node is rerun to check that its operands fit."""


@dataclass(frozen=True)
class Opened:
    """How a value was produced.

    Attributes:
        node: The node that produced it.
        call: The node's call; None for a leaf, or if an edit produced the element.
        args: The operands by port, including Python scalars.
        outs: The node's outputs.
        port: The output port of the value.
        by_hand: A description of the user's edit that produced the element, or ``""``.
        set_here: Whether that was an edit in a what-if branch.
        doubt: Whether rerunning the node on these operands gives another result. The recording may
            not state which execution wrote an operand; it may be one of an earlier step.
        points: By port, the source of each operand; None for Python scalars.
    """

    node: Node
    call: RecordedCall | None
    args: tuple[Any, ...]
    outs: tuple[Array, ...]
    port: int
    points: tuple[Point | None, ...]
    doubt: bool = False
    by_hand: str = ""
    set_here: bool = False


class ValueTracer:
    """Opens points of one recording.

    Args:
        replay: A replay of the recording.
        branch: A what-if branch, whose values replace the recorded ones.
    """

    def __init__(self, replay: Replay, branch: Branch | None = None) -> None:
        self.replay = replay
        self.branch = branch
        self.book = replay.book
        self._arrays: dict[tuple[int, int], tuple[Array, str]] = {}
        self._frames: dict[tuple[int, int], BodyFrame] = {}
        # The frame of a kernel in the recorded run, by id of its frame in the branch.
        self._twins: dict[int, BodyFrame] = {}
        self._scans: dict[tuple[int, int], dict[int, BodyFrame]] = {}
        self._loops: dict[tuple[int, int], list[BodyFrame] | None] = {}

    def array(self, point: Point) -> Array:
        """The value's array. Raises `ReplayError`."""
        if point.frame is not None:
            return np.asarray(point.frame.values[point.value])
        return self._written(point.source)[0]

    def how(self, point: Point) -> str:
        """``recorded``, ``recomputed``, ``in <kernel>`` or ``in the branch``."""
        if point.frame is not None:
            return f"in {point.frame.kernel}"
        return self._written(point.source)[1]

    def node(self, point: Point) -> Node:
        """The node that produced the value; reads no array."""
        if point.frame is not None:
            return point.frame.makers[point.value]
        number = point.execution.node
        return self.book.node(number, point.execution.seq)

    def _written(self, source: ValueSource) -> tuple[Array, str]:
        key = (source.value, source.seq)
        if key not in self._arrays:
            self._arrays[key] = self._in_branch(key) or self._recorded(source)
            if len(self._arrays) > 512:
                del self._arrays[next(iter(self._arrays))]
        return self._arrays[key]

    def _recorded(self, source: ValueSource) -> tuple[Array, str]:
        written = self.replay.written(source)
        return written.array, written.how

    def _in_branch(self, key: tuple[int, int]) -> tuple[Array, str] | None:
        if self.branch is None:
            return None
        if key in self.branch.stuck:
            raise ReplayError(f"the branch could not compute it: {self.branch.stuck[key]}")
        array = self.branch.overlay.get(key)
        return None if array is None else (array, IN_BRANCH)

    def as_recorded(self, point: Point) -> Array | None:
        """The value in the recorded run; None if the branch has no other one, or it is unknown."""
        if self.branch is None:
            return None
        if point.frame is not None:
            twin = self._twins.get(id(point.frame))
            return None if twin is None else np.asarray(twin.values[point.value])
        if (point.value, point.source.seq) not in self.branch.overlay:
            return None
        try:
            return self._recorded(point.source)[0]
        except ReplayError:
            return None

    def changed(self, point: Point) -> tuple[Array, Array] | None:
        """A mask of elements that the branch changed, and the differences, in C order.

        None if no element changed, or if they cannot be compared.
        """
        old = self.as_recorded(point)
        if old is None:
            return None
        new = self.array(point)
        if old.shape != new.shape or old.dtype != new.dtype:
            return None
        mask = differing(old, new)
        return (mask, gaps(old.reshape(-1), new.reshape(-1))) if mask.any() else None

    def differs(self, point: Point, position: int) -> bool:
        """Whether the branch changed an element."""
        changed = self.changed(point)
        return changed is not None and bool(changed[0][position])

    def farthest(self, point: Point) -> int | None:
        """The position of the element that the branch changed most; None if it changed none."""
        changed = self.changed(point)
        if changed is None:
            return None
        mask, sizes = changed
        return int(np.argmax(np.where(mask, np.nan_to_num(sizes, nan=np.inf), -1.0)))

    def open(self, point: Point, position: int) -> tuple[Point, int, Opened]:
        """How an element was produced; inside a kernel, branch or loop, by the node in its body.

        Raises:
            ReplayError: An operand is not recorded and cannot be recomputed.
        """
        while True:
            set_here = self._set_here(point, position)
            if set_here is not None:
                return point, position, set_here
            if point.edited:
                before, by_hand = self._by_hand(point, position)
                if by_hand is not None:
                    return point, position, by_hand
                point = before
            opened = self._inner(point) if point.frame is not None else self._outer(point)
            if opened.call is None or opened.node.dialect != ENGINE:
                return point, position, opened
            if opened.node.op in ("scan", "while_loop"):
                scans = opened.node.op == "scan"
                step = (self._iteration if scans else self._round)(point, opened, position)
                if step is None:
                    return point, position, opened
                point, position = step
                continue
            inside = self._inside(point, opened)
            if inside is None:
                return point, position, opened
            point = inside

    def changed_by_hand(self, point: Point) -> list[int]:
        """The positions that the last edit changed; empty if there is no edit or it is unknown."""
        before = self.book.source(point.value, point.edited) if point.edited else None
        if before is None:
            return []
        try:
            changed = differing(self.array(point_of(before)), self.array(point))
        except ReplayError:
            return []
        return [int(position) for position in np.flatnonzero(changed)]

    def _by_hand(self, point: Point, position: int) -> tuple[Point, Opened | None]:
        """The value before the user's edit, and the edit if it changed the element, else None."""
        before = self.book.source(point.value, point.edited)
        assert before is not None
        before_it = point_of(before)
        new, was = self.array(point), "its previous value is unknown"
        try:
            old = self.array(before_it)
        except ReplayError:
            pass
        else:
            if not differing(old, new)[position]:
                return before_it, None
            was = f"it was {number_text(old.flat[position])} before"
        step = self.book.step_of(point.edited)
        words = f"changed by hand in step {step} ({self.book.edits[point.edited].how}); {was}"
        return before_it, Opened(self.node(point), None, (), (new,), 0, (), by_hand=words)

    def _set_here(self, point: Point, position: int) -> Opened | None:
        """The branch's edit, if it changed the element; else None."""
        if self.branch is None or point.frame is not None:
            return None
        old = self.branch.edited.get((point.value, point.source.seq))
        if old is None:
            return None
        new = self.array(point)
        if not differing(old, new)[position]:
            return None
        words = f"set in this branch; it was {number_text(old.flat[position])} before"
        return Opened(self.node(point), None, (), (new,), 0, (), by_hand=words, set_here=True)

    def _outer(self, point: Point) -> Opened:
        execution = point.execution
        node = self.book.node(execution.node, execution.seq)
        sources = self.replay.sources(execution)
        arrays = [self._written(source)[0] for source in sources]
        points = [point_of(source) for source in sources]
        outs = tuple(self._written(ValueSource(output, execution))[0] for output in node.outputs)
        port = node.outputs.index(point.value)
        if not node.inputs:
            return Opened(node, None, tuple(arrays), outs, port, tuple(points))
        call = self.book.call(execution)
        opened = _opened(node, call, arrays, points, outs, port)
        recorded = self._written(ValueSource(point.value, execution))[1] == "recorded"
        many = sum(array.size for array in (*arrays, *outs)) > MOST_AGAIN
        if not recorded or many or not call.runs:
            return opened
        return replace(opened, doubt=not alike(call.run(arrays)[port], outs[port]))

    def _inner(self, point: Point) -> Opened:
        frame = point.frame
        assert frame is not None
        node = frame.makers[point.value]
        call = recorded_call(node)
        operands = [operand for operand in call.args if not isinstance(operand, Scalar)]
        points = [
            Point(operand, point.execution, frame)
            if operand in frame.makers
            else frame.given[operand]
            for operand in operands
        ]
        arrays = [frame.values[operand] for operand in operands]
        outs = tuple(np.asarray(frame.values[output]) for output in node.outputs)
        return _opened(node, call, arrays, points, outs, node.outputs.index(point.value))

    def _inside(self, point: Point, opened: Opened) -> Point | None:
        """The value inside a kernel or branch that the node returns; None for other nodes."""
        assert opened.call is not None
        if opened.node.op not in ("fused", "cond"):
            return None
        args, points = opened.args, opened.points
        if opened.node.op == "cond":
            chosen = bool(np.asarray(args[0]))
            body: Graph = opened.call.attrs["then" if chosen else "otherwise"]
            args, points = args[1:], points[1:]
        else:
            body = opened.call.attrs["body"]
        key = (opened.node.id, id(point.frame) if point.frame else point.execution.seq)
        frame = self._frames.get(key)
        if frame is None:
            frame = frame_of(body, args, points, opened.node.name)
            if frame is None:
                return None
            self._frames[key] = frame
            self._add_twin(frame, body, args, points, opened.node.name)
        value = body.outputs[opened.port]
        if value in frame.makers:
            return Point(value, point.execution, frame)
        return frame.given.get(value)

    def _add_twin(
        self,
        frame: BodyFrame,
        body: Graph,
        args: tuple[Any, ...],
        points: tuple[Point | None, ...],
        kernel: str,
    ) -> None:
        olds = [None if point is None else self.as_recorded(point) for point in points]
        if all(old is None for old in olds):
            return
        given = tuple(arg if old is None else old for arg, old in zip(args, olds, strict=True))
        twin = frame_of(body, given, points, kernel)
        if twin is not None:
            self._twins[id(frame)] = twin

    def _iteration(self, point: Point, opened: Opened, position: int) -> tuple[Point, int] | None:
        """The value in a scan's body that an element comes from, and the position within it."""
        assert opened.call is not None
        attrs = opened.call.attrs
        body: Graph = attrs["body"]
        carries, length = attrs["carries"], attrs["length"]
        if not length or length * len(body.nodes) > MOST_INSIDE:
            return None
        key = (opened.node.id, id(point.frame) if point.frame else point.execution.seq)
        frames = self._scans.get(key)
        if frames is None:
            frames = self._scans[key] = scan_frames(
                opened.node.name, attrs, opened.args, opened.points, point.execution
            )
        if not frames:
            return None
        at = (0 if attrs["reverse"] else length - 1) if opened.port < carries else None
        if at is None:
            row_size = opened.outs[opened.port].size // length
            at, position = divmod(position, max(row_size, 1))
        frame = frames[at]
        value = body.outputs[opened.port]
        inner = frame.given.get(value)
        if value in frame.makers:
            inner = Point(value, point.execution, frame)
        return None if inner is None else (inner, position)

    def _round(self, point: Point, opened: Opened, position: int) -> tuple[Point, int] | None:
        """The result of the last iteration of a while loop, or the loop's own input."""
        assert opened.call is not None
        key = (opened.node.id, id(point.frame) if point.frame else point.execution.seq)
        if key not in self._loops:
            self._loops[key] = while_frames(
                opened.node.name, opened.call.attrs, opened.args, opened.points, point.execution
            )
        frames = self._loops[key]
        if frames is None:
            return None
        inner = opened.points[opened.port]
        if frames:
            value = opened.call.attrs["body"].outputs[opened.port]
            inner = frames[-1].given.get(value)
            if value in frames[-1].makers:
                inner = Point(value, point.execution, frames[-1])
        return None if inner is None else (inner, position)


def _opened(
    node: Node,
    call: RecordedCall,
    arrays: list[Array],
    points: list[Point | None] | list[Point],
    outs: tuple[Array, ...],
    port: int,
) -> Opened:
    args: list[Any] = []
    sources: list[Point | None] = []
    waiting = iter(zip(arrays, points, strict=True))
    for operand in call.args:
        if isinstance(operand, Scalar):
            args.append(operand.value)
            sources.append(None)
        else:
            array, point = next(waiting)
            args.append(array)
            sources.append(point)
    return Opened(node, call, tuple(args), outs, port, tuple(sources))
