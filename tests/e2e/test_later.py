"""What is there again later, and what the page says of errors and of steps that were left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import ROOT, SAMPLE, Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.test_moments import go_to
from tests.e2e.waiting import eventually, settled

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.array([1.0, 2.0, 3.0]), name="w")
words = {0: "a", 1: "b"}
for k in ns.steps(range(6)):
    with ns.name_scope("net"):
        h = np.tanh(w)
    loss = np.sum(h * h)
    loss.backward()
    print("word", words[k])
"""


def script(folder: Path) -> Path:
    path = folder / "words.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.deep
def test_branches_are_restored(start: Start, page: Page, tmp_path: Path) -> None:
    kept = tmp_path / "kept.nscope"
    program = start(
        "run", "--no-browser", "--level", "values", "--record", kept,
        "--break", "sum [step 2]", script(tmp_path),
    )  # fmt: skip
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint sum [step 2]")
    go_to(page, "net/tanh")
    page.keyboard.press("e")
    by(page, "edit-how").select_option("scale")
    by(page, "edit-number").fill("0.5")
    by(page, "edit-what-if").click()
    expect(by(page, "branch-change")).to_have_count(3)
    words = by(page, "branch-words")
    expect(words).to_contain_text("2 values changed")
    went = re.search(r"up to event \d+\.", words.inner_text())
    assert went
    by(page, "branch-edit").click()
    by(page, "branch-rename").fill("half of it")
    by(page, "branch-rename").press("Enter")
    expect(by(page, "branch")).to_contain_text("half of it")

    page.reload()
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("t")
    expect(by(page, "branch")).to_contain_text("half of it")
    expect(words).to_contain_text(went.group())
    by(page, "detach").click()
    expect(by(page, "state")).to_contain_text("Failed")
    program.interrupt()
    program.wait()

    # Opened later, when step 2 has continued beyond the stop.
    page.goto(start("open", "--no-browser", kept).address)
    expect(by(page, "state")).to_contain_text("Recording")
    page.keyboard.press("t")
    expect(by(page, "branch")).to_contain_text("half of it")
    expect(words).to_contain_text(went.group())
    expect(words).not_to_contain_text("it differs from when")
    expect(by(page, "branch-change")).to_have_count(3)
    by(page, "branch-drop").click()
    expect(by(page, "branch")).to_have_count(0)


@pytest.mark.deep
def test_an_error_of_the_program_itself_is_shown_where_it_is(
    start: Start, page: Page, tmp_path: Path
) -> None:
    program = start("run", "--no-browser", "--level", "values", script(tmp_path))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped by an error.*step 3", re.S))
    reason = by(page, "inspector-reason")
    expect(reason).to_contain_text("Stopped by an error. The program raises KeyError: 2")
    expect(reason).to_contain_text("words.py:12")
    # The source shows the line that raises, not that of the last node.
    source = by(page, "inspector-source")
    expect(source.locator(".src-line.at")).to_contain_text('print("word", words[k])')
    go_to(page, "net/tanh")
    expect(source.locator(".src-line.at")).to_contain_text("h = np.tanh(w)")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Failed")
    page.keyboard.press("p")
    expect(by(page, "problems")).to_contain_text("KeyError: 2")
    program.expect("KeyError: 2")


@pytest.mark.deep
def test_steps_that_were_left_out_are_reported(start: Start, page: Page, tmp_path: Path) -> None:
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--max-slowdown", "1.05", SAMPLE,
        "--epochs", "2",
    )  # fmt: skip
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Finished", timeout=60_000)
    kept = by(page, "kept")
    expect(kept).to_contain_text(re.compile(r"whole values of the last 2 observed steps"))
    expect(kept).to_contain_text(re.compile(r"\d+ of \d+ steps observed"))
    kept.click()
    ways = by(page, "kept-ways")
    expect(ways).to_contain_text(re.compile(r"\d+ training steps ran unobserved"))
    expect(ways.get_by_role("button", name="--level values")).to_be_visible()
    page.keyboard.press("Escape")
    expect(ways).to_have_count(0)
    expect(kept).to_be_focused()
    slider = by(page, "slider")
    slider.focus()
    page.keyboard.press("End")
    out = eventually(
        page,
        "window.__nodescope.store.model().steps.filter((step) => !step.observed)"
        ".map((step) => [step.step, step.start_seq])",
        lambda steps: len(steps) > 0,
    )
    step, seq = out[0]
    page.evaluate("(seq) => window.__nodescope.store.seek(seq)", seq)
    words = page.locator(".scrub-words")
    expect(words).to_contain_text(f"step {step} (unobserved)")
    # None of the step's operations is known, and none of the previous step's is counted as its
    # own.
    unknown = re.compile(rf"step\s*{step}\s*unobserved, to stay below 1\.05×")
    expect(by(page, "state")).to_contain_text(unknown)
    expect(by(page, "as-of")).to_have_text(re.compile(r"as in step \d+"))
    # Nothing is reported as skipped, since it is unknown what ran.
    expect(page.get_by_text(re.compile(r"\d+ skipped"))).to_have_count(0)


@pytest.mark.deep
def test_the_legend_covers_no_node(start: Start, page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 800})
    program = start("run", "--no-browser", script(tmp_path))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Stopped by an error")
    page.keyboard.press("f")
    expect(by(page, "legend")).to_be_visible()
    # Nodes of all scopes are drawn at their final places.
    settled(page)
    eventually(
        page,
        """() => {
            const {store, view} = window.__nodescope;
            return store.model().graph.nodes.filter((node) => node && node.family !== 'leaf'
                && view.boundsOf({kind: 'node', id: node.id}) !== undefined).length;
        }""",
        lambda count: count >= 8,
    )
    eventually(
        page,
        """() => {
            const {store, view} = window.__nodescope;
            const host = document.querySelector('[data-testid="graph"]').getBoundingClientRect();
            const over = document.querySelector('[data-testid="legend"]').getBoundingClientRect();
            return store.model().graph.nodes.filter((node) => {
                const box = node && view.boundsOf({kind: 'node', id: node.id});
                return box !== undefined && host.x + box.x < over.right
                    && host.y + box.y + box.height > over.top;
            }).map((node) => node.name);
        }""",
        [],
    )


@pytest.mark.deep
def test_the_watch_that_stopped_is_in_sight(start: Start, page: Page) -> None:
    sample = ROOT / "samples" / "broken" / "dead_relus.py"
    page.set_viewport_size({"width": 1440, "height": 800})
    page.goto(start("run", "--no-browser", "--watch", "recommended", sample).address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("a")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("dead_layer")
    rows = by(page, "watch-row")
    # The list had to be scrolled: its first row is out of sight.
    expect(rows.first).to_contain_text("operator_overflow")
    expect(rows.first).not_to_be_in_viewport()
    here = page.locator("[data-testid=watch-row].here")
    expect(here).to_contain_text("dead_layer")
    expect(here).to_be_in_viewport(ratio=0.9)
