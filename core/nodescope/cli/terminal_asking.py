"""What the terminal debugger can ask of a run besides its values: why, what if, since when.

Each function takes a controller that stands somewhere and what was typed, and gives lines.

Invariant: nothing of the program changes; what takes longer than `PATIENCE_S` is given up.
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

from nodescope.debug.conditions import compile_expression
from nodescope.debug.controller import Controller
from nodescope.debug.edit_text import parse_edit
from nodescope.debug.edits import edited
from nodescope.debug.frames import ScopeFrame
from nodescope.debug.moments import Seen
from nodescope.debug.recommending import WORD as RECOMMENDED
from nodescope.debug.replay import Difference, Replay
from nodescope.debug.replay.arrays import difference
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.watch import describe
from nodescope.debug.why import Target, parse_target, render, render_spread, spread, why
from nodescope.debug.why.births import told_apart
from nodescope.debug.words import clean, seen_line
from nodescope.errors import ConditionError, NodescopeError, UsageError
from nodescope.events import Array
from nodescope.protocol import SetWatches
from nodescope.telling import index_text, last_line

PATIENCE_S: Final = 30.0
MAX_CHANGES: Final = 12
_AROUND: Final = 5
_PORT: Final = re.compile(r"(?P<name>value|(?:inputs|outputs)\[\d+\])(?P<rest>.*)", re.DOTALL)
_OF_STEP: Final = re.compile(r" \[step \d+\]$")
_FIELD: Final = re.compile(r"(?P<name>.+)\.(?P<field>[A-Za-z_]\w*)")


def whole(text: str) -> int:
    """A whole number that a person wrote."""
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def times(text: str) -> int:
    """How often something is to be done; once, if nothing is said."""
    count = whole(text) if text else 1
    if not count:
        raise UsageError("a count starts at 1")
    return count


def in_thread(ident: int) -> str:
    """``, thread NAME``; nothing for the main thread, which most programs have alone."""
    if ident == threading.main_thread().ident:
        return ""
    names = [each.name for each in threading.enumerate() if each.ident == ident]
    return f", thread {names[0] if names else ident}"


def told(error: Exception) -> str:
    """An error for the person who asked: ours says where it is, any other what it is."""
    if not isinstance(error, NodescopeError):
        return f"that failed: {last_line(error)}"
    column = getattr(error, "column", -1)
    return f"{error}{f' (column {column + 1})' if column >= 0 else ''}"


def place(file: str, line: int) -> str:
    """``train.py:42``, relative to the folder where that is shorter."""
    try:
        shown = os.path.relpath(file) if os.path.isabs(file) else file
    except OSError:  # the program has deleted its own folder
        shown = file
    return clean(f"{file if shown.startswith('..') else shown}:{line}")


def source_lines(controller: Controller, frame: ScopeFrame) -> Iterator[str]:
    """``l``: the lines around that of a frame."""
    lines = linecache.getlines(frame.file)
    if not lines:
        kept = controller.history.recording.source(frame.file) if frame.file else None
        if kept is None:
            raise UsageError(f"the source of {frame.name} is not known")
        lines = kept.splitlines()
    first = max(0, frame.line - 1 - _AROUND)
    for index in range(first, min(len(lines), frame.line + _AROUND)):
        mark = "->" if index + 1 == frame.line else "  "
        yield clean(f"{index + 1:5} {mark} {lines[index].rstrip()}")


def seen_named(controller: Controller, name: str) -> Seen:
    """A value by its port at the cursor, or by the name of its node.

    Raises:
        UsageError: There is none.
    """
    at = controller.moment
    for each in (*controller.outputs(at), *controller.inputs(at)):
        if name == each.role or (name == "value" and each.role == "outputs[0]"):
            return each
    if _PORT.fullmatch(name):
        there = ", ".join(each.role for each in (*controller.inputs(at), *controller.outputs(at)))
        raise UsageError(f"{at.node.name} has no {name}", hint=f"it has {there}" if there else "")
    node, _, field = name.rpartition(".")
    if name == "grad" or (field == "grad" and node):
        gradient = controller.gradient(at if name == "grad" else controller.of_node(node))
        if gradient is None:
            raise UsageError(f"no gradient is recorded for {node or at.node.name}")
        return gradient
    seen = controller.named(name)
    if seen is None:
        controller.find(name)  # says what is near
        raise UsageError(f"{name} has no value")
    return seen


def part_of(controller: Controller, text: str) -> Any:
    """What is no expression: ``w``, ``w.grad``, ``loss/matmul[0, :2]``, ``mean.axis``.

    Gives a `Seen` for a whole value, else an array, a number, or a text.

    Raises:
        NodescopeError: It is none of these.
    """
    found = _PORT.fullmatch(text)
    head, rest = (found["name"], found["rest"]) if found else (text, "")
    if not found and text.endswith("]"):
        head, bracket, inside = text.partition("[")
        rest = bracket + inside
    head, rest = head.strip(), rest.strip()
    indexed = rest.startswith("[")
    field = _FIELD.fullmatch(head if indexed else head + rest)
    if field is not None and field["field"] != "grad" and not indexed:
        return _attribute(controller, field["name"], field["field"])
    if rest.startswith(".grad"):
        raise UsageError("grad needs a node's value", hint="grad, or NODE.grad")
    of_a_fact = field is not None and field["field"] in ("shape", "dtype")
    if of_a_fact or (rest and not indexed):
        raise UsageError(
            f"{text!r} is not an element or slice of a value",
            hint="value[0, :3], or shape(value)[0]",
        )
    seen = seen_named(controller, head)
    if not rest:
        return seen
    if seen.array is None:
        raise UsageError(f"{seen.name} is not there: {seen.missing}")
    index = parse_target(f"x{rest}").index
    if not isinstance(index, tuple):
        raise UsageError(f"{rest} is not an index", hint="numbers and slices, as in value[0, :3]")
    try:
        return seen.array[index]
    except IndexError as error:
        raise UsageError(f"{head} has shape {seen.array.shape}: {error}") from None


def _attribute(controller: Controller, name: str, field: str) -> str:
    seen = seen_named(controller, name)
    if field in ("shape", "dtype", "ndim", "size") and seen.array is not None:
        return str(getattr(seen.array, field))
    at = controller.of_node(name) if name not in ("value",) and "[" not in name else None
    node = at.node if at is not None else controller.moment.node
    facts: dict[str, object] = {"op": node.op, "phase": node.phase, "scope": node.scope,
                                "source": node.source, **node.attrs}  # fmt: skip
    if field not in facts:
        known = ", ".join(("shape", "dtype", "grad", *facts))
        raise UsageError(f"{node.name} has no {field!r}", hint=f"it has {known}")
    return clean(str(facts[field]))


def target_at(controller: Controller, text: str) -> tuple[Target, Seen | None]:
    """An element as it is asked about where the cursor is: ``value[0]``, ``[nan]``, ``loss@2``.

    Also the value, if it is one of the cursor's node.
    """
    if not text or text.startswith("["):
        text = f"value{text}"
    port = None
    if found := _PORT.fullmatch(text):
        port = seen_named(controller, found["name"])
        if port.missing and (controller.moment.error or controller.moment.when == "before"):
            raise UsageError(f"{port.name} is not there: {port.missing}")
        text = port.name + found["rest"]
    target = parse_target(text)
    if target.step is None and (seen := controller.named(target.name)) is not None:
        # A parameter is what was assigned to it last.
        return replace(target, name=seen.name), port
    return target, port


def _as_of(controller: Controller, seen: Seen | None) -> int:
    """Up to where the run is to be known: a node may have taken what is older than that value."""
    at = controller.moment
    if seen is None or not seen.role.startswith("inputs") or seen.seq in (0, at.seq):
        return at.seq
    latest = controller.history.recording.latest_at(seen.value, at.seq)
    return at.seq if latest is None or latest.seq == seen.seq else seen.seq


def why_lines(controller: Controller, text: str) -> Iterator[str]:
    """``why``: where an element comes from; ``why nan``: what NaN and Inf did in this step."""
    at = controller.moment
    recording = controller.history.recording
    if text in ("nan", "inf"):
        yield from clean(render_spread(spread(recording, at.step))).splitlines()
        return
    target, seen = target_at(controller, text)
    seq = None if target.step is not None else _as_of(controller, seen)
    replay = Replay(recording, target.step, seq=seq, patience_s=PATIENCE_S)
    yield from clean(render(why(recording, target, seq=seq, replay=replay))).splitlines()


def fork_lines(controller: Controller, text: str) -> Iterator[str]:
    """``fork``: what would be now, had a value been another one."""
    if not text:
        raise UsageError("fork takes a value and a change", hint="fork w *= 0.5")
    name, command = parse_edit(text)
    recording = controller.history.recording
    seen = seen_named(controller, name)
    replay = Replay(recording, seq=_as_of(controller, seen), patience_s=PATIENCE_S)
    old = replay.value(seen.value).array
    branch = replay.fork({seen.value: edited(old, command)}, until=recording.last_seq())
    changed = [each for each in branch.changes if not each.edited]
    yield clean(f"with {seen.name} changed in step {replay.step}: {len(changed):,} value"
                f"{'s' * (len(changed) != 1)} would differ, "
                f"{len(branch.same):,} stay bit-identical")  # fmt: skip
    shown = sorted(changed, key=lambda each: (each.new.size > 1, -each.seq))[:MAX_CHANGES]
    for change in sorted(shown, key=lambda each: each.seq):
        healed = _bad(change.old) != _bad(change.new)
        bad = f"; {_bad(change.old)} NaN or Inf became {_bad(change.new)}" if healed else ""
        yield clean(f"  {change.node}: {_changed(change.difference)}{bad}")
    if len(changed) > len(shown):
        yield f"  and {len(changed) - len(shown)} more"
    for each in branch.blocked[:MAX_CHANGES]:
        yield clean(f"  {each.node} could not be re-run: {each.reason}")
    if not changed and not branch.blocked and not branch.same:
        yield "  nothing that has run so far depends on it; continue, then try again"


def _bad(array: Array) -> int:
    """How many elements are no finite numbers."""
    return int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind in "fc" else 0


def _changed(found: Difference) -> str:
    if found.note:
        return found.note
    one, other = told_apart(found.one, found.other, digits=6)
    if found.size == 1:
        return f"{one} became {other}"
    largest = f", by at most {found.largest:.4g}" if found.largest is not None else ""
    return (f"{found.count:,} of {found.size:,} elements differ{largest}; "
            f"{index_text(found.at)} {one} became {other}")  # fmt: skip


def diff_lines(controller: Controller, text: str) -> Iterator[str]:
    """``diff``: a value now and in the step before, or in two steps."""
    words = text.split()
    steps: list[int] = []
    while words and words[-1].isdecimal():
        steps.insert(0, int(words.pop()))
    if len(steps) > 2 or len(words) > 1:
        raise UsageError(
            f"{text!r} is not a value and up to two steps", hint="diff loss/matmul 1 2"
        )
    here = seen_named(controller, words[0] if words else "value")
    at = controller.moment
    if not steps:
        edits = [each for each in controller.history.recording.edits() if each.value == here.value]
        if edits and edits[-1].step == at.step and not words:
            yield clean(f"changed in this step: {edits[-1].how}")
    later = here if len(steps) < 2 else _in_step(controller, here, steps[1])
    earlier = _in_step(controller, here, steps[0] if steps else (later.step or at.step) - 1)
    yield clean(f"step {earlier.step}: {seen_line(earlier)}")
    yield clean(f"step {later.step or at.step}: {seen_line(later)}")
    for each in (earlier, later):
        if each.array is None:
            raise UsageError(f"{each.name} of step {each.step} is not there: {each.missing}")
    assert earlier.array is not None
    assert later.array is not None
    found = difference(earlier.array, later.array, here.name, here.value, later.seq)
    yield "bit-identical" if found is None else _changed(found)


def _in_step(controller: Controller, seen: Seen, step: int) -> Seen:
    """A value as it was at the end of a step."""
    ended = [each for each in controller.history.recording.steps() if each.step == step]
    until = ended[-1].end_seq if ended else controller.moment.seq
    history = controller.history
    known = history.recording.latest_at(seen.value, until)
    if known is None or known.step != step:
        raise UsageError(f"{seen.name} was not computed in step {step}")
    array = history.recording.array(seen.value, known.seq) if known.summary.blob else None
    missing = "" if array is not None else "its elements are not recorded"
    return Seen(seen.value, seen.name, seen.role, array, known.summary, missing, known.seq, step)


def rule_lines(controller: Controller, text: str) -> Iterator[str]:
    """``rule``: watch rules; without, what they have found."""
    now = controller.info.watches
    word, _, rest = text.partition(" ")
    if word == "off":
        gone = [each for each in now if str(each.id) == rest.strip()]
        if not gone:
            raise UsageError(f"there is no rule {rest.strip() or '?'}", hint="rule lists them")
        controller.command(SetWatches(tuple(each.text for each in now if each not in gone)))
    elif text:
        known = [each.text for each in now]
        new = _recommended(controller) if text == RECOMMENDED else [text]
        controller.command(SetWatches((*known, *(each for each in new if each not in known))))
    now = controller.info.watches
    for each in now:
        many = f"{each.hits:,} hit{'s'[: each.hits != 1]}"
        found = f", {many}, the last: {each.last.partition(': ')[2]}" if each.hits else ""
        said = f"; {each.message}" if each.message else ""
        yield clean(f"rule {each.id}: {each.text}{found}{said}")
    if not now:
        yield "no rules; docs/watches.md lists them, such as rule nan"


def _recommended(controller: Controller) -> list[str]:
    """The watches that suit what the program has shown."""
    if controller.stop.step < 2:
        raise UsageError("no training step has ended, so no rules can be recommended yet",
                         hint="step, then rule recommended")  # fmt: skip
    return [describe(each.watch) for each in recommend_for(controller.history.recording)]


def shown(controller: Controller, text: str) -> Any:
    """An expression, else a value, a part, or an attribute; as `part_of`.

    Raises:
        NodescopeError: It is none of these.
    """
    seen = controller.named(text)
    if seen is not None:
        return seen
    try:
        return controller.evaluate(text)
    except ConditionError:
        of_a_node = "[" not in text.partition(": ")[0] and ": " in text
        if of_a_node or "(" in text or not (text.endswith("]") or "." in text):
            raise
    return part_of(controller, text)


def check_readable(text: str) -> None:
    """Refuse an expression that has no value at any stop; a name may be of a node to come.

    Raises:
        ConditionError: It cannot be parsed, or calls what is no function; with the column.
    """
    name, colon, rest = text.partition(": ")
    before = len(text) - len(rest) if colon and "[" not in name else 0
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
