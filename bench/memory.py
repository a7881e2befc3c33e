"""The peak memory of a compiled program, with a memory plan and node by node.

The figure is the largest sum of NumPy's arrays during a run, beyond arguments and parameters; it
includes what a plan keeps from run to run. The detail has the plan's own report on intermediate
results, and the growth of the process.

Invariant: each form is measured in two separate processes, one for the arrays and one for the
growth; both count what the form keeps for later calls.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import processes, programs
from bench.measure import Row
from bench.programs.case import BACKENDS, EAGER, OURS, PLAIN, Case
from bench.programs.ours import lowering_of, not_as_asked

MB = 1e6
RUNS = 3


def rows() -> Iterator[Row]:
    for program in programs.PROGRAMS:
        name = programs.cases(program)[-1].name
        memory = {form: _of(program, form) for form in (EAGER, PLAIN, *OURS)}
        for backend in OURS:
            yield _row(f"memory, {name}, {backend}", memory[backend], memory[PLAIN], memory[EAGER])


def _of(program: str, form: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    try:
        for figure in MEASURES:
            figures.update(processes.measured("memory", 1, figure, program, form))
    except RuntimeError as error:
        return {"missing": str(error)}
    return figures


def _row(name: str, ours: dict[str, Any], plain: dict[str, Any], eager: dict[str, Any]) -> Row:
    missing = ours["missing"] or plain["missing"]
    if missing:
        return Row(name, "node by node", None, detail=missing)
    detail = (
        f"{ours['arrays'] / MB:.3g} MB, node by node {plain['arrays'] / MB:.3g} MB; the process "
        f"grew by {ours['grown'] / MB:.3g} MB, {plain['grown'] / MB:.3g} MB"
    )
    if ours["planned"] is not None:
        planned, unplanned, total = (nbytes / MB for nbytes in ours["planned"])
        detail += (
            f"; intermediate results {planned:.3g} MB, {unplanned:.3g} MB if not planned, "
            f"{total:.3g} MB if none were let go"
        )
    beside = {} if eager["missing"] else {EAGER: ours["arrays"] / eager["arrays"]}
    return Row(name, "node by node", ours["arrays"] / plain["arrays"], detail=detail,
               beside=beside)  # fmt: skip


def measured(figure: str, program: str, form: str) -> dict[str, Any]:
    """Take one of the measures, in a separate process."""
    return MEASURES[figure](programs.cases(program)[-1], form)


def _grown(case: Case, form: str) -> dict[str, Any]:
    """The largest growth of the process in bytes, and the plan's report."""
    contender = case.makers[form]()
    _forget_largest()
    before = _largest()
    for _ in range(RUNS):
        contender.run()
    grown = _largest() - before
    planned = None
    if contender.compiled is not None:
        if missing := not_as_asked(contender.compiled, BACKENDS[form]):
            return {"missing": missing}
        report = lowering_of(contender.compiled).runner.memory
        if report is not None:
            planned = report.planned_bytes, report.unplanned_bytes, report.total_bytes
    return {"missing": "", "grown": grown, "planned": planned}


def _largest() -> int:
    """The peak memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _forget_largest() -> None:
    """Reset the peak memory, where Linux allows it: loading the libraries has raised it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _arrays(case: Case, form: str) -> dict[str, Any]:
    """The largest number of bytes of arrays during a run, beyond those before the first run."""
    gc.collect()
    tracemalloc.start()
    contender = case.makers[form]()
    before, _ = _traced()
    contender.run()  # compiles; the arrays that it keeps are counted below
    gc.collect()
    _, traced_bytes = _traced()
    tracemalloc.reset_peak()
    contender.run()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"arrays": most - traced_bytes - before}


def _traced() -> tuple[int, int]:
    """Bytes of arrays, and of everything else."""
    domain = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    snapshot = tracemalloc.take_snapshot()
    arrays = sum(trace.size for trace in snapshot.filter_traces([domain]).traces)
    return arrays, sum(trace.size for trace in snapshot.traces) - arrays


MEASURES = {"arrays": _arrays, "growth": _grown}
