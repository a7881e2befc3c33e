"""Value rows: the rows of the table ``value``, a new one whenever a value's spec changes.

Invariant: a value whose shape changes all the time is defined again at most `MOST_RESHAPED` times.
"""

from __future__ import annotations

from typing import Any

from nodescope.console_output import printable
from nodescope.ir.graph import Node, Value
from nodescope.ir.identity import MOST_RESHAPED
from nodescope.record.schema import spec_columns

# Storage, device and bytes of values on the device of their node.
_PLACE: tuple[int, str, int | None] = (0, "", None)


class ValueRows:
    """Makes the rows; each holds from the execution ``seq`` on.

    Attributes:
        specs: By value, its name, dtype and shape as last defined.
    """

    def __init__(self) -> None:
        self.specs: dict[int, tuple[str, str, str]] = {}
        self._producers: dict[int, int] = {}
        self._places: dict[int, tuple[int, str, int | None]] = {}
        self._reshaped: dict[int, tuple[int, int]] = {}  # how often, and the latest seq

    def produced(self, node: Node) -> None:
        """Note the values that a node produces."""
        for value in node.outputs:
            self._producers[value] = node.id

    def defined(self, seq: int, value: Value) -> tuple[Any, ...]:
        """The row of a value as the graph defines it."""
        dtype, shape, device, nbytes = spec_columns(value.spec)
        spec = (printable(value.name), dtype, shape)
        place = (value.storage, device, nbytes)
        if place != _PLACE:
            self._places[value.id] = place
        previous = self.specs.get(value.id)
        if previous is not None and previous != spec:
            self._reshaped[value.id] = (self._reshaped.get(value.id, (0, 0))[0] + 1, seq)
        self.specs[value.id] = spec
        return (None, seq, value.id, *spec, self._producers.get(value.id), *place)

    def reshaped_since(self, seq: int) -> list[int]:
        """The values that were last defined or seen with another spec at an execution or later."""
        return [value for value, (_, last) in self._reshaped.items() if last >= seq]

    def changed(self, seq: int, value: int, dtype: str, shape: str) -> tuple[Any, ...] | None:
        """The row of a known value that was seen with another dtype or shape; None if late or too
        often.
        """
        times, last = self._reshaped.get(value, (0, 0))
        if times >= MOST_RESHAPED or seq < last:  # a summary may come late
            return None
        self._reshaped[value] = (times + 1, seq)
        spec = self.specs[value] = (self.specs[value][0], dtype, shape)
        place = self._places.get(value, _PLACE)
        return (None, seq, value, *spec, self._producers.get(value), *place)
