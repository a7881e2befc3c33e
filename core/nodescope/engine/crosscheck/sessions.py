"""Cross-check of sessions: compares runs of built graphs with the graph as it was built.

Each run is repeated node by node in the order of the graph, with the variables' values from before,
and in each form in which it may run unobserved: as one plan, on threads, partitioned by device. The
first run of each set of fetches is also compiled, as if the graph were a function.

Invariant: only copies of a session's state are written to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nodescope.console_output import last_line
from nodescope.engine.crosscheck.amounts import amount_of, others
from nodescope.engine.crosscheck.values import quiet, same
from nodescope.engine.graphs.program import PreparedRun
from nodescope.engine.static.lowering import Lowering, Wish, closed
from nodescope.ir.differences import CallDifference, FunctionCheck
from nodescope.ir.graph import Node
from nodescope.ops.plan import Plan

if TYPE_CHECKING:
    from nodescope.engine.graphs.session import ObservedRun

_WORDS: Final = {
    "at once": "when it runs as one plan",
    "threads": "when it runs on threads",
    "partitions": "when it runs cut by device",
    "observed": "only while it is observed",
}
_MOST_NAMES: Final = 3


class SessionCheck:
    """The runs of one set of fetches."""

    def __init__(self, program: PreparedRun) -> None:
        self.program = program
        self.lowering = _lowering(program)
        self.runs = self._step = 0
        self._difference: CallDifference | None = None
        self._fault = ""

    @property
    def sound(self) -> bool:
        """Whether no difference was found, and no error stopped the check."""
        return self._difference is None and not self._fault

    def report(self) -> FunctionCheck:
        """The findings so far."""
        name = self.lowering.name
        return FunctionCheck(
            name, 0, "", True, self.runs, self._difference, self._fault, built=True
        )

    def run(self, run: ObservedRun) -> None:
        """Check a run that has been observed."""
        self.runs += 1
        self._step = run.step
        if self.sound:
            try:
                self._check(run)
            except Exception as error:  # of the check: the program's own errors were raised before
                self._fault = last_line(error)

    def compiled(self, check: FunctionCheck) -> None:
        """Take over a difference found by compiling the graph as a function."""
        if self.sound and check.difference is not None:
            self._difference = check.difference

    def _check(self, run: ObservedRun) -> None:
        expected, after = _run(run, self.program, "in order")
        differs = others(run.arrays, expected) or _changed(run.after, after)
        if differs:
            return self._report(run, "observed", run.arrays, expected, run.after, after)
        for form in run.session.forms(self.program, run.options):
            if form != "in order":
                arrays, values = _run(run, self.program, form)
                if others(arrays, expected) or _changed(values, after):
                    return self._report(run, form, arrays, expected, values, after)
        return None

    def _report(
        self, run: ObservedRun, form: str, arrays: Sequence[Any], expected: Sequence[Any],
        values: Mapping[int, Any], after: Mapping[int, Any],
    ) -> None:  # fmt: skip
        """Report the first node whose result differs; else the node of the result or variable."""
        node, then, now = self._first(run, form)
        if node is None:
            pairs = [
                *zip(self.program.plan.outputs, arrays, expected, strict=True),
                *((value, values.get(value), then) for value, then in after.items()),
            ]
            value, now, then = next(pair for pair in pairs if not _same(pair[1], pair[2]))
            node = self.program.plan.producer(value)
        self._difference = CallDifference(
            "form", self._step, self.runs,
            node=node.id if node else 0, name=node.name if node else "",
            op=node.op if node else "", source=node.source if node else None,
            amount=amount_of(then, now), detail=_WORDS[form],
        )  # fmt: skip

    def _first(self, run: ObservedRun, form: str) -> tuple[Node | None, Any, Any]:
        """The first node, in order, whose result differs if every value is kept."""
        if form == "observed":
            return None, None, None
        whole = _with_every_value(self.program)
        reference, _ = _run(run, whole, "in order")
        given, _ = _run(run, whole, form)
        for value, then, now in zip(whole.plan.outputs, reference, given, strict=True):
            if not _same(now, then):
                return whole.plan.producer(value), then, now
        return None, None, None


def _run(run: ObservedRun, program: PreparedRun, form: Any) -> tuple[list[Any], dict[int, Any]]:
    values = dict(run.before)
    with quiet():
        arrays = run.session.rerun(replace(program), form, list(run.feeds), values)
    return arrays, values


def _with_every_value(program: PreparedRun) -> PreparedRun:
    plan = program.plan
    outputs = [value for call in plan.calls for value in call.node.outputs]
    also = [node.id for node in plan.nodes]
    return replace(program, plan=Plan(plan.graph, plan.constants, outputs, plan.fed, also))


def _changed(values: Mapping[int, Any], expected: Mapping[int, Any]) -> bool:
    return any(not _same(values.get(value), then) for value, then in expected.items())


def _same(now: Any, then: Any) -> bool:
    return now is then or same(now, then)


def _lowering(program: PreparedRun) -> Lowering:
    """The run as a function that can be compiled, with outputs for all that it fetches or runs
    last.
    """
    plan = program.plan
    by_id = plan.by_id
    outputs = dict.fromkeys(plan.outputs)
    used = {value for node in plan.nodes for value in node.inputs}
    waited = {control for node in plan.nodes for control in node.control_inputs}
    # Operations fetched for their effect; nodes that others wait for exist because of those.
    ends = [n for n in plan.nodes if used.isdisjoint(n.outputs) and n.id not in waited]
    for node in ends:
        outputs.update(dict.fromkeys(node.outputs))
        if not node.outputs:  # a group: what it waits for
            for control in node.control_inputs:
                outputs.update(dict.fromkeys(by_id[control].outputs))
    fetched = [_maker(plan, value) for value in plan.outputs] or [node.name for node in ends]
    shown = ", ".join(fetched[:_MOST_NAMES]) + (", …" if len(fetched) > _MOST_NAMES else "")
    graph = replace_outputs(plan, tuple(outputs))
    return Lowering(graph, closed(graph, graph.nodes), plan.constants, Wish("numpy"),
                    f"Session.run of {shown}")  # fmt: skip


def replace_outputs(plan: Plan, outputs: tuple[int, ...]) -> Plan:
    """The same nodes with other outputs."""
    return Plan(plan.graph, plan.constants, outputs, plan.fed, [node.id for node in plan.nodes])


def _maker(plan: Plan, value: int) -> str:
    node = plan.producer(value)
    return node.name if node is not None else f"%{value}"
