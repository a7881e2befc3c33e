"""Records programs eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import api
from nodescope.cli.outermost_calls import Logged, after_each, digest
from nodescope.compare.result import Comparison, compare, judge
from nodescope.compare.verdict import Verdict
from nodescope.console_output import last_line
from nodescope.engine import dispatch_mode, mode
from nodescope.engine.crosscheck.active import set_cross_check
from nodescope.engine.crosscheck.checker import CrossCheck
from nodescope.record.recording import Recording

SIDES = ("eager", "compiled")


@contextmanager
def in_mode(wanted: str) -> Iterator[None]:
    """Switch to a mode, and back to the previous one afterwards."""
    before = mode.get_mode()
    ns.set_mode(wanted)  # type: ignore[arg-type]
    try:
        yield
    finally:
        ns.set_mode(before)


def both(
    folder: Path, program: Callable[[], Any], *, level: Any = "values"
) -> tuple[Recording, Recording]:
    """Recordings of a program in both modes; the program starts afresh each time."""
    results = []
    for side in SIDES:
        path = folder / f"{side}.nscope"
        with in_mode(side), ns.record(path, level=level):
            program()
        results.append(Recording.open(path))
    return results[0], results[1]


def checked(folder: Path, program: Callable[[], Any]) -> tuple[Recording, Recording]:
    """As `both`, with each call of the compiled run checked, as ``nodescope compare`` does."""
    results = []
    for side in SIDES:
        path = folder / f"{side}.nscope"
        path.unlink(missing_ok=True)
        run, check = api.Run(path, name=side, level="values"), CrossCheck()
        logged = Logged(_step)
        with in_mode(side):
            run.start()
            set_cross_check(check if side == "compiled" else None)
            error = ""
            end = after_each(logged.took, digest)
            try:
                program()
            except Exception as failure:
                error = last_line(failure)
            finally:
                end()
                set_cross_check(None)
                run.recorder.add(logged.log())
                if check.report().functions:
                    run.recorder.add(check.report())
                run.finish(int(bool(error)), error)
        results.append(Recording.open(path))
    return results[0], results[1]


def _step() -> int:
    tracer = dispatch_mode.attending()
    return 0 if tracer is None else tracer.step


def judged(folder: Path, program: Callable[[], Any]) -> Verdict:
    """The verdict of ``nodescope compare`` on a program, without timing it."""
    eager, compiled = checked(folder, program)
    with eager, compiled:
        return judge(eager, compiled)[0]


def compared(folder: Path, program: Callable[[], Any], *, level: Any = "values") -> Comparison:
    """The comparison of a program's eager and compiled runs."""
    eager, compiled = both(folder, program, level=level)
    with eager, compiled:
        return compare(eager, compiled)


def training(steps: int = 3, scope: str = "", name: str = "train_step") -> Callable[[], None]:
    """A small network, trained by a compiled step in an outer scope."""

    def program() -> None:
        rng = np.random.default_rng(1)
        weight = ns.parameter(rng.standard_normal((6, 4)), np.float32, name="layer/weight")
        bias = ns.parameter(np.zeros(4), np.float32, name="layer/bias")
        optimizer = ns.optim.SGD([weight, bias], lr=0.1, momentum=0.9)
        data = rng.standard_normal((steps, 8, 6)).astype(np.float32)

        def train_step(batch: ns.Tensor) -> ns.Tensor:
            optimizer.zero_grad()
            with ns.name_scope("layer"):
                hidden = np.tanh(batch @ weight + bias)
            with ns.name_scope("loss"):
                loss = np.mean(hidden * hidden)
            loss.backward()
            optimizer.step()
            return loss

        step = ns.compile(train_step, name=name)
        for item in ns.steps(range(steps)):
            if scope:
                with ns.name_scope(scope):
                    step(ns.tensor(data[item], name="batch"))
            else:
                step(ns.tensor(data[item], name="batch"))

    return program
