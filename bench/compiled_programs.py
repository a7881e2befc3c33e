"""Compiled programs compared with hand-written NumPy, PyTorch, torch.compile and jax.jit.

Each program of `bench.programs` runs in a separate process for each number of threads, where all
contenders take turns in the same rounds. A row is one back end in one case: the ratio of wall time
to the peer that the design names, then the same ratio in CPU time, and the ratios to other peers.

Invariant: the row of a back end or peer that cannot be measured gives the reason.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench import processes, programs
from bench.measure import Row, Times, paired_times, ratio, seconds
from bench.programs.case import JAX, OURS, PLAIN, TORCH_COMPILE, Case, line_up

MOST_ROUNDS, FEWEST_ROUNDS = 15, 5
CASE_S = 3.0  # approximate time for the rounds of a case
BLOCK_S = 0.02  # time of one contender in one round


def rows() -> Iterator[Row]:
    for program in programs.PROGRAMS:
        for threads in processes.thread_counts():
            yield from of_program(program, threads)


def of_program(program: str, threads: int) -> Iterator[Row]:
    """The rows of one program, run with ``threads`` threads."""
    measured_programs: dict[str, Any] = {}
    broken = ""
    try:
        measured_programs = processes.measured("compiled_programs", threads, program)
    except RuntimeError as error:
        broken = str(error)
    for case in programs.cases(program):
        measured_times, first, left_out = measured_programs.get(
            case.name, ({}, {}, dict.fromkeys(case.makers, broken))
        )
        times = {name: Times(**fields) for name, fields in measured_times.items()}
        for backend in OURS:
            row = _row(case, backend, processes.said(threads), times, left_out)
            began = [
                f"{contender} {first[contender]:.2g} s"
                for contender in (backend, TORCH_COMPILE, JAX)
                if contender in first
            ]
            detail = f"{row.detail}; first call: {', '.join(began)}" if began else row.detail
            yield replace(row, detail=detail)


def _row(
    case: Case, backend: str, threads: str, times: dict[str, Times], left_out: dict[str, str]
) -> Row:
    """The ratio of a back end to its peer, if both were measured, and to the other contenders."""
    limit = case.limits[backend]
    name = f"{case.name}, {backend}, {threads}"
    missing = next(
        (contender for contender in (backend, limit.peer) if contender not in times), None
    )
    why = [
        f"{contender}: {reason}" for contender, reason in left_out.items() if contender not in OURS
    ]
    if missing is not None:
        why = list(dict.fromkeys([f"{missing}: {left_out[missing]}", *why]))
    if backend not in times:
        return Row(name, limit.peer, None, must=limit.must, aim=limit.aim, detail="; ".join(why))
    wall = {contender: c.wall for contender, c in times.items()}
    other_ratios = {
        contender: ratio(wall, backend, contender)
        for contender in times
        if contender not in (backend, limit.peer)
    }
    detail = [f"{statistics.median(wall[backend]) * 1e3:.3g} ms"]
    figure = None
    if limit.peer in times:
        figure = ratio(wall, backend, limit.peer)
        cpu = ratio({contender: c.cpu for contender, c in times.items()}, backend, limit.peer)
        detail += [f"{limit.peer} {statistics.median(wall[limit.peer]) * 1e3:.3g} ms",
                   f"processor time {cpu:.3g} x"]  # fmt: skip
    return Row(name, limit.peer, figure, must=limit.must, aim=limit.aim,
               detail="; ".join([", ".join(detail), *why]), beside=other_ratios)  # fmt: skip


def measured(program: str) -> dict[str, Any]:
    """Measure in a separate process: by case, all contenders' times, and why some are left out."""
    processes.set_torch_threads()
    return {case.name: _times(case) for case in programs.cases(program)}


def _times(case: Case) -> tuple[dict[str, Any], dict[str, float], dict[str, str]]:
    field = line_up(case, [maker for maker in case.makers if maker != PLAIN])
    runs = {name: contender.run for name, contender in field.contenders.items()}
    for run in runs.values():  # the first runs compile, and fill caches and pools
        run()
        run()
    gc.collect()
    gc.freeze()  # excludes the libraries' modules from the collection in each round
    block = sum(
        max(2 * seconds_, seconds_ + BLOCK_S)
        for seconds_ in (seconds(run, 1) for run in runs.values())
    )
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(CASE_S / max(block, 1e-3))))
    times = paired_times(runs, rounds=rounds, budget_s=BLOCK_S, warm=True)
    gc.unfreeze()
    return {name: vars(times_) for name, times_ in times.items()}, field.first_s, field.left_out
