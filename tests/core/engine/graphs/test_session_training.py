"""Sessions: gradients and training, as they are eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import UsageError


def test_gradients_are_those_of_eager_execution() -> None:
    rng = np.random.default_rng(0)
    x_, w_ = rng.standard_normal((4, 3)), rng.standard_normal((3, 2))

    def loss_of(x: Any, w: Any) -> tuple[Any, Any]:
        h = np.tanh(x @ w)
        return np.sum(h * h), h

    w = ns.parameter(w_, name="w")
    x = ns.tensor(x_, requires_grad=True)
    loss, _ = loss_of(x, w)
    loss.backward()
    with ns.Graph().as_default() as g:
        gx = ns.placeholder(np.float64, (4, 3), name="x")
        gw = ns.variable(w_, name="w")
        gloss, h = loss_of(gx, gw)
        dx, dw, dh = ns.gradients(gloss, [gx, gw, h])
        none = ns.gradients(gloss, ns.constant(1.0))
        second = ns.gradients(np.sum(dw * dw), gx)[0]
        init = ns.global_variables_initializer()
    assert none == [None]
    assert dw.op.node.phase == "backward"
    session = ns.Session(g)
    session.run(init)
    result = session.run([gloss, dx, dw, dh, second], {gx: x_})
    assert w.grad is not None
    assert x.grad is not None
    assert result[0] == loss.item()
    assert result[1].tobytes() == x.grad.data.tobytes()
    assert result[2].tobytes() == w.grad.data.tobytes()
    np.testing.assert_allclose(result[3], 2 * np.tanh(x_ @ w_))
    step = 1e-6
    moved = session.run(dw, {gx: x_ + step * np.eye(4, 3)})
    back = session.run(dw, {gx: x_ - step * np.eye(4, 3)})
    slope = (np.sum(moved**2) - np.sum(back**2)) / (2 * step)
    assert np.sum(result[4] * np.eye(4, 3)) == pytest.approx(slope, rel=1e-6)


def test_gradients_of_several_and_with_weights() -> None:
    with ns.Graph().as_default() as g:
        x = ns.constant(np.array([1.0, 2.0]))
        both = ns.gradients([x * x, x * 3], x)[0]
        weighted = ns.gradients(x * x, x, grad_ys=np.array([1.0, 10.0]))[0]
    assert ns.Session(g).run(both).tolist() == [5, 7]
    assert ns.Session(g).run(weighted).tolist() == [2, 40]


@pytest.mark.parametrize("make", [
    lambda p: ns.optim.SGD(p, 0.1, momentum=0.9),
    lambda p: ns.optim.Adam(p, 0.05),
])  # fmt: skip
def test_training_is_bit_equal_to_eager_training(make: Any) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((16, 3)), rng.standard_normal((16, 1))
    start = rng.standard_normal((3, 1))

    w = ns.parameter(start, name="w")
    optimizer = make([w])
    for _ in range(5):
        w.grad = None
        ns.mse(x @ w, y).backward()
        optimizer.step()

    with ns.Graph().as_default() as g:
        gx = ns.placeholder(np.float64, x.shape, name="x")
        gw = ns.variable(start, name="w")
        loss = ns.mse(gx @ gw, y)
        train = make(ns.trainable_variables()).minimize(loss)
        init = ns.global_variables_initializer()
    assert g.get_collection(ns.GraphKeys.TRAIN_OP) == [train]
    session = ns.Session(g)
    session.run(init)
    losses = [float(session.run([train, loss], {gx: x})[1]) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert session.run(gw).tobytes() == w.data.tobytes()


def test_modules_built_outside_are_shared_with_the_program() -> None:
    w = ns.parameter(np.ones(2), name="w")
    with ns.Graph().as_default() as g:
        y = np.sum(w * 3.0)
        bigger = ns.assign_add(w, np.ones(2))
    session = ns.Session(g)
    assert session.run(y) == 6.0
    session.run(bigger)
    assert w.numpy().tolist() == [2, 2]
    assert session.run(y) == 12.0


def test_minimize_eagerly() -> None:
    w = ns.parameter(np.array([1.0]), name="w")
    assert ns.optim.SGD([w], 0.5).minimize(np.sum(w * w)) is None
    assert w.numpy().tolist() == [0.0]


def test_modules_made_in_a_graph_train_as_they_do_eagerly() -> None:
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    labels = np.arange(8) % 3

    def network() -> Any:
        rng = np.random.default_rng(7)
        return ns.nn.Sequential(ns.nn.Linear(4, 5, rng=rng), ns.relu, ns.nn.Linear(5, 3, rng=rng))

    eager = network()
    optimizer = ns.optim.Adam(eager, 0.01)
    for _ in range(4):
        optimizer.minimize(ns.cross_entropy(eager(x), labels))

    with ns.Graph().as_default() as g:
        net = network()
        images = ns.placeholder(np.float32, x.shape, name="images")
        loss = ns.cross_entropy(net(images), labels)
        train = ns.optim.Adam(net, 0.01).minimize(loss)
    session = ns.Session(g)
    for _ in range(4):
        session.run(train, {images: x})
    for parameter, other in zip(eager.parameters(), net.parameters(), strict=True):
        assert parameter.data.tobytes() == other.data.tobytes()


def test_an_optimizer_step_without_an_operation_is_refused() -> None:
    with ns.Graph().as_default():
        w = ns.variable(np.ones(2), name="w")
        optimizer = ns.optim.SGD([w], 0.1)
        np.sum(w * w).backward()
        assert w.grad is not None
        with pytest.raises(UsageError, match="no operation that a session could run") as error:
            optimizer.step()
    assert "minimize" in error.value.hint
    assert __file__ in error.value.source
