"""Navigation to breakpoints whose nodes were fused or merged, and to those that count hits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.history.history import History
from nodescope.debug.history.navigation import navigate
from nodescope.passes import fuse
from nodescope.protocol import BreakpointStatus, Continue
from nodescope.record.recording import Recording
from tests.core.debug.debugged import debugged

STEPS = 4


def net(x):
    with ns.name_scope("net"):
        h = np.tanh(np.exp(x * 0.5) + 1.0)
        return np.sum(h) + np.sum(np.exp(x * 0.5))


def train() -> None:
    run = ns.compile(net)
    with patch.object(fuse, "TILED", 1):
        for k in ns.steps(range(STEPS)):
            with ns.name_scope("m"):
                run(ns.tensor(np.full(4, float(k))))


@pytest.fixture(scope="module", params=[(), ("*/tanh",)], ids=["shut", "opened"])
def history(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[History]:
    path: Path = tmp_path_factory.mktemp("kernels") / "r.nscope"
    with ns.record(path, level="values", opened=request.param):
        train()
    with Recording.open(path) as recording:
        result = History(recording)
        result.refresh()
        result.opened = bool(request.param)
        yield result


def go(history: History, spec: str, *, back: bool, start: int | None = None):
    """Where a breakpoint is found, and the message."""
    statuses = [BreakpointStatus(parse_breakpoint(spec))]
    at = start if start is not None else (history.recording.last_seq() if back else 0)
    result, text = navigate(history, at, Continue(), back=back, breakpoints=statuses)
    return result and (result.node.name, result.step), text, result


def kernels(history: History) -> set[str]:
    return {node.name for node in history.nodes() if node.op == "fused"}


def test_the_program_has_a_kernel_that_is_opened_or_not(history: History) -> None:
    assert kernels(history)
    assert ("m/net/tanh" in history.names) == history.opened


@pytest.mark.parametrize("back", [True, False])
def test_a_fused_node_is_found_at_its_kernel_or_where_it_ran_itself(
    history: History, back: bool
) -> None:
    place, text, _ = go(history, "m/net/tanh", back=back)
    assert place is not None, text
    assert place[1] == (STEPS if back else 1)
    if history.opened:
        assert place[0] == "m/net/tanh"
        assert "which computes" not in text
    else:
        assert place[0] in kernels(history)
        assert "which computes m/net/tanh" in text


def test_each_run_of_a_kernel_is_found_once(history: History) -> None:
    seen, start = [], history.recording.last_seq()
    while True:
        place, _, result = go(history, "m/net/tanh", back=True, start=start)
        if result is None:
            break
        seen.append(place[1])
        start = result.seq
    assert seen == list(range(STEPS, 0, -1))


def test_a_merged_node_is_found_at_the_one_that_does_its_work(history: History) -> None:
    live = [node.name for node in history.nodes() if node.name.startswith("m/net/exp")]
    merged = "m/net/exp_1"
    assert merged not in live
    place, text, _ = go(history, merged, back=True)
    assert place is not None, text
    assert f"which computes {merged}" in text


def test_a_condition_is_evaluated_inside_a_kernel_if_that_was_recorded(
    history: History,
) -> None:
    place, text, _ = go(history, "m/net/tanh if min(value) > 0.995", back=False)
    if history.opened:
        assert place == ("m/net/tanh", 3)  # tanh(exp(1) + 1)
    else:
        assert place is None
        assert f"could not be evaluated {STEPS} times: the value of m/net/tanh inside" in text
    place, text, _ = go(history, "m/net/tanh if step > 2", back=False)
    assert place is not None, text
    assert place[1] == 3


@pytest.mark.parametrize(
    ("hits", "back", "step"),
    [("== 2", True, 2), ("== 2", False, 2), (">= 3", True, 4), ("% 3", True, 3), ("== 9", True, 0)],
)
def test_hits_are_counted_from_the_beginning(history: History, hits, back, step) -> None:
    place, text, _ = go(history, f"m/net/tanh [hits {hits}]", back=back)
    assert (place and place[1]) == (step or None), text
    assert "hits are counted from the beginning of the recording" in text


def test_looking_uses_nothing_up_and_passes_over_what_logs(history: History) -> None:
    once = "m/net/tanh [once]"
    first, _, result = go(history, once, back=True)
    again, _, _ = go(history, once, back=True, start=result.seq)
    assert (first[1], again[1]) == (STEPS, STEPS - 1)
    assert go(history, "m/net/tanh log {step}", back=True)[0] is None


def test_a_live_run_stops_at_the_same_places() -> None:
    with debugged("m/net/tanh [hits == 2]", "m/net/exp_1") as seen:
        train()
    assert [(stop.node_name, stop.step) for stop in seen.stops if stop.breakpoint == 1] == [
        ("m/net/tanh", 2)
    ]
    assert {stop.step for stop in seen.stops if stop.breakpoint == 2} == set(range(1, STEPS + 1))
    assert all("computes m/net/exp_1" in stop.text
               for stop in seen.stops if stop.breakpoint == 2)  # fmt: skip
