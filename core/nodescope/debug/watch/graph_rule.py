"""Graph rules: evaluated on the whole program at the end of steps, not on each value.

Such a rule is a `Rule` like any other, in a file of `rules/`, with a `Study` instead of a look.

Invariant: a study only reads the graph. It gives a verdict on each place that it is about; where
there is none, it gave no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Parameter, Rule, Settings, Study, Verdict
from nodescope.ir.graph import Node

Judge = Callable[[ProgramGraph], Iterable[Verdict]]


def graph_rule(
    name: str,
    about: str,
    study: Callable[[Settings], Study],
    *,
    suits: Callable[[Sequence[Node]], str],
    parameters: tuple[Parameter, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Rule:
    """A rule about the graph.

    Args:
        name, about, parameters, aliases: As of `Rule`.
        study: Makes the study of one watch, with state of its own.
        suits: Why it is recommended for a program of these nodes; ``""`` if it is not.
    """
    return Rule(
        name, about, lambda settings: _no_look, ("graph",), needs=frozenset(), study=study,
        suits=suits, parameters=parameters, aliases=aliases, explains=True,
    )  # fmt: skip


def stateless(judge: Judge) -> Callable[[Settings], Study]:
    """A `Rule.study` for a rule without state or settings."""
    return lambda settings: lambda graph, over: judge(graph)


def _no_look(sight: Sight) -> Finding | None:
    return None
