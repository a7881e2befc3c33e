"""Scopes that are alike: a search opens one of a stack, and the keyboard turns it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import nodescope as ns
from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by, row
from tests.e2e.test_moments import go_to
from tests.e2e.test_why import on_canvas
from tests.e2e.waiting import eventually, settled

Start = Callable[..., Debuggee]

OPEN = "[...window.__nodescope.store.folds().open].filter(path => path.startsWith('layer')).sort()"


def recording(folder: Path) -> Path:
    path = folder / "layers.nscope"
    x = np.ones((3, 3))
    with ns.record(path, level="summary"):
        h = ns.tensor(x)
        for k in range(9):
            with ns.name_scope(f"layer_{k}"):
                with ns.name_scope("inner"):
                    y = np.tanh(h @ ns.parameter(x, name="w"))
                h = y + h
    return path


@pytest.mark.deep
def test_a_stack_is_turned_by_the_keyboard(start: Start, page: Page, tmp_path: Path) -> None:
    program = start("open", "--no-browser", recording(tmp_path))
    page.goto(program.address)
    expect(row(page, "layer_0…")).to_be_visible()
    expect(by(page, "outline")).to_contain_text("×9")

    # a search opens only the scope of its result
    go_to(page, "layer_4/inner/tanh")
    eventually(page, OPEN, ["layer_4", "layer_4/inner"])
    settled(page)
    assert on_canvas(page, "tanh") == 1

    # the next layer, and the one before: the same scopes are open, and the same node is selected
    for key, number in (("}", 5), ("}", 6), ("{", 5)):
        page.keyboard.press(key)
        eventually(page, OPEN, [f"layer_{number}", f"layer_{number}/inner"])
        expect(by(page, "inspector")).to_contain_text(f"layer_{number}/inner/tanh")

    # the last layer is followed by the first
    go_to(page, "layer_8/inner/tanh")
    page.keyboard.press("}")
    eventually(page, OPEN, ["layer_0", "layer_0/inner"])
    settled(page)
    assert on_canvas(page, "tanh") == 1
