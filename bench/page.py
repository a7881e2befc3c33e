"""From the program to a page: the rate of events, and the time until a step is painted."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.measure import Row
from tests.e2e import chromium

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "samples" / "digits_mlp.py"
CLICKS = 30

STEP_2 = "() => window.__nodescope?.store.model()?.session?.stop?.step === 2"
STOPPED = "() => window.__nodescope?.store.model()?.session?.phase === 'stopped'"
FINISHED = "() => window.__nodescope.store.model().info.state === 'finished'"
RECEIVED = "() => [window.__nodescope.store.model().seq, window.__nodescope.store.model().skipped]"

# Clicks, then waits until the session has stopped again and two frames were drawn.
CLICK_AND_PAINT = """
(button) => new Promise((done) => {
  const session = () => window.__nodescope.store.model().session;
  const before = session().version;
  const start = performance.now();
  button.click();
  const look = () => {
    const now = session();
    if (now.phase === "stopped" && now.version > before) {
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
    } else {
      requestAnimationFrame(look);
    }
  };
  look();
})
"""

PROGRAM = """
import numpy as np
import nodescope as ns

x = ns.parameter(np.ones(4, np.float32), name="x")
for _ in ns.steps(range({steps})):
    h = x
    for _ in range(50):
        h = h * x
        h = h + x
"""


def rows() -> Iterator[Row]:
    path = chromium.find(windows=True)
    if path is None:
        print("  no Chromium: the rows of the page are left out (make browser installs it)")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        yield _click_to_paint(page)
        yield _events_to_page(page)
        browser.close()


@contextmanager
def _running(*args: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "nodescope", "run", "--no-browser", *args],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if match := re.search(r"http://\S+", line):
                    yield match.group()
                    break
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _click_to_paint(page: Page) -> Row:
    with _running(str(SAMPLE)) as address:
        page.goto(address)
        page.get_by_test_id("next-step").click()
        page.wait_for_function(STEP_2)
        button = page.get_by_test_id("step-node").element_handle()
        times = [float(page.evaluate(CLICK_AND_PAINT, button)) for _ in range(CLICKS)]
    p95 = sorted(times)[int(0.95 * len(times))]
    return Row(
        "click on step to painted page, median",
        "",
        statistics.median(times),
        "ms",
        must=100,
        aim=50,
        detail=f"p95 {p95:.0f} ms, {CLICKS} clicks, software rendering",
    )


def _events_to_page(page: Page) -> Row:
    steps, nodes_per_step = 3000, 101
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "stream.py"
        script.write_text(PROGRAM.format(steps=steps))
        with _running("--level", "timing", str(script)) as address:
            page.goto(address)
            page.wait_for_function(STOPPED)
            start = time.perf_counter()
            page.get_by_test_id("continue").click()
            page.wait_for_function(FINISHED, timeout=120_000)
            took = time.perf_counter() - start
            seq, skipped = page.evaluate(RECEIVED)
    return Row(
        "events program to page, level timing",
        "",
        steps * nodes_per_step / took,
        "events/s",
        more_is_better=True,
        detail=f"{steps * nodes_per_step:,} in {took:.1f} s; the page is at record "
        f"{seq:,}, {skipped:,} of them as a count",
    )
