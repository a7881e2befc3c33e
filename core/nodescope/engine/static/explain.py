"""Explain: what was traced, when and why, and the content of each graph, as data and as text.

Invariant: only describes what happened; nothing is traced or run for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodescope.engine.static.entry import Entry
from nodescope.engine.static.report import CompilationReport, report_of
from nodescope.engine.static.tracing import Traced
from nodescope.engine.tensor import Tensor
from nodescope.ir.graph import TensorSpec

_MOST_NAMES = 6


@dataclass(frozen=True)
class CapturedTensor:
    """A tensor that a graph reads or changes besides its arguments and results.

    Attributes:
        name: Its name.
        spec: Shape and dtype.
        nbytes: Size.
        source: The user's line where it came in, or ``""``.
    """

    name: str
    spec: TensorSpec
    nbytes: int
    source: str = ""


@dataclass(frozen=True)
class Trace:
    """One tracing of a function.

    Attributes:
        number: From 1.
        arguments: Description of each argument leaf.
        reason: Why it was traced.
        call: The number of the call that caused it.
        source: The user's line that called it.
        trace_ms: Duration in milliseconds.
        calls: Number of times its graph has run.
        constants: Arrays that are part of the graph.
        captured: Tensors from outside that are read again on each call.
        writes: The tensors that it assigns to.
        grads: The tensors whose ``.grad`` it sets.
        phases: Number of nodes by phase.
        dynamic: The dynamic leading dimension, or why there is none, or ``""``.
        compiled: How the function, and its derivative if used, were compiled.
    """

    number: int
    arguments: tuple[str, ...]
    reason: str
    call: int
    source: str
    trace_ms: float
    calls: int
    constants: tuple[CapturedTensor, ...]
    captured: tuple[CapturedTensor, ...]
    writes: tuple[str, ...]
    grads: tuple[str, ...]
    phases: dict[str, int] = field(default_factory=dict)
    dynamic: str = ""
    compiled: tuple[CompilationReport, ...] = ()

    def __str__(self) -> str:
        lines = [f"trace {self.number}: {self.reason}"]
        lines.append(f"  call {self.call}{f' at {self.source}' if self.source else ''}, "
                     f"traced in {self.trace_ms:.1f} ms, run {_times(self.calls)}")  # fmt: skip
        lines.append(f"  arguments: {_listed(self.arguments) or 'none'}")
        nodes = ", ".join(f"{count} {phase}" for phase, count in self.phases.items())
        lines.append(f"  nodes: {nodes or 'none'}")
        lines.extend(
            f"  constant {constant.name}: {constant.spec}, {constant.nbytes:,} bytes"
            f"{f', from {constant.source}' if constant.source else ''}"
            for constant in self.constants
        )
        if self.captured:
            lines.append("  captured: " + _listed([f"{c.name} {c.spec}" for c in self.captured]))
        if self.writes:
            lines.append(f"  writes: {_listed(self.writes)}")
        if self.grads:
            lines.append(f"  sets .grad of: {_listed(self.grads)}")
        if self.dynamic:
            lines.append(f"  {self.dynamic}")
        lines.extend(f"  {line}" for report in self.compiled for line in str(report).split("\n"))
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """The result of `explain`; prints as text.

    Attributes:
        name: The function's name.
        calls: Number of calls as a graph.
        traces: In order.
        notes: Further remarks, such as why no dimension is dynamic.
    """

    name: str
    calls: int
    traces: tuple[Trace, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{self.name}: called {_times(self.calls)}, traced {_times(len(self.traces))}"
        return "\n".join([head, *map(str, self.traces), *self.notes])

    __repr__ = __str__


class Record:
    """The data of a trace that is kept for `explain`.

    Attributes:
        entry: Its graph, None once released.
        form: The arguments.
        recording: Whether gradients were recorded.
    """

    def __init__(
        self, entry: Entry, reason: str, call: int, source: str, trace_ms: float, dynamic: str = ""
    ) -> None:
        self.entry: Entry | None = entry
        self.reason, self.call, self.source, self.trace_ms = reason, call, source, trace_ms
        self.dynamic = dynamic
        self.form = entry.traced.form
        self.recording = entry.traced.recording
        self._description: Trace | None = None

    def let_go(self, number: int) -> None:
        """Release the graph, and keep only its description."""
        self._description, self.entry = explained(number, self), None
        self.form = self.form.forgotten(everything=True)

    def description(self, number: int) -> Trace:
        """The description of the trace."""
        return self._description or explained(number, self)


def explained(number: int, record: Record) -> Trace:
    """A record as a `Trace`."""
    assert record.entry is not None
    entry, traced = record.entry, record.entry.traced
    builder = traced.builder
    own = set(traced.own)
    return Trace(
        number=number,
        arguments=tuple(map(str, traced.form.arguments)),
        reason=record.reason,
        call=record.call,
        source=record.source,
        trace_ms=record.trace_ms,
        calls=entry.calls,
        constants=tuple(
            CapturedTensor(
                node.name,
                builder.values[value - 1].tensor,
                builder.arrays[value].nbytes,
                str(node.source or ""),
            )
            for node in entry.graph.nodes
            if node.op == "constant"
            for value in node.outputs
        ),
        captured=tuple(
            CapturedTensor(
                tensor.name or builder.producer(value).name,
                builder.values[value - 1].tensor,
                tensor.data.nbytes,
                str(builder.producer(value).source or ""),
            )
            for tensor, value in builder.captures
            if id(tensor) not in own
        ),
        writes=tuple(_called(tensor, traced) for tensor, _ in traced.writes),
        grads=tuple(_called(tensor, traced) for tensor, _ in traced.grads),
        phases=dict(Counter(node.phase for node in entry.graph.nodes)),
        dynamic=record.dynamic,
        compiled=tuple(report_of(lowering, of) for of, lowering in entry.lowerings()),
    )


def _listed(names: Sequence[str]) -> str:
    """As many names as are readable; the data contains all."""
    rest = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _called(binding: int | Tensor, traced: Traced) -> str:
    if isinstance(binding, int):
        return traced.form.arguments[binding].path
    return binding.name or "a tensor"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
