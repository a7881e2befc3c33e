"""Methods, properties and operators of NumPy arrays; missing ones name an alternative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.methods import _MISSING
from nodescope.errors import BoundsError, DtypeError, MissingError, ShapeError, UsageError
from tests.parts import in_parts

A = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]])
METHODS: dict[str, Any] = {
    "argsort": lambda x: x.argsort(axis=0),
    "clip": lambda x: x.clip(0, 2),
    "clip by name": lambda x: x.clip(min=0.0),
    "compress": lambda x: x.compress([True, False, True], axis=1),
    "conj": lambda x: (x * 1j).conj(),
    "conjugate": lambda x: (x * 1j).conjugate(),
    "cumprod": lambda x: x.cumprod(axis=1),
    "diagonal": lambda x: x.diagonal(offset=1),
    "dot": lambda x: x.dot(x.T),
    "nonzero": lambda x: x.nonzero()[1],
    "repeat": lambda x: x.repeat(2, axis=0),
    "round": lambda x: (x / 3).round(1),
    "searchsorted": lambda x: x[0].cumsum().searchsorted(2.5),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "take": lambda x: x.take(np.array([0, 0, 1]), axis=1),
    "trace": lambda x: x.trace(),
    "mT": lambda x: x[None].mT,
    "real": lambda x: (x + 2j).real,
    "imag": lambda x: (x + 2j).imag,
    "imag of reals": lambda x: x.imag,
    "divmod": lambda x: divmod(x, 2)[0],
    "divmod, reflected": lambda x: divmod(7.0, x)[1],
    "floordiv, reflected": lambda x: 7.0 // x,
    "mod, reflected": lambda x: 7.0 % x,
    "shift": lambda x: x.astype("int64") << 2,
    "shift, reflected": lambda x: 64 >> abs(x).astype("int64"),
    "copy": lambda x: x.copy(order="K"),
    "astype": lambda x: x.astype(np.float32, copy=False),
}


@pytest.mark.parametrize("name", METHODS)
def test_as_numpy(name: str) -> None:
    result, expected = METHODS[name](ns.tensor(A)), np.asarray(METHODS[name](A))
    assert isinstance(result, ns.Tensor)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)


def test_facts() -> None:
    x = ns.tensor(A, "float32")
    assert (x.itemsize, x.nbytes, x.device) == (4, 24, "cpu")
    assert x.real is x
    assert x.to_device("cpu") is x
    assert x.astype("float32", copy=False) is x
    assert complex(ns.tensor(2 + 1j)) == 2 + 1j
    assert (x.item(1), x.item(1, 0), x.item((0, 2))) == (-1.0, 0.5, 2.0)


def test_mistakes() -> None:
    x = ns.tensor(A)
    with pytest.raises(ShapeError, match="is not a matrix"):
        _ = x[0].mT
    with pytest.raises(UsageError, match="no device 'cuda'"):
        x.to_device("cuda")
    with pytest.raises(UsageError, match="no streams"):
        x.to_device("cpu", stream=1)
    with pytest.raises(BoundsError, match="out of bounds"):
        x.item(6)
    with pytest.raises(ShapeError, match="ambiguous"):
        complex(x)
    with pytest.raises(DtypeError, match="'nosuch' is not a dtype"):
        x.astype("nosuch")


ABSENT = sorted(name for name in _MISSING if not hasattr(ns.tensor(A), name))


@in_parts(1)
@pytest.mark.parametrize("name", ABSENT)
def test_missing(name: str) -> None:
    x = ns.tensor(A)
    assert not hasattr(x, name)
    with pytest.raises(MissingError, match=f"a tensor has no {name} ") as caught:
        getattr(x, name)
    assert isinstance(caught.value, AttributeError)
    assert caught.value.hint
    assert "test_methods.py" in caught.value.source


def test_most_are_missing() -> None:
    assert len(ABSENT) > 20


def test_every_public_attribute_of_arrays_is_there_or_explained() -> None:
    x = ns.tensor(A)
    public = {text for text in dir(np.ndarray) if not text.startswith("_")}
    assert public <= set(dir(x)) | set(_MISSING)


def test_an_unknown_attribute_is_a_plain_error() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        ns.tensor(A).nosuch  # noqa: B018
