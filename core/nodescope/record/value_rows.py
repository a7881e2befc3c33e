"""Value rows: the rows of the table ``value``, a new one whenever a value's spec changes.

Invariant: a value whose shape changes all the time is defined again at most `MOST_RESHAPED` times.
"""

from __future__ import annotations

from array import array as array_of
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nodescope.console_output import printable
from nodescope.ir.graph import Node, Value
from nodescope.ir.identity import MOST_RESHAPED
from nodescope.record.schema import spec_columns

Integers = NDArray[np.int64]

_LISTED: Final = 1 << 20
"""Values with larger ids are not in the lists by value."""

_UNKNOWN: Final = -1  # in place of a spec's number
_NOT_LISTED: Final = -2
_NEVER: Final = (0, 0)
# Storage, device and bytes of values on the device of their node.
_PLACE: tuple[int, str, int | None] = (0, "", None)

# A value, and what its rows hold.
_Definition = tuple[Value, tuple[str, str, str], tuple[int, str, int | None]]


def _definition_of(value: Value) -> _Definition:
    dtype, shape, device, nbytes = spec_columns(value.spec)
    return value, (printable(value.name), dtype, shape), (value.storage, device, nbytes)


class ValueRows:
    """Makes the rows; each holds from the execution ``seq`` on.

    Attributes:
        specs: By value, its name, dtype and shape as last defined.
    """

    def __init__(self) -> None:
        self.specs: dict[int, tuple[str, str, str]] = {}
        self._producers: dict[int, int] = {}
        # By value that was defined again: its last definitions, which return when a smaller last
        # batch has passed.
        self._definitions: dict[int, tuple[_Definition, ...]] = {}
        self._places: dict[int, tuple[int, str, int | None]] = {}
        self._reshaped: dict[int, tuple[int, int]] = {}  # how often, and the latest seq
        self._numbers: dict[tuple[str, str], int] = {}  # of each dtype and shape
        # By value, to look up many at once: the number of its spec, and the latest seq at which it
        # was defined or seen with another one.
        self._known, self._since = array_of("q"), array_of("q")
        self._unlisted: set[int] = set()  # values that have changed since

    def produced(self, node: Node) -> None:
        """Note the values that a node produces."""
        for value in node.outputs:
            self._producers[value] = node.id

    def defined(self, seq: int, value: Value) -> tuple[Any, ...]:
        """The row of a value as the graph defines it."""
        number = value.id
        previous = self.specs.get(number)
        if previous is None:
            _, spec, place = _definition_of(value)
        else:
            _, spec, place = self._definition(value)
        if place != _PLACE:
            self._places[number] = place
        if previous != spec:
            if previous is not None:
                self._reshaped[number] = (self._reshaped.get(number, _NEVER)[0] + 1, seq)
            self.specs[number] = spec
            self._unlisted.add(number)
        return (None, seq, number, *spec, self._producers.get(number), *place)

    def _definition(self, value: Value) -> _Definition:
        known = self._definitions.get(value.id, ())
        for definition in known:
            if definition[0] is value:
                return definition
        definition = _definition_of(value)
        self._definitions[value.id] = (*known[-1:], definition)
        return definition

    def _list(self) -> None:
        """List what has changed."""
        for value in self._unlisted:
            if 0 <= value < _LISTED:
                if value >= len(self._known):
                    self._extend(value)
                spec = self.specs[value][1:]
                self._known[value] = self._numbers.setdefault(spec, len(self._numbers))
                self._since[value] = self._reshaped.get(value, _NEVER)[1]
        self._unlisted.clear()

    def _extend(self, value: int) -> None:
        more = value + 1  # at least as many as there are
        self._known.extend(array_of("q", (_UNKNOWN,)) * more)
        self._since.extend(array_of("q", (0,)) * more)

    def differing(
        self, seqs: Integers, values: Integers, kinds: Integers,
        specs: Sequence[tuple[str, str]], others: Integers,
    ) -> Integers:  # fmt: skip
        """The indexes, in order, of outputs whose spec may have to be noted by `changed`.

        Args:
            seqs, values, kinds: Those of each output, in the order of the run; kinds are indexes
                in ``specs``.
            specs: The distinct dtypes and shapes.
            others: Values that were also seen in other executions.
        """
        self._list()
        find = self._numbers.get
        numbers = np.array([find(spec, _UNKNOWN) for spec in specs], dtype=np.int64)[kinds]
        known, since = self._listed(values)
        early = seqs < since
        differs = ((known != numbers) | (known == _NOT_LISTED)) & (known != _UNKNOWN) & ~early
        if not (differs.any() or np.isin(others, values).any()):
            return np.flatnonzero(differs)
        # A value may also change back.
        some = np.concatenate([np.unique(values[differs]), others])
        chosen = np.flatnonzero(np.isin(values, some) & ~early)
        order = chosen[np.argsort(values[chosen], kind="stable")]
        changes = known[order] == _NOT_LISTED
        changes[:1] = True
        changes[1:] |= (np.diff(values[order]) != 0) | (np.diff(kinds[order]) != 0)
        if len(others):
            changes |= np.isin(values[order], others)
        return np.sort(order[changes])

    def _listed(self, values: Integers) -> tuple[Integers, Integers]:
        """The number of each value's spec, and the latest seq at which it was noted."""
        if not self._known:
            self._extend(0)
        many = len(self._known)
        known, since = (np.frombuffer(of, dtype=np.int64) for of in (self._known, self._since))
        places = np.clip(values, 0, many - 1)
        known, since = known[places], since[places]
        if not np.array_equal(places, values):
            listed = (values >= 0) & (values < _LISTED)
            known[places != values] = _UNKNOWN
            known[~listed] = _NOT_LISTED
            since[places != values] = 0
        return known, since

    def changed(self, seq: int, value: int, dtype: str, shape: str) -> tuple[Any, ...] | None:
        """The row of a known value that was seen with another dtype or shape; None if late or too
        often.
        """
        times, last = self._reshaped.get(value, _NEVER)
        if times >= MOST_RESHAPED or seq < last:  # a summary may come late
            return None
        self._reshaped[value] = (times + 1, seq)
        spec = self.specs[value] = (self.specs[value][0], dtype, shape)
        self._unlisted.add(value)
        place = self._places.get(value, _PLACE)
        return (None, seq, value, *spec, self._producers.get(value), *place)
