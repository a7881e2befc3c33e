"""Pair verdict: compares two recordings that are not an eager and a compiled run of one program.

Invariant: names the first step and node that differ, in the words of `nodescope.compare.verdict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodescope.compare.measure import Measure
from nodescope.compare.pairwise import Agreement, Other, Ran, agreement, undrawn
from nodescope.compare.verdict import Cause, Verdict, measured, named
from nodescope.console_output import counted
from nodescope.errors import GraphError
from nodescope.ir.attrs import write
from nodescope.ir.differences import CrossChecked
from nodescope.ir.graph import Graph, Node
from nodescope.record.recording import Recording

_LONGEST = 60  # characters of an attribute


def pair_verdict(
    first: Recording, second: Recording, notes: Sequence[str], checked: CrossChecked | None = None
) -> Verdict:
    """The verdict on where two runs first differ, in one sentence.

    Args:
        first, second: The recordings.
        notes: Differences between the runs as a whole, as sentences without full stops.
        checked: The result of the cross-check of the second run, which found no difference.

    Raises:
        RecordingError: A recording is damaged.
    """
    result = agreement(first, second)
    checks = checked.functions if checked is not None else ()
    runs = sum(check.calls for check in checks)
    if result.other is not None:
        return _of(result.other, result.steps, runs)
    if notes:
        same = f". Until then they do the same, for {_extent(result)}" if result.executions else ""
        return Verdict(
            "differs", f"{'. '.join(notes)}{same}.", "end", calls=runs, steps=result.steps
        )
    if not result.executions and not runs:
        return Verdict("unchecked", "No value of the two runs could be compared.")
    fault = next((check for check in checks if check.fault), None)
    if fault is not None:
        text = f"{fault.function} could not be checked: {fault.fault}."
        return Verdict("unchecked", text, calls=runs, steps=result.steps)
    of_sessions = sum(check.calls for check in checks if check.built)
    parts = []
    if result.executions:
        parts.append(f"the values of {_extent(result)} are the same in both runs")
    if of_sessions:
        gave = "gave what their graphs give node by node"
        parts.append(f"{counted(of_sessions, 'run')} of sessions {gave}")
    if runs > of_sessions:
        parts.append(f"{counted(runs - of_sessions, 'call')} gave what was traced, bit for bit")
    text = f"No difference: {', and '.join(parts)}"
    return Verdict("equal", f"{text}.", calls=runs, steps=result.steps)


def _extent(result: Agreement) -> str:
    executed = counted(result.executions, "execution")
    return f"{counted(result.steps, 'step')} ({executed})" if result.steps else executed


def _of(other: Other, steps: int, runs: int) -> Verdict:
    ran = other.second or other.first
    assert ran is not None
    node: Node = ran.node
    when = f"from step {other.step} on" if other.step else "from the start on"
    cause: Cause
    if other.first is None or other.second is None or _op(other.first) != _op(other.second):
        cause, what = "program", _structure(other.first, other.second)
    elif other.attrs:
        values = " and ".join(
            f"{name} = {_value(second)} instead of {_value(first)}"
            for name, first, second in other.attrs
        )
        cause, what = "program", f"{_named(node)} has {values}; its inputs agree"
    elif node.is_leaf:
        cause = "input"
        what = (
            f"{_named(node)}, which the program gives, holds something else"
            f"{_amount(other.measure)}, though nothing that is computed before differs"
        )
    elif other.leaf is not None:
        node = other.leaf
        cause = "input"
        what = (
            f"{_named(node)}, an input of {_named(ran.node)}, differs{_amount(other.measure)}, "
            "though nothing that is computed before does"
        )
    elif other.first.failed or other.second.failed:
        side = "first" if other.first.failed else "second"
        cause, what = "end", f"{_named(node)} raises an error in the {side} run alone"
    else:
        agrees = "although its inputs agree" if other.inputs_known else "some inputs were not kept"
        cause, what = "value", f"{_named(node)} differs{_amount(other.measure)}, {agrees}"
    return Verdict(
        "differs", f"The runs differ {when}: {what}.", cause, step=other.step, node=node.id,
        name=node.name, source=node.source, calls=runs, steps=steps,
    )  # fmt: skip


def _op(ran: Ran) -> tuple[str, str, str]:
    return undrawn(ran.node), ran.node.op, ran.node.phase


def _structure(first: Ran | None, second: Ran | None) -> str:
    if first is None or second is None:
        only = second or first
        assert only is not None
        side = "second" if first is None else "first"
        return f"only the {side} run executes {_named(only.node)}; what both ran before agrees"
    return (
        f"the first run executes {_named(first.node)}, the second {_named(second.node)}; what both "
        "ran before agrees"
    )


def _named(node: Node) -> str:
    return named(node.name, node.source)


def _amount(measure: Measure | None) -> str:
    return "" if measure is None else measured(measure)


def _value(value: Any) -> str:
    def graph(graph: Graph) -> str:
        return f"a graph of {len(graph.nodes)} nodes"

    try:
        text = write(value, graph)
    except GraphError:
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
