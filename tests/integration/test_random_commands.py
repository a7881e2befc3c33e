"""Two pages send random commands to a real run: it never hangs, and its results do not change."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from nodescope.protocol import (
    Breakpoint,
    Command,
    Continue,
    Detach,
    NextStep,
    Pause,
    RunTo,
    SetBreakpoints,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
)
from nodescope.record.recording import Recording
from nodescope_server import wire
from tests import depth
from tests.integration.conftest import Open, Start
from tests.integration.processes import RUN, entered, nodescope, run_id

COMMANDS = 150
PROGRAM = """
import threading
import numpy as np
import nodescope as ns
rng = np.random.default_rng(1)
w = ns.parameter(rng.normal(size=(6, 4)), name="w")
optimizer = ns.optim.Adam([w], lr=1e-2)
def beside():
    for _ in range(300):
        with ns.name_scope("beside"):
            np.exp(ns.tensor(np.ones(3)))
thread = threading.Thread(target=beside)
thread.start()
for batch in ns.steps(rng.normal(size=(60, 5, 6))):
    with ns.name_scope("model/layer"):
        h = np.tanh(ns.tensor(batch) @ w)
    with ns.name_scope("loss"):
        loss = np.mean(np.square(h))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
thread.join()
print(w.numpy().tobytes().hex())
"""


def some(choice: random.Random) -> Command:
    kind = choice.choice(("node", "op", "scope", "glob"))
    target = choice.choice(("loss/mean", "exp", "loss", "*/tanh", "beside", "no such thing"))
    condition = choice.choice(("", "", "step > 3", "isnan(value).any()", "value > 'x'", "]["))
    breakpoint = Breakpoint(kind, target, condition=condition)
    return choice.choice(
        (
            Continue(),
            Pause(),
            StepNode(),
            StepIn(),
            StepOver(),
            StepOver("loss"),
            StepOut(),
            NextStep(),
            RunTo("loss/mean"),
            RunTo("nowhere"),
            SetBreakpoints((breakpoint,)),
            SetBreakpoints(()),
        )
    )


@pytest.mark.parametrize("seed", depth.some([1, 2, 3], 3))
def test_random_commands_change_no_result(
    tmp_path: Path, start: Start, new_page: Open, seed: int
) -> None:
    choice = random.Random(seed)
    program = start(*RUN, "--record", "run.nscope", "script.py", text=PROGRAM)
    server = entered(program)
    pages = [new_page(server), new_page(server)]
    run = run_id(pages[0])
    for item in pages:
        item.subscribe(run)
    refused = 0
    for _ in range(COMMANDS):
        page = choice.choice(pages)
        try:
            answer = page.ask(wire.Control(run, some(choice)))
            if choice.random() < 0.2:
                page.ask(wire.GetState(run, 10**9))
        except ConnectionClosed:
            break  # The program has ended, and with it its server.
        assert isinstance(answer, wire.Done | wire.Failed)
        if isinstance(answer, wire.Failed):
            refused += 1
            assert answer.message
            assert "defect" not in answer.hint
            if "ended" in answer.message or "not connected" in answer.message:
                break
        page.pushes.clear()
    else:
        assert 0 < refused < COMMANDS
        pages[0].ask(wire.Control(run, Detach()))
    assert program.end() == 0
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert recording.run().status == 0
        assert recording.dropped().executions == 0
        assert len(recording.steps()) == 60
    plain = tmp_path / "plain"
    plain.mkdir()
    (expected,) = nodescope(
        plain, *RUN, "--no-stop-on-entry", "--level", "graph", "script.py", text=PROGRAM
    ).stdout.split()
    assert expected in "".join(program.lines)
