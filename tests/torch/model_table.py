"""A table of models: the size of a training step, the cost of observing it, the time to draw it.

    python -m tests.torch.model_table [model ...]

Costs are those of steps that follow a script, at level `timing`, under either tap: CPU time of the
program's thread, relative to the same step unobserved in the same round, so a busy machine slows
both; the median over rounds. The first step, which is observed operator by operator, is measured
too. Then a recording is opened in Chromium; the wall time from the request to the first picture is
measured in a page that was open before.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from playwright.sync_api import Browser, sync_playwright

import nodescope as ns
from bench.measure import machine_note, paired_times, spent
from nodescope.adapters.torch.native_tap import choosing
from nodescope.adapters.torch.native_tap.fast_path import StepFastPath
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.e2e import chromium
from tests.e2e.conftest import SIZE
from tests.e2e.first_pictures import THERE
from tests.e2e.pictures import running
from tests.e2e.waiting import eventually, settled
from tests.torch.models import MODELS, NAMES, Made
from tests.torch.taps import TAPS

ROUNDS, WARM, STEPS = 7, 8, 3
REQUESTS = 3


class Measured(NamedTuple):
    """A model.

    Attributes:
        operators: The number of operators in a step.
        plain_ms: The time of an unobserved step.
        ratios: By tap, a recorded step's time relative to an unobserved one's.
        followed: By tap, whether steps followed a script.
        first_ms: The time of the first step, recorded under the native tap.
        picture_ms: The time from the request for the page to the first picture.
    """

    operators: int
    plain_ms: float
    ratios: dict[str, float]
    followed: dict[str, bool]
    first_ms: float
    picture_ms: float


def _training(make: Callable[[], Made]) -> Callable[[], None]:
    torch.manual_seed(0)
    model, loss_of = make()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> None:
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


@contextlib.contextmanager
def _recording(tap: str, path: Path, followed: dict[str, bool]) -> Iterator[None]:
    paths: list[StepFastPath] = []

    class FastPath(StepFastPath):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            paths.append(self)

    os.environ[choosing.VARIABLE] = tap
    with (
        patch("nodescope.adapters.torch.attachment.StepFastPath", FastPath),
        ns.record(path, level="timing"),
    ):
        yield
        followed[tap] = paths[0].steps > WARM // 2


def _picture(browser: Browser, path: Path) -> float:
    times = []
    with running("open", "--port", "0", str(path), folder=str(path.parent)) as address:
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        for _ in range(1 + REQUESTS):
            page.goto("about:blank")
            start = time.perf_counter()
            page.goto(address.split("?")[0] if times else address)
            eventually(page, THERE, True)
            settled(page)
            times.append(1e3 * (time.perf_counter() - start))
        page.close()
    return statistics.median(times[1:])


def measure(browser: Browser, make: Callable[[], Made]) -> Measured:
    """Measure a model."""
    followed: dict[str, bool] = {}
    step = _training(make)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.nscope"
        within = {tap: lambda tap=tap: _recording(tap, path, followed) for tap in TAPS}
        times = paired_times(
            {"plain": step, **dict.fromkeys(TAPS, step)}, rounds=ROUNDS, budget_s=0.1,
            within=within, warm=WARM,
        )  # fmt: skip
        firsts = []

        def trained() -> None:
            step = _training(make)
            firsts.append(1e3 * spent(step, 1)[2])
            for _ in range(STEPS - 1):
                step()

        os.environ[choosing.VARIABLE] = "native"
        recorded(path, trained, level="timing")
        with Recording.open(path) as recording:
            nodes = {row.node.id: row.node for row in recording.nodes()}
            operators = sum(
                row.step == STEPS and nodes[row.node].native != "" for row in recording.executions()
            )
        picture = _picture(browser, path)
    plain = times["plain"].own
    ratios = {
        tap: statistics.median(a / b for a, b in zip(times[tap].own, plain, strict=True))
        for tap in TAPS
    }
    return Measured(operators, 1e3 * statistics.median(plain), ratios, followed, firsts[0], picture)


def _cost(row: Measured, tap: str) -> str:
    return f"{row.ratios[tap]:.2f}" + ("" if row.followed[tap] else " (not followed)")


def main(names: Sequence[str]) -> None:
    """Print the table."""
    print(f"{machine_note()}; PyTorch {torch.__version__}, {torch.get_num_threads()} thread(s)\n")
    print(
        "| model | operators of a step | step alone | C++ extension | dispatch mode | first step "
        "| first picture |"
    )
    print("|-|-|-|-|-|-|-|")
    torch.set_num_threads(1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=list(chromium.FLAGS)
        )
        for name, make in zip(NAMES, MODELS, strict=True):
            if names and name not in names:
                continue
            row = measure(browser, make)
            print(
                f"| {name} | {row.operators:,} | {row.plain_ms:.1f} ms | {_cost(row, 'native')}"
                f" | {_cost(row, 'python')} | {row.first_ms:.0f} ms | {row.picture_ms:.0f} ms |",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
