"""Operand writers: which execution wrote each operand that an execution read.

An array is known by its identity, which is unique while the array lives. If several executions
produced a value in arrays of one identity, the last one is the writer. Nearly always, an operand is
the latest result of its node and needs no row; the exceptions are rows of the table ``operand``.

Invariant: runs in the recorder's thread only, in the order of the run; bounded in memory.
"""

from __future__ import annotations

from array import array as array_of
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nodescope import native
from nodescope.ir.graph import Node

UNKNOWN: Final = 0
"""In place of a seq: it is not known which execution wrote the operand."""

ENGINE: Final = "nodescope"

# How many writers of one value are remembered: many up to a number of values, fewer beyond it.
_MOST_KEPT: Final = 64
_MANY_VALUES: Final = 4096
_FEW_KEPT: Final = 8


Move = tuple[int, int, int, int]
"""An array that moved: how many executions came before, or the last one; and the arguments of
`OperandWriters.moved`.
"""


class OperandRow(NamedTuple):
    """An operand that is not its node's latest result; a row of the table ``operand``.

    Attributes:
        seq, port: The execution that read it, and the number of the input.
        wrote: The execution that wrote it, or `UNKNOWN`.
    """

    seq: int
    port: int
    wrote: int


def noted(
    ask: Callable[..., list[tuple[Any, ...]]], after: int, until: int
) -> dict[tuple[int, int], int]:
    """The rows of the table ``operand`` in ``(after, until]``: the execution that wrote an operand,
    by reader and port."""
    rows = ask("SELECT seq, port, wrote FROM operand WHERE seq > ? AND seq <= ?", after, until)
    return {(seq, port): wrote for seq, port, wrote in rows}


class _Written:
    """The executions that computed a value, the last one for each identity of its array.

    Attributes:
        latest: The seq of the last execution.
        array: The identity of the array in which it produced the value; 0 if not known.
        earlier: By identity of other arrays, the last execution that produced the value there.
    """

    __slots__ = ("array", "earlier", "latest")

    def __init__(self) -> None:
        self.latest = self.array = 0
        self.earlier: dict[int, int] = {}


class OperandWriters(Protocol):
    """Follows the arrays of a run through its executions."""

    def ran(self, seq: int, node: Node, ids: Sequence[int]) -> Sequence[OperandRow]:
        """Note an execution; return its operands that are not their nodes' latest results.

        Args:
            seq: The seq of the execution.
            node: The node as it ran.
            ids: Identities of the arrays that it read, then of those that it produced.
        """

    def many_ran(
        self,
        seqs: NDArray[np.int64],
        nodes: list[Node],
        counts: NDArray[np.int64],
        ids: NDArray[np.uint64],
        moves: Sequence[Move],
    ) -> Sequence[OperandRow]:
        """The same for many executions.

        Args:
            seqs, nodes: Their seqs and nodes.
            counts: Their numbers of identities.
            ids: The identities, one execution after the other.
            moves: Arrays that moved meanwhile, in ascending order of how many of the executions
                came before.
        """

    def failed(self, seq: int, node: Node, ids: Sequence[int]) -> Sequence[OperandRow]:
        """Note an execution that raised, and so only read arrays; see `ran`."""

    def edited(self, value: int, seq: int) -> None:
        """Note that the user changed a value, which is now in an array of unknown identity."""

    def moved(self, value: int, before: int, now: int) -> None:
        """Note that a value's elements are now in another array; both are given by identity."""


def operand_writers() -> OperandWriters:
    """Operand writers, in the native core if there is one."""
    return PythonWriters() if native.Writers is None else NativeWriters(native.Writers())


class NativeWriters:
    """Operand writers in the native core.

    Args:
        core: An instance of `native.Writers`.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self.edited: Callable[[int, int], None] = core.edited
        self.moved: Callable[[int, int, int], None] = core.moved

    def ran(self, seq: int, node: Node, ids: Sequence[int]) -> Sequence[OperandRow]:
        """See `OperandWriters`."""
        return self._one(seq, node, ids, failed=False)

    def failed(self, seq: int, node: Node, ids: Sequence[int]) -> Sequence[OperandRow]:
        """See `OperandWriters`."""
        return self._one(seq, node, ids, failed=True)

    def many_ran(
        self,
        seqs: NDArray[np.int64],
        nodes: list[Node],
        counts: NDArray[np.int64],
        ids: NDArray[np.uint64],
        moves: Sequence[Move],
    ) -> Sequence[OperandRow]:
        """See `OperandWriters`."""
        columns = (seqs.tobytes(), nodes, counts.tobytes(), ids.tobytes())
        moved = array_of("q", chain.from_iterable(moves)).tobytes()
        return list(map(OperandRow._make, self._core.ran(*columns, False, moved)))

    def _one(
        self, seq: int, node: Node, ids: Sequence[int], *, failed: bool
    ) -> Sequence[OperandRow]:
        numbers = (array_of("q", (seq,)).tobytes(), array_of("q", (len(ids),)).tobytes())
        arrays = array_of("Q", ids).tobytes()
        rows = self._core.ran(numbers[0], [node], numbers[1], arrays, failed, b"")
        return list(map(OperandRow._make, rows))


class PythonWriters:
    """Operand writers in Python."""

    def __init__(self) -> None:
        self._written: dict[int, _Written] = {}

    def many_ran(
        self,
        seqs: NDArray[np.int64],
        nodes: list[Node],
        counts: NDArray[np.int64],
        ids: NDArray[np.uint64],
        moves: Sequence[Move],
    ) -> Sequence[OperandRow]:
        """See `OperandWriters`."""
        rows: list[OperandRow] = []
        known, at, moved = ids.tolist(), 0, deque(moves)
        for place, (seq, count) in enumerate(zip(seqs.tolist(), counts.tolist(), strict=True)):
            while moved and moved[0][0] <= place:
                self.moved(*moved.popleft()[1:])
            rows += self.ran(seq, nodes[place], known[at : at + count])
            at += count
        for _, *arrays in moved:
            self.moved(*arrays)
        return rows

    def ran(self, seq: int, node: Node, ids: Sequence[int]) -> Sequence[OperandRow]:
        """See `OperandWriters`."""
        if node.dialect != ENGINE:
            return ()  # other libraries may make new objects for the same array
        inputs, outputs = node.inputs, node.outputs
        count = len(inputs)
        if len(ids) != count + len(outputs):
            for value in outputs:
                self._loosen(value, seq)
            return ()
        rows = self._read(seq, inputs, ids) if count else ()
        for at, value in enumerate(outputs, count):
            written, array = self._written.get(value), ids[at]
            if written is not None and written.array == array:  # the usual case
                written.latest = seq
            else:
                self._wrote(value, seq, array)
        return rows

    def failed(self, seq: int, node: Node, ids: Sequence[int]) -> Sequence[OperandRow]:
        """See `OperandWriters`."""
        if node.dialect != ENGINE or len(ids) != len(node.inputs):
            return ()
        return self._read(seq, node.inputs, ids)

    def edited(self, value: int, seq: int) -> None:
        """See `OperandWriters`."""
        self._loosen(value, seq)

    def moved(self, value: int, before: int, now: int) -> None:
        """See `OperandWriters`."""
        written = self._written.get(value)
        if written is None:
            return
        seq = written.latest if written.array == before else written.earlier.get(before)
        if seq is not None:
            written.earlier[now] = seq

    def _read(self, seq: int, inputs: Sequence[int], ids: Sequence[int]) -> Sequence[OperandRow]:
        rows: list[OperandRow] | tuple[()] = ()
        find = self._written.get
        for port, value in enumerate(inputs):
            written = find(value)
            if written is None or written.array == ids[port]:
                continue
            wrote = written.earlier.get(ids[port])
            if wrote == written.latest or (wrote is None and not written.array):
                continue
            row = OperandRow(seq, port, UNKNOWN if wrote is None else wrote)
            rows = [*rows, row]
        return rows

    def _wrote(self, value: int, seq: int, array: int) -> None:
        """Note that a value is now in a different array."""
        written = self._written.get(value)
        if written is None:
            written = self._written[value] = _Written()
        earlier = written.earlier
        earlier.pop(array, None)
        if written.array:
            earlier[written.array] = written.latest  # the newest entry is the last one
        if len(earlier) >= _FEW_KEPT:
            most = _MOST_KEPT if len(self._written) < _MANY_VALUES else _FEW_KEPT
            while len(earlier) >= most:
                del earlier[next(iter(earlier))]
        written.latest, written.array = seq, array

    def _loosen(self, value: int, seq: int) -> None:
        """Note that a value is now in an array of unknown identity, perhaps another value's."""
        written = self._written.get(value)
        if written is None:
            written = self._written[value] = _Written()
        written.latest, written.array = seq, 0
        written.earlier.clear()
