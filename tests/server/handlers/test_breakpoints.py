"""Breakpoints in text form, which the page reads as the command line does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodescope.protocol import Breakpoint
from nodescope_server import wire
from tests.core.debug.replay.programs import recorded
from tests.server.support import Live, Page


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            "op:cross_entropy if value < 0.05",
            Breakpoint("op", "cross_entropy", condition="value < 0.05"),
        ),
        (
            "before glob:enc*/tanh [backward, step 3..7, hits % 5, once, group g, off] log {node}",
            Breakpoint(
                "glob", "enc*/tanh", when="before", phase="backward", first_step=3, last_step=7,
                hits="% 5", once=True, group="g", enabled=False, log="{node}",
            ),
        ),
        ("op:exp [stp 3]", "no option 'stp 3'"),
        ("opp:exp if step > 1", "no breakpoint kind named 'opp'; did you mean 'op'?"),
        ("op:exp if value <", "column"),
    ],
)  # fmt: skip
def test_a_breakpoint_is_read(
    live: Live, page: Page, tmp_path: Path, text: str, meant: Breakpoint | str
) -> None:
    asyncio.run(live.app.runs.open(recorded(tmp_path / "r.nscope", lambda: None)))
    (info,) = live.app.runs.infos()
    page.subscribe(info.id)
    answer = page.ask(wire.ReadBreakpoint(info.id, text))
    assert isinstance(answer, wire.BreakpointRead)
    if isinstance(meant, Breakpoint):
        assert answer == wire.BreakpointRead(meant)
    else:
        assert answer.breakpoint is None
        assert meant in answer.fault
