"""Cotangents carried back by the native core are those of the Python loop, bit by bit."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from nodescope import ops
from nodescope.engine.autodiff import tape
from nodescope.engine.tensor import LEAF, Tensor, changed, make
from nodescope.errors import GradientError
from nodescope.ops.op import Op


def outcome(pull: Any, root: Tensor) -> Any:
    """The leaves in order, with the bits of their cotangents; or an error with its notes."""
    ct = np.ones(root.shape, root.dtype)
    try:
        ends = pull(root, ct)
    except Exception as error:
        return type(error), getattr(error, "message", str(error)), getattr(error, "__notes__", ())
    return [
        (key, tensor is not None, type(part), part.dtype, part.shape, np.asarray(part).tobytes())
        for key, (tensor, part) in ends.items()
    ]


def in_python(root: Tensor, ct: Any, keep: bool = True) -> Any:
    return tape._pull(root, ct, ops.RAW, None, keep, None, None, None)


def in_core(root: Tensor, ct: Any, keep: bool = True) -> Any:
    assert tape._native is not None, "no native core"
    return tape._native.pull(root, ct, keep, None, None)


def both(root: Tensor) -> Any:
    expected = outcome(in_python, root)
    assert outcome(in_core, root) == expected
    return expected


def leaf(*shape: int, seed: int = 3, dtype: Any = np.float32) -> Tensor:
    return make(np.random.default_rng(seed).standard_normal(shape).astype(dtype), edge=LEAF)


@pytest.mark.parametrize("op", [op for op in ops.all_ops() if op.vjp], ids=lambda op: op.name)
def test_every_op_gives_the_same(op: Op) -> None:
    for sample in op.samples(np.random.default_rng(3)):
        inputs = tuple(
            make(value, edge=LEAF if value.dtype.kind in "fc" else None)
            if isinstance(value, np.ndarray)
            else value
            for value in sample.inputs
        )
        result: Any = tape.function(op, lambda value: value, {})(*inputs, **sample.attrs)
        for root in result if isinstance(result, tuple) else (result,):
            if root.edge is not None:
                both(root)


def test_broadcast_and_mixed_dtypes() -> None:
    x, b = leaf(4, 3), leaf(3, seed=4, dtype=np.float64)
    z = make(np.ones((2, 1, 3), np.complex64), edge=LEAF)
    assert len(both(((x * b + b) * z).sum() * 2.0)) == 3
    assert both(x[0, 0] * x[1, 1])


def test_a_leaf_used_often_is_summed_in_order() -> None:
    x = leaf(5)
    total = x * 1.5
    for i in range(20):
        total = total + x * (0.1 + i)
    ((_, _, _, dtype, _, _),) = both(total)
    assert dtype == np.float32


def test_many_branches_wait_by_age() -> None:
    leaves = [leaf(2, seed=i) for i in range(300)]
    branches = [np.exp(x) * leaves[(7 * i) % 300] for i, x in enumerate(leaves)]
    assert len(both(np.concatenate(branches).sum())) == 300


def test_python_goes_on_at_what_the_core_leaves() -> None:
    x, y = leaf(4, 4), leaf(4, 4, seed=5)
    seen: list[Any] = []
    h = np.exp(x) * y
    h.register_hook(lambda gradient: seen.append(gradient.numpy().copy()))
    low, high = np.linalg.eigh(h + h.T)
    both((low.sum() + high[0].sum() + x.sum()) * x[0, 0])
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[0], seen[1])


def test_written_tensors() -> None:
    x = leaf(3)
    h = x * 2.0
    h[0] = 5.0
    both((h * h).sum())


def test_operations_before_a_write_are_pulled_with_their_inputs_then() -> None:
    x, w = leaf(3), leaf(3, seed=4)
    mask = make(np.ones(3, np.float32))
    scaled = x * 2.0
    loss = (np.exp(x * w) * scaled + scaled * mask).sum()
    before = both(loss)
    scaled[0] = 5.0  # the tape refers to its state before
    assert both(loss) == before
    both((scaled * w).sum() + loss)
    mask.data = mask.data * 2
    changed(mask)
    kind, message, _ = both(loss)
    assert (kind, message) == (
        GradientError,
        "backward: the leaf has changed since multiply used it, but its gradient needs the old "
        "elements",
    )


def test_errors_name_the_op() -> None:
    x = leaf(3)
    y = np.exp(x)

    def fails(F: Any, ct: Any, out: Any, x: Any) -> Any:
        raise ValueError("no slope")

    op = Op(name="fails", family="elementwise", infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
            impl=lambda x: x + 1, vjp=(fails,))  # fmt: skip
    error = both(tape.function(op, lambda value: value, {})(y).sum())
    assert error[:2] == (ValueError, "no slope")
    assert error[2] == ["nodescope: in the gradient of fails(float32 (3,))"]


def test_a_tape_is_used_once() -> None:
    x = leaf(3)
    h = np.exp(x)
    first, second = (h * 2.0).sum(), (h * 3.0).sum()
    in_core(first, np.float32(1), keep=False)
    with pytest.raises(GradientError, match="already used"):
        in_core(second, np.float32(1), keep=False)
    assert outcome(in_core, (h + x).sum()) == outcome(in_python, (h + x).sum())


def test_nothing_leaks() -> None:
    x, w = leaf(3), leaf(3, seed=4)
    gc.collect()

    def counts() -> list[int]:
        return [sys.getrefcount(item) for item in (x, w, x.data, LEAF, None, ops.get("exp"))]

    def step() -> None:
        low, high = np.linalg.eigh(np.exp(x)[:, None] * w)
        loss = (np.exp(x * w)[1:] * x[:2] + w.sum()).mean() + low.sum() * high[0, 0]
        in_core(loss, np.float32(1), keep=False)
        with pytest.raises(GradientError):
            in_core((loss * x).sum(), np.float32(1))

    step()
    before = counts()
    for _ in range(100):
        step()
    gc.collect()
    assert all(abs(new - old) < 5 for new, old in zip(counts(), before, strict=True))
