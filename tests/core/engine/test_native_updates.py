"""Updates of parameters in the native core: the events, results and errors of Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import native, optim
from nodescope.engine.state import current
from nodescope.engine.update_script import script_of
from nodescope.errors import ShapeError
from nodescope.events import Event, NodeFinished
from tests.core.engine.events_of import observed
from tests.core.engine.test_native_calls import bits, check_same

Make = Callable[[Any], optim.Optimizer]


class Halving(optim.SGD):
    """An update of the user's own, which looks at its operands."""

    def update(self, F: Any, value: Any, gradient: Any, state: Any, rates: Any) -> Any:
        return (F.multiply(value, 0.5 if value.ndim else 0.25), *state)


class Warming(optim.SGD):
    """An inherited update with other numbers, once one that is no number."""

    def rates(self) -> dict[str, Any]:
        lr: Any = 0.1 * self.steps
        return {"lr": np.float32(lr) if self.steps == 3 else lr}


MAKERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9),
    "decay": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, 0.01),
    "adamw": lambda p: optim.AdamW(p, 0.01),
    "own": Halving,
    "warming": Warming,
}


def training(make: Make) -> list[Any]:
    """Parameters of several dtypes and shapes; one without a gradient, and one sometimes."""
    rng = np.random.default_rng(5)
    dtypes = (np.float32, np.float64, np.float16, np.complex64)
    w = [ns.parameter(rng.standard_normal((3, 2)), dtype, name=f"w{i}") for i, dtype in
         enumerate(dtypes)]  # fmt: skip
    scalar, unused = ns.parameter(2.0, name="scalar"), ns.parameter([1.0], name="unused")
    optimizer = make([w[0], unused, *w[1:], scalar])
    results = []
    for number in ns.steps(range(5)):
        optimizer.zero_grad()
        x = ns.tensor(np.ones((3, 2), np.float32), name="x")
        for weight in w[: 2 if number == 2 else 4]:
            (x * weight * weight * scalar).sum().real.backward()
        if number == 3:
            w[0].grad = ns.tensor(np.full((3, 2), 0.25, np.float32))
            optimizer.lr /= 2
        optimizer.step()
        results += [*w, scalar, w[0] * 1.0]
    return [bits(result) for result in results]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_the_core_gives_the_events_and_results_of_python(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_same(lambda: training(make), monkeypatch)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_updates_are_the_same_observed_and_not(make: Make) -> None:
    unobserved = training(make)
    with observed():
        assert training(make) == unobserved


def test_known_updates_run_in_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.Calls is not None, "no native core"
    in_python: list[str] = []
    traced = optim.Optimizer._update_traced

    def noted(self: Any, value: Any, *rest: Any) -> None:
        in_python.append(value.name)
        traced(self, value, *rest)

    monkeypatch.setattr(optim.Optimizer, "_update_traced", noted)
    with observed():
        training(MAKERS["decay"])
    assert set(in_python) == {"w2"}  # float16 is updated in float32
    in_python.clear()
    with observed():
        training(MAKERS["own"])
    assert {"w0", "scalar"} <= set(in_python)


def test_a_failed_update_is_explained_and_leaves_the_thread_where_it_was() -> None:
    w = ns.parameter(np.ones((2, 3)), name="w")
    optimizer = optim.SGD([w], 0.1, momentum=0.9)
    with observed() as events:
        for number in ns.steps(range(3)):
            optimizer.zero_grad()
            (w * w).sum().backward()
            if number == 2:
                optimizer._state[0][0].data = np.ones(5)
                with pytest.raises(ShapeError, match="do not broadcast"):
                    optimizer.step()
            else:
                optimizer.step()
        state = current()
        assert (state.scope, state.phase) == ("", "forward")
        assert state.recording
        w + 1.0
    assert events.ran[-1] == "add"


def test_a_stop_edits_what_is_assigned() -> None:
    class Editing:
        def emit(self, event: Event) -> None:
            if isinstance(event, NodeFinished) and event.node.name == "optimizer/w/subtract":
                array = np.full(2, float(event.step))
                events.bus.edits[event.thread] = {event.node.outputs[0]: array}

    w = ns.parameter([1.0, 1.0], name="w")
    optimizer = optim.SGD([w], 0.5)
    seen = []
    with observed() as events:
        events.bus.add(Editing())
        for _ in ns.steps(range(3)):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            seen.append(w.tolist())
    assert seen == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_a_script_holds_only_what_is_computed_by_ops() -> None:
    script = script_of(optim.SGD, optim.SGD.update, 1, ("lr", "momentum"))
    assert script is not None
    assert [(op.name, *places) for op, *places in script.operations] == [
        ("multiply", 2, 4), ("add", 5, 1), ("multiply", 6, 3), ("subtract", 0, 7),
    ]  # fmt: skip
    assert script.results == (8, 6)
    assert script_of(Halving, Halving.update, 0, ("lr",)) is None
    assert script_of(optim.SGD, optim.SGD.update, 1, ("other",)) is None
