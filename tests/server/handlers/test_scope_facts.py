"""What a page is told of a scope."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nodescope as ns
from nodescope.ir.graph import ScopeDescribed
from nodescope_server import wire
from tests.server.support import Live, Page


def test_a_page_receives_which_module_a_scope_is(live: Live, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path) as run:
        run.bus.emit(ScopeDescribed("net/layer", "Linear", {"bias": "True"}))
    id = run.info.id
    asyncio.run(live.app.runs.open(path))
    page.ask(wire.Subscribe(id))
    answer = page.ask(wire.GetScope(id, "backward/net/layer_1"))
    assert answer == wire.ScopeFacts("backward/net/layer_1", "Linear", {"bias": "True"})
    assert page.ask(wire.GetScope(id, "net")) == wire.ScopeFacts("net")
