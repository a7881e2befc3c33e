"""A slow page, on which tests must wait for effects: `pytest --slow-page 4 tests/e2e`.

Chromium's processor is throttled by this factor, and every answer (of the server's REST interface,
its stream, and the worker that computes layouts) is delayed by a random time. A test that reads the
page too early fails.

Invariant: answers on one channel keep their order.
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
    """Delay every answer to pages of this context."""
    most = factor * _LATER_MS_PER_FACTOR
    context.add_init_script(f"{{{_LATE_ANSWERS.replace('MOST_MS', str(most))}}}")


def throttle(page: Page, factor: float) -> None:
    """Slow down the page's main thread by this factor."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": factor})
