"""What takes long can be broken off: the opening of a run, and a layout."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.graphs import nested_100k, two_nodes
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually, settled

Start = Callable[..., Debuggee]

OPEN = "[...window.__nodescope.store.folds().open].sort()"


@pytest.mark.deep
@pytest.mark.parametrize("key", [True, False])
def test_opening_a_run(start: Start, page_of_its_own: Page, tmp_path: Path, key: bool) -> None:
    page = page_of_its_own

    def without_snapshots(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(
            lambda message: None if b"snapshot" in bytes(message) else socket.send(message)  # type: ignore[arg-type]
        )

    page.route_web_socket(re.compile("/api/stream"), without_snapshots)
    page.goto(start("open", "--port", "0", "--no-browser", two_nodes(tmp_path)).address)
    expect(by(page, "empty")).to_contain_text("Opening the run")
    if key:
        page.keyboard.press("Escape")
    else:
        by(page, "break-off").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


@pytest.mark.deep
def test_a_layout(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--port", "0", "--no-browser", nested_100k(tmp_path)).address)
    eventually(page, "window.__nodescope.store.first.there()", True)
    settled(page)
    before = page.evaluate(OPEN)
    page.evaluate(
        "() => { const { store } = window.__nodescope;"
        " store.setOpen(new Set(store.tree().scopes.keys())); }"
    )
    expect(by(page, "layout-chip")).to_contain_text("Laying out")
    page.keyboard.press("Escape")
    expect(by(page, "layout-chip")).to_have_count(0)
    eventually(page, OPEN, before)
    settled(page)
    # The canvas is unchanged and handles the next request.
    page.evaluate("window.__nodescope.store.toggleScope('model')")
    eventually(page, OPEN, lambda paths: json.dumps(paths) != json.dumps(before))
    settled(page)
    assert page.evaluate(
        "window.__nodescope.view.boundsOf({ kind: 'scope', path: 'model' }) !== undefined"
    )
