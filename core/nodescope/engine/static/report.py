"""Report: how a graph was compiled, as data and as a readable table.

Invariant: only describes what happened; nothing is compiled or run for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nodescope.engine.static.lowering import Lowering
from nodescope.ir.graph import Graph
from nodescope.ir.provenance import KernelCost, MemoryReport
from nodescope.passes.compile_events import reasons_of
from nodescope.passes.cost import Machine, node_work, roof, this_machine
from nodescope.passes.pipeline import Lowered, PassOutcome

_MOST_KERNELS = 24  # limit of printed lines; the data contains all
_MOST_REASONS = 8
_UNITS = ("", " k", " M", " G", " T")


@dataclass(frozen=True)
class Pass:
    """The effect of one pass.

    Attributes:
        name: The pass.
        before, after: Number of nodes.
        rules: How often each of its rules was applied.
        took_ms: Milliseconds, without verification.
    """

    name: str
    before: int
    after: int
    rules: dict[str, int]
    took_ms: float


@dataclass(frozen=True)
class KernelReport:
    """A node of the compiled graph.

    Attributes:
        name: The node's name.
        what: Its op; for a kernel of several nodes, its pattern.
        covers: Names of its nodes, if several.
        flops, moved: Operations, and bytes in and out.
        intensity: Flops per byte.
        bound: ``memory`` or ``compute``.
        least_us: Lower bound in microseconds by the roofline of this machine.
        source: The user's line of its first node.
    """

    name: str
    what: str
    covers: tuple[str, ...]
    flops: int
    moved: int
    intensity: float
    bound: str
    least_us: float
    source: str = ""


@dataclass(frozen=True)
class CompilationReport:
    """How one graph was compiled.

    Attributes:
        of: ``"the function"`` or ``"its derivative"``.
        backend: The back end that runs it, ``""`` until it has run.
        fallback: Why it is not the requested one, or ``""``.
        passes: In order.
        fates: Numbers of traced nodes kept, fused, merged and so on.
        kernels: Executed nodes, most work first.
        memory: Memory of intermediate results, if planned.
        unfused: Pairs of neighbours that were not fused, and why.
        lower_ms, build_ms: Time taken by the passes and the back end.
        machine: Speeds assumed in ``least_us``.
    """

    of: str
    backend: str = ""
    fallback: str = ""
    passes: tuple[Pass, ...] = ()
    fates: dict[str, int] = field(default_factory=dict)
    kernels: tuple[KernelReport, ...] = ()
    memory: MemoryReport | None = None
    unfused: tuple[str, ...] = ()
    lower_ms: float = 0.0
    build_ms: float = 0.0
    machine: Machine | None = None

    def __str__(self) -> str:
        if not self.backend:
            why = f": {self.fallback}" if self.fallback else ", it has not run yet"
            return f"{self.of} is not compiled{why}"
        took = f"passes {self.lower_ms:.1f} ms, code {self.build_ms:.1f} ms"
        lines = [f"{self.of}, compiled for {self.backend!r} ({took})"]
        if self.fallback:
            lines.append(f"  back end changed: {self.fallback}")
        lines.extend(_indented(self._passes()))
        fates = ", ".join(f"{count} {kind}" for kind, count in self.fates.items())
        lines.append(f"  fate of the traced nodes: {fates or 'none'}")
        if self.memory is not None:
            lines.append(f"  memory: {_memory(self.memory)}")
        lines.extend(_indented(self._kernels()))
        if self.unfused:
            lines.append(f"  not fused: {len(self.unfused)} pairs of neighbouring nodes")
            lines.extend(f"    {reason}" for reason in self.unfused[:_MOST_REASONS])
            if len(self.unfused) > _MOST_REASONS:
                lines.append(f"    and {len(self.unfused) - _MOST_REASONS} more")
        return "\n".join(lines)

    def _passes(self) -> list[str]:
        rows = []
        for graph_pass in self.passes:
            if graph_pass.rules:
                rules = ", ".join(f"{name} ×{n}" if n > 1 else name
                                  for name, n in graph_pass.rules.items())  # fmt: skip
                change = f"{graph_pass.before} → {graph_pass.after}"
                rows.append((graph_pass.name, change, f"{graph_pass.took_ms:.1f} ms", rules))
        idle = [graph_pass.name for graph_pass in self.passes if not graph_pass.rules]
        known = {row[0] for row in rows}
        idle = [name for name in dict.fromkeys(idle) if name not in known]
        table = _table(("pass", "nodes", "time", "what it did"), rows, right={1, 2})
        return [*table, f"nothing to do for: {', '.join(idle)}"] if idle else table

    def _kernels(self) -> list[str]:
        rows = [
            (kernel.name, kernel.what, _quantity(kernel.flops), _quantity(kernel.moved) + "B",
             f"{kernel.intensity:.2g}", kernel.bound, f"{kernel.least_us:.1f} us",
             _covered(kernel.covers))
            for kernel in self.kernels[:_MOST_KERNELS]
        ]  # fmt: skip
        head = ("kernel", "op or pattern", "flops", "moved", "flops/B", "bound", "at least",
                "covers")  # fmt: skip
        lines = _table(head, rows, right={2, 3, 4, 6})
        if len(self.kernels) > _MOST_KERNELS:
            rest = self.kernels[_MOST_KERNELS:]
            least = sum(kernel.least_us for kernel in rest)
            lines.append(f"and {len(rest)} more, at least {least:.1f} us in total")
        if self.machine is not None:
            lines.append(
                f"roofline of one core: {self.machine.flops / 1e9:.0f} Gflop/s, "
                f"{self.machine.bandwidth / 1e9:.1f} GB/s, ridge point "
                f"{self.machine.ridge:.1f} flops/B"
            )
        return lines


def report_of(lowering: Lowering, of: str) -> CompilationReport:
    """How a graph was compiled, so far."""
    lowered, runner = lowering.lowered, lowering.runner
    if lowered is None or runner is None:
        return CompilationReport(of, fallback=lowering.reason)
    machine = this_machine()
    return CompilationReport(
        of=of,
        backend=lowering.backend,
        fallback=lowering.reason,
        passes=tuple(map(_pass, lowered.stages)),
        fates=dict(Counter(fate.kind for fate in lowered.provenance.fates.values()).most_common()),
        kernels=tuple(sorted(_kernels(lowered, machine), key=lambda kernel: -kernel.least_us)),
        memory=runner.memory,
        unfused=tuple(reasons_of(lowered)),
        lower_ms=lowering.lower_ns / 1e6,
        build_ms=lowering.build_ns / 1e6,
        machine=machine,
    )


def costs_of(lowered: Lowered) -> dict[int, KernelCost]:
    """Costs of the executed nodes by id, in the form kept in a recording."""
    specs = {value.id: value.tensor for value in lowered.graph.values}
    costs = {}
    for node in lowered.graph.nodes:
        if not node.is_leaf:
            work = node_work(node, specs)
            costs[node.id] = KernelCost(work.flops, work.moved, roof(work).bound)
    return costs


def _pass(stage: PassOutcome) -> Pass:
    return Pass(
        stage.name, len(stage.before.nodes), len(stage.after.nodes),
        dict(Counter(rewrite.rule for rewrite in stage.rewrites).most_common()),
        stage.took_ns / 1e6,
    )  # fmt: skip


def _kernels(lowered: Lowered, machine: Machine) -> Iterable[KernelReport]:
    specs = {value.id: value.tensor for value in lowered.graph.values}
    for node in lowered.graph.nodes:
        if node.is_leaf:
            continue
        work = node_work(node, specs)
        where = roof(work, machine)
        body: Graph | None = node.attrs["body"] if node.op == "fused" else None
        yield KernelReport(
            node.name, node.attrs["pattern"] if body else node.op,
            tuple(n.name for n in body.nodes) if body else (),
            work.flops, work.moved, work.intensity, where.bound, where.least_s * 1e6,
            str(node.source or ""),
        )  # fmt: skip


# Text


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: set[int]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _covered(names: tuple[str, ...]) -> str:
    """Last parts of names, as many as are readable."""
    short = [name.rpartition("/")[2] for name in names]
    most = 6
    return ", ".join(short[:most]) + (f" and {len(short) - most} more" if len(short) > most else "")


def _quantity(number: float) -> str:
    for unit in _UNITS:
        if abs(number) < 1000 or unit == _UNITS[-1]:
            text = f"{number:.0f}" if unit == "" else f"{number:.3g}"
            return f"{text}{unit or ' '}"
        number /= 1000
    return ""


def _memory(memory: MemoryReport) -> str:
    return (
        f"{_quantity(memory.planned_bytes)}B planned, {_quantity(memory.unplanned_bytes)}B peak "
        f"without a plan, {_quantity(memory.total_bytes)}B of results in total, "
        f"{memory.in_place} in place"
    )
