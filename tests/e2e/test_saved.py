"""Values of the forward pass that many nodes of the backward pass read are named beside these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import nodescope as ns
from tests.e2e.conftest import Debuggee
from tests.e2e.first_pictures import read
from tests.e2e.test_first_flow import by
from tests.e2e.test_moments import go_to
from tests.e2e.waiting import eventually, settled

Start = Callable[..., Debuggee]


def recording(folder: Path) -> Path:
    """`net/tanh` is read by five nodes of the backward pass."""
    path = folder / "saving.nscope"
    with ns.record(path, level="timing"):
        for _ in ns.steps(range(1)):
            w = ns.parameter(np.ones((4, 4)), name="w")
            with ns.name_scope("net"):
                h = np.tanh(ns.tensor(np.ones((4, 4)), name="x") @ w)
            with ns.name_scope("heads"):
                total = ns.tensor(0.0)
                for k in range(1, 4):
                    total = total + np.sum(h * np.sin(h * k))
            total.backward()
    return path


@pytest.mark.deep
def test_a_stub_leads_to_what_it_stands_for(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--port", "0", "--no-browser", recording(tmp_path)).address)
    expect(by(page, "state")).to_contain_text("Recording")
    read(page)
    go_to(page, "backward/net/square")
    settled(page)
    page.keyboard.press("f")
    picture = read(page)
    (reader,) = (rect for name, rect in picture.boxes if name == "backward/net/square")
    # The reader's input is directly below it: this picture goes upwards.
    (stub,) = (
        text.rect
        for text in picture.texts
        if text.text == "tanh" and reader.bottom < text.rect.top < reader.bottom + 60
        if reader.left < text.rect.left < reader.right
    )
    page.locator(".graph-host").click(
        position={"x": (stub.left + stub.right) / 2, "y": (stub.top + stub.bottom) / 2}
    )
    expect(by(page, "inspector-title")).to_have_text("tanh")
    expect(by(page, "inspector-path")).to_contain_text("net")
    eventually(
        page,
        "() => { const id = window.__nodescope.nodeByName('net/tanh');"
        " return window.__nodescope.view.boundsOf({ kind: 'node', id }) !== undefined; }",
        True,
    )
