"""Programs written to the standard, on tensors: array-api-compat and array-api-extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_compat
import array_api_extra as xpx
import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import UsageError


def test_compat_recognises_tensors() -> None:
    x = ns.asarray([1.0, 2.0])
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.array_namespace(x) is ns
    assert array_api_compat.array_namespace(x, x * 2, 1.0) is ns
    assert array_api_compat.size(x) == 2
    assert array_api_compat.device(x) == "cpu"
    assert array_api_compat.to_device(x, "cpu") is x
    assert not array_api_compat.is_numpy_array(x)
    with pytest.raises(UsageError, match=r"no version '1999\.01'"):
        x.__array_namespace__(api_version="1999.01")


def test_other_namespaces_do_not_mix() -> None:
    with pytest.raises(TypeError, match=r"[Mm]ultiple namespaces"):
        array_api_compat.array_namespace(ns.asarray([1.0]), np.ones(1))


A = np.array([[1.0, 2.0, 5.0], [4.0, -1.0, 0.5]])
EXTRA: dict[str, Any] = {
    "atleast_nd": lambda x, xp: xpx.atleast_nd(x, ndim=4, xp=xp),
    "cov": lambda x, xp: xpx.cov(x, xp=xp),
    "create_diagonal": lambda x, xp: xpx.create_diagonal(x[0], offset=1, xp=xp),
    "isclose": lambda x, xp: xpx.isclose(x, x + 1e-9, xp=xp),
    "kron": lambda x, xp: xpx.kron(x, x[:, :2], xp=xp),
    "nunique": lambda x, xp: xpx.nunique(x, xp=xp),
    "pad": lambda x, xp: xpx.pad(x, 2, constant_values=1.5, xp=xp),
    "setdiff1d": lambda x, xp: xpx.setdiff1d(x[0], x[1], xp=xp),
    "sinc": lambda x, xp: xpx.sinc(x, xp=xp),
    "one_hot": lambda x, xp: xpx.one_hot(xp.asarray([0, 2, 1]), 3, xp=xp),
    "nan_to_num": lambda x, xp: xpx.nan_to_num(xp.where(x > 4, xp.nan, x), xp=xp),
    "isin": lambda x, xp: xpx.isin(x, xp.asarray([1.0, 4.0]), xp=xp),
    "at.add": lambda x, xp: xpx.at(x)[0, 1:].add(3.0, copy=True, xp=xp),
    "at.set": lambda x, xp: xpx.at(x)[:, 0].set(7.0, copy=True, xp=xp),
}


@pytest.mark.parametrize("name", EXTRA)
def test_array_api_extra(name: str) -> None:
    result = EXTRA[name](ns.asarray(A), ns)
    expected = EXTRA[name](A, np)
    if not isinstance(result, ns.Tensor):
        assert result == expected
        return
    assert result.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def normalised(x: Any) -> Any:
    """A program for any namespace: rows of length one, sorted, and their products."""
    xp = array_api_compat.array_namespace(x)
    length = xp.sqrt(xp.sum(x * x, axis=-1, keepdims=True))
    rows = xp.sort(x / length, axis=-1, descending=True)
    return xp.linalg.trace(rows @ xp.matrix_transpose(rows)) + xp.mean(xp.exp(-rows))


def test_a_program_for_any_namespace_has_gradients_here() -> None:
    x = ns.tensor(A, requires_grad=True)
    y = normalised(x)
    assert y.item() == pytest.approx(float(normalised(A)), rel=1e-12)
    y.backward()
    assert x.grad is not None
    step = 1e-6 * np.ones_like(A) * np.arange(6).reshape(2, 3)
    slope = (float(normalised(A + step)) - float(normalised(A - step))) / 2
    assert float(np.sum(x.grad.numpy() * step)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.deep
def test_scipy_with_the_array_api() -> None:
    # SciPy reads the switch when it is imported, so it runs in a process of its own.
    run = subprocess.run(
        [sys.executable, "-m", "tests.core.array_api.scipy_program"],
        cwd=Path(__file__).resolve().parents[3],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(" same") == 13


def test_dlpack_both_ways() -> None:
    x = ns.asarray([1.0, 2.0])
    out = np.from_dlpack(x)
    assert out.tolist() == [1.0, 2.0]
    assert not out.flags.writeable
    assert ns.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    assert x.__dlpack_device__() == (1, 0)
    np.from_dlpack(x, copy=True)[:] = 0
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match=r"export x\.detach"):
        np.from_dlpack(ns.tensor([1.0], requires_grad=True))
    with pytest.raises(TypeError, match="does not export bfloat16"):
        np.from_dlpack(ns.tensor([1.0], "bfloat16"))
