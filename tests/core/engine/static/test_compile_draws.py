"""NumPy's random numbers in a compiled function would be the same on each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn
from nodescope.errors import TraceError

RNG = np.random.default_rng(0)


class Noisy(nn.Module):
    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def forward(self, x: Any) -> Any:
        return x + self.rng.normal(size=x.shape)


def noisy(x: Any) -> Any:
    return x + RNG.normal()


@pytest.mark.parametrize(
    ("function", "called"),
    [
        (noisy, "global RNG|RNG"),
        (Noisy(np.random.default_rng(0)), "rng"),
        (Noisy(np.random.RandomState(0)), "rng"),
    ],
)
def test_a_numpy_generator_is_refused(function: Any, called: str) -> None:
    with pytest.raises(TraceError, match=f"random numbers from .*({called})") as caught:
        ns.compile(function)(np.zeros(2))
    assert "nodescope.random" in (caught.value.hint or "")
    assert "test_compile_draws.py" in caught.value.source
    with ns.disable_compile():
        assert ns.compile(function)(ns.tensor(np.zeros(2))).shape == (2,)


def test_the_generator_of_the_process_is_warned_of() -> None:
    compiled = ns.compile(lambda x: x + np.random.standard_normal())
    with pytest.warns(UserWarning, match=r"np\.random was used while it was traced"):
        first = compiled(ns.tensor(0.0))
    assert compiled(ns.tensor(0.0)).item() == first.item()


def test_a_generator_that_is_not_used_is_fine() -> None:
    model = Noisy(np.random.default_rng(0))
    compiled = ns.compile(lambda x: x * len(str(model.rng)[:2]))
    assert compiled(ns.tensor(3.0)).item() == 6.0


def test_layers_that_were_given_one_are_fine() -> None:
    dropout = nn.Dropout(0.5, rng=np.random.default_rng(0))
    compiled = ns.compile(lambda x: dropout(x))
    first, two = compiled(np.ones(64)), compiled(np.ones(64))
    assert first.tolist() != two.tolist()
