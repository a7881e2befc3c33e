"""A slow page, for tests that have to wait for effects: `pytest --slow-page 4 tests/e2e`.

Chromium's processor is throttled by this factor, and every answer (of the server's REST interface,
its stream, and the worker that computes layouts) comes later than it did, by a random time. A test
that reads what has not happened yet fails.

Invariant: what comes by one way keeps its order.
"""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page

_LATER_MS_PER_FACTOR = 60

_LATE_ANSWERS = """
const most = MOST_MS;
const due = new WeakMap();
/** Calls it later, and not before what came earlier from the same sender. */
function later(sender, act) {
  const time = Math.max(due.get(sender) ?? 0, performance.now() + Math.random() * most);
  due.set(sender, time);
  setTimeout(act, Math.ceil(time - performance.now()));
}
const request = window.fetch;
window.fetch = async (...args) => {
  const answer = await request(...args);
  await new Promise((done) => setTimeout(done, Math.random() * most));
  return answer;
};
const listen = WebSocket.prototype.addEventListener;
WebSocket.prototype.addEventListener = function (type, listener, options) {
  listen.call(this, type, (event) => later(this, () => listener.call(this, event)), options);
};
const handler = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
Object.defineProperty(Worker.prototype, "onmessage", {
  set(listener) {
    handler.set.call(this, (event) => later(this, () => listener.call(this, event)));
  },
});
"""


def delay_answers(context: BrowserContext, factor: float) -> None:
    """Every answer to a page of this context comes late."""
    most = factor * _LATER_MS_PER_FACTOR
    context.add_init_script(f"{{{_LATE_ANSWERS.replace('MOST_MS', str(most))}}}")


def throttle(page: Page, factor: float) -> None:
    """Let the page's own thread run at this part of its speed."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": factor})
