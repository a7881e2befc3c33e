"""GradientTape, with TensorFlow's semantics."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError
from tests.core.engine.events_of import observed


def w(*values: float, name: str = "w") -> ns.Tensor:
    return ns.parameter(np.array(values), name=name)


def test_a_watched_tensor_is_a_source_and_is_left_as_it_was() -> None:
    x = ns.tensor(3.0)
    with ns.GradientTape() as tape:
        tape.watch(x)
        y = x * x * x
    assert not x.requires_grad
    assert tape.gradient(y, x).item() == 27.0
    assert not x.requires_grad
    assert not (x * x).requires_grad


def test_what_is_not_watched_has_no_gradient() -> None:
    x, p = ns.tensor(3.0), w(2.0)
    with ns.GradientTape(persistent=True) as tape:
        y = x * p
    assert tape.gradient(y, x) is None
    assert tape.gradient(y, x, unconnected_gradients="zero").item() == 0.0
    assert tape.gradient(y, p).tolist() == [3.0]


def test_trees_of_targets_and_sources() -> None:
    p, q, r = w(1.0, 2.0), w(3.0, 4.0, name="q"), w(0.0, name="r")
    with ns.GradientTape() as tape:
        first, two = p * q, (q * q).sum()
    result = tape.gradient({"one": first, "two": [two]}, {"p": p, "more": (q, r)})
    assert result["p"].tolist() == [3.0, 4.0]
    assert result["more"][0].tolist() == [1.0 + 6.0, 2.0 + 8.0]
    assert result["more"][1] is None


def test_output_gradients_weigh_the_targets() -> None:
    p = w(1.0, 2.0)
    with ns.GradientTape(persistent=True) as tape:
        y, z = p * p, p * 3.0
    assert tape.gradient([y, z], p, [np.array([1.0, 10.0]), np.zeros(2)]).tolist() == [2.0, 40.0]
    with pytest.raises(
        GradientError, match="output_gradients does not have the structure of target"
    ):
        tape.gradient([y, z], p, np.ones(2))


def test_computed_tensors_are_sources_and_let_gradients_through() -> None:
    p = w(2.0)
    with ns.GradientTape() as tape:
        h = p * p
        z = h * h
    by_h, by_p, by_z = tape.gradient(z, [h, p, z])
    assert (by_h.tolist(), by_p.tolist(), by_z.tolist()) == ([8.0], [32.0], [1.0])


def test_what_ran_before_after_or_aside_is_constant() -> None:
    p = w(2.0)
    before, unseen = p * 3.0, p * 1.0
    with ns.GradientTape(persistent=True) as tape:
        tape.watch(before)
        y = before * p * unseen / 2.0
        with tape.stop_recording():
            aside = p * p
        z = y * aside
    after = z * p
    assert tape.gradient(z, p).tolist() == [6.0 * 4.0]
    assert tape.gradient(z, before).tolist() == [2.0 * 4.0]
    assert tape.gradient(z, unseen) is None
    assert tape.gradient(aside, p) is None
    assert tape.gradient(after, p) is None


def test_only_a_persistent_tape_is_used_twice() -> None:
    p = w(2.0)
    with ns.GradientTape() as tape:
        y = p * p
    tape.gradient(y, p)
    with pytest.raises(GradientError, match="already used") as caught:
        tape.gradient(y, p)
    assert "persistent=True" in str(caught.value)
    with tape:
        y = p * p * p
    assert tape.gradient(y, p).tolist() == [12.0]


def test_two_tapes_may_look_at_the_same_program() -> None:
    p = w(2.0)
    with ns.GradientTape() as first, ns.GradientTape() as two:
        y = p * p
    assert first.gradient(y, p).tolist() == two.gradient(y, p).tolist() == [4.0]
    y.backward([1.0])
    assert p.grad is not None


def test_tapes_nest_for_higher_derivatives() -> None:
    x = ns.tensor(2.0)
    with ns.GradientTape() as third:
        third.watch(x)
        with ns.GradientTape() as second:
            second.watch(x)
            with ns.GradientTape() as first:
                first.watch(x)
                y = x * x * x * x
            left_one = first.gradient(y, x)
        two = second.gradient(left_one, x)
    assert (left_one.item(), two.item(), third.gradient(two, x).item()) == (32.0, 48.0, 48.0)
    assert not x.requires_grad


def test_only_the_outer_tape_watches() -> None:
    x = ns.tensor(2.0)
    with ns.GradientTape() as outer:
        outer.watch(x)
        with ns.GradientTape() as inner:
            y = x * x
        assert inner.gradient(y, x) is None
    assert outer.gradient(y, x).item() == 4.0


def test_inside_of_grad_it_can_be_differentiated() -> None:
    def slope(v: Any) -> Any:
        with ns.GradientTape() as tape:
            y = v * v * v
        return tape.gradient(y, v)

    assert ns.grad(slope)(2.0).item() == 12.0
    x = ns.tensor(2.0)
    with ns.GradientTape() as tape:
        tape.watch(x)
        result = ns.grad(lambda v: v * v * v)(x)
    assert tape.gradient(result, x).item() == 12.0


def test_parameters_only_where_wanted() -> None:
    p, q = w(2.0), w(3.0, name="q")
    with ns.GradientTape(persistent=True, watch_accessed_parameters=False) as tape:
        tape.watch(p)
        y = p * q
    assert tape.gradient(y, p).tolist() == [3.0]
    assert tape.gradient(y, q) is None
    assert tape.watched_variables() == (p,)


def test_watched_variables_are_those_that_were_used() -> None:
    p, q, r = w(2.0), w(3.0, name="q"), w(4.0, name="r")
    x = ns.tensor(1.0)
    before = r * r
    reference = weakref.proxy({1})  # A dead proxy among the objects of the process.
    with ns.GradientTape() as tape:
        tape.watch(x)
        y = q * p * x + before
    result = tape.watched_variables()
    with pytest.raises(ReferenceError):
        len(reference)
    assert [item.name for item in result] == ["q", "w"]
    assert [array.tolist() for array in tape.gradient(y, result)] == [[2.0], [3.0]]


def test_reset_forgets() -> None:
    p = w(2.0)
    x = ns.tensor(5.0)
    with ns.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = p * p * x
        tape.reset()
        z = p * 3.0
    assert tape.gradient(y, p) is None
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, p).tolist() == [3.0]


def test_jacobians() -> None:
    p = w(1.0, 2.0)
    x = ns.tensor(np.arange(6.0).reshape(2, 3))
    with ns.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.stack([p[0] * p[1], p[1] * p[1], p[0]])
        rows = np.square(x)[:, :2]
    assert tape.jacobian(y, p).tolist() == [[2.0, 1.0], [0.0, 4.0], [1.0, 0.0]]
    assert tape.jacobian(y, [x])[0] is None
    assert tape.jacobian(y, x, "zero").shape == (3, 2, 3)
    result = tape.batch_jacobian(rows, x).numpy()
    wanted = np.zeros((2, 2, 3))
    for batch in range(2):
        for column in range(2):
            wanted[batch, column, column] = 2.0 * x.numpy()[batch, column]
    np.testing.assert_array_equal(result, wanted)
    full = tape.jacobian(rows, x).numpy()
    np.testing.assert_array_equal(full[[0, 1], :, [0, 1]], wanted)
    with pytest.raises(ShapeError, match="first dimensions differ"):
        tape.batch_jacobian(y, x)


def test_an_observed_program_has_the_same_nodes_with_and_without() -> None:
    x0, p = np.array([1.0, 2.0]), w(3.0, 4.0)

    def program(tape: Any) -> Any:
        x = ns.tensor(x0, name="x")
        if tape is not None:
            tape.watch(x)
        return (x * p).sum()

    with observed() as plain:
        program(None)
    with observed() as watched, ns.GradientTape() as tape:
        y = program(tape)
        tape.gradient(y, p)
    assert [name for name in watched.ran if not name.startswith("backward")] == plain.ran
    assert "backward/multiply" in watched.nodes


def test_tapes_belong_to_their_thread() -> None:
    p = w(2.0)
    results: list[Any] = []

    def other() -> None:
        with ns.GradientTape() as tape:
            y = p * p
        results.append(tape.gradient(y, p))

    with ns.GradientTape():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
    assert results[0].tolist() == [4.0]
    assert results[0].edge is None  # No tape of this thread recorded the gradient.


def test_refusals() -> None:
    tape = ns.GradientTape()
    with pytest.raises(UsageError, match="watch was called outside"):
        tape.watch(ns.tensor(1.0))
    with (
        pytest.raises(UsageError, match="stop_recording was called outside"),
        tape.stop_recording(),
    ):
        pass
    with tape:
        with pytest.raises(UsageError, match="a float cannot be watched"):
            tape.watch([1.0])
        with pytest.raises(DtypeError, match="int64 has no gradient"):
            tape.watch(ns.tensor([1]))
        with pytest.raises(UsageError, match="already recording"):
            tape.__enter__()
    with pytest.raises(GradientError, match="sources must be tensors, not float"):
        ns.GradientTape().gradient(ns.tensor(1.0), 1.0)
    with pytest.raises(GradientError, match="unconnected_gradients='no'"):
        ns.GradientTape().gradient(ns.tensor(1.0), ns.tensor(1.0), None, "no")  # type: ignore[arg-type]
