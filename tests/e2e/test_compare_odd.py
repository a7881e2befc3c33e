"""The comparison of odd programs: names, nothing to run, NaN on one side, many nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_compare import Start, fn
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually

ODD = """
import os
import numpy as np
import nodescope as ns

LONG = "x" * 5000
NAMES = ['<img src=x onerror="window.hacked=1">', "</script><script>window.hacked=2</script>",
         "line\\nbreak\\ttab", "emoji \\U0001f389", "\\u202egnirts", LONG]
x = ns.tensor(np.ones((2, 2), np.float32), name=NAMES[0])
params = [ns.parameter(np.ones((2, 2)), np.float32, name=name) for name in NAMES]
factor = 1.0 if os.environ["NODESCOPE_MODE"] == "eager" else float("nan")


def odd(x):
    for name, param in zip(NAMES, params):
        with ns.name_scope(name):
            x = np.tanh(x @ param)
    return x


def unused(x):
    np.exp(x)
    return x


for name in NAMES:
    ns.compile(odd, name=name)(x)
ns.compile(unused, name="unused")(x)
ns.compile(lambda x: x, name="same")(x)
ns.compile(lambda x: x * factor, name="apart")(x)
"""

MANY = """
import numpy as np
import nodescope as ns


@ns.compile(passes="none")
def many(x):
    for layer in range(800):
        x = np.tanh(x) * 0.5
    return x


for _ in ns.steps(range(2)):
    many(ns.tensor(np.ones(4, np.float32)))
raise SystemExit(3)
"""

# Elements that stick out of their row, block or bar, or out of the window.
STICKS_OUT = """() => {
    const clipped = [];
    for (const element of document.querySelectorAll('.cmp-block *, .cmp-row > *, .top > *')) {
        const own = element.getBoundingClientRect();
        const host = element.closest('.cmp-block, .cmp-row, .top').getBoundingClientRect();
        if (element.closest('.ell') !== null && !element.matches('.ell')) continue;
        if (element.matches('option') || own.width === 0) continue;
        const beyond = own.right > host.right + 1 || host.right > innerWidth + 1;
        if (beyond) clipped.push(element.outerHTML);
    }
    return clipped;
}"""


def compare(start: Start, page: Page, folder: Path, text: str) -> None:
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    running = start("compare", "--no-browser", "--no-timing", "--port", "0", program)
    running.expect("open http", timeout_s=90)
    page.goto(running.address)
    expect(by(page, "fates")).to_be_visible()


def choose(page: Page, owner: str) -> None:
    by(page, "function-select").select_option(owner)
    page.wait_for_function("owner => window.__nodescope.compare.fn().owner === owner", arg=owner)


def pick(page: Page, node: Any) -> None:
    page.evaluate("id => window.__nodescope.compare.pick({side: 'eager', id})", node["eager"])


@pytest.mark.deep
def test_odd_names_and_functions_of_nothing(start: Start, page: Page, tmp_path: Path) -> None:
    compare(start, page, tmp_path, ODD)
    owners = page.evaluate("window.__nodescope.compare.comparison().functions.map(f => f.owner)")
    assert len(owners) == 9
    for width in (1600, 420):
        page.set_viewport_size({"width": width, "height": 800})
        for owner in owners[:6]:
            choose(page, owner)
            eventually(page, STICKS_OUT, [])
    # a long name is cut; its title has the whole name
    expect(by(page, "function-select")).to_have_attribute("title", "x" * 5000)
    node = fn(page, "f.nodes.find(n => n.name.startsWith('xxx') && n.family !== 'leaf')")
    pick(page, node)
    expect(by(page, "pair-verdict")).to_have_text("Bit-equal")
    expect(by(page, "pair-values")).to_contain_text("no error at this step")
    titled = by(page, "pair-fate").locator("[title]").first
    expect(titled).to_have_attribute("title", node["name"])
    eventually(page, STICKS_OUT, [])
    for tab in ("nodes", "kernels"):
        by(page, f"tab-{tab}").click()
        expect(page.locator(".vlist [role=row]").first).to_be_visible()
        eventually(page, STICKS_OUT, [])
    by(page, "tab-pair").click()
    page.keyboard.press("Escape")
    # names are text
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.evaluate("/[\\u202a-\\u202e\\t]/.test(document.body.innerText)") is False

    choose(page, "unused")
    expect(by(page, "whole-verdict")).to_have_text("1 traced node, nothing left to run.")
    choose(page, "same")
    expect(by(page, "whole-verdict")).to_have_text("Nothing to compute.")
    by(page, "tab-nodes").click()
    expect(by(page, "node-table")).to_contain_text("no node was traced")
    by(page, "tab-kernels").click()
    expect(by(page, "kernel-table")).to_contain_text("Nothing to run")
    by(page, "tab-pair").click()

    choose(page, "apart")
    node = fn(page, "f.nodes.find(n => n.op === 'multiply')")
    pick(page, node)
    expect(by(page, "pair-verdict")).to_have_text("NaN 0 → 4")
    expect(by(page, "pair-values").locator(".cmp-errors .odd")).to_have_count(1)


@pytest.mark.deep
def test_many_nodes_and_a_run_that_ends_badly(start: Start, page: Page, tmp_path: Path) -> None:
    compare(start, page, tmp_path, MANY)
    expect(by(page, "note").first).to_have_text("The eager run failed: SystemExit: 3")
    expect(by(page, "side-eager")).to_contain_text("1,600 nodes")
    assert fn(page, "f.nodes.length") > 1600
    by(page, "tab-nodes").click()
    expect(by(page, "tab-nodes")).to_contain_text("1,600")
    page.locator(".vlist").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    expect(page.locator("[data-testid=node-row][data-name=tanh_799]")).to_be_visible()
    # rows that are out of sight are not in the document
    eventually(page, "document.querySelectorAll('*').length", lambda count: count < 1500)
    last = fn(page, "f.nodes.find(n => n.name === 'tanh_799')")
    page.locator("[data-testid=node-row][data-name=tanh_799]").click()
    page.wait_for_url(re.compile(rf"left={last['eager']}\b"))
    by(page, "tab-pair").click()
    expect(by(page, "pair-verdict")).to_have_text("Bit-equal")
    # the selected node is in sight on both sides
    page.wait_for_function(
        """id => ['eager', 'compiled'].every(side => {
            const now = window.__nodescope.compare;
            const own = side === 'eager' ? id : now.links().byEager.get(id).into[0];
            const box = window.__nodescope.sides[side].boundsOf({kind: 'node', id: own});
            return box !== undefined && box.y > -20 && box.y < innerHeight;
        })""",
        arg=last["eager"],
    )
