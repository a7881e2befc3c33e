"""Lines for an order of nodes without a value passing are drawn on request."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from nodescope.events import GraphExtended, RunFinished, RunStarted
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record.recorder import Recorder
from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually


def test_control_edges_are_a_switch_that_the_address_holds(
    page: Page, start: Callable[..., Debuggee], tmp_path: Path
) -> None:
    nodes = (
        Node(1, "a", "exp", "elementwise", outputs=(1,)),
        Node(2, "b", "log", "elementwise", inputs=(1,), outputs=(2,)),
        Node(3, "c", "save", "other", outputs=(3,), control_inputs=(2,)),
    )
    recorder = Recorder(tmp_path / "run.nscope", level="timing")
    recorder.emit(RunStarted("0123456789abcdef", "t.py", (), 1, 1))
    spec = TensorSpec((2,), "float32")
    recorder.emit(GraphExtended(nodes, tuple(Value(node.id, spec, node.name) for node in nodes)))
    recorder.emit(RunFinished(0, "", 1))
    recorder.close()

    def expect_lines(count: int) -> None:
        eventually(page, "() => window.__nodescope.view.model.scene.edges", lambda n: n == count)

    page.goto(start("open", "--no-browser", "--port", "0", "run.nscope").address)
    expect_lines(1)
    expect(by(page, "control-edges")).to_have_attribute("aria-pressed", "false")
    by(page, "control-edges").click()
    expect_lines(2)
    expect(page).to_have_url(re.compile("control=1"))
    page.reload()
    expect_lines(2)
    by(page, "control-edges").click()
    expect_lines(1)
