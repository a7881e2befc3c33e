"""CSV: one row per node, with shapes, times and statistics, for spreadsheets and scripts.

Invariant: a name from the program is a cell and never a formula. Nothing is folded.
"""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from nodescope.console_output import shape_words
from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.folding import within
from nodescope.export.words import visible
from nodescope.ir.attrs import plain
from nodescope.ir.graph import Graph, Node
from nodescope.record.graphs import end_of
from nodescope.record.recording import Recording
from nodescope.record.rows import MAX_SEQ
from nodescope.record.summary import TensorSummary

COLUMNS: Final = (
    "id", "name", "op", "family", "role", "phase", "scope", "device", "inputs", "shape", "dtype",
    "bytes", "runs", "total_ms", "mean_ms", "longest_ms", "min", "max", "mean", "std", "norm",
    "nan", "inf", "zeros", "attributes", "source",
)  # fmt: skip
_LONGEST: Final = 1000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

Row = dict[str, Any]


@exporter("csv", suffix=".csv")
def render_csv(recording: Recording, options: ExportOptions) -> bytes:
    """CSV in UTF-8, with a line of names first."""
    graph, _ = graph_and_title(recording, options)
    part = within(graph, options.scope) if options.scope else graph
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: _cell(value) for key, value in row.items()}
        for row in rows_of(recording, part, options)
    )
    return buffer.getvalue().encode()


def rows_of(recording: Recording, graph: Graph, options: ExportOptions) -> list[Row]:
    """A row per node. Times are of all its runs, or of those in ``options.step``; statistics are
    the latest ones of its first output.
    """
    times = _times(recording, options.step)
    until = MAX_SEQ if options.step is None else end_of(recording, options.step)
    values = {value.id: value for value in graph.values}
    producers = {value: node.name for node in graph.nodes for value in node.outputs}
    rows = []
    for node in graph.nodes:
        first = values.get(node.outputs[0]) if node.outputs else None
        row = dict.fromkeys(COLUMNS, "") | _node(node, producers)
        if first is not None:
            row |= {"shape": shape_words(first.spec.shape), "dtype": visible(first.spec.dtype)}
        row |= times.get(node.id, {"runs": 0})
        latest = recording.latest_at(first.id, until) if first is not None else None
        rows.append(row | (_statistics(latest.summary) if latest is not None else {}))
    return rows


def _node(node: Node, producers: dict[int, str]) -> Row:
    inputs = [visible(producers.get(value, f"%{value}"), most=_LONGEST) for value in node.inputs]
    attrs = (f"{key}={plain(key, value)}" for key, value in node.attrs.items())
    return {
        "id": node.id,
        "name": visible(node.name, most=_LONGEST),
        "op": visible(node.op),
        "family": visible(node.family),
        "role": node.role,
        "phase": node.phase,
        "scope": visible(node.scope, most=_LONGEST),
        "device": visible(node.device),
        "inputs": "; ".join(inputs),
        "attributes": visible("; ".join(attrs), most=_LONGEST),
        "source": visible(str(node.source)) if node.source else "",
    }


def _times(recording: Recording, step: int | None) -> dict[int, Row]:
    """Count and times, by node."""
    if step is None:
        return {
            cost.node: _spent(cost.times, cost.total_ns, cost.longest_ns)
            for cost in recording.costs()
        }
    end = end_of(recording, step)
    start = end_of(recording, step - 1) if step else 0
    sums: dict[int, tuple[int, int, int]] = {}
    for execution in recording.executions(start, end):
        if execution.step == step:
            runs, total, longest = sums.get(execution.node, (0, 0, 0))
            took = execution.duration_ns
            sums[execution.node] = (runs + 1, total + took, max(longest, took))
    return {node: _spent(*spent) for node, spent in sums.items()}


def _spent(runs: int, total_ns: int, longest_ns: int) -> Row:
    mean = total_ns / runs if runs else 0.0
    return {
        "runs": runs,
        "total_ms": round(total_ns / 1e6, 6),
        "mean_ms": round(mean / 1e6, 6),
        "longest_ms": round(longest_ns / 1e6, 6),
    }


def _statistics(summary: TensorSummary) -> Row:
    return {
        "shape": shape_words(summary.spec.shape),
        "dtype": visible(summary.spec.dtype),
        "bytes": summary.nbytes,
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "std": summary.std,
        "norm": summary.norm,
        "nan": summary.nan_count,
        "inf": summary.inf_count,
        "zeros": summary.zero_count,
    }


def _cell(value: Any) -> Any:
    """A cell; text that a spreadsheet would compute gets an apostrophe."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
