"""Stops within what changes how PyTorch runs: the value is seen and edited there, and goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from nodescope.adapters.torch.native_tap import choosing
from nodescope.errors import EditError
from tests.adapters.driving import debugged
from tests.torch.taps import TAPS

GIVEN = [1.0, 2.0, 3.0]
SEEN = [math.sinh(x) for x in GIVEN]


class Stopped(NamedTuple):
    """A program that calls ``sinh`` once.

    Attributes:
        run: The program.
        result: What it returns if the result of ``sinh`` is set to 5, where that can be done.
        value: What ``sinh`` gives.
        refusal: Why it cannot be edited, or "".
    """

    run: Callable[[], Any]
    result: list[float]
    value: list[float] = SEEN
    refusal: str = ""


def _without_gradients() -> Any:
    with torch.no_grad():
        return torch.sinh(torch.tensor(GIVEN)) + 1


def _inference() -> Any:
    with torch.inference_mode():
        return torch.sinh(torch.tensor(GIVEN)) + 1


def _autocast() -> Any:
    w = nn.Parameter(torch.eye(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.sinh(torch.tensor([GIVEN]) @ w) @ w
    y.sum().backward()
    return y[0].float()


def _differentiated() -> Any:
    return torch.func.grad(lambda x: torch.sinh(x).square().sum())(torch.tensor(GIVEN))


def _mapped() -> Any:
    return torch.func.vmap(lambda x: torch.sinh(x) + 1)(torch.tensor(GIVEN))


def _tensor_hook() -> Any:
    w = nn.Parameter(torch.ones(3))
    y = w * 2
    y.register_hook(torch.sinh)
    (y * torch.tensor(GIVEN)).sum().backward()
    return w.grad


def _module_hook() -> Any:
    model = nn.Identity()
    model.register_forward_hook(lambda module, given, result: torch.sinh(result))
    return model(torch.tensor(GIVEN)) + 1


class _Bent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.sinh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.saved_tensors[0] * 2


def _own_function() -> Any:
    w = nn.Parameter(torch.tensor(GIVEN))
    _Bent.apply(w).sum().backward()
    return w.grad


class _Mine(torch.Tensor):
    pass


def _subclass() -> Any:
    return (torch.sinh(torch.tensor(GIVEN).as_subclass(_Mine)) + 1).as_subclass(torch.Tensor)


def _after_an_exception() -> Any:
    x = torch.tensor(GIVEN)
    with pytest.raises(RuntimeError, match="size"):
        x @ torch.ones(2)
    return torch.sinh(x) + 1


PROGRAMS = {
    "no_grad": Stopped(_without_gradients, [6.0] * 3),
    "inference_mode": Stopped(_inference, [6.0] * 3),
    "autocast": Stopped(_autocast, SEEN, refusal="bfloat16 cannot be edited"),
    "func.grad": Stopped(_differentiated, [10 * math.cosh(x) for x in GIVEN]),
    "func.vmap": Stopped(_mapped, [6.0] * 3),
    "tensor hook": Stopped(_tensor_hook, [10.0] * 3),
    "module hook": Stopped(_module_hook, [6.0] * 3),
    "autograd.Function": Stopped(_own_function, [10.0] * 3),
    "subclass": Stopped(_subclass, [6.0] * 3),
    "exception": Stopped(_after_an_exception, [6.0] * 3),
}


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_value_is_seen_and_edited(
    name: str, tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(choosing.VARIABLE, tap)
    program = PROGRAMS[name]
    with debugged(tmp_path / "run.nscope", program.run, "op:sinh") as stopped:
        if name == "exception":  # The debugger also stops at the exception.
            raised = stopped.stop()
            assert raised is not None
            assert raised.node_name == "dot"
            stopped.go_on()
        stop = stopped.stop()
        assert stop is not None
        assert stop.when == "after"
        (value,) = stopped.controller.outputs()
        assert value.array is not None
        np.testing.assert_allclose(np.ravel(value.array).astype(float), program.value, rtol=0.02)
        if program.refusal:
            with pytest.raises(EditError, match=program.refusal):
                stopped.controller.edit("value = 5")
        else:
            stopped.controller.edit("value = 5")
        stopped.go_on()
        assert stopped.stop() is None
    np.testing.assert_allclose(stopped.result.tolist(), program.result, rtol=0.02)
