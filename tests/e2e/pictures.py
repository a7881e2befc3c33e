"""Takes the pictures of docs/images from the real page: `make pictures`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.e2e import chromium

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "digits_mlp.py"
IMAGES = ROOT / "docs" / "images"
OPEN_SCOPES = ("loss",)
VIEWPORT = ViewportSize(width=1600, height=1000)


@contextmanager
def running(
    command: str, *args: str, folder: str | None = None, **environment: str
) -> Iterator[str]:
    """The address that a command of nodescope prints, run in a new folder or a given one."""
    with tempfile.TemporaryDirectory() as own:
        process = subprocess.Popen(
            [sys.executable, "-m", "nodescope", command, "--no-browser", *args],
            cwd=folder or own,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        try:
            printed = ""
            address = None
            while address is None:
                line = process.stdout.readline()
                assert line, printed
                printed += line
                address = re.search(r"http://127\S+", line)
            yield address.group()
        finally:
            process.terminate()
            process.wait(10)
            process.stdout.close()


def take(page: Page, name: str) -> None:
    """Take a picture in both themes, as docs/images/<name>-<theme>.png."""
    for theme in ("dark", "light"):
        if page.evaluate("document.documentElement.dataset.theme") != theme:
            page.get_by_test_id("theme").click()
        page.mouse.move(800, 990)
        page.evaluate("() => new Promise((done) => setTimeout(done, 600))")
        page.screenshot(path=IMAGES / f"{name}-{theme}.png")


def debugger(browser: Browser) -> None:
    """The debugger: stopped on the loss, running, finished."""
    with running("run", "--level", "values", str(SAMPLE)) as address:
        page = browser.new_page(viewport=VIEWPORT, color_scheme="dark")
        page.goto(address)
        state = page.get_by_test_id("state")
        for step in range(2, 8):
            page.get_by_test_id("next-step").click()
            expect(state).to_contain_text(re.compile(f"Stopped.*step {step}", re.S))
        for scope in OPEN_SCOPES:
            row = page.locator(f'[data-testid="outline-row"][data-name="{scope}"]')
            if row.get_attribute("aria-expanded") == "false":
                row.click()
                page.keyboard.press("Enter")
        page.locator('[data-testid="outline-row"][data-name="loss/exp"]').click()
        page.keyboard.press("F9")
        expect(page.get_by_test_id("breakpoint-row")).to_have_count(1)
        page.keyboard.press("F5")
        expect(page.get_by_test_id("inspector-reason")).to_contain_text("loss/exp")
        page.keyboard.press("f")
        take(page, "stopped")
        page.get_by_test_id("breakpoint-remove").click()
        expect(page.get_by_test_id("breakpoint-row")).to_have_count(0)
        page.keyboard.press("F5")
        take(page, "running")
        expect(state).to_contain_text("Finished", timeout=60_000)
        page.get_by_test_id("tab-console").click()
        take(page, "finished")
        page.close()


SLOW_LOADER = """\
import time

import numpy as np
import nodescope as ns

rng = np.random.default_rng(0)
w = ns.parameter(rng.standard_normal((64, 8)) * 0.1)
optimizer = ns.optim.SGD([w], lr=0.05)


def batches():
    for _ in range(40):
        time.sleep(0.03)  # a disk, a network, an augmentation
        x = rng.standard_normal((256, 64))
        yield x, np.tanh(x[:, :8])


for x, y in ns.steps(batches()):
    with ns.name_scope("model"):
        prediction = np.tanh(ns.tensor(x) @ w)
    with ns.name_scope("loss"):
        loss = np.mean((prediction - y) ** 2)
    optimizer.minimize(loss)
"""


def loader(browser: Browser) -> None:
    """The timeline of a program that waits for its data; then the start page."""
    with experiments() as folder:
        script = Path(folder) / "slow_loader.py"
        script.write_text(SLOW_LOADER)
        recording = Path(folder) / "slow_loader.nscope"
        record(script, recording)
        record(SAMPLE, Path(folder) / "digits_mlp.nscope", "--epochs", "2")
        record(SAMPLE.parent / "broken" / "nan_log.py", Path(folder) / "nan_log.nscope")
        with running("open", "--port", "0", str(recording), folder=folder) as address:
            page = browser.new_page(viewport=VIEWPORT, color_scheme="dark")
            page.goto(address)
            expect(page.get_by_test_id("summary")).to_be_visible()
            page.get_by_role("button", name="Fit all").click()
            take(page, "timeline")
            page.close()
        with running("open", "--port", "0", folder=folder) as address:
            page = browser.new_page(viewport=VIEWPORT, color_scheme="dark")
            page.goto(address)
            expect(page.get_by_text("nan_log.py").first).to_be_visible()
            take(page, "start")
            page.close()


def explanation(browser: Browser) -> None:
    """Why a loss is NaN: the chain beside the graph."""
    with experiments() as folder:
        recording = Path(folder) / "nan_log.nscope"
        record(SAMPLE.parent / "broken" / "nan_log.py", recording, level="values")
        with running("open", "--port", "0", str(recording), folder=folder) as address:
            page = browser.new_page(viewport=VIEWPORT, color_scheme="dark")
            page.goto(address)
            page.locator('[data-testid="outline-row"][data-name="loss/mean"]').click()
            page.keyboard.press("w")
            expect(page.get_by_test_id("inspector-why")).to_contain_text("log of")
            page.keyboard.press("f")
            take(page, "why")
            page.close()


def channels(browser: Browser) -> None:
    """Feature maps of a convolution, one picture for each channel."""
    sample = SAMPLE.parent / "digits_cnn.py"
    with running("run", "--port", "0", "--break", "op:conv2d [forward, step 3]", str(sample)) as at:
        page = browser.new_page(viewport=VIEWPORT, color_scheme="dark")
        page.goto(at)
        state = page.get_by_test_id("state")
        expect(state).to_contain_text("Stopped")
        page.keyboard.press("F5")
        expect(page.get_by_test_id("inspector-reason")).to_contain_text("op:conv2d")
        take(page, "channels")
        page.close()


@contextmanager
def experiments() -> Iterator[str]:
    """A folder for recordings; its path appears in the pictures."""
    path = Path(tempfile.gettempdir()) / "experiments"
    path.mkdir()
    try:
        yield str(path)
    finally:
        shutil.rmtree(path)


def record(script: Path, recording: Path, *args: str, level: str = "") -> None:
    """Record a program without a page."""
    chosen = ["--level", level] if level else []
    subprocess.run(
        [
            *(sys.executable, "-m", "nodescope", "run", "--port", "0", "--no-browser", "--exit"),
            *("--no-stop-on-entry", "--record", str(recording), *chosen, str(script), *args),
        ],
        cwd=recording.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,  # Some scripts fail on purpose.
    )


def comparison(browser: Browser) -> None:
    """A kernel beside the eager nodes that it covers."""
    # Kernels of the C back end cover small arrays, too.
    args = ("--port", "0", str(SAMPLE), "--epochs", "1")
    with running("compare", *args, NODESCOPE_BACKEND="auto") as address:
        page = browser.new_page(viewport=VIEWPORT, color_scheme="dark")
        page.goto(address)
        expect(page.get_by_test_id("fates")).to_be_visible(timeout=60_000)
        page.evaluate(
            """() => {
                const now = window.__nodescope.compare;
                const node = now.fn().nodes.find((n) => n.name === 'hidden_1/maximum');
                now.pick({ side: 'eager', id: node.eager });
            }"""
        )
        expect(page.get_by_test_id("pair-verdict")).to_be_visible()
        take(page, "compare")
        page.close()


def main() -> None:
    """Take all pictures."""
    path = chromium.find(windows=True)
    assert path, "no Chromium: run `make browser`"
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as state, sync_playwright() as playwright:
        os.environ["XDG_STATE_HOME"] = state  # Keep the user's own runs off the start page.
        browser = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        for pictures in (debugger, loader, explanation, channels, comparison):
            pictures(browser)
        browser.close()


if __name__ == "__main__":
    main()
