"""Values by moment and by slice: from the recording, or from the program while it stands.

Invariant: only the window that was asked for is read and sent; when the elements cannot be had, the
answer says why and how to have them the next time.
"""

from __future__ import annotations

import numpy as np

from nodescope.errors import LinkError
from nodescope.events import Array
from nodescope.ir.graph import TensorSpec
from nodescope.record.blobs import decode, plain, readable
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution, ValueAt
from nodescope_server import wire
from nodescope_server.runs import Run
from nodescope_server.unkept import why_not_kept

# One answer stays far below the largest frame.
MAX_ROWS = MAX_COLS = 512

Window = tuple[Array, tuple[int, int], tuple[int, ...]]


async def value_slice(run: Run, request: wire.GetValue) -> wire.ValueSlice:
    """Answer `wire.GetValue`.

    Raises:
        RecordingError: The recording cannot be read.
    """
    where = _bounds(request)
    found, at, writer, window = await run.query.call(lambda each: _recorded(each, request, where))
    if not found:
        return wire.ValueSlice(
            value=request.value, found=False, reason="Not computed yet at this moment."
        )
    # At the levels graph and timing there is no summary, but the execution is known.
    seq, step = (at.seq, at.step) if at else (writer.seq, writer.step) if writer else (0, 0)
    summary = at.summary if at else None
    reason = ""
    spec = summary.spec if summary else None
    if window is None:
        array, reason = await _live(run, request, seq)
        if array is not None:
            window = cut(array, request.index, *where)
            spec = spec or TensorSpec(array.shape, array.dtype.name)
    shape = spec.shape if spec else ()
    if window is None:
        return wire.ValueSlice(request.value, True, seq, step, spec, summary, shape, reason=reason)
    elements, grid, index = window
    row, col = min(where[0], grid[0]), min(where[1], grid[1])
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


async def whole(run: Run, value: int, seq: int | None) -> tuple[Array | None, str]:
    """The whole array at a moment, or None and the reason.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> tuple[int | None, Array | None]:
        at = recording.latest_at(value, seq)
        if at is None:
            return None, None
        return at.seq, recording.array(value, at.seq) if at.summary.blob else None

    found, array = await run.query.call(read)
    if array is not None:
        return array, ""
    if found is None and seq is not None:
        return None, "Not computed at this moment, or not recorded."
    return await _live(run, wire.GetValue(run.info.id, value, seq), found or 0)


def cut(array: Array, index: tuple[int, ...], row: int, col: int, rows: int, cols: int) -> Window:
    """A window of a two-dimensional slice of an array, as `wire.GetValue` describes it.

    A vector is one row; a scalar is one by one.

    Returns:
        The window (float64, complex as magnitude), the rows and columns of the whole slice, and
        the leading axes as they were taken: missing entries are 0, others are kept in range.
    """
    leading = array.shape[:-2] if array.ndim > 2 else ()
    wanted = (*index, *(0 for _ in leading))[: len(leading)]
    taken = tuple(max(0, min(each, size - 1)) for each, size in zip(wanted, leading, strict=True))
    # An axis of length 0 has no element to fix: the slice is empty.
    plane = array[taken] if all(leading) else np.zeros((0, 0))
    plane = plane.reshape((1,) * (2 - plane.ndim) + plane.shape)
    part = plane[row : row + rows, col : col + cols]
    grid = (int(plane.shape[0]), int(plane.shape[1]))
    return plain(part), grid, taken


def _bounds(request: wire.GetValue) -> tuple[int, int, int, int]:
    return (
        max(request.row, 0),
        max(request.col, 0),
        min(max(request.rows, 0), MAX_ROWS),
        min(max(request.cols, 0), MAX_COLS),
    )


def _recorded(
    recording: Recording, request: wire.GetValue, where: tuple[int, int, int, int]
) -> tuple[bool, ValueAt | None, Execution | None, Window | None]:
    at = recording.latest_at(request.value, request.seq)
    if at is None:
        writer = _writer(recording, request.value, request.seq)
        return writer is not None, None, writer, None
    window = None
    if at.summary.blob:
        window = recording.array_slice(request.value, at.seq, request.index, *where)
    return True, at, None, window


def _writer(recording: Recording, value: int, seq: int | None) -> Execution | None:
    """The latest execution of the node that computes a value, at or before ``seq``."""
    producer = None
    for row in recording.values():
        if row.value.id == value and (seq is None or row.seq <= seq):
            producer = row.producer
    if producer is None:
        return None
    state = recording.state_at(recording.last_seq() if seq is None else seq)
    return next((each for each, _ in state if each.node == producer), None)


async def _live(run: Run, request: wire.GetValue, seq: int) -> tuple[Array | None, str]:
    """The array that the program holds, if it is still the one of ``seq``; or None and why not."""
    reason = await run.query.call(
        lambda each: why_not_kept(each, run.info.level, request.value, seq)
    )
    stopped = run.session is not None and run.session.phase == "stopped"
    if run.peer is None or not stopped:
        return None, reason
    latest = await run.query.call(lambda each: each.latest_at(request.value, None))
    if latest is not None and latest.seq != seq:
        return None, reason
    if run.held is not None and run.held[:2] == (request.value, seq):
        return run.held[2], ""
    try:
        answer = await run.peer.read(request.value)
    except LinkError as error:
        return None, f"{reason} {error}."
    if not answer.found or answer.spec is None:
        return None, f"{reason} The program no longer holds it."
    try:
        array = as_array(answer.data, answer.spec.dtype, answer.spec.shape)
    except (ValueError, TypeError) as error:
        return None, f"The program sent an unreadable value: {error}."
    run.held = (request.value, seq, array)
    return array, ""


def as_array(data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    """A live value from its bytes (C order, little-endian).

    Raises:
        ValueError, TypeError: Bytes, dtype and shape do not fit together.
    """
    if not readable(dtype):
        raise TypeError("arrays of text or objects are not read")
    return decode(data, dtype).reshape(shape)
