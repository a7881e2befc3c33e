"""Hits of a run, collected by watch and value: the first of each value, and how many there were.

Invariant: memory does not grow with the number of hits, only with that of the values that have any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodescope.debug.watch import get
from nodescope.debug.watch.watch import Hit, Watch


class ValueHits:
    """The hits of a watch on one value.

    Attributes:
        first: The first of them.
        times: How many there are.
        last_step: The step of the last one.
    """

    __slots__ = ("_in_row", "first", "last_step", "times")

    def __init__(self, hit: Hit) -> None:
        self.first = hit
        self.times = 0
        self.last_step = hit.step
        self._in_row = 0

    def goes_on(self, hit: Hit) -> bool:
        """Whether a hit continues the row of findings that the last one belongs to."""
        return hit.in_row > self._in_row

    def take(self, hit: Hit) -> None:
        """Count a further hit."""
        self.times += 1
        self.last_step = hit.step
        self._in_row = hit.in_row


class HitCollection:
    """Takes hits, one by one; `of` gives those of a watch.

    Of rules whose findings count only if they last, those that ended are forgotten.
    """

    def __init__(self) -> None:
        self._hits: dict[int, dict[tuple[int, int], ValueHits]] = {}
        self._lasting: dict[str, bool] = {}

    def take(self, hit: Hit) -> bool:
        """Take a hit; those of a watch come in order. Whether it is the first of its value."""
        values = self._hits.setdefault(hit.watch, {})
        place = (hit.value, hit.node)
        known = values.get(place)
        first = known is None or (self._lasts(hit.rule) and not known.goes_on(hit))
        if known is None or first:
            known = values[place] = ValueHits(hit)
        known.take(hit)
        return first

    def of(self, watch: Watch, ongoing: Callable[[int], Iterable[int]]) -> list[ValueHits]:
        """The hits of a watch, by seq.

        Args:
            ongoing: Gives the values of which a watch, by its id, found something when it was asked
                last.
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
