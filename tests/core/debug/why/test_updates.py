"""Updates: a weight's change is split into gradient, momentum and decay."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.replay import Replay
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.debug.why import updates, why
from nodescope.debug.why.body_frames import point_of
from nodescope.debug.why.rendering import sentence
from nodescope.debug.why.value_tracing import ValueTracer
from nodescope.record.recording import Recording
from tests.core.debug.replay.programs import recorded

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda w: ns.optim.SGD([w], lr=0.1),
    "momentum": lambda w: ns.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda w: ns.optim.Adam([w], lr=0.1),
    "adamw": lambda w: ns.optim.AdamW([w], lr=0.1),
}


def training(name: str, compiled: bool, rate: float = 1.0) -> Callable[[], None]:
    def program() -> None:
        rng = np.random.default_rng(0)
        w = ns.parameter(rng.standard_normal((3, 2)), name="w")
        optimizer = OPTIMIZERS[name](w)

        def step(x: Any) -> Any:
            with ns.name_scope("loss"):
                loss = np.mean(np.square(x @ w - 1.0)) * rate
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        function = ns.compile(step) if compiled else step
        for _ in ns.steps(range(6)):
            function(ns.tensor(rng.standard_normal((4, 3))))

    return program


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_terms_add_up_to_the_change(name: str, compiled: bool, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", training(name, compiled))
    with Recording.open(path) as recording:
        replay = Replay(recording)
        writer = next(row.node for row in recording.nodes() if row.node.name.endswith("w/assign"))
        source = replay.book.source(writer.outputs[0], replay.last + 1)
        assert source is not None
        history = updates.updates_of(ValueTracer(replay), point_of(source), 2)
    assert [update.step for update in history] == [6, 5, 4, 3, 2, 1]
    for newer, older in pairwise(history):
        assert newer.before == older.after
    for update in history:
        change = sum(term.amount for term in update.terms) + update.decay
        assert update.before + change == pytest.approx(update.after, rel=1e-12)
        assert any(term.source == "gradient" for term in update.terms)
    decays = any(update.decay for update in history)
    assert decays == (name in ("momentum", "adamw"))


def test_a_weight_is_explained_by_its_gradient_not_by_its_past(tmp_path: Path) -> None:
    with Recording.open(recorded(tmp_path / "r.nscope", training("sgd", False))) as recording:
        result = why(recording, "w[1, 0]@6")
        chain = result.root.chain()
        assert [link.kind for link in chain[:2]] == ["passed", "updated"]
        assert chain[2].phase == "backward"
        assert "w" not in [link.name for link in chain[1:]]
        told = sentence(result.root)
    said = re.fullmatch(
        r"w at \[1, 0\] is 0\.4513 in step 6: it fell by 0\.1891 in steps 1 to 5 "
        r"\(0\.6404 → 0\.4513\): 100% from its gradient \(times -0\.1\)",
        told,
    )
    assert said, told


def test_momentum_and_decay_have_their_shares(tmp_path: Path) -> None:
    with Recording.open(recorded(tmp_path / "r.nscope", training("momentum", True))) as recording:
        told = sentence(why(recording, "w[1, 0]@6").root)
    assert "from velocity (past gradients)" in told
    assert "from its gradient (times -0.1)" in told
    assert "from weight decay" in told


def test_a_lost_update_is_reported_as_lost(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", training("sgd", False, rate=1e-20))
    with Recording.open(path) as recording:
        told = sentence(why(recording, "w[1, 0]@6").root)
    assert "it did not change in steps 1 to 5" in told
    assert re.search(r"is lost beside 0\.6404, where float64 numbers are 1\.11e-16 apart", told)


def test_an_update_that_the_program_writes_itself(tmp_path: Path) -> None:
    def program() -> None:
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        for _ in ns.steps(range(3)):
            np.sum(np.square(w)).backward()
            with ns.no_grad():
                ns.assign(w, w - 0.25 * w.grad)
            w.grad = None

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        told = sentence(why(recording, "w[1]@3").root)
    assert told == (
        "w at [1] is 0.5 in step 3: it fell by 1.5 in steps 1 to 2 (2 → 0.5): "
        "100% from its gradient (times -0.25)"
    )


def test_a_running_mean_is_not_an_update(tmp_path: Path) -> None:
    def program() -> None:
        mean = ns.parameter(np.zeros(2), name="mean")
        for x in ns.steps([1.0, 2.0, 3.0]):
            with ns.no_grad():
                ns.assign(mean, 0.9 * mean + 0.1 * ns.tensor(np.full(2, x)))

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        assert "updated" not in [link.kind for link in why(recording, "mean[0]").root.chain()]


def test_each_gradient_has_its_own_factor() -> None:
    def term(name: str, number: float, coefficient: float) -> updates.Term:
        point = point_of(ValueSource(1, None))  # type: ignore[arg-type]
        return updates.Term("gradient", name, point, 0, number, coefficient)

    terms = (term("backward/tanh", 3.0, -0.5), term("backward/exp", 4.0, -0.125))
    steps = [updates.Update(at, 1.0, -1.0, terms, 0.0, np.dtype(np.float32)) for at in (2, 1)]
    assert updates._amounts(steps) == {
        "its gradient (times -0.5)": -3.0,
        "its gradient (times -0.125)": -1.0,
    }
