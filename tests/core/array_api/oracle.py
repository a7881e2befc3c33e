"""Compares the standard's functions in nodescope with those of array-api-strict.

Invariant: `check` compares values (signs of zeros and NaN included), dtypes and shapes; nodescope
must refuse a call that the strict implementation refuses for its values.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np

import nodescope as ns

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    strict.set_array_api_strict_flags(api_version="2024.12")


def functions(namespace: Any) -> dict[str, Callable[..., Any]]:
    """The public functions of the strict namespace or one of its extensions."""
    listed = getattr(namespace, "__all__", None) or dir(namespace)
    return {
        name: getattr(namespace, name)
        for name in listed
        if inspect.isfunction(getattr(namespace, name))
        and not name.startswith("_")
        and "strict_flags" not in name
    }


FUNCTIONS = functions(strict)
EXTENSIONS = {"linalg": functions(strict.linalg), "fft": functions(strict.fft)}


def signature(function: Callable[..., Any]) -> list[tuple[str, str, Any]]:
    """Names, kinds and defaults of the parameters."""
    results = []
    for parameter in inspect.signature(function).parameters.values():
        # The strict implementation marks a missing default with an object where nodescope has
        # None.
        default = None if type(parameter.default).__name__ == "Undef" else parameter.default
        results.append((parameter.name, parameter.kind.name, default))
    return results


def check(name: str, *args: Any, near: float = 0.0, **kwargs: Any) -> Any:
    """Call both with the same arrays, compare (to ``near``), and return nodescope's result."""
    theirs, ours = _outcomes(name, args, kwargs)
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{name}: strict says {theirs!r}, ours gives {ours!r}"
        return ours
    if isinstance(ours, Exception):
        raise ours
    same(ours, theirs, near)
    return ours


def _outcomes(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    results = []
    for namespace in (strict, ns):
        function: Any = namespace
        for part in name.split("."):
            function = getattr(function, part)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            operands = [_to(namespace, arg) for arg in args]
            named = {key: _to(namespace, kwarg) for key, kwarg in kwargs.items()}
            try:
                results.append(function(*operands, **named))
            except Exception as error:
                results.append(error)
    return results[0], results[1]


def _to(namespace: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return namespace.asarray(value)
    if isinstance(value, np.dtype):
        return getattr(namespace, value.name)
    if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value):
        return [_to(namespace, item) for item in value]
    return value


def same(ours: Any, theirs: Any, near: float = 0.0) -> None:
    """Compare results of any form."""
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for our, other in zip(ours, theirs, strict=True):
            same(our, other, near)
        if hasattr(theirs, "_fields"):
            assert ours._fields == theirs._fields
        return
    if hasattr(theirs, "smallest_normal") or hasattr(theirs, "bits"):
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field, None) == getattr(theirs, field, None)
        assert ours.dtype == theirs.dtype._np_dtype
        return
    if not hasattr(theirs, "dtype"):
        assert ours == theirs
        return
    assert isinstance(ours, ns.Tensor)
    expected = np.asarray(theirs)
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    if near:
        np.testing.assert_allclose(ours.numpy(), expected, rtol=near, atol=near)
        return
    np.testing.assert_array_equal(ours.numpy(), expected)
    if expected.dtype.kind == "f":
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(ours.numpy())[known], np.signbit(expected)[known])
