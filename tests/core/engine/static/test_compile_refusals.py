"""What compiled functions refuse, and where: at the user's line, with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import optim
from nodescope.errors import GradientError, TraceError


def ones(*shape: int) -> ns.Tensor:
    return ns.tensor(np.ones(shape, np.float32))


def branches(x: Any) -> Any:
    return x * 2.0 if x.sum() > 0 else x


def leaves_by_float(x: Any) -> Any:
    return x * float(x.sum())


def leaves_by_numpy(x: Any) -> Any:
    return x.numpy() + 1.0


def selects(x: Any) -> Any:
    return x[x > 0]


def makes_a_parameter(x: Any) -> Any:
    return x * ns.parameter(np.ones(2), name="p")


def makes_an_optimizer(x: Any) -> Any:
    return optim.SGD([W], lr=0.1)


def writes_to_its_argument(x: Any) -> Any:
    x += 1.0
    return x


W = ns.parameter(np.ones(2), name="w")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (branches, "a Python branch on a traced value.*nodescope.cond"),
        (leaves_by_float, "float: the elements of a traced value"),
        (leaves_by_numpy, "numpy: the elements of a traced value"),
        (selects, "values.*np.where"),
        (makes_a_parameter, "a parameter .p. is created inside a compiled function.*once outside"),
        (makes_an_optimizer, "an optimizer .SGD. is created inside.*once outside"),
        (writes_to_its_argument, "argument"),
    ],
)
def test_what_a_graph_cannot_do_is_refused_at_the_users_line(function: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message) as raised:
        ns.compile(function)(ones(2))
    code = function.__code__
    file, _, line = raised.value.source.rpartition(":")
    assert Path(file).name == "test_compile_refusals.py"
    assert code.co_firstlineno < int(line) <= code.co_firstlineno + 2


def test_values_that_escape_say_where_they_were_made() -> None:
    kept = []

    @ns.compile
    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    f(ones(2))
    line = f.__wrapped__.__code__.co_firstlineno + 2
    for use in (lambda: kept[0] + 1.0, lambda: kept[0].numpy(), lambda: f(kept[0])):
        with pytest.raises(
            TraceError, match=rf"made at .*test_compile_refusals.py:{line}, is used outside"
        ):
            use()


def test_backward_does_not_continue_outside() -> None:
    w = ns.parameter(np.ones(2), name="w")
    h = w * 2.0

    @ns.compile
    def f(y: Any) -> Any:
        (h * y).sum().backward()
        return y

    with pytest.raises(TraceError, match="reaches a tensor, which was computed outside"):
        f(ones(2))
    h.sum().backward()  # The outer tape is still complete.
    assert w.grad.numpy().tolist() == [2.0, 2.0]
    g = ns.compile(lambda x: x.sum().backward())
    with pytest.raises(TraceError, match="computed outside"):
        g(w * 3.0)


def test_a_tape_that_was_used_inside_is_used() -> None:
    w = ns.parameter(np.ones(2), name="w")

    @ns.compile
    def f() -> Any:
        loss = (w * w).sum()
        loss.backward()
        return loss, loss.detach()

    loss, bare = f()
    assert loss.requires_grad
    assert not bare.requires_grad
    with pytest.raises(GradientError, match="already used"):
        loss.backward()


def test_iterating_and_printing_are_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    @ns.compile
    def f(x: Any) -> Any:
        print(x)
        total = 0.0
        for row in x:
            total = total + row
        return total

    assert f(ones(3, 2)).numpy().tolist() == [3.0, 3.0]
    assert f(ones(3, 2)).numpy().tolist() == [3.0, 3.0]
    assert capsys.readouterr().out == "tensor(<float32 (3, 2), not known yet>, name='x')\n"


def test_training_steps_do_not_begin_inside() -> None:
    @ns.compile
    def f(x: Any) -> Any:
        for _ in ns.steps(range(2)):
            x = x * 2.0
        return x

    with pytest.raises(TraceError, match=r"a training step begins inside.*nodescope.steps around"):
        f(ones(1))


def test_a_loop_of_unknown_length_runs_and_has_no_gradient() -> None:
    w = ns.parameter(np.ones(()), name="w")
    f = ns.compile(lambda x: (ns.while_loop(lambda v: v < 50.0, lambda v: v * 2.0, x * w), w * 3.0))
    grown, other = f(ns.tensor(3.0))
    assert grown.item() == 96.0
    other.backward()
    assert w.grad.item() == 3.0
    with pytest.raises(GradientError, match="while_loop: the number of iterations is not known"):
        grown.backward()


def test_formats_of_traced_values_are_refused() -> None:
    with pytest.raises(TraceError, match="format: the elements of a traced value"):
        ns.compile(lambda x: f"{x:.3f}")(ns.tensor(1.0))
    assert f"{ns.tensor(1.5):.3f}" == "1.500"
