"""Verdict: whether the compiled run does what the program says, and if not, where it first differs.

A difference found by the cross-check, which compares every call with its trace on the same inputs,
takes precedence. Otherwise the two runs are compared value by value, step by step, in the order of
computation. The verdict names the first value that differs although its operands agree.

Invariant: terminal, page and JSON show the same sentence, which is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from nodescope.compare.logged_calls import OtherCall, first_other_call, without_arrays
from nodescope.compare.measure import Measure
from nodescope.compare.sides import Sides
from nodescope.compare.values import PairReader
from nodescope.console_output import counted, index_text, path_of
from nodescope.ir.differences import (
    Amount,
    CallDifference,
    CallLog,
    CrossChecked,
    DifferenceKind,
    FunctionCheck,
)
from nodescope.ir.graph import Node, SourceLocation
from nodescope.record.compiled_functions import CompiledFunction

VerdictOutcome = Literal["equal", "rounding", "differs", "unchecked"]
"""``equal``: bit-identical. ``rounding``: equal within the rounding bounds of each kernel.
``unchecked``: no call was checked and no value could be compared."""

Cause = DifferenceKind | Literal["trace", "input", "end", "lowering", "program", "value", ""]
"""As in `CallDifference.kind`, or: ``trace``: the traced graph computes something else than the
function. ``input``: the function's inputs differ. ``end``: one run failed, or took fewer steps.
``program``: the runs execute different ops, or ops with different attributes. ``value``: a node's
result differs although its inputs agree, or are unknown. ``lowering``: a node of the compiled graph
differs, in a recording whose calls were not checked."""


class Verdict(msgspec.Struct, frozen=True):
    """The verdict of a comparison.

    Attributes:
        outcome: Whether the runs are equal.
        text: The verdict in one sentence.
        cause: The kind of cause; ``""`` without a difference.
        function: The trace, as in `ComparedFunction.owner`; ``""`` if none is named.
        step: The training step in which the runs first differ; None without a difference.
        node, name: Id and name of the traced node; 0 and ``""`` if none is named.
        source: The line of that node.
        kernel, kernel_name: Id and name of the final node that computes it.
        rules: The responsible passes and rules, as ``pass/rule``.
        calls, steps: The number of calls checked, and of training steps compared.
        amount: The extent of the difference in the cross-check, also for nodes inside kernels,
            which no recording contains; None if the cross-check found no difference.
        detail: Further details.
    """

    outcome: VerdictOutcome
    text: str
    cause: Cause = ""
    function: str = ""
    step: int | None = None
    node: int = 0
    name: str = ""
    source: SourceLocation | None = None
    kernel: int = 0
    kernel_name: str = ""
    rules: tuple[str, ...] = ()
    calls: int = 0
    steps: int = 0
    amount: Amount | None = None
    detail: str = ""


NOT_RUN: Final = Measure("none", why="the eager run does not execute it")
"""The measure of a value that the eager run does not compute."""


class _Place(NamedTuple):
    """The place where two runs first differ: a traced node in a step."""

    sides: Sides
    node: Node
    step: int
    measure: Measure


def verdict(
    checked: CrossChecked | None,
    all_sides: Sequence[Sides],
    reader: PairReader,
    notes: Sequence[str],
    logs: tuple[CallLog, CallLog] | None = None,
) -> Verdict:
    """The verdict of two recordings.

    Args:
        checked: The result of the cross-check; None if no calls were checked.
        all_sides: The compiled functions in both runs.
        reader: The recordings.
        notes: Differences between the runs as a whole, as sentences without full stops.
        logs: The logs of calls in the eager and in the compiled run, if known.
    """
    checks = checked.functions if checked is not None else ()
    calls = sum(check.calls for check in checks)
    differing = [check for check in checks if check.difference is not None]
    if differing:
        first = min(differing, key=lambda check: check.difference.step if check.difference else 0)
        return _of_check(first, all_sides, calls)
    steps = sorted({step for sides in all_sides for step in reader.of_both(sides.steps)})
    exact = all(check.exact for check in checks)
    if exact:
        judged = _of_values(all_sides, reader, steps, logs, checked=bool(checks), calls=calls)
        if judged is not None and (judged.outcome == "differs" or not notes):
            return judged
    if notes:
        text = f"{'. '.join(notes)}."
        return Verdict("differs", text, "end", calls=calls, steps=len(steps))
    faults = [check for check in checks if check.fault]
    if faults:
        text = f"The calls of {faults[0].function} could not be checked: {faults[0].fault}."
        return Verdict("unchecked", text, calls=calls, steps=len(steps))
    if not calls and not steps:
        return Verdict("unchecked", "No value of the two runs could be compared.")
    return _agreed(checks, exact=exact, calls=calls, steps=len(steps))


def _of_values(
    all_sides: Sequence[Sides], reader: PairReader, steps: Sequence[int],
    logs: tuple[CallLog, CallLog] | None, *, checked: bool, calls: int,
) -> Verdict | None:  # fmt: skip
    """The verdict on the first value that differs between the runs; None if there is none.

    If calls were logged, the logs decide whether the runs differ, and values only name the node.
    """
    if logs is None or not logs[0].calls:
        place = first_difference(all_sides, reader, steps, checked=checked)
        return place and _of_place(place, checked=checked, calls=calls, steps=len(steps))
    other = first_other_call(*logs)
    if other is None:
        silent = without_arrays(logs[0])
        sides = [sides for sides in all_sides if _name(sides) in silent]
        place = first_difference(sides, reader, steps, checked=checked)
        return place and _of_place(place, checked=checked, calls=calls, steps=len(steps))
    if other.kind == "missing":
        return None  # one run ended early, which the notes report
    sides = [sides for sides in all_sides if _name(sides) == other.function]
    place = first_difference(sides, reader, [other.step], checked=checked)
    if place is not None:
        return _of_place(place, checked=checked, calls=calls, steps=len(steps))
    return _of_call(other, calls=calls, steps=len(steps))


def _name(sides: Sides) -> str:
    return sides.function.owner.partition("#")[0]


def _of_call(other: OtherCall, *, calls: int, steps: int) -> Verdict:
    when = f"from step {other.step} on" if other.step else f"from call {other.number} on"
    if other.kind == "given":
        cause: Cause = "input"
        text = (
            f"{other.function} is given other numbers {when}, in its call {other.number}; the "
            "cause is outside of compiled functions, such as a generator without a seed"
        )
    else:
        cause = "trace"
        text = (
            f"{other.function} differs {when}: its call {other.number} gives something else than "
            "in the eager run, although it is what was traced; the function depends on something "
            "that was fixed while it was traced"
        )
    return Verdict("differs", f"{text}.", cause, other.function, other.step, calls=calls,
                   steps=steps)  # fmt: skip


def first_difference(
    all_sides: Sequence[Sides], reader: PairReader, steps: Iterable[int], *, checked: bool
) -> _Place | None:
    """The first value, step by step, that differs although its operands agree.

    Elements are compared if both runs kept them, else statistics.

    Args:
        all_sides: The compiled functions in both runs.
        reader: The recordings.
        steps: The training steps, in order.
        checked: Whether the cross-check has confirmed each call. Nodes inside a function are then
            compared only if its inputs or results differ.
    """
    for step in steps:
        for sides in all_sides:
            if step not in sides.steps:
                continue
            nodes = sides.function.traced.nodes
            results = set(sides.function.traced.outputs)
            edge = [n for n in nodes if n.is_leaf or not results.isdisjoint(n.outputs)]
            looked_at = edge if checked else nodes
            if step != sides.steps[0]:
                gone = _not_run(sides, reader, step, edge)
                if gone is not None:
                    return _Place(sides, gone, step, NOT_RUN)
            if _in_step(sides, reader, step, looked_at) is None:
                continue
            if step != sides.steps[0]:  # other calls may have changed the matching of nodes
                matched = sides.matched_in(step)
                if _in_step(matched, reader, step, looked_at) is None:
                    continue
                sides_there = matched
            else:
                sides_there = sides
            place = _in_step(sides_there, reader, step, nodes)
            if place is not None:
                return place
    return None


def _not_run(sides: Sides, reader: PairReader, step: int, edge: Iterable[Node]) -> Node | None:
    """A result whose matched op and phase did not run at all in this step of the eager run.

    If the op ran under another name, it is not reported: it may be the same node.
    """
    ran = {(node.op, node.phase) for node in reader.eager_nodes(step)}
    for node in edge:
        eager = None if node.is_leaf else sides.eager_of(node.id)
        if eager is not None and (eager.op, eager.phase) not in ran:
            return node
    return None


def _in_step(sides: Sides, reader: PairReader, step: int, nodes: Iterable[Node]) -> _Place | None:
    others: set[int] = set()
    first: _Place | None = None
    for node in nodes:
        for port, value in enumerate(node.outputs):
            measure = reader.measure(sides.pair(node, port), step)
            if measure.source == "none" or measure.equal:
                continue
            place = _Place(sides, node, step, measure)
            if node.is_leaf or others.isdisjoint(node.inputs):
                return place
            first = first or place
            others.add(value)
    return first


# ---------------------------------------------------------------- in words


def _of_check(check: FunctionCheck, all_sides: Sequence[Sides], calls: int) -> Verdict:
    difference = check.difference
    assert difference is not None
    owner = next(
        (s.function.owner for s in all_sides if s.function.final.id == check.graph), check.function
    )
    return Verdict(
        "differs",
        _sentence(difference, owner, check, all_sides),
        difference.kind,
        function=owner,
        step=difference.step,
        node=difference.node,
        name=difference.name,
        source=difference.source,
        kernel=difference.kernel,
        kernel_name=difference.kernel_name,
        rules=difference.rules,
        calls=calls,
        amount=difference.amount,
        detail=difference.detail,
    )


def _sentence(
    difference: CallDifference, owner: str, check: FunctionCheck, all_sides: Sequence[Sides]
) -> str:
    backend = check.backend or "numpy"
    if difference.kind == "compilation" and check.built:
        culprit = f"the pass {difference.rules[0]}" if difference.rules else "the compiler"
        return (
            f"{owner} cannot be compiled, which it need not be to run, because {culprit} failed: "
            f"{difference.detail}"
        )
    if difference.kind == "compilation":
        culprit = f"the pass {difference.rules[0]}" if difference.rules else "the compiler"
        return (
            f"{owner} is not compiled and runs as it was traced, because {culprit} failed: "
            f"{difference.detail}"
        )
    when = f"from step {difference.step} on"
    if not difference.step:
        when = f"from call {difference.call} on"
    where = named(difference.name, difference.source)
    rules = _listed(difference.rules)
    amount = _amount(difference.amount)
    detail = f" ({difference.detail})" if difference.detail else ""
    kernel = _kernel(difference, all_sides)
    if difference.kind == "rewrite":
        what = f"after {rules or 'the passes'}, {where or 'a value'} no longer is as traced"
    elif difference.kind == "kernel":
        what = f"{kernel} of the back end {backend} computes {where or 'a value'} wrongly"
    elif difference.kind == "plan":
        what = f"the plan of the back end {backend} computes {where or 'a value'} wrongly"
        if kernel:
            what += f" in {kernel}, which is right alone"
    elif difference.kind == "memory":
        what = f"{where or 'a result'} has no memory of its own"
    elif difference.kind == "order":
        what = f"{where} does not happen in its traced order"
    elif difference.kind == "form":
        what, detail = f"{where or 'its result'} is another {difference.detail}", ""
    else:
        what = f"the provenance of {where or kernel or 'a node'} is wrong"
    if rules and difference.kind not in ("rewrite", "kernel"):
        what += f", by {rules}"
    if check.built and difference.kind != "form":
        return (
            f"{owner}, which runs node by node, would differ if compiled: {what}{detail}{amount}."
        )
    return f"{owner} differs {when}: {what}{detail}{amount}."


def _of_place(place: _Place, *, checked: bool, calls: int, steps: int) -> Verdict:
    function, node = place.sides.function, place.node
    fate = next((f for f in function.compiled.fates if f.node == node.id), None)
    kernel = place.sides.kernel_of(node)
    where = named(node.name, node.source)
    amount = measured(place.measure)
    close = place.measure.source == "arrays" and place.measure.mismatched == 0.0
    if checked and close and not node.is_leaf:
        text = (
            f"No difference but rounding: from step {place.step} on, {where} of {function.owner} "
            f"differs from the eager run within the tolerance of its dtype{amount}; "
            f"{counted(calls, 'call')} gave what was traced, bit for bit"
        )
        return Verdict("rounding", f"{text}.", "", function.owner, place.step, node.id, node.name,
                       node.source, calls=calls, steps=steps)  # fmt: skip
    cause: Cause
    rules: tuple[str, ...] = ()
    if node.is_leaf:
        cause = "input"
        text = (
            f"{function.owner} is given other numbers from step {place.step} on: its input "
            f"{where} differs{amount}; the cause is outside of compiled functions, such as a "
            "generator without a seed"
        )
    elif place.measure is NOT_RUN:
        cause = "trace"
        text = (
            f"{function.owner} differs from step {place.step} on: the eager run executes nothing "
            f"like {where} there; which operations run was fixed while the function was traced"
        )
    elif checked:
        cause = "trace"
        text = (
            f"{function.owner} differs from step {place.step} on: {where} differs from the "
            f"eager run{amount}, although it is what was traced; the function depends on "
            "something that was fixed while it was traced"
        )
    else:
        cause = "lowering"
        rules = fate.by if fate is not None else ()
        by = f", after {_listed(rules)}" if rules else ""
        inside = f" in {_kernel_words(function, kernel)}" if kernel is not None else ""
        text = (
            f"{function.owner} differs from step {place.step} on: {where} differs from the "
            f"eager run{inside}{by}{amount}"
        )
    return Verdict(
        "differs",
        f"{text}.",
        cause,
        function=function.owner,
        step=place.step,
        node=node.id,
        name=node.name,
        source=node.source,
        kernel=kernel.id if kernel is not None else 0,
        kernel_name=kernel.name if kernel is not None else "",
        rules=rules,
        calls=calls,
        steps=steps,
    )


def _agreed(checks: Sequence[FunctionCheck], *, exact: bool, calls: int, steps: int) -> Verdict:
    compared = f"the values of {counted(steps, 'step')}"
    if not checks:
        text = f"No difference in {compared}; the calls were not checked one by one."
        return Verdict("equal", text, steps=steps)
    if exact:
        runs = sum(check.calls for check in checks if check.built)
        ran = f", {counted(runs, 'run')} of sessions what they give node by node" if runs else ""
        text = (
            f"No difference: {counted(calls - runs, 'call')} of compiled functions gave what was "
            f"traced, bit for bit{ran}, and {compared} are those of the eager run."
        )
        return Verdict("equal", text, calls=calls, steps=steps)
    backends = ", ".join(sorted({check.backend for check in checks if not check.exact}))
    text = (
        f"No difference but rounding: in {counted(calls, 'call')} of compiled functions each "
        f"kernel of the back end {backends} stays within the bounds of how it may round."
    )
    return Verdict("rounding", text, calls=calls, steps=steps)


def named(name: str, source: SourceLocation | None) -> str:
    """A node's name and its line."""
    at = f" ({path_of(source.file).name}:{source.line})" if source is not None else ""
    return f"{name}{at}" if name else ""


def _listed(rules: Sequence[str]) -> str:
    """Rules in words: ``the rule add_zero of the pass simplify``."""
    words = []
    for rule in dict.fromkeys(rules):
        name, _, of = rule.partition("/")
        words.append(f"the rule {of} of the pass {name}" if of else f"the pass {name}")
    return " and ".join(words)


def _kernel(difference: CallDifference, all_sides: Sequence[Sides]) -> str:
    if not difference.kernel_name:
        return ""
    for sides in all_sides:
        for node in sides.function.final.nodes:
            if node.id == difference.kernel and node.name == difference.kernel_name:
                return _kernel_words(sides.function, node)
    return f"the kernel {difference.kernel_name}"


def _kernel_words(function: CompiledFunction, kernel: Node) -> str:
    names: Mapping[int, str] = {n.id: n.name for n in function.traced.nodes if not n.is_leaf}
    covers = [names[i] for i in kernel.origin if i in names]
    if len(covers) < 2:
        return f"the kernel {kernel.name}"
    shown = ", ".join(covers[:4]) + (f" and {len(covers) - 4} more" if len(covers) > 4 else "")
    return f"the kernel {kernel.name} ({shown})"


def _amount(amount: Amount | None) -> str:
    if amount is None or not amount.differing:
        return ""
    verb = "differs" if amount.differing == 1 else "differ"
    of = f"{amount.differing:,} of {counted(amount.elements, 'element')} {verb}"
    by = f", by up to {amount.max_abs:.3g}" if amount.max_abs else ""
    at = f" at {index_text(amount.at)}" if amount.at else ""
    return f": {of}{by}, {amount.actual} instead of {amount.expected}{at}"


def measured(measure: Measure) -> str:
    """The size of a difference, in parentheses; ``""`` if unknown."""
    parts = []
    if measure.mismatched is not None and measure.elements:
        parts.append(f"{_share(measure.mismatched)} of its elements beyond the tolerance")
    if measure.max_abs:
        what = "by up to" if measure.source == "arrays" else "its statistics by"
        parts.append(f"{what} {measure.max_abs:.3g}")
    if measure.nan[0] != measure.nan[1]:
        parts.append(f"NaN {measure.nan[0]} → {measure.nan[1]}")
    return f" ({', '.join(parts)})" if parts else ""


def _share(share: float) -> str:
    if share in (0.0, 1.0):
        return "all" if share else "none"
    return f"{share:.1%}" if share >= 0.001 else "less than 0.1%"
