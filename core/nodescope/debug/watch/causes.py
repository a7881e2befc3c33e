"""Causes: which verdicts of a check follow from another one, and their order.

Invariant: pure. No verdict is left out: one that follows from another is listed beneath it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from nodescope.debug.watch import get
from nodescope.debug.watch.birth_hits import RULE as BIRTHS
from nodescope.debug.watch.check_verdicts import VerdictHit, WatchVerdict

# Rules that report any NaN and Inf, which follow from a birth.
_NONFINITE: Final = frozenset({"weight_overflow", "gradient_exploding"})


def in_order(verdicts: Sequence[WatchVerdict], broken_seq: int) -> tuple[WatchVerdict, ...]:
    """The verdicts with their causes: those with hits first, ordered by cause and first hit.

    Args:
        broken_seq: The seq of the birth of NaN or Inf that reached a weight or a loss first, or 0.
    """
    by_rule = {verdict.rule: verdict for verdict in verdicts if verdict.state == "hit"}
    births = by_rule.get(BIRTHS)
    before = _diverged(by_rule.values(), broken_seq)
    done = []
    for verdict in verdicts:
        cause = ""
        if verdict.state == "hit":
            if before is not None and verdict.rule in (*_NONFINITE, BIRTHS):
                cause = before.watch
            elif broken_seq and births is not None and before is None and verdict is not births:
                verdict, cause = _after(verdict, broken_seq, births.watch)
            cause = cause or _explained(verdict, by_rule)
        done.append(msgspec.structs.replace(verdict, cause=cause))
    hits = [verdict for verdict in done if verdict.state == "hit"]
    hits.sort(key=lambda verdict: (bool(verdict.cause), _place(verdict)))
    return (*hits, *(verdict for verdict in done if verdict.state != "hit"))


def _place(verdict: WatchVerdict) -> tuple[bool, int]:
    """The sort key. Verdicts about losses come last: they do not say what is wrong."""
    return get(verdict.rule).applies == ("losses",), verdict.found[0].seq


def _diverged(verdicts: Iterable[WatchVerdict], broken_seq: int) -> WatchVerdict | None:
    """The verdict that training diverged before the birth at ``broken_seq``, if there is one."""
    for verdict in verdicts:
        first = verdict.found[0]
        if get(verdict.rule).diverges and _finite(first) and first.seq < broken_seq:
            return verdict
    return None


def _finite(hit: VerdictHit) -> bool:
    """Whether a hit reports numbers rather than NaN or Inf."""
    return bool(hit.actual)


def _after(verdict: WatchVerdict, seq: int, cause: str) -> tuple[WatchVerdict, str]:
    """A verdict without its hits after the birth; if there are only such hits, with its cause."""
    if get(verdict.rule).applies == ("graph",):
        return verdict, ""
    earlier = tuple(hit for hit in verdict.found if hit.seq < seq)
    if not earlier:
        return verdict, cause
    times = sum(hit.times for hit in earlier)
    return msgspec.structs.replace(verdict, found=earlier, hits=times), ""


def _explained(verdict: WatchVerdict, by_rule: dict[str, WatchVerdict]) -> str:
    rule = get(verdict.rule)
    causes = [by_rule[name] for name in rule.follows if name in by_rule]
    return causes[0].watch if causes else ""
