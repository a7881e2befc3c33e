"""The verdict of a comparison: whether the compiled run does what the program says, and if it does
not, where and why it first differs.

What the cross-check found of each call comes first: it compared every call with its trace, on the
same inputs. Then the two runs are compared value by value, step after step, in the order in which
the values are computed; the first value that differs although its operands agree is the answer.

Invariant: one place makes the sentence that terminal, page and JSON show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from nodescope.compare.logged_calls import OtherCall, first_other_call, without_arrays
from nodescope.compare.measure import Measure
from nodescope.compare.sides import Sides
from nodescope.compare.values import PairReader
from nodescope.console_output import index_text, path_of
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
"""``equal``: every bit. ``rounding``: within the bounds of how each kernel rounds. ``unchecked``:
no call was checked and no value could be compared."""

Cause = DifferenceKind | Literal["trace", "input", "end", "lowering", "program", "value", ""]
"""As of `CallDifference.kind`. ``trace``: the traced graph does something else than the function.
``input``: the runs gave it other numbers. ``end``: one run failed, or took fewer steps.
``program``: what the runs execute is not the same, or not by the same attributes. ``value``: a node
gives something else in each run.
``lowering``: a node of the compiled graph, of a recording whose calls were not checked."""


class Verdict(msgspec.Struct, frozen=True):
    """What a comparison comes to.

    Attributes:
        outcome: Whether the runs do the same.
        text: One sentence for a person.
        cause: Who is responsible; ``""`` without a difference.
        function: The trace, as of `ComparedFunction.owner`; ``""`` if none is named.
        step: The training step in which they first differ; None without a difference.
        node, name: The traced node; 0 and ``""`` if none is named.
        source: The line of that node.
        kernel, kernel_name: The final node that computes it.
        rules: Passes and rules that are responsible, as ``pass/rule``.
        calls, steps: How many calls were checked, and training steps compared.
        amount: How much of the node's value differs, as the cross-check ran it: also of nodes
            within kernels, which no recording holds; None if it did not find the difference.
        detail: What else it has to say.
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
"""In place of a measure, where one run executes something else."""


class _Place(NamedTuple):
    """Where two runs first differ: a value of a traced node in a step."""

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
        checked: What the cross-check found; None if no calls were checked.
        all_sides: The compiled functions in both runs.
        reader: The recordings.
        notes: What is not the same about the runs as a whole, in sentences without full stops.
        logs: What each call was given and gave, in the eager and in the compiled run, if known.
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
    """Where the values of the runs differ; None if they do not.

    The log of calls decides, where there is one: values only name the node.
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
        return None  # the runs ended, or it is said below
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
    """The first value, step after step, that differs although its operands agree.

    Elements are compared where both runs kept them, and statistics elsewhere.

    Args:
        all_sides: The compiled functions in both runs.
        reader: The recordings.
        steps: The training steps, in order.
        checked: Whether each call did what was traced. Then what is inside of a function is only
            looked at where its inputs or its results differ.
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
            if step != sides.steps[0]:  # other calls may have changed which node is which
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
    """A result that the eager run computed by another op in this step than when it was traced.

    Only where nothing at all of this op ran in the step: it might have another name otherwise.
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
    """A node and its line."""
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
    """How far a value is apart, in brackets; ``""`` if that is not known."""
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


def counted(count: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
