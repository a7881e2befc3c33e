"""A training run of a GPT in PyTorch, debugged on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from tests.e2e.conftest import ROOT, Debuggee
from tests.e2e.test_first_flow import by
from tests.torch.static_programs import Classifier

Start = Callable[..., Debuggee]
GPT = ROOT / "samples" / "torch" / "gpt.py"
ATTENTION = "GPT/blocks/1/attention"
# The numbers of colours in a picture of 32 by 32 elements: above the diagonal, and on or below
# it.
SHADES = """
(cells) => {
  const { width, height } = cells;
  const pixels = cells.getContext("2d").getImageData(0, 0, width, height).data;
  const colours = [new Set(), new Set()];
  for (let row = 0; row < 32; row++) {
    for (let col = 0; col < 32; col++) {
      const x = Math.floor(((col + 0.5) * width) / 32);
      const y = Math.floor(((row + 0.5) * height) / 32);
      const at = 4 * (y * width + x);
      colours[col > row ? 0 : 1].add(pixels.slice(at, at + 3).join());
    }
  }
  return colours.map((set) => set.size);
}
"""


def look(page: Page, name: str) -> None:
    """Find a node by its name, and select it."""
    page.keyboard.press("Control+k")
    page.keyboard.type(name)
    page.keyboard.press("Enter")


@pytest.mark.timeout(600)
def test_an_exported_program_is_stepped_and_changed(
    start: Start, page: Page, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    saved = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Classifier().eval(), (torch.randn(4, 6),)), saved)
    program = start("open", "--no-browser", "--exit", "--joint", saved)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    expect(by(page, "mode")).to_have_text("exported")
    # The whole graph is there before anything has run.
    look(page, "Classifier/softmax")
    expect(by(page, "inspector-title")).to_contain_text("softmax")
    by(page, "breakpoint-new").click()
    by(page, "breakpoint-target").fill("op:softmax_backward")
    by(page, "breakpoint-target").press("Enter")
    expect(by(page, "breakpoint-row")).to_have_count(1)
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("softmax_backward")

    # Look at the forward pass again, and try an edit.
    look(page, "Classifier/body/addmm")
    page.keyboard.press("e")
    by(page, "edit-how").select_option("scale")
    by(page, "edit-number").fill("0.5")
    by(page, "edit-what-if").click()
    expect(by(page, "branch-words")).to_contain_text(re.compile(r"\d values changed"))
    page.keyboard.press("Escape")
    by(page, "step-back").click()
    expect(by(page, "state")).to_contain_text("In the past")
    by(page, "back-to-live").click()
    expect(by(page, "back-to-live")).to_be_disabled()
    by(page, "step-node").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*backward", re.S))
    by(page, "breakpoint-remove").click()
    by(page, "continue").click()
    # Values that are kept are written to the file first, which takes a while on a busy machine.
    expect(by(page, "state")).to_contain_text("Finished", timeout=240_000)


@pytest.mark.timeout(600)
def test_a_gpt_is_debugged(start: Start, page: Page) -> None:
    program = start(
        "run", "--no-browser", "--exit", "--break", "op:softmax", GPT,
        "--steps", "4", "--letters", "3",
    )  # fmt: skip
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("op:softmax")
    expect(by(page, "inspector-path")).to_contain_text("GPT/blocks/0/attention")
    by(page, "continue").click()
    expect(by(page, "inspector-path")).to_contain_text(ATTENTION)
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 1", re.S))

    # Attention as a picture: 16 sequences, 4 heads, 32 x 32 letters.
    expect(by(page, "inspector-value")).to_contain_text("(16, 4, 32, 32)")
    expect(by(page, "inspector-value")).to_contain_text("zero")
    picture = by(page, "inspector-value").locator(".heat-cells canvas, canvas.heat-cells").first
    expect(picture).to_be_visible()
    page.wait_for_function(f"(cells) => ({SHADES})(cells)[1] > 4", arg=picture.element_handle())
    future, past = picture.evaluate(SHADES)
    assert future == 1  # No letter attends to later ones: their weights are all zero.
    assert past > 4

    # Edit a value in place.
    page.keyboard.press("e")
    by(page, "edit-index").fill("0, 0")
    by(page, "edit-number").fill("0")
    by(page, "edit-apply").click()
    expect(by(page, "edited")).to_contain_text("softmax[0, 0] set to 0")

    # Continue to the backward pass of the same node.
    by(page, "breakpoint-remove").click()
    expect(by(page, "breakpoint-row")).to_have_count(0)
    by(page, "breakpoint-new").click()
    by(page, "breakpoint-target").fill("op:softmax_backward")
    by(page, "breakpoint-target").press("Enter")
    expect(by(page, "breakpoint-row")).to_have_count(1)
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("backward")
    expect(by(page, "inspector-reason")).to_contain_text("softmax_backward")
    by(page, "step-node").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*backward", re.S))

    by(page, "breakpoint-remove").click()
    expect(by(page, "breakpoint-row")).to_have_count(0)
    by(page, "continue").click()
    program.expect(r"^loss \d")
    # Values that are kept are written to the file first, which takes a while on a busy machine.
    expect(by(page, "state")).to_contain_text("Finished", timeout=240_000)
