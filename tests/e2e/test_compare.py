"""An eager and a compiled run side by side, as `nodescope compare` opens them."""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from nodescope.engine.codegen import backend as backends
from tests import forked
from tests.conformance.planted import program as planted_program
from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually, settled

Start = Callable[..., Debuggee]
Recorded = Callable[[str], tuple[Path, Path]]
# Scrolling is drawn in the next frame, and measured in the one after it.
TWO_FRAMES = """() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => done()));
})"""
BACKENDS = [name for name in ("numpy", "c") if not backends.get(name).missing()]

FATES = ["kept", "renamed", "rewritten", "folded", "merged", "fused", "recomputed", "eliminated"]
TIME = re.compile(r"^\d[\d.,]*\s(ns|µs|ms|s)$")
ERROR = re.compile(r"bit-equal|equal statistics|\d", re.I)


OPTIONS = ("--no-browser", "--no-timing", "--port", "0")
EPOCH = (str(SAMPLE), "--epochs", "1")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The two recordings that a comparison by a back end leaves, made once."""

    @functools.cache
    def made(backend: str) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("compared")
        command = ["-m", "nodescope", "compare", *OPTIONS, "-o", str(folder), *EPOCH]
        variables = {"NODESCOPE_BACKEND": backend, "PYTHONUNBUFFERED": "1"}
        with forked.Popen(
            [sys.executable, *command], env={**os.environ, **variables}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            lines = list(itertools.takewhile(lambda line: "open http" not in line, process.stdout))
            process.terminate()
        assert (folder / "compiled.nscope").is_file(), lines
        return folder / "eager.nscope", folder / "compiled.nscope"

    return made


def compare(start: Start, page: Page, *recordings: Path) -> None:
    """Open the comparison of the sample's first epoch, or of two recordings of it."""
    program = start("compare", *OPTIONS, *(recordings or EPOCH))
    program.expect("open http", timeout_s=90)
    page.goto(program.address)
    expect(by(page, "fates")).to_be_visible()


def fn(page: Page, what: str) -> Any:
    """Something of the function that is compared; ``f`` is the function, ``c`` the state."""
    return page.evaluate(
        f"() => {{ const c = window.__nodescope.compare; const f = c.fn(); return {what}; }}"
    )


def table(page: Page, name: str) -> dict[str, list[str]]:
    """The cells of all rows of a table, by the row's name; scrolls to see them all."""
    rows: dict[str, list[str]] = {}
    scroller = by(page, name).locator(".vlist")
    top = 0
    while True:
        scroller.evaluate("(element, top) => { element.scrollTop = top; }", top)
        page.evaluate(TWO_FRAMES)
        rows |= dict(
            scroller.locator("[data-name]:visible").evaluate_all(
                "rows => rows.map(row => [row.dataset.name,"
                " [...row.children].map(cell => cell.textContent)])"
            )
        )
        height, most = scroller.evaluate("e => [e.clientHeight, e.scrollHeight]")
        top += height
        if top >= most:
            return rows


def click_node(page: Page, side: str, node: int) -> None:
    """Click on a node of a canvas, once it stands where it stays."""
    settled(page, f"sides.{side}")
    box = eventually(
        page,
        "([side, id]) => window.__nodescope.sides[side].boundsOf({kind: 'node', id})",
        lambda box: box is not None,
        [side, node],
    )
    host = by(page, f"side-{side}").locator(".graph-host")
    host.click(position={"x": box["x"] + box["width"] * 0.6, "y": box["y"] + box["height"] / 2})


PICKED = """
() => {
  const { compare } = window.__nodescope;
  return compare.fn()?.nodes.find((node) => node.eager === compare.picked()?.id)?.name ?? "";
}
"""
# The number of nodes of the eager graph, and how many of them are inside the canvas.
WHOLE = """
() => {
  const { compare, sides } = window.__nodescope;
  const host = document.querySelector('[data-testid=side-eager] .graph-host');
  const bounds = compare.fn().nodes
    .filter((node) => node.family !== 'leaf')
    .map((node) => sides.eager.boundsOf({ kind: 'node', id: node.eager }));
  const seen = bounds.filter((box) => box.x >= 0 && box.y >= 0
    && box.x + box.width <= host.clientWidth && box.y + box.height <= host.clientHeight);
  return [bounds.length, seen.length];
}
"""


@pytest.mark.deep
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_sample_is_compared(
    backend: str, start: Start, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_BACKEND", backend)
    compare(start, page)
    expect(by(page, "side-eager")).to_contain_text("Eager")
    expect(by(page, "side-compiled")).to_contain_text("final graph")
    expect(page).to_have_title(re.compile("digits_mlp.py"))
    # at first, the whole graph is visible
    settled(page, "sides.eager")
    eventually(page, WHOLE, lambda counts: counts[0] == counts[1] > 40)

    # every traced node shows its fate, and matched values their error
    by(page, "tab-nodes").click()
    rows = table(page, "node-table")
    inner = fn(page, "f.nodes.filter(n => n.family !== 'leaf').map(n => n.name)")
    assert set(rows) == set(inner)
    assert {cells[1] for cells in rows.values()} <= set(FATES)
    matched = fn(
        page, "f.nodes.filter(n => n.family !== 'leaf' && n.values.some(v => v.compiled))"
        ".map(n => n.name)",
    )  # fmt: skip
    assert len(matched) > 40
    for name in matched:
        assert ERROR.search(rows[name][3]), rows[name]
    for name in set(inner) - set(matched):
        assert len(rows[name][3]) > 5, rows[name]  # The cell says why there is no error.
    assert all(TIME.match(cells[4]) for cells in rows.values())

    # kernels their time
    by(page, "tab-kernels").click()
    kernels = table(page, "kernel-table")
    assert len(kernels) == fn(page, "f.kernels.length")
    assert all(TIME.match(cells[3]) for cells in kernels.values())

    # the legend counts as the table does, and filters it
    counted = dict.fromkeys(FATES, 0)
    for cells in rows.values():
        counted[cells[1]] += 1
    for fate, count in counted.items():
        if count:
            expect(by(page, f"fate-{fate}")).to_have_text(f"{fate}{count}")
        else:
            expect(by(page, f"fate-{fate}")).to_have_count(0)
    rare = min((fate for fate in FATES if counted[fate]), key=lambda fate: counted[fate])
    by(page, "tab-nodes").click()
    by(page, f"fate-{rare}").click()
    eventually(page, lambda: len(table(page, "node-table")), counted[rare])
    by(page, f"fate-{rare}").click()


@pytest.mark.deep
def test_a_node_leads_to_what_runs_for_it(start: Start, page: Page, recorded: Recorded) -> None:
    compare(start, page, *recorded("numpy"))
    traced = fn(page, "f.nodes.find(n => n.name === 'hidden_1/matmul')")
    click_node(page, "eager", traced["eager"])
    expect(by(page, "pair-fate")).to_contain_text("hidden_1/matmul")
    expect(by(page, "pair-fate")).to_contain_text(traced["fate"])
    expect(by(page, "pair-verdict")).to_contain_text(ERROR)
    expect(by(page, "pair-times")).to_contain_text(re.compile(r"compiled.*\d", re.S))
    page.wait_for_url(re.compile(rf"left={traced['eager']}\b"))

    # the node that runs for it is selected on the other side, and leads back
    block = traced["into"][0]
    click_node(page, "compiled", block)
    page.wait_for_url(re.compile(rf"right={block}\b"))
    expect(by(page, "pair-fate")).to_contain_text("hidden_1/matmul")

    # the place is kept across a reload
    page.reload()
    expect(by(page, "pair-fate")).to_contain_text("hidden_1/matmul")
    page.keyboard.press("Escape")
    expect(by(page, "whole-verdict")).to_be_visible()

    # the keyboard follows edges
    click_node(page, "eager", traced["eager"])
    page.keyboard.press("ArrowDown")
    expect(by(page, "pair-fate")).to_contain_text("hidden_1/add")


@pytest.mark.deep
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name == "c"])
def test_a_kernel_stands_for_what_it_covers(
    backend: str, start: Start, page: Page, recorded: Recorded
) -> None:
    compare(start, page, *recorded(backend))
    nodes = fn(page, "f.nodes.filter(n => n.name.startsWith('hidden_1/') && n.fate === 'fused')")
    assert [node["name"] for node in nodes] == [
        "hidden_1/matmul", "hidden_1/add", "hidden_1/maximum"
    ]  # fmt: skip
    (block,) = {node["into"][0] for node in nodes}
    click_node(page, "compiled", block)
    page.wait_for_url(re.compile(rf"right={block}\b"))
    expect(by(page, "pair-fate")).to_contain_text("3 traced nodes")
    expect(by(page, "pair-times")).to_contain_text(re.compile(r"compiled.*\d", re.S))
    click_node(page, "eager", nodes[1]["eager"])
    expect(by(page, "pair-fate")).to_contain_text("part of a kernel")
    expect(by(page, "pair-times")).to_contain_text(re.compile(r"eager, 3 nodes.*\d", re.S))


@pytest.mark.deep
def test_a_slider_goes_through_the_passes(start: Start, page: Page, recorded: Recorded) -> None:
    compare(start, page, *recorded("numpy"))
    stages = fn(page, "f.stages.map(s => [s.name, s.nodes, s.changes.length])")
    assert len(stages) > 2
    expect(by(page, "side-compiled")).to_contain_text("final graph")
    # no words describe a graph before it is loaded
    held: list[Route] = []
    page.route("**/captured/*", lambda route: held.append(route))
    slider = by(page, "pass-slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(by(page, "side-compiled")).to_contain_text("loading the graph…")
    eventually(page, lambda: len(held), 1)
    held[0].continue_()
    page.unroute("**/captured/*")
    expect(by(page, "side-compiled")).to_contain_text(f"as traced · {stages[0][1]} nodes")
    expect(by(page, "pass-words")).to_contain_text("traced")
    page.wait_for_url(re.compile("stage=0"))
    by(page, "tab-passes").click()
    for name, nodes, changes in stages[1:-1]:
        page.keyboard.press("]")
        expect(by(page, "side-compiled")).to_contain_text(f"after {name} · {nodes} node")
        expect(by(page, "pass-words")).to_contain_text(f"{changes} rewrite")
        expect(by(page, "rewrite-row").first).to_be_visible()
    slider.focus()
    page.keyboard.press("End")
    expect(by(page, "side-compiled")).to_contain_text(f"final graph · {stages[-1][1]} nodes")
    # the canvas shows the graph of the stage
    shown = "window.__nodescope.compare.graph()?.nodes.filter(n => n.family !== 'leaf').length"
    assert page.evaluate(shown) == stages[-1][1]  # The words describe the drawn graph.

    # the run itself opens from here
    by(page, "open-compiled").click()
    expect(by(page, "state")).to_contain_text("Recording")
    expect(by(page, "graph")).to_be_visible()
    page.go_back()
    expect(by(page, "fates")).to_be_visible()


@pytest.mark.deep
def test_runs_that_cannot_be_compared_say_why(start: Start, page: Page, recorded: Recorded) -> None:
    compare(start, page, *recorded("numpy"))
    eager = fn(page, "c.comparison().eager")
    page.goto(page.url.split("#")[0] + f"#compare={eager},{eager}")
    expect(by(page, "compare-problem")).to_contain_text("no compiled function")


def test_the_page_opens_where_the_runs_first_differ(start: Start, page: Page) -> None:
    """A rule that is wrong: its node is picked, in the graph after its pass, and found again."""
    program = start(
        "compare", "--no-browser", "--no-timing", "--port", "0", planted_program.__file__,
        "wrong_axis", "orders",
    )  # fmt: skip
    program.expect("open http", timeout_s=90)
    page.goto(program.address)
    strip = by(page, "verdict")
    expect(strip).to_contain_text("after the rule flip_twice of the pass simplify, flip_1")
    expect(strip).to_contain_text("24 of 24 elements differ")
    expect(by(page, "compare")).to_contain_text("flip_twice")

    def picked() -> Any:
        return fn(page, "f.nodes.find(node => node.eager === c.picked()?.id)?.name")

    eventually(page, PICKED, lambda name: name == "flip_1")
    assert fn(page, "f.stages[c.stageIndex()].name") == "simplify"
    expect(by(page, "check-facts")).to_contain_text("24 of 24 elements differ")
    expect(by(page, "check-facts")).to_contain_text("in the check of step 1")
    page.keyboard.press("Escape")
    page.keyboard.press("]")
    assert picked() is None
    by(page, "show-verdict").click()
    assert picked() == "flip_1"
    assert fn(page, "f.stages[c.stageIndex()].name") == "simplify"
    # The page also opens there without a place in the address.
    page.goto("about:blank")
    page.goto(program.address.split("&function")[0])
    eventually(page, PICKED, lambda name: name == "flip_1")
