"""Held blocks: the outputs of executions that were reported together, held as one object.

Invariant: arrays taken out of a block are copies, so that the block's memory can be reused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from nodescope.errors import ArrayError
from nodescope.events import NodesFinished
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.track import Elements, Track, TrackValue
from nodescope.record.newest.held import ENTRY_BYTES, Held


class HeldBlock(NamedTuple):
    """The outputs of consecutive executions on a track.

    Attributes:
        seq, step: Seq and step of the first execution.
        track, first, many: The executions, by their positions on the track.
        elements: The copies.
        nbytes: Size of the copies.
        missing: The number of outputs without a copy.
    """

    seq: int
    step: int
    track: Track
    first: int
    many: int
    elements: Elements
    nbytes: int
    missing: int

    @classmethod
    def of(
        cls, event: NodesFinished, seq: int, without: frozenset[int] = frozenset()
    ) -> HeldBlock | None:
        """The block of an event; None without copies.

        Args:
            event: Executions that were reported together.
            seq: The seq of the first execution.
            without: Nodes whose outputs the block leaves out, because they are kept elsewhere.
        """
        elements, many = event.elements, len(event.times)
        if elements is None:
            return None
        missing = elements.places.count(-1)
        if without:
            elements = _without(event, elements, without)
        return cls(
            seq, event.step, event.track, event.first, many, elements, elements.nbytes, missing
        )

    @property
    def end(self) -> int:
        """The seq after the last execution."""
        return self.seq + self.many

    @property
    def outputs(self) -> tuple[TrackValue, ...]:
        """The outputs, with and without a copy."""
        return _values(self.track, self.first, self.many)

    def larger_than(self, nbytes: int) -> int:
        """The number of outputs that are too large to be held."""
        if not self.missing:
            return 0
        return sum(known.nbytes + ENTRY_BYTES > nbytes for known in self.outputs)

    def executions(self, nodes: frozenset[int] | None = None) -> list[Held]:
        """The executions of all nodes, or of some, that have a copy of an output."""
        try:
            if self.elements.ready is not None:
                self.elements.ready()
        except ArrayError:  # the device has failed
            return []
        firsts, places = self.track.firsts, self.elements.places
        begin = firsts[self.first]
        executions: list[Held] = []
        for nth in range(self.many):
            if nodes is not None and self.track.nodes[self.first + nth].id not in nodes:
                continue
            of = range(firsts[self.first + nth], firsts[self.first + nth + 1])
            outputs = tuple(
                (known.value, self._array(known, places[at - begin]))
                for at, known in zip(of, self.track.values[of.start : of.stop], strict=True)
                if places[at - begin] >= 0
            )
            if outputs:
                nbytes = sum(array.nbytes for _, array in outputs)
                executions.append(Held(self.seq + nth, self.step, outputs, nbytes))
        return executions

    def _array(self, known: TrackValue, place: int) -> np.ndarray[Any, Any]:
        memory = self.elements.memory[place : place + known.nbytes]
        return memory.view(as_dtype(known.dtype)).reshape(known.shape).copy()  # type: ignore[no-any-return]


def executions_of(nodes: frozenset[int], event: NodesFinished, seq: int) -> tuple[Held, ...]:
    """The executions of some nodes with a copy of an output; ``seq`` is the event's first."""
    block = HeldBlock.of(event, seq) if nodes else None
    return () if block is None else tuple(block.executions(nodes))


def _without(event: NodesFinished, elements: Elements, nodes: frozenset[int]) -> Elements:
    """The copies without those of some nodes."""
    firsts, places, nbytes = event.track.firsts, list(elements.places), elements.nbytes
    begin = firsts[event.first]
    for at in range(event.first, event.first + len(event.times)):
        if event.track.nodes[at].id in nodes:
            for output in range(firsts[at], firsts[at + 1]):
                if places[output - begin] >= 0:
                    nbytes -= event.track.values[output].nbytes
                places[output - begin] = -1
    return msgspec.structs.replace(elements, places=tuple(places), nbytes=nbytes)


def _values(track: Track, first: int, many: int) -> tuple[TrackValue, ...]:
    return track.values[track.firsts[first] : track.firsts[first + many]]
