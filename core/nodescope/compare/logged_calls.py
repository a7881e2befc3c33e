"""Logged calls: the first call that differs between two runs.

Invariant: pure. Threads may call a function in any order within a step, so only the set of calls of
a function and step is compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal, NamedTuple

from nodescope.ir.differences import CallLog, LoggedCall


class OtherCall(NamedTuple):
    """A call that differs.

    Attributes:
        function: The function's name.
        step: The training step.
        number: The number of the call among those of the function, from 1.
        kind: ``given`` if the arguments differ, ``result`` if only the result does, or ``missing``
            if only one run made the call.
    """

    function: str
    step: int
    number: int
    kind: Literal["given", "result", "missing"]


Groups = dict[tuple[str, int], list[tuple[int, LoggedCall]]]


def first_other_call(eager: CallLog, compiled: CallLog) -> OtherCall | None:
    """The first call that differs between the runs, by step and number; None if there is none."""
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
    """The names of functions none of whose calls returned an array."""
    known = {call.function for call in log.calls if call.arrays}
    return {name for i, name in enumerate(log.functions) if i not in known}


def _groups(log: CallLog) -> Groups:
    """By function and step: the calls, each with its number among the function's calls."""
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
