"""Queries of the terminal debugger about a run: why, what if, history.

Each function takes a controller that has stopped and the typed text, and returns lines.

Invariant: nothing in the program changes; a query that takes longer than `PATIENCE_S` is stopped.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nodescope.arrays.lazy import whole as whole_of
from nodescope.console_output import index_text, last_line, shape_words
from nodescope.debug.controller import Controller
from nodescope.debug.edits.apply import edited
from nodescope.debug.edits.syntax import parse_edit
from nodescope.debug.expressions.compiler import compile_expression
from nodescope.debug.history.history import ValueAtMoment
from nodescope.debug.history.scope_frames import ScopeFrame
from nodescope.debug.history.value_format import clean, seen_line
from nodescope.debug.replay import Difference, Replay
from nodescope.debug.replay.arrays import difference
from nodescope.debug.report.gradient_ends import gradient_asked, gradient_end
from nodescope.debug.watch.first_step import WORD as RECOMMENDED
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.watch import describe
from nodescope.debug.why import Target, parse_target, render, render_spread, spread, why
from nodescope.debug.why.nonfinite_origins import distinct_texts
from nodescope.errors import ConditionError, NodescopeError, UsageError
from nodescope.events import Array
from nodescope.ir.attrs import plain_attrs
from nodescope.protocol import SetWatches

PATIENCE_S: Final = 30.0
MAX_CHANGES: Final = 12
_AROUND: Final = 5
_PORT: Final = re.compile(r"(?P<name>value|(?:inputs|outputs)\[\d+\])(?P<rest>.*)", re.DOTALL)
_OF_STEP: Final = re.compile(r" \[step \d+\]$")
_FIELD: Final = re.compile(r"(?P<name>.+)\.(?P<field>[A-Za-z_]\w*)")


def whole(text: str) -> int:
    """Parse a whole number."""
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{text!r} is not an integer, 0 or more")
    return int(text)


def times(text: str) -> int:
    """Parse a repeat count; 1 for empty text."""
    count = whole(text) if text else 1
    if not count:
        raise UsageError("a count starts at 1")
    return count


def in_thread(ident: int) -> str:
    """``, thread NAME``; empty for the main thread, which is the only one in most programs."""
    if ident == threading.main_thread().ident:
        return ""
    names = [thread.name for thread in threading.enumerate() if thread.ident == ident]
    return f", thread {names[0] if names else ident}"


def error_line(error: Exception) -> str:
    """An error as text: nodescope's with its column, others with their type."""
    if not isinstance(error, NodescopeError):
        return f"that failed: {last_line(error)}"
    column = getattr(error, "column", -1)
    return f"{error}{f' (column {column + 1})' if column >= 0 else ''}"


def place(file: str, line: int) -> str:
    """``train.py:42``, relative to the current folder if that is shorter."""
    try:
        relative = os.path.relpath(file) if os.path.isabs(file) else file
    except OSError:  # the program has deleted the current folder
        relative = file
    return clean(f"{file if relative.startswith('..') else relative}:{line}")


def source_lines(controller: Controller, frame: ScopeFrame) -> Iterator[str]:
    """``l``: the lines around a frame's line."""
    lines = linecache.getlines(frame.file)
    if not lines:
        text = controller.history.recording.source(frame.file) if frame.file else None
        if text is None:
            raise UsageError(f"the source of {frame.name} is not known")
        lines = text.splitlines()
    first = max(0, frame.line - 1 - _AROUND)
    for index in range(first, min(len(lines), frame.line + _AROUND)):
        mark = "->" if index + 1 == frame.line else "  "
        yield clean(f"{index + 1:5} {mark} {lines[index].rstrip()}")


def seen_named(controller: Controller, name: str) -> ValueAtMoment:
    """A value by its port at the cursor, or by the name of its node.

    Raises:
        UsageError: There is no such value.
    """
    at = controller.moment
    for value in (*controller.outputs(at), *controller.inputs(at)):
        if name == value.role or (name == "value" and value.role == "outputs[0]"):
            return value
    if _PORT.fullmatch(name):
        ports = ", ".join(value.role for value in (*controller.inputs(at), *controller.outputs(at)))
        raise UsageError(f"{at.node.name} has no {name}", hint=f"it has {ports}" if ports else "")
    node, _, field = name.rpartition(".")
    if name == "grad" or (field == "grad" and node):
        at = at if name == "grad" else controller.of_node(node)
        gradient = controller.gradient(at)
        if gradient is None:
            lack = controller.shortfall("gradients", at.node.dialect)
            if lack is not None:
                raise UsageError(f"{name}: {lack.text}", hint=lack.hint)
            raise UsageError(f"no gradient was recorded for {node or at.node.name}")
        return gradient
    named = controller.named(name)
    if named is None:
        controller.find(name)  # names similar nodes
        raise UsageError(f"{name} has no value")
    return named


def part_of(controller: Controller, text: str) -> Any:
    """The object named by a text that is not an expression: ``w``, ``w.grad``, ``loss/matmul[0,
    :2]``, ``mean.axis``.

    Returns a `ValueAtMoment` for a whole value, otherwise an array, a number or a text.

    Raises:
        NodescopeError: The text names none of these.
    """
    match = _PORT.fullmatch(text)
    head, suffix = (match["name"], match["rest"]) if match else (text, "")
    if not match and text.endswith("]"):
        head, bracket, inside = text.partition("[")
        suffix = bracket + inside
    head, suffix = head.strip(), suffix.strip()
    indexed = suffix.startswith("[")
    field = _FIELD.fullmatch(head if indexed else head + suffix)
    if field is not None and field["field"] != "grad" and not indexed:
        return _attribute(controller, field["name"], field["field"])
    if suffix.startswith(".grad"):
        raise UsageError("grad needs a node's value", hint="grad, or NODE.grad")
    of_a_fact = field is not None and field["field"] in ("shape", "dtype")
    if of_a_fact or (suffix and not indexed):
        raise UsageError(
            f"{text!r} is not an element or slice of a value",
            hint="value[0, :3], or shape(value)[0]",
        )
    value = seen_named(controller, head)
    if not suffix:
        return value
    if value.array is None:
        raise UsageError(f"{value.name} is not available: {value.missing}")
    index = parse_target(f"x{suffix}").index
    if not isinstance(index, tuple):
        raise UsageError(f"{suffix} is not an index", hint="numbers and slices, as in value[0, :3]")
    try:
        return value.array[index]
    except IndexError as error:
        raise UsageError(f"{head} has shape {shape_words(value.array.shape)}: {error}") from None


def _attribute(controller: Controller, name: str, field: str) -> str:
    value = seen_named(controller, name)
    if field in ("shape", "dtype", "ndim", "size") and value.array is not None:
        return str(getattr(value.array, field))
    at = controller.of_node(name) if name not in ("value",) and "[" not in name else None
    moment = at if at is not None else controller.moment
    node = moment.node
    facts: dict[str, object] = {
        "op": node.op, "phase": node.phase, "scope": node.scope, "source": node.source,
        **plain_attrs(controller.attrs(moment)),
    }  # fmt: skip
    if field not in facts:
        fields = ", ".join(("shape", "dtype", "grad", *facts))
        raise UsageError(f"{node.name} has no {field!r}", hint=f"it has {fields}")
    return clean(str(facts[field]))


def target_at(controller: Controller, text: str) -> tuple[Target, ValueAtMoment | None]:
    """The element that a text names at the cursor: ``value[0]``, ``[nan]``, ``loss@2``.

    Also returns the value, if it belongs to the cursor's node.
    """
    if not text or text.startswith("["):
        text = f"value{text}"
    port = None
    if match := _PORT.fullmatch(text):
        port = seen_named(controller, match["name"])
        error = controller.moment.error
        explained = error and not match["rest"] and not port.role.startswith("inputs")
        if port.missing and not explained and (error or controller.moment.when == "before"):
            raise UsageError(f"{port.name} is not available: {port.missing}")
        text = port.name + match["rest"]
    target = parse_target(text)
    if target.step is None and (value := controller.named(target.name)) is not None:
        # A parameter's value is what was last assigned to it.
        return replace(target, name=value.name), port
    return target, port


def _as_of(controller: Controller, value: ValueAtMoment | None) -> int:
    """The seq up to which the run must be known: a node may have read an older state than the
    value's.
    """
    at = controller.moment
    if value is None or not value.role.startswith("inputs") or value.seq in (0, at.seq):
        return at.seq
    latest = controller.history.recording.latest_at(value.value, at.seq)
    return at.seq if latest is None or latest.seq == value.seq else value.seq


def why_lines(controller: Controller, text: str) -> Iterator[str]:
    """``why``: the origin of an element; ``why nan``: the history of NaN and Inf in this step."""
    at = controller.moment
    recording = controller.history.recording
    if text in ("nan", "inf"):
        yield from clean(render_spread(spread(recording, at.step))).splitlines()
        return
    target, value = target_at(controller, text)
    seq = None if target.step is not None else _as_of(controller, value)
    replay = Replay(recording, target.step, seq=seq, patience_s=PATIENCE_S)
    target, lack, flat = gradient_asked(replay.book, target)
    if lack:
        yield clean(lack)
        return
    answer = why(recording, target, seq=seq, replay=replay)
    cut = flat or gradient_end(recording, answer.root.value)
    yield from [clean(cut), ""] if cut else []
    yield from clean(render(answer)).splitlines()


def what_if_lines(controller: Controller, text: str) -> Iterator[str]:
    """``what-if``: the results, had a value been different."""
    if not text:
        raise UsageError("what-if takes a value and a change", hint="what-if w *= 0.5")
    name, command = parse_edit(text)
    recording = controller.history.recording
    value = seen_named(controller, name)
    replay = Replay(recording, seq=_as_of(controller, value), patience_s=PATIENCE_S)
    old = replay.value(value.value).array
    branch = replay.what_if({value.value: edited(old, command)}, until=recording.last_seq())
    changed = [candidate for candidate in branch.changes if not candidate.edited]
    yield clean(f"with {value.name} changed in step {replay.step}: {len(changed):,} value"
                f"{'s' * (len(changed) != 1)} would differ, "
                f"{len(branch.same):,} {'stays' if len(branch.same) == 1 else 'stay'} "
                "bit-identical")  # fmt: skip
    ordered = sorted(changed, key=lambda candidate: (candidate.new.size > 1, -candidate.seq))
    listed = ordered[:MAX_CHANGES]
    for change in sorted(listed, key=lambda candidate: candidate.seq):
        healed = _bad(change.old) != _bad(change.new)
        bad = f"; {_bad(change.old)} NaN or Inf became {_bad(change.new)}" if healed else ""
        yield clean(f"  {change.node}: {_changed(change.difference)}{bad}")
    if len(changed) > len(listed):
        yield f"  and {len(changed) - len(listed)} more"
    for node in branch.blocked[:MAX_CHANGES]:
        yield clean(f"  {node.node} could not be re-run: {node.reason}")
    if not changed and not branch.blocked and not branch.same:
        yield "  nothing that has run so far depends on it; continue, then try again"


def _bad(array: Array) -> int:
    """The number of elements that are not finite."""
    return int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind in "fc" else 0


def _changed(gap: Difference) -> str:
    if gap.note:
        return gap.note
    before, after = distinct_texts(gap.one, gap.other, digits=6)
    if gap.size == 1:
        return f"{before} became {after}"
    largest = f", by at most {gap.largest:.4g}" if gap.largest is not None else ""
    return (f"{gap.count:,} of {gap.size:,} elements differ{largest}; "
            f"{index_text(gap.at)} {before} became {after}")  # fmt: skip


def diff_lines(controller: Controller, text: str) -> Iterator[str]:
    """``diff``: a value now and in the previous step, or in two given steps."""
    words = text.split()
    steps: list[int] = []
    while words and words[-1].isdecimal():
        steps.insert(0, int(words.pop()))
    if len(steps) > 2 or len(words) > 1:
        raise UsageError(
            f"{text!r} is not a value and up to two steps", hint="diff loss/matmul 1 2"
        )
    value = seen_named(controller, words[0] if words else "value")
    at = controller.moment
    if not steps:
        edits = [edit for edit in controller.history.recording.edits() if edit.value == value.value]
        if edits and edits[-1].step == at.step and not words:
            yield clean(f"changed in this step: {edits[-1].how}")
    later = value if len(steps) < 2 else _in_step(controller, value, steps[1])
    earlier = _in_step(controller, value, steps[0] if steps else (later.step or at.step) - 1)
    yield clean(f"step {earlier.step}: {seen_line(earlier)}")
    yield clean(f"step {later.step or at.step}: {seen_line(later)}")
    for side in (earlier, later):
        if side.array is None:
            raise UsageError(f"{side.name} of step {side.step} is not available: {side.missing}")
    assert earlier.array is not None
    assert later.array is not None
    arrays = whole_of(earlier.array), whole_of(later.array)
    gap = difference(*arrays, value.name, value.value, later.seq)
    yield "bit-identical" if gap is None else _changed(gap)


def _in_step(controller: Controller, value: ValueAtMoment, step: int) -> ValueAtMoment:
    """A value as it was at the end of a step."""
    ended = [row for row in controller.history.recording.steps() if row.step == step]
    until = ended[-1].end_seq if ended else controller.moment.seq
    history = controller.history
    recorded = history.recording.latest_at(value.value, until)
    if recorded is None or recorded.step != step:
        ran = history.recording.ran_last(
            value.value, history.recording.last_seq() if until is None else until
        )
        executions = history.recording.executions(ran - 1, ran)
        if executions and executions[0].step == step:
            raise UsageError(f"{value.name} has no statistics in step {step}")
        when = f"in step {step}" if step > 0 else "before the first step"
        raise UsageError(f"{value.name} was not computed {when}")
    array = history.recording.array(value.value, recorded.seq) if recorded.summary.blob else None
    missing = "" if array is not None else "its elements were not recorded"
    return ValueAtMoment(
        value.value, value.name, value.role, array, recorded.summary, missing, recorded.seq, step
    )


def rule_lines(controller: Controller, text: str) -> Iterator[str]:
    """``rule``: set watch rules; without arguments, list their findings."""
    now = controller.info.watches
    word, _, argument = text.partition(" ")
    if word == "off":
        removed = [status for status in now if str(status.id) == argument.strip()]
        if not removed:
            raise UsageError(f"there is no rule {argument.strip() or '?'}", hint="rule lists them")
        controller.command(
            SetWatches(tuple(status.text for status in now if status not in removed))
        )
    elif text:
        texts = [status.text for status in now]
        new = _recommended(controller) if text == RECOMMENDED else [text]
        controller.command(
            SetWatches((*texts, *(addition for addition in new if addition not in texts)))
        )
    now = controller.info.watches
    for status in now:
        hit_count = f"{status.hits:,} hit{'s'[: status.hits != 1]}"
        last_hit = (
            f", {hit_count}, the last: {status.last.partition(': ')[2]}" if status.hits else ""
        )
        message = f"; {status.message}" if status.message else ""
        yield clean(f"rule {status.id}: {status.text}{last_hit}{message}")
    if not now:
        yield "no rules; nodescope docs watches lists them, such as rule nan"


def _recommended(controller: Controller) -> list[str]:
    """The watches recommended for the program as observed so far."""
    if controller.stop.step < 2:
        raise UsageError("no training step has ended, so no rules can be recommended yet",
                         hint="step, then rule recommended")  # fmt: skip
    return [
        describe(recommended.watch) for recommended in recommend_for(controller.history.recording)
    ]


def shown(controller: Controller, text: str) -> Any:
    """An expression, or else a value, a part or an attribute; see `part_of`.

    Raises:
        NodescopeError: The text names none of these.
    """
    value = controller.named(text)
    if value is not None:
        return value
    try:
        return controller.evaluate(text)
    except ConditionError:
        of_a_node = "[" not in text.partition(": ")[0] and ": " in text
        if of_a_node or "(" in text or not (text.endswith("]") or "." in text):
            raise
    return part_of(controller, text)


def check_readable(text: str) -> None:
    """Refuse an expression that has no value at any stop; a name may belong to a future node.

    Raises:
        ConditionError: It cannot be parsed, or calls something that is not a function; with the
            column.
    """
    name, colon, expression = text.partition(": ")
    before = len(text) - len(expression) if colon and "[" not in name else 0
    body = _OF_STEP.sub("", text[before:])
    try:
        compile_expression(body)
    except ConditionError as error:
        if "(" in body or not _is_python(body):
            column = error.column + before if error.column >= 0 else -1
            raise ConditionError(error.message, column=column, hint=error.hint) from None


def _is_python(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
