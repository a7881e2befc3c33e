"""What a user does on the first day: a training program, debugged in the browser."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.waiting import eventually, settled

Start = Callable[..., Debuggee]
DECIMALS = re.compile(r"\d\.\d+")
SVG = "{http://www.w3.org/2000/svg}"


def by(page: Page, name: str) -> Locator:
    """The element with a test id."""
    return page.get_by_test_id(name)


def row(page: Page, name: str) -> Locator:
    """The outline's row of a node or scope, once the picture has chosen which scopes are open."""
    outline = '[data-testid="outline"]:not([aria-busy])'
    return page.locator(f'{outline} [data-testid="outline-row"][data-name="{name}"]')


def expand(page: Page, name: str) -> None:
    """Open a scope in the outline, if it is folded."""
    wanted = row(page, name)
    wanted.wait_for()
    if wanted.get_attribute("aria-expanded") == "false":
        wanted.click()
        page.keyboard.press("Enter")
    expect(wanted).to_have_attribute("aria-expanded", "true")


def bounds(page: Page, node: int) -> dict[str, float]:
    """Where a node is on the canvas, once it stands where it stays, in page coordinates."""
    settled(page)
    return eventually(
        page,
        """id => {
            const box = window.__nodescope.view.boundsOf({kind: 'node', id});
            const host = document.querySelector('[data-testid="graph"]').getBoundingClientRect();
            return {x: host.x + box.x, y: host.y + box.y, width: box.width, height: box.height};
        }""",
        lambda box: box is not None,
        node,
    )


def node_id(page: Page, name: str) -> int:
    """The id of a node by its name."""
    script = "name => window.__nodescope.nodeByName(name)"
    return eventually(page, script, lambda node: node is not None, name)


def number(page: Page) -> str:
    """The first number with decimals of the value that is inspected."""
    value = by(page, "inspector-value")
    expect(value).to_contain_text(DECIMALS)
    match = DECIMALS.search(value.inner_text())
    assert match
    return match.group()


def test_a_training_run_is_debugged(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "2")

    # opens the address, and finds the program waiting at its first node
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    assert "token" not in page.url

    # goes one step, so that the graph is there, and expands a scope
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 3", re.S))
    expand(page, "loss")

    # sets a breakpoint on the loss by clicking the left edge of its node
    loss = node_id(page, "loss/mean")
    row(page, "loss/mean").click()
    page.keyboard.press("f")
    box = bounds(page, loss)
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] / 2)
    expect(by(page, "breakpoint-row")).to_contain_text("loss/mean")

    # continues, is stopped there, and sees value, gradient and source line
    by(page, "continue").click()
    expect(by(page, "inspector-title")).to_contain_text("mean")
    expect(by(page, "inspector-reason")).to_contain_text("loss/mean")
    expect(by(page, "inspector-value")).to_contain_text(re.compile(r"\d\.\d+"))
    by(page, "tab-gradient").click()
    expect(by(page, "inspector-gradient")).to_contain_text("1")
    expect(by(page, "inspector-source")).to_contain_text("digits_mlp.py")

    # steps into the backward pass
    by(page, "step-node").click()
    expect(by(page, "state")).to_contain_text("backward")

    # removes the breakpoint, continues, and sees the run finish with its accuracy in the log
    by(page, "breakpoint-remove").click()
    expect(by(page, "breakpoint-row")).to_have_count(0)
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Finished", timeout=60_000)
    by(page, "tab-console").click()
    expect(by(page, "console")).to_contain_text(re.compile(r"accuracy 0\.\d+"))

    # exports what is on the screen
    by(page, "export").click()
    with page.expect_download() as download:
        by(page, "export-svg").click()
    root = ET.parse(download.value.path()).getroot()
    assert root.tag == f"{SVG}svg"
    texts = {"".join(element.itertext()) for element in root.iter(f"{SVG}text")}
    assert any("mean" in text for text in texts)


def test_the_past_can_be_looked_at(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", "--no-stop-on-entry", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Finished", timeout=60_000)
    expand(page, "loss")
    row(page, "loss/mean").click()
    latest = number(page)
    slider = by(page, "slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(by(page, "inspector-value")).not_to_contain_text(latest)
    by(page, "back-to-live").click()
    expect(by(page, "inspector-value")).to_contain_text(latest)


def test_a_lost_server_is_reported_and_the_program_continues(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", "--exit", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.close()
    program.expect(r"accuracy 0\.\d+", timeout_s=60)
    assert program.wait() == 0


def test_a_wrong_token_is_refused_in_words(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    address = program.address
    answer = page.goto(address[:-4] + "AAAA")
    assert answer is not None
    assert answer.status == 403
    expect(page.locator("body")).to_contain_text("nodescope")
    page.goto(address)
    expect(by(page, "state")).to_contain_text("Stopped")
