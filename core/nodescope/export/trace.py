"""Chrome trace: the executions by thread, for ui.perfetto.dev and chrome://tracing.

Steps, phases and scopes are slices around the executions; flows lead from the execution that
produced a value to those that read it.

Invariant: on each track, slices are nested or follow each other. Times are the recording's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from nodescope.console_output import shape_words
from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.folding import within
from nodescope.export.words import detail, label, visible
from nodescope.ir.graph import Graph, Node
from nodescope.ir.scopes import ancestors
from nodescope.record.graphs import end_of
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN, Execution, StepRow

MOST_FLOWS: Final = 300_000
"""The limit of flows; viewers would take minutes for a trace with more, so it gets none."""

_LONGEST: Final = 1000
_STEPS: Final = 0
"""The track of the training steps."""

Event = dict[str, Any]


class _Track(NamedTuple):
    process: int
    thread: int
    lane: int
    row: int
    """Executions of one thread that overlap are in different rows."""


@exporter("perfetto", suffix=".trace.json")
def render_trace(recording: Recording, options: ExportOptions) -> bytes:
    """JSON in Chrome's trace event format, in UTF-8."""
    graph, title = graph_and_title(recording, options)
    part = within(graph, options.scope) if options.scope else graph
    ran = _executions(recording, part, options.step)
    tracks = _tracks(ran)
    flows = _flows(ran, part)
    events = [_named("process_name", 1, 0, title)]
    events += _steps(recording.steps(), options.step)
    numbers: dict[_Track, int] = {}
    for track, executions in tracks.items():
        number = numbers[track] = len(numbers) + 1
        events.append(_named("thread_name", track.process + 1, number, _track_name(track)))
        events += _slices(executions, part, track.process + 1, number, flows)
    head = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"title": title}}
    return msgspec.json.encode(head)


def _executions(recording: Recording, graph: Graph, step: int | None) -> list[Execution]:
    known = {node.id for node in graph.nodes}
    if step is None:
        rows = recording.executions()
    else:
        rows = recording.executions(end_of(recording, step - 1) if step else 0,
                                    end_of(recording, step))  # fmt: skip
        rows = [row for row in rows if row.step == step]
    return [row for row in rows if row.node in known]


def _tracks(ran: list[Execution]) -> dict[_Track, list[Execution]]:
    """The executions of each track, in order of time and without overlaps."""
    ends: dict[tuple[int, int, int], list[int]] = {}
    tracks: dict[_Track, list[Execution]] = {}
    for execution in sorted(ran, key=lambda row: (row.start_ns, row.seq)):
        place = (execution.worker, execution.thread, execution.lane)
        rows = ends.setdefault(place, [])
        row = next((row for row, end in enumerate(rows) if end <= execution.start_ns), len(rows))
        if row == len(rows):
            rows.append(0)
        rows[row] = execution.start_ns + execution.duration_ns
        tracks.setdefault(_Track(*place, row), []).append(execution)
    return dict(sorted(tracks.items()))


def _flows(ran: list[Execution], graph: Graph) -> dict[int, tuple[list[int], list[int]]]:
    """By seq: the flows that begin and those that end at the execution."""
    produced = {value: node.id for node in graph.nodes for value in node.outputs}
    sources = {
        node.id: {produced[value] for value in node.inputs if value in produced}
        for node in graph.nodes
    }
    latest: dict[int, int] = {}
    flows: dict[int, tuple[list[int], list[int]]] = {}
    count = 0
    for execution in ran:
        for source in sources[execution.node]:
            writer = latest.get(source)
            if writer is None:
                continue
            count += 1
            if count > MOST_FLOWS:
                return {}
            flows.setdefault(writer, ([], []))[0].append(count)
            flows.setdefault(execution.seq, ([], []))[1].append(count)
        latest[execution.node] = execution.seq
    return flows


def _slices(
    executions: list[Execution], graph: Graph, process: int, thread: int,
    flows: dict[int, tuple[list[int], list[int]]],
) -> Iterable[Event]:  # fmt: skip
    """The executions of a track, with the slices around them, in order of time."""
    nodes = {node.id: node for node in graph.nodes}
    specs = {value.id: value.spec for value in graph.values}
    around: list[tuple[str, str, Event]] = []  # open slices: kind, name, event
    end = 0
    at = {"pid": process, "tid": thread}
    for execution in executions:
        node = nodes[execution.node]
        scopes = _around(execution, node)
        same = 0
        while same < len(around) and same < len(scopes) and around[same][:2] == scopes[same]:
            same += 1
        for _, _, event in around[same:]:
            event["dur"] = _us(end) - event["ts"]
        del around[same:]
        for kind, name in scopes[same:]:
            event = {"ph": "X", "cat": kind, "name": name, "ts": _us(execution.start_ns), **at}
            around.append((kind, name, event))
            yield event
        end = execution.start_ns + execution.duration_ns
        shapes = [shape_words(specs[value].shape) for value in node.outputs if value in specs]
        yield _slice(execution, node, shapes, at)
        begins, ends = flows.get(execution.seq, ((), ()))
        flow = {"cat": "value", "name": "value", "ts": _us(execution.start_ns), **at}
        for number in begins:
            yield {"ph": "s", "id": number, **flow}
        for number in ends:
            yield {"ph": "f", "bp": "e", "id": number, **flow}
    for _, _, event in around:
        event["dur"] = _us(end) - event["ts"]


def _around(execution: Execution, node: Node) -> list[tuple[str, str]]:
    """The slices around an execution, from the outside: kind and name."""
    slices = [("step", f"step {execution.step:,}")] if execution.step else []
    slices.append(("phase", node.phase))
    paths = ancestors(node.scope)
    if paths and paths[0] == node.phase:
        del paths[0]
    return slices + [("scope", visible(path.rpartition("/")[2], most=_LONGEST)) for path in paths]


def _slice(execution: Execution, node: Node, shapes: list[str], at: dict[str, int]) -> Event:
    args: dict[str, Any] = {
        "name": visible(node.name, most=_LONGEST), "op": visible(node.op), "seq": execution.seq,
    }  # fmt: skip
    if shapes:
        args["shape"] = ", ".join(shapes)
    if words := detail(node):
        args["attributes"] = words
    if node.source is not None:
        args["source"] = visible(str(node.source), most=_LONGEST)
    for flag, name in ((HAS_NAN, "nan"), (HAS_INF, "inf"), (FAILED, "failed")):
        if execution.flags & flag:
            args[name] = True
    return {
        "ph": "X", "cat": visible(node.family), "name": label(node), "ts": _us(execution.start_ns),
        "dur": _us(execution.start_ns + execution.duration_ns) - _us(execution.start_ns),
        "args": args, **at,
    }  # fmt: skip


def _steps(steps: list[StepRow], only: int | None) -> Iterable[Event]:
    """The training steps on a track of their own, those without observation too."""
    if steps:
        yield _named("thread_name", 1, _STEPS, "training steps")
    for row in steps:
        if only not in (None, row.step) or row.end_ns is None:
            continue
        name = f"step {row.step:,}" + ("" if row.observed else ", not observed")
        yield {
            "ph": "X", "cat": "step", "name": name, "ts": _us(row.start_ns),
            "dur": _us(max(row.end_ns, row.start_ns)) - _us(row.start_ns), "pid": 1, "tid": _STEPS,
        }  # fmt: skip


def _named(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _track_name(track: _Track) -> str:
    name = f"thread {track.thread}" + (f", queue {track.lane}" if track.lane else "")
    return name + (f", beside {track.row}" if track.row else "")


def _us(time_ns: int) -> float:
    return time_ns / 1000
