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
    reference, result = _outcomes(name, args, kwargs)
    if isinstance(reference, Exception):
        assert isinstance(result, Exception), (
            f"{name}: strict says {reference!r}, nodescope {result!r}"
        )
        return result
    if isinstance(result, Exception):
        raise result
    same(result, reference, near)
    return result


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


def same(result: Any, reference: Any, near: float = 0.0) -> None:
    """Compare results of any form."""
    if isinstance(reference, tuple | list):
        assert len(result) == len(reference)
        for part, reference_part in zip(result, reference, strict=True):
            same(part, reference_part, near)
        if hasattr(reference, "_fields"):
            assert result._fields == reference._fields
        return
    if hasattr(reference, "smallest_normal") or hasattr(reference, "bits"):
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(result, field, None) == getattr(reference, field, None)
        assert result.dtype == reference.dtype._np_dtype
        return
    if not hasattr(reference, "dtype"):
        assert result == reference
        return
    assert isinstance(result, ns.Tensor)
    expected = np.asarray(reference)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    if near:
        np.testing.assert_allclose(result.numpy(), expected, rtol=near, atol=near)
        return
    np.testing.assert_array_equal(result.numpy(), expected)
    if expected.dtype.kind == "f":
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(result.numpy())[known], np.signbit(expected)[known]
        )
