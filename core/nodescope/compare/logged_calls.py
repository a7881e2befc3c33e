"""The calls that two runs logged: the first that is not the same in both.

Invariant: pure. Calls of one function in one step may come in any order, as threads have them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal, NamedTuple

from nodescope.ir.differences import CallLog, LoggedCall


class OtherCall(NamedTuple):
    """A call that differs.

    Attributes:
        function: Its name.
        step: The training step.
        number: Which call of the function it is, from 1.
        kind: Whether it was ``given`` something else, has another ``result``, or is there in one
            run alone: ``missing``.
    """

    function: str
    step: int
    number: int
    kind: Literal["given", "result", "missing"]


Groups = dict[tuple[str, int], list[tuple[int, LoggedCall]]]


def first_other_call(eager: CallLog, compiled: CallLog) -> OtherCall | None:
    """The first call, in the order of the eager run, that the compiled run does not repeat."""
    groups, others = _groups(eager), _groups(compiled)
    differences: list[tuple[int, int, OtherCall]] = []
    for key in dict.fromkeys((*groups, *others)):
        calls, repeated = groups.get(key, []), others.get(key, [])
        if _seen(calls) == _seen(repeated):
            continue
        other = _other(*key, calls, repeated)
        first = (calls or repeated)[0][0]
        differences.append((key[1], first, other))
    return min(differences)[2] if differences else None


def without_arrays(log: CallLog) -> set[str]:
    """Functions whose results cannot be compared."""
    known = {call.function for call in log.calls if call.arrays}
    return {name for i, name in enumerate(log.functions) if i not in known}


def _groups(log: CallLog) -> Groups:
    """Calls with their numbers among those of the function, by function and step."""
    groups: Groups = defaultdict(list)
    numbers: Counter[int] = Counter()
    for call in log.calls:
        numbers[call.function] += 1
        groups[log.functions[call.function], call.step].append((numbers[call.function], call))
    return groups


def _seen(calls: list[tuple[int, LoggedCall]]) -> Counter[tuple[int, int]]:
    return Counter((call.given, call.result) for _, call in calls)


def _other(
    function: str, step: int,
    calls: list[tuple[int, LoggedCall]], repeated: list[tuple[int, LoggedCall]],
) -> OtherCall:  # fmt: skip
    for (number, call), (_, other) in zip(calls, repeated, strict=False):
        if call.given != other.given:
            return OtherCall(function, step, number, "given")
        if call.result != other.result:
            return OtherCall(function, step, number, "result")
    shorter = min(len(calls), len(repeated))
    longer = calls if len(calls) > shorter else repeated
    return OtherCall(function, step, longer[shorter][0], "missing")
