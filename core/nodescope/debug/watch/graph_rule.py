"""Graph rules: evaluated on the whole program at the end of steps, not on each value.

Such a rule is a `Rule` like any other, in a file of `rules/`, with a `Study` instead of a look.

Invariant: a study only reads the graph. It returns a verdict, good or bad, for each place to which
it applies; without any, nothing was judged.
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
        name, about, parameters, aliases: As in `Rule`.
        study: Creates the study of one watch, with its own state.
        suits: Returns why it is recommended for a program with these nodes; ``""`` if it is not.
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
