"""Pages of running programs, for each adapter: what they show and change at a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.link.address import Address
from nodescope.protocol import Continue, SetValue
from nodescope_server import wire
from tests.adapters.cases import ROWS, WEIGHTS, Case
from tests.adapters.driving import Debugged
from tests.adapters.foreign import library as lib
from tests.server.support import BEARER, Live, Page, nodes_in, serving


@pytest.fixture
def live() -> Iterator[Live]:
    """A server."""
    with serving() as running:
        yield running


class Watched:
    """A program stopped at an operation, and a page connected to it.

    Attributes:
        page, run: The page, and the run's id.
        node: The node where it is stopped.
    """

    def __init__(self, live: Live, path: Path, program: Any, op: str, level: str = "timing"):
        self.program = Debugged(path, program, f"op:{op}", level=level)
        assert self.program.stop() is not None
        address = Address(f"ws://127.0.0.1:{live.port}/link", BEARER)
        self.program.run.connect(address, timeout_s=60)
        self.run = self.program.run.info.id
        self.page = Page(live)
        snapshot = self.page.subscribe(self.run)
        # The server may learn of the stop after it has learnt of the run.
        if snapshot.session is None or snapshot.session.phase != "stopped":
            self.page.wait(wire.SessionChanged, lambda news: news.info.phase == "stopped")
        self.node = next(node for _, node in nodes_in(snapshot.nodes) if node.op == op)

    def window(self, **part: int) -> wire.ValueSlice:
        """A window of the node's result."""
        answer = self.page.ask(wire.GetValue(self.run, self.node.outputs[0], **part))
        assert isinstance(answer, wire.ValueSlice)
        return answer

    def go_on(self) -> Any:
        """Continue; return the program's result."""
        self.page.ask(wire.Control(self.run, Continue()))
        self.page.close()
        return self.program.end()


def test_what_a_page_sees_and_changes(case: Case, live: Live, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    watched = Watched(live, path, lambda: case.loop(1), case.product)
    shown = watched.window(rows=2, cols=2)
    assert shown.available, shown.reason
    assert shown.grid == (4, 3)
    elements = np.frombuffer(shown.data, "<f8").reshape(2, 2)
    np.testing.assert_allclose(elements, (ROWS @ WEIGHTS)[:2, :2])
    edit = SetValue(watched.node.outputs[0], "set", 0.0)
    assert watched.page.ask(wire.Control(watched.run, edit)) == wire.Done()
    assert not watched.go_on().any()


def test_values_that_a_page_cannot_change_are_reported(
    distant: Case, live: Live, tmp_path: Path
) -> None:
    watched = Watched(live, tmp_path / "run.nscope", distant.view, distant.viewed)
    edit = SetValue(watched.node.outputs[0], "set", 0.0)
    answer = watched.page.ask(wire.Control(watched.run, edit))
    assert isinstance(answer, wire.Failed)
    assert answer.message == "this value cannot be changed: it is a view of another value"
    assert watched.go_on() != 0


def test_only_the_window_of_a_large_array_is_fetched(
    distant: Case, live: Live, tmp_path: Path
) -> None:
    large = np.arange(400.0 * 300).reshape(400, 300)

    def program() -> Any:
        return lib.quash(lib.warp(lib.distant(large))).fetch()

    watched = Watched(live, tmp_path / "run.nscope", program, distant.bend)
    before = lib.Process.fetched_bytes
    shown = watched.window(row=390, col=5, rows=128, cols=128)
    assert shown.available, shown.reason
    assert lib.Process.fetched_bytes - before == 10 * 128 * 8
    assert (shown.window, shown.grid) == ((390, 5, 10, 128), (400, 300))
    elements = np.frombuffer(shown.data, "<f8").reshape(10, 128)
    np.testing.assert_allclose(elements, np.tanh(large[390:, 5:133]))
    assert shown.spec is not None
    assert shown.spec.shape == (400, 300)
    watched.go_on()


def test_anything_but_an_array_is_reported(distant: Case, live: Live, tmp_path: Path) -> None:
    assert distant.opaque is not None
    watched = Watched(live, tmp_path / "run.nscope", distant.opaque, distant.obscured)
    shown = watched.window()
    assert not shown.available
    assert shown.reason.startswith("It is not a tensor but library.Token")
    watched.go_on()
