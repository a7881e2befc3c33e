"""Convolution against its definition; the error function against the library's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from nodescope import ops
from nodescope.ops.erf import erf
from nodescope.ops.masking import kept

Array = np.ndarray


def by_definition(
    x: np.ndarray, w: np.ndarray, stride: int, pad: int, d: int, g: int
) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, _, height, width = x.shape
    o, cg, kh, kw = w.shape
    oh, ow = ((m - d * (k - 1) - 1) // stride + 1 for m, k in ((height, kh), (width, kw)))
    out = np.zeros((n, o, oh, ow))
    for i, j, p, q, r in itertools.product(range(o), range(cg), range(kh), range(kw), range(oh)):
        row = x[:, i // (o // g) * cg + j, r * stride + p * d, q * d :: stride][:, :ow]
        out[:, i, r] += w[i, j, p, q] * row
    return out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad", [0, 2])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(("c", "o", "g"), [(1, 2, 1), (4, 2, 2), (3, 3, 3), (2, 40, 1)])
def test_values_follow_the_definition(
    stride: int, pad: int, d: int, c: int, o: int, g: int
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, c, 6, 7)), rng.standard_normal((o, c // g, 3, 2))
    attrs = {"stride": (stride,) * 2, "padding": ((pad, pad),) * 2, "dilation": (d,) * 2,
             "groups": g}  # fmt: skip
    result = ops.RAW.conv2d(x, w, **attrs)
    np.testing.assert_allclose(result, by_definition(x, w, stride, pad, d, g), atol=1e-12)


def test_many_images_are_walked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from nodescope.ops import convolution_arithmetic

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 2, 6, 6)), rng.standard_normal((3, 2, 3, 3))
    ct = rng.standard_normal((5, 3, 4, 4))
    attrs = {"stride": (1, 1), "padding": ((0, 0),) * 2, "dilation": (1, 1), "groups": 1}
    whole = (
        ops.RAW.conv2d(x, w, **attrs),
        ops.RAW.conv2d_input_grad(ct, w, size=(6, 6), **attrs),
        ops.RAW.conv2d_weight_grad(x, ct, kernel=(3, 3), **attrs),
    )
    monkeypatch.setattr(convolution_arithmetic, "_PART_BYTES", 1)
    parts = (
        ops.RAW.conv2d(x, w, **attrs),
        ops.RAW.conv2d_input_grad(ct, w, size=(6, 6), **attrs),
        ops.RAW.conv2d_weight_grad(x, ct, kernel=(3, 3), **attrs),
    )
    for first, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(first, other, atol=1e-12)


@pytest.mark.parametrize(("dtype", "ulps"), [(np.float64, 2.5), (np.float32, 2.5)])
def test_erf_is_accurate(dtype: type, ulps: float) -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.logspace(-30, 0, 500)]).astype(dtype)
    expected = np.array([math.erf(float(item)) for item in x])
    unit = np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    assert np.max(np.abs(erf(x).astype(np.float64) - expected) / unit) <= ulps
    special = erf(np.array([np.nan, np.inf, -np.inf, -0.0], dtype))
    assert np.isnan(special[0])
    assert special[1:].tolist() == [1.0, -1.0, 0.0]
    assert np.signbit(special[3])


def test_what_is_not_kept_is_zero_to_the_bit() -> None:
    x = np.array([1.0, np.nan, np.inf, -2.0, -0.0])
    condition = np.array([True, False, False, True, True])
    for dtype in (np.float16, np.float32, np.float64):
        result = kept(x.astype(dtype), condition)
        assert result.tobytes() == np.where(condition, x, 0).astype(dtype).tobytes()
