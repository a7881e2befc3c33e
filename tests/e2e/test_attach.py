"""A program that attaches more than once to one server: the page tells of each new run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by, row
from tests.e2e.waiting import eventually

# Begins a run for each line of input, and finishes it unless the line is "and stay".
PROGRAM = """
import sys
import numpy as np
import nodescope as ns

for line in sys.stdin:
    run = ns.attach()
    for step in ns.steps(range(3)):
        loss = np.sum(ns.tensor([1.0, 2.0]) * step)
    print(run.info.id, flush=True)
    if line.strip() != "and stay":
        run.finish()
"""


@pytest.fixture
def begin(
    start: Callable[..., Debuggee], page: Page, tmp_path: Path
) -> Iterator[Callable[..., str]]:
    """`begin()` makes the program attach, run and finish; the id of its run."""
    server = start("serve", "--port", "0", "--no-browser")
    page.goto(server.address)
    # Otherwise the run may end before the page is connected, and be only a row of the list.
    eventually(page, "window.__nodescope?.store?.link().kind", "open")
    script = tmp_path / "notebook.py"
    script.write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def _begin(how: str = "and finish") -> str:
        _pipe(program.stdin).write(f"{how}\n")
        _pipe(program.stdin).flush()
        return _pipe(program.stdout).readline().strip()

    yield _begin
    _pipe(program.stdin).close()
    program.wait(30)
    _pipe(program.stdout).close()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.mark.deep
def test_the_page_goes_to_the_run_of_a_second_attach(page: Page, begin: Callable[..., str]) -> None:
    first = begin()
    select = by(page, "run-select")
    expect(select).to_have_value(first)
    expect(by(page, "state")).to_contain_text("Finished")
    second = begin()
    expect(select).to_have_value(second)
    expect(by(page, "notice")).to_contain_text("A new run of notebook.py began")
    expect(by(page, "new-run")).to_have_count(0)


@pytest.mark.deep
def test_the_page_keeps_the_shown_run_and_offers_the_new_one(
    page: Page, begin: Callable[..., str]
) -> None:
    first = begin()
    select = by(page, "run-select")
    expect(select).to_have_value(first)
    expect(by(page, "state")).to_contain_text("Finished")
    row(page, "sum").click()
    expect(by(page, "inspector-title")).to_have_text("sum")
    second = begin("and stay")
    offer = by(page, "new-run")
    expect(offer).to_contain_text("A new run of notebook.py began at")
    expect(select).to_have_value(first)
    offer.get_by_role("button", name="Show it").click()
    expect(select).to_have_value(second)
    expect(offer).to_have_count(0)
