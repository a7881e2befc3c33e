"""Hits of a run, collected by watch and value: the first hit of each value, and their number.

Invariant: memory grows with the number of values that have hits, not with the number of hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodescope.debug.watch import get
from nodescope.debug.watch.watch import Hit, Watch


class ValueHits:
    """The hits of a watch on one value.

    Attributes:
        first: The first hit.
        times: The number of hits.
        last_step: The step of the last hit.
    """

    __slots__ = ("_in_row", "first", "last_step", "times")

    def __init__(self, hit: Hit) -> None:
        self.first = hit
        self.times = 0
        self.last_step = hit.step
        self._in_row = 0

    def goes_on(self, hit: Hit) -> bool:
        """Whether a hit belongs to the same uninterrupted series of findings as the last one."""
        return hit.in_row > self._in_row

    def take(self, hit: Hit) -> None:
        """Count a further hit."""
        self.times += 1
        self.last_step = hit.step
        self._in_row = hit.in_row


class HitCollection:
    """Collects hits by watch and value.

    If a rule's findings count only if they last, hits of an interrupted series are forgotten.
    """

    def __init__(self) -> None:
        self._hits: dict[int, dict[tuple[int, int], ValueHits]] = {}
        self._lasting: dict[str, bool] = {}

    def take(self, hit: Hit) -> bool:
        """Add a hit, in the order of its watch; return whether it is the first of its value."""
        values = self._hits.setdefault(hit.watch, {})
        place = (hit.value, hit.node)
        known = values.get(place)
        first = known is None or (self._lasts(hit.rule) and not known.goes_on(hit))
        if known is None or first:
            known = values[place] = ValueHits(hit)
        known.take(hit)
        return first

    def of(self, watch: Watch, ongoing: Callable[[int], Iterable[int]]) -> list[ValueHits]:
        """The hits of a watch, in order of the first hit's seq.

        Args:
            watch: The watch.
            ongoing: Returns the values that a watch, by its id, hit in its last evaluation.
        """
        hits = list(self._hits.get(watch.id, {}).values())
        if self._lasts(watch.rule):
            values = frozenset(ongoing(watch.id))
            hits = [hit for hit in hits if hit.first.value in values]
        return sorted(hits, key=lambda hit: hit.first.seq)

    def _lasts(self, rule: str) -> bool:
        if rule not in self._lasting:
            self._lasting[rule] = get(rule).lasting
        return self._lasting[rule]
