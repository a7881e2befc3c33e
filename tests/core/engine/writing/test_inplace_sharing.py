"""Who shares memory is told from reference counts and the tape, without a look at every tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.writing import inplace, sharing


def chain(stiffness: Any, steps: int) -> Any:
    """Masses and springs, written into arrays that are there already."""
    result, speed, place = ns.zeros((steps, 4)), ns.zeros(4), ns.tensor([0.0, 1.0, 3.0, 7.0])
    for step in range(steps):
        force = ns.zeros(4)
        force[1:] += stiffness * (place[:-1] - place[1:])
        force[:-1] += stiffness * (place[1:] - place[:-1])
        speed += 0.1 * force
        place = place + 0.1 * speed
        result[step] = place
    return result


def test_a_simulation_never_looks_at_all_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tensor: Any) -> Any:
        raise AssertionError("all tensors were looked at")

    monkeypatch.setattr(inplace, "sharers", refuse)
    stiffness = ns.tensor(2.0, requires_grad=True)
    np.sum(chain(stiffness, 6) ** 2).backward()
    step = 1e-6
    above, below = (np.sum(chain(ns.tensor(2.0 + item), 6) ** 2) for item in (step, -step))
    slope = (above.item() - below.item()) / (2 * step)
    assert stiffness.grad is not None
    assert stiffness.grad.item() == pytest.approx(slope, rel=1e-6)


def written(x: ns.Tensor, value: Any) -> ns.Tensor:
    return inplace.updated(x, (0,), value)


def test_tensors_that_the_program_holds_count_as_shared() -> None:
    factor = ns.tensor(2.0, requires_grad=True)
    x = ns.zeros(3)
    x[0] = factor  # From here on, x has a tape.
    assert sharing.taped(x, written(x, factor))
    kept = x[1:] * factor  # The tape holds the view.
    assert sharing.taped(x, written(x, np.sum(kept)))
    view = x[1:]  # The program holds the view too.
    assert not sharing.taped(x, written(x, np.sum(view * factor)))
    x[1] = 5.0
    assert view.tolist() == [5.0, 0.0]
    del view
    same = x.detach()
    assert not sharing.taped(x, written(x, factor))
    x[2] = 7.0
    assert same.tolist() == [2.0, 5.0, 7.0]


def test_a_tensor_held_elsewhere_on_a_tape_counts_as_shared() -> None:
    factor = ns.tensor(2.0, requires_grad=True)
    x = ns.zeros(3)
    x[0] = factor
    other = np.sum(x[1:] * factor)  # The tape of `other` is not behind the next write.
    assert not sharing.taped(x, written(x, factor))
    x[1] = 5.0
    other.backward()
    assert factor.grad is not None
    assert factor.grad.item() == 0.0
