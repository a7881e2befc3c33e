"""Graph studies: rules about the graph, evaluated at the end of steps and of the run.

A study runs in the first steps, and later when the graph has grown. A place is reported once.

Invariant: an error in a rule disables its watch and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from nodescope.debug.watch.hits import hit_of
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Study, Verdict
from nodescope.debug.watch.watch import Hit

YOUNG_STEPS: Final = 24
"""A study runs at the end of each of the first steps, up to this number, even if the graph has not
grown."""


class Studies:
    """The study of one watch, and the places that it has reported."""

    __slots__ = ("_judge", "_reported", "_runs", "_streaks", "_version")

    def __init__(self, judge: Study) -> None:
        self._judge = judge
        self._runs = 0
        self._version = -1
        self._reported: set[object] = set()
        self._streaks: Counter[object] = Counter()

    @property
    def young(self) -> bool:
        """Whether the study still runs at the end of every step."""
        return self._runs < YOUNG_STEPS

    def due(self, graph: ProgramGraph, over: bool) -> bool:
        """Whether the study runs now."""
        return over or self.young or self._version != graph.version

    def verdicts(self, graph: ProgramGraph, over: bool) -> list[Verdict]:
        """Run the study on the graph and on the graphs of compiled functions."""
        self._runs += 1
        self._version = graph.version
        verdicts = list(self._judge(graph, over))
        for owner, traced in graph.captured.items():
            for verdict in self._judge(traced, over):
                node = graph.runs(owner, verdict.node)
                if node is not None:
                    verdicts.append(dataclasses.replace(verdict, node=node))
        return verdicts

    def tells(self, verdict: Verdict, patience: int) -> int:
        """How often a place was found faulty, if it has to be reported now; else 0.

        Nodes with the same op and line are one place: a loop creates many nodes of one line.
        """
        node = (verdict.node.op, verdict.node.source or verdict.node.id)
        if not verdict.text:
            return 0
        self._streaks[node] += 1
        if node in self._reported or self._streaks[node] < patience:
            return 0
        self._reported.add(node)
        return self._streaks[node]


def study(
    entries: Iterable[Any],
    graph: ProgramGraph,
    step: int,
    seq: int,
    *,
    over: bool,
    fault: Callable[[Any, str, int, Exception], None],
) -> list[Hit]:
    """Evaluate graph rules; return their hits.

    Args:
        entries: The watches with their state.
        graph: The program's graph.
        step, seq: The current step and seq.
        over: Whether the run is over.
        fault: Called with a watch that failed, the subject, the step and the exception.
    """
    hits: list[Hit] = []
    last = dict(graph.ran)
    for entry in entries:
        studies: Studies | None = entry.studies
        if studies is None or not entry.active or not studies.due(graph, over):
            continue
        outcome = entry.outcome
        try:
            verdicts = studies.verdicts(graph, over)
        except RecursionError:
            raise  # the program used up the stack; the rule is not at fault
        except Exception as error:
            fault(entry, "the graph", step, error)
            continue
        for verdict in verdicts:
            node = verdict.node
            if not node.outputs or not entry.chosen.covers(node):
                continue
            outcome.looked += 1
            entry.values.add(node.outputs[0])
            entry.decided(node.outputs[0])
            in_row = studies.tells(verdict, outcome.watch.patience)
            if in_row:
                outcome.hits += 1
                at, words = (step, last.get(node.id) or seq), (verdict.text, verdict.actual)
                hits.append(
                    hit_of(outcome.watch, entry.settings, node, 0, node.name, at, words, in_row)
                )
    return hits
