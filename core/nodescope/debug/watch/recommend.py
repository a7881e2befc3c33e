"""Recommended watches for a program, chosen by its nodes, each with its reason.

Watches that need only statistics come before those that need arrays. A rule states which programs
it suits (`Rule.suits`); for a few rules, a table in this file does.

Invariant: pure; every recommended watch is valid and covers something in the program, or may do so
once the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nodescope.debug.watch import all_rules, get
from nodescope.debug.watch.evaluator import WatchEvaluator
from nodescope.debug.watch.rule import Rule
from nodescope.debug.watch.suiting import Suits
from nodescope.debug.watch.watch import Action, Watch
from nodescope.ir.graph import Node, Value
from nodescope.record.recording import Recording


def _always(nodes: Sequence[Node]) -> str:
    return "finds the node that produces NaN or Inf, not those that receive it"


def _weights(nodes: Sequence[Node]) -> str:
    weights = sum(node.is_weight for node in nodes)
    has = f"it has {weights} parameter{'s'[: weights > 1]}"
    return f"{has}; one NaN spoils everything downstream" if weights else ""


def _gradients(nodes: Sequence[Node]) -> str:
    backward = any(node.phase == "backward" for node in nodes)
    return "it computes gradients; they may overflow" if backward else ""


# Targets that only become known while a program runs.
_LATER: Final = frozenset({"gradients", "weight_gradients", "losses", "graph"})
_TABLE: Final[tuple[tuple[str, Suits], ...]] = (
    ("operator_overflow", _always),
    ("weight_overflow", _weights),
    ("gradient_exploding", _gradients),
)


class Recommended(NamedTuple):
    """A watch and why it is recommended."""

    watch: Watch
    reason: str


def recommend(
    nodes: Iterable[Node],
    *,
    gradients: Iterable[tuple[int, int]] = (),
    values: Iterable[Value] = (),
    actions: tuple[Action, ...] = ("stop",),
) -> list[Recommended]:
    """The recommended watches for a program with these nodes, cheap ones first.

    Args:
        nodes: All known nodes.
        gradients: Pairs of a value's id and its gradient's id, as in `GradientComputed`.
        values: Known values with their shapes and dtypes.
        actions: The actions on a hit.
    """
    node_list = list(nodes)
    if not node_list:
        return []
    reasons = [(name, suits(node_list)) for name, suits in _suits()]
    named = [
        Recommended(Watch(name, number, actions=actions), reason)
        for number, (name, reason) in enumerate(reasons, 1)
        if reason
    ]
    return _covering(named, node_list, gradients, values)


def candidates() -> list[Watch]:
    """All watches that may be recommended for some program."""
    return [Watch(name) for name, _ in _suits()]


def _suits() -> list[tuple[str, Suits]]:
    """Names of rules that may be recommended, each with a function that returns the reason."""
    own = [(rule.name, rule.suits) for rule in sorted(all_rules(), key=_cost) if rule.suits]
    return [*_TABLE, *own]


def _cost(rule: Rule) -> tuple[bool, str]:
    return "values" in rule.needs, rule.name


def recommend_for(recording: Recording) -> list[Recommended]:
    """The recommended watches for a recorded program."""
    return recommend(
        {row.node.id: row.node for row in recording.nodes()}.values(),
        gradients=[(row.value, row.gradient) for row in recording.gradients()],
        values=[row.value for row in recording.values()],
    )


def _covering(
    recommended: list[Recommended],
    nodes: list[Node],
    gradients: Iterable[tuple[int, int]],
    values: Iterable[Value],
) -> list[Recommended]:
    """The watches that cover a known value, or whose targets become known only at run time."""
    judging = WatchEvaluator(candidate.watch for candidate in recommended)
    judging.define(nodes, values)
    for value, gradient in gradients:
        judging.paired(value, gradient)
    covered = {outcome.watch.id for outcome in judging.outcomes if outcome.values}
    return [
        candidate
        for candidate in recommended
        if candidate.watch.id in covered or _LATER.intersection(get(candidate.watch.rule).applies)
    ]
