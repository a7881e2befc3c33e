"""The page's line to the server: broken, restored, and of another version."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

# Lets a test close the page's sockets, and prevents new ones.
CUTTABLE = """
const Real = WebSocket;
window.cut = { sockets: [], off: false };
window.WebSocket = class extends Real {
  constructor(address) {
    super(window.cut.off ? address.replace("/api/stream", "/nowhere") : address);
    window.cut.sockets.push(this);
  }
};
"""

# Changes the protocol number in the page's first request: msgpack of {"protocol": 1}.
OTHER_VERSION = """
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  const bytes = new Uint8Array(data.buffer ? data.buffer.slice(
    data.byteOffset, data.byteOffset + data.byteLength) : data);
  const word = [...new TextEncoder().encode("protocol")];
  const at = bytes.findIndex((_, i) => word.every((byte, k) => bytes[i + k] === byte));
  if (at >= 0) bytes[at + word.length] = 99;
  return send.call(this, bytes);
};
"""


@pytest.mark.deep
def test_a_lost_connection_is_reported_and_restored_without_losing_records(
    start: Start, page_of_its_own: Page
) -> None:
    page = page_of_its_own
    page.add_init_script(CUTTABLE)
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    seq = page.evaluate("window.__nodescope.store.model().seq")
    page.evaluate("() => { cut.off = true; cut.sockets.at(-1).close(); }")
    expect(by(page, "banner")).to_contain_text("Connection lost")
    expect(by(page, "continue")).to_be_disabled()
    page.evaluate("() => { cut.off = false; }")
    # the page reconnects before the program would continue without it
    expect(by(page, "banner")).to_have_count(0)
    expect(by(page, "state")).to_contain_text("Stopped")
    expect(by(page, "continue")).to_be_enabled()
    eventually(page, "window.__nodescope.store.model().seq", seq)
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Finished", timeout=60_000)


def test_a_page_of_another_version_gets_the_reason(start: Start, page_of_its_own: Page) -> None:
    page = page_of_its_own
    page.add_init_script(OTHER_VERSION)
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    expect(page.locator("body")).to_contain_text(re.compile("protocol 99"))
    expect(page.locator("body")).to_contain_text("protocol 1")
