"""Takes the pictures of docs/images from the real page: `make pictures`."""

from __future__ import annotations

import os
import re
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
def running(command: str, *args: str, **environment: str) -> Iterator[str]:
    """The address that a command of nodescope prints."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "nodescope", command, "--no-browser", *args],
            cwd=folder,
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
    """Both themes, as docs/images/<name>-<theme>.png."""
    for theme in ("dark", "light"):
        if page.evaluate("document.documentElement.dataset.theme") != theme:
            page.get_by_test_id("theme").click()
        page.mouse.move(800, 990)
        page.evaluate("() => new Promise((done) => setTimeout(done, 600))")
        page.screenshot(path=IMAGES / f"{name}-{theme}.png")


def debugger(browser: Browser) -> None:
    """Stopped on the loss; running; finished."""
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
                const node = now.fn().nodes.find((each) => each.name === 'hidden_1/maximum');
                now.pick({ side: 'eager', id: node.eager });
            }"""
        )
        expect(page.get_by_test_id("pair-verdict")).to_be_visible()
        take(page, "compare")
        page.close()


def main() -> None:
    """All pictures."""
    path = chromium.find()
    assert path, "no Chromium: run `make browser`"
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        debugger(browser)
        comparison(browser)
        browser.close()


if __name__ == "__main__":
    main()
