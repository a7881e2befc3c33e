"""Values by moment and by slice: from the recording, or from the program while it is
stopped.

Invariant: only the requested window is read and sent; if the elements are unavailable, the answer
says why and how to keep them the next time.
"""

from __future__ import annotations

import numpy as np

from nodescope.arrays.planes import Plane, placed
from nodescope.errors import LinkError
from nodescope.events import Array
from nodescope.ir.graph import OpaqueSpec, Spec, TensorSpec
from nodescope.record.blobs import decode, plain, readable
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution, ValueAt
from nodescope.record.summary import summarise
from nodescope_server import wire
from nodescope_server.handlers.missing_values import why_not_kept
from nodescope_server.handlers.what_if import BranchValue, value_in
from nodescope_server.runs.runs import Run

# One answer stays far below the largest frame.
MAX_ROWS = MAX_COLS = 512

Window = tuple[Array, tuple[int, int], tuple[int, ...]]


async def value_slice(run: Run, request: wire.GetValue) -> wire.ValueSlice:
    """Answer `wire.GetValue`.

    Raises:
        NodescopeError: The recording cannot be read, or the branch cannot be computed.
    """
    bounds = _bounds(request)
    if request.branch:
        there = await value_in(run, request.branch, request.value, request.seq)
        if there is not None:
            return _in_branch(request, there, bounds)
    computed, at, written, window = await run.query.call(
        lambda recording: _recorded(recording, request, bounds)
    )
    if not computed:
        return wire.ValueSlice(
            value=request.value, found=False, reason="Not computed yet at this moment."
        )
    # At the levels graph and timing there is no summary, but the execution and the shape are known.
    writer = at or (written[0] if written else None)
    seq, step = (writer.seq, writer.step) if writer else (0, 0)
    summary = at.summary if at else None
    reason = ""
    spec = summary.spec if summary else written[1] if written else None
    if window is None:
        live, reason = await _live(run, request, seq, Plane(request.index, *bounds))
        if live is not None:
            window, live_spec = live
            spec = summary.spec if summary else live_spec
        elif await run.whole():  # the elements had not been written yet
            return await value_slice(run, request)
    shape = spec.shape if spec and None not in spec.shape else ()
    if isinstance(spec, OpaqueSpec):
        reason = f"It is not a tensor but {spec}: its elements cannot be shown."
    if window is None:
        return wire.ValueSlice(request.value, True, seq, step, spec, summary, shape, reason=reason)
    elements, grid, index = window
    row, col = min(bounds[0], grid[0]), min(bounds[1], grid[1])
    return wire.ValueSlice(
        value=request.value,
        found=True,
        seq=seq,
        step=step,
        spec=spec,
        summary=summary,
        shape=shape,
        index=index,
        window=(row, col, elements.shape[0], elements.shape[1]),
        grid=grid,
        data=np.ascontiguousarray(elements, dtype="<f8").tobytes(),
        available=True,
    )


def _in_branch(
    request: wire.GetValue, there: BranchValue, bounds: tuple[int, int, int, int]
) -> wire.ValueSlice:
    array = there.array
    if array is None:
        reason = f"This branch could not compute it: {there.stuck}."
        return wire.ValueSlice(
            request.value, True, there.seq, there.step, reason=reason, branch=request.branch
        )
    summary = summarise(array)
    elements, grid, index = cut(array, request.index, *bounds)
    row, col = min(bounds[0], grid[0]), min(bounds[1], grid[1])
    return wire.ValueSlice(
        request.value, True, there.seq, there.step, summary.spec, summary, array.shape, index,
        (row, col, elements.shape[0], elements.shape[1]), grid,
        np.ascontiguousarray(elements, dtype="<f8").tobytes(), True, branch=request.branch,
    )  # fmt: skip


async def whole(run: Run, value: int, seq: int | None) -> tuple[Array | None, str]:
    """The whole array at a moment, or None and the reason.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> tuple[int | None, Array | None]:
        at = latest_known(recording, value, seq)
        if at is None:
            written = _written(recording, value, seq)
            return (written[0].seq if written else None), None
        return at.seq, recording.array(value, at.seq) if at.summary.blob else None

    written_seq, array = await run.query.call(read)
    if array is not None:
        return array, ""
    if written_seq is None and seq is not None:
        return None, "Not computed at this moment, or not recorded."
    live, reason = await _live_array(run, value, written_seq or 0)
    if live is None and await run.whole():  # the elements had not been written yet
        return await whole(run, value, seq)
    return live, reason


def cut(array: Array, index: tuple[int, ...], row: int, col: int, rows: int, cols: int) -> Window:
    """A window of a two-dimensional slice of an array, as `wire.GetValue` describes it.

    A vector is one row; a scalar is one by one.

    Returns:
        The window (float64, complex as magnitude), the rows and columns of the whole slice, and the
        leading indices used: missing entries are 0, others are clamped.
    """
    place = placed(array.shape, Plane(index, row, col, rows, cols))
    return plain(place.flat(array[place.window])), place.grid, place.fixed


def _bounds(request: wire.GetValue) -> tuple[int, int, int, int]:
    return (
        max(request.row, 0),
        max(request.col, 0),
        min(max(request.rows, 0), MAX_ROWS),
        min(max(request.cols, 0), MAX_COLS),
    )


def _recorded(
    recording: Recording, request: wire.GetValue, bounds: tuple[int, int, int, int]
) -> tuple[bool, ValueAt | None, tuple[Execution, Spec] | None, Window | None]:
    at = latest_known(recording, request.value, request.seq)
    if at is None:
        written = _written(recording, request.value, request.seq)
        return written is not None, None, written, None
    window = None
    if at.summary.blob:
        window = recording.array_slice(request.value, at.seq, request.index, *bounds)
    return True, at, None, window


def latest_known(recording: Recording, value: int, seq: int | None) -> ValueAt | None:
    """Everything known about a value at a moment; None if the latest execution has no
    statistics.
    """
    until = recording.last_seq() if seq is None else seq
    at = recording.latest_at(value, until)
    return at if at is not None and recording.ran_last(value, until) <= at.seq else None


def _written(recording: Recording, value: int, seq: int | None) -> tuple[Execution, Spec] | None:
    """The latest execution of the node that computes a value, at or before ``seq``.

    Returned with the value's definition at that time.
    """
    until = recording.last_seq() if seq is None else seq
    row = next(
        (defined for defined in recording.values(until=until) if defined.value.id == value), None
    )
    if row is None:
        return None
    state = recording.state_at(until)
    ran = next((execution for execution, _ in state if execution.node == row.producer), None)
    return None if ran is None else (ran, row.value.spec)


async def _live(
    run: Run, request: wire.GetValue, seq: int, plane: Plane
) -> tuple[tuple[Window, TensorSpec] | None, str]:
    """A window of a value that the program holds, if the value is still that of ``seq``; otherwise
    None and the reason.
    """
    answer, reason = await _read(run, request.value, seq, plane)
    if answer is None:
        return None, reason
    bounds = (plane.row, plane.col, plane.rows, plane.cols)
    if isinstance(answer, np.ndarray):
        spec = TensorSpec(answer.shape, answer.dtype.name)
        return (cut(answer, plane.index, *bounds), spec), ""
    spec, data = answer
    try:
        place = placed(spec.shape, plane)
        part = place.flat(as_array(data, spec.dtype, place.shape))
    except (ValueError, TypeError) as error:
        return None, f"The program sent an unreadable value: {error}."
    return ((plain(part), place.grid, place.fixed), spec), ""


async def _live_array(run: Run, value: int, seq: int) -> tuple[Array | None, str]:
    """Like `_live`, for the whole value."""
    answer, reason = await _read(run, value, seq, None)
    return (answer, reason) if isinstance(answer, np.ndarray) else (None, reason)


async def _read(
    run: Run, value: int, seq: int, plane: Plane | None
) -> tuple[Array | tuple[TensorSpec, bytes] | None, str]:
    """Request a value from the program: the whole if small, else the bytes of a window."""
    reason = await run.query.call(
        lambda recording: why_not_kept(recording, run.info.level, value, seq)
    )
    stopped = run.session is not None and run.session.phase == "stopped"
    if run.peer is None or not stopped:
        return None, reason
    latest = await run.query.call(lambda recording: _latest_seq(recording, value))
    if latest and latest != seq:
        return None, reason
    if run.held is not None and run.held[:2] == (value, seq):
        return run.held[2], ""
    try:
        answer = await run.peer.read(value, plane)
    except LinkError as error:
        return None, f"{reason} {error}."
    if not answer.found or answer.spec is None:
        return None, f"{reason} The program no longer holds it."
    if not answer.whole:
        return (answer.spec, answer.data), ""
    try:
        array = as_array(answer.data, answer.spec.dtype, answer.spec.shape)
    except (ValueError, TypeError) as error:
        return None, f"The program sent an unreadable value: {error}."
    run.held = (value, seq, array)
    return array, ""


def _latest_seq(recording: Recording, value: int) -> int:
    at = recording.latest_at(value)
    return max(at.seq if at is not None else 0, recording.ran_last(value, recording.last_seq()))


def as_array(data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    """A live value from its bytes (C order, little-endian).

    Raises:
        ValueError, TypeError: Bytes, dtype and shape do not match.
    """
    if not readable(dtype):
        raise TypeError("arrays of text or objects are not read")
    return decode(data, dtype).reshape(shape)
