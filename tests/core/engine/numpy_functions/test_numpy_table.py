"""docs/numpy.md says what is so; and compiled functions give what it says, bit for bit."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.signatures import Operators
from nodescope.engine.tensor import Tensor
from nodescope.errors import NodescopeError, UnsupportedError
from tests import depth
from tests.core.engine.numpy_functions import numpy_table
from tests.core.engine.numpy_functions.numpy_arguments import (
    DIFFERENT,
    OF_METHODS,
    UNTRIED,
    WITHOUT_ARRAYS,
    A,
    Like,
    Out,
    T,
)
from tests.core.engine.numpy_functions.numpy_table import Call, Outcome
from tests.depth import count, is_deep
from tests.parts import in_parts


@functools.cache
def everything() -> list[tuple[Call, Outcome]]:
    return numpy_table.everything()


def test_every_failure_is_deliberate() -> None:
    assert numpy_table.faults(everything()) == []


def test_every_function_and_argument_is_tried_as_numpy_takes_it() -> None:
    tried: dict[str, set[str]] = {}
    for call, result in everything():
        if result.kind != "none":
            tried.setdefault(call.name, set()).update(re.findall(r"\w+", call.argument))
    names = {*numpy_table.names(), *numpy_table.ufuncs()}
    assert names - tried.keys() == WITHOUT_ARRAYS
    refused = {call.name for call, result in everything()
               if result.kind in ("refused", "error") and not call.argument}  # fmt: skip
    left = {
        f"{name} {key}"
        for name in sorted(names - WITHOUT_ARRAYS - refused)
        if not isinstance(getattr(np, name, None), np.ufunc)
        for key in numpy_table.signature(name)
        if key not in tried[name]
    }
    assert left == UNTRIED


def test_ufuncs_refuse_signatures_by_name() -> None:
    for name in numpy_table.ufuncs():
        ufunc = getattr(np, name)
        if name in WITHOUT_ARRAYS:
            continue
        operands = [ns.tensor(np.ones((2, 2), int)) for _ in range(ufunc.nin)]
        with pytest.raises(UnsupportedError, match="signature= is not traced"):
            ufunc(*operands, signature=ufunc.types[0])


def test_the_document_is_current() -> None:
    assert numpy_table.DOCUMENT.read_text(encoding="utf-8") == numpy_table.document(everything())


def test_the_table_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument that a method lacks, a gradient that is lost, another value."""

    def without(self: Any, axis: Any = None) -> Any:
        return np.sum(self, axis)

    def lost(self: Any, axis: Any = None, **kwargs: Any) -> Any:
        return np.sum(self.detach(), axis, **kwargs)

    def other(self: Any, axis: Any = None, **kwargs: Any) -> Any:
        return np.sum(self, axis, **kwargs) + 1

    for method, problem in (
        (without, "error"),
        (lost, "gradient is lost"),
        (other, "other values"),
    ):
        monkeypatch.setattr(ns.Tensor, "sum", method)
        outcomes = [(call, numpy_table.outcome(call)) for call in numpy_table.calls(".sum")]
        assert any(problem in fault for fault in numpy_table.faults(outcomes))


@in_parts(1)
@pytest.mark.parametrize("name", [name[1:] for name in numpy_table.names() if name[0] == "."])
def test_methods_have_the_arguments_of_numpy_methods(name: str) -> None:
    ours = inspect.getattr_static(ns.Tensor, name, None)
    if type(ours).__name__ == "_Missing":
        with pytest.raises(AttributeError, match=f"a tensor has no {name}"):
            getattr(ns.tensor(A), name)
        return
    # For type checkers: a method that is set on the class later is annotated on its base.
    assert name in Operators.__annotations__ or name in inspect.getsource(Tensor)
    numpys = inspect.signature(getattr(np.ndarray, name)).parameters
    known = inspect.signature(ours).parameters  # type: ignore[arg-type]
    takes_any = any(item.kind == item.VAR_POSITIONAL for item in known.values())
    for key, item in list(numpys.items())[1:]:
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD):
            continue
        if item.kind == item.KEYWORD_ONLY or item.default is not item.empty:
            assert key in known
        else:
            assert key in known or takes_any or len(known) >= len(numpys)


# While a graph is built

_FREE = {  # Results that depend on the machine or on a random phase.
    "linalg.eig",
    "empty_like",
}
_PLAIN = (bool, int, float, str, tuple, list, np.dtype, type(None))


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _tensors(item)]
    return [value] if isinstance(value, ns.Tensor) else []


def _owner(call: Call) -> Any:
    return T(OF_METHODS.get(call.name[1:], A)) if call.name.startswith(".") else None


def _replaced(value: Any, result: list[Any]) -> Any:
    """``value`` with what stands under `T` taken from ``found``, in order."""
    if isinstance(value, T):
        return result.pop(0)
    if isinstance(value, list | tuple) and not isinstance(value, Out):
        return type(value)([_replaced(item, result) for item in value])
    return value


def _given(call: Call) -> list[Any]:
    arrays: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, T):
            arrays.append(np.asarray(value.array))
        elif isinstance(value, list | tuple) and not isinstance(value, Out):
            for item in value:
                collect(item)

    for value in (_owner(call), call.args, *call.kwargs.values()):
        collect(value)
    return arrays


def _called(call: Call, tensors: list[Any]) -> Any:
    result = list(tensors)
    owner = result.pop(0) if call.name.startswith(".") else None
    args = _replaced(call.args, result)
    kwargs = {key: _replaced(value, result) for key, value in call.kwargs.items()}
    if owner is None:
        return numpy_table.function(call.name)(*args, **kwargs)
    return getattr(owner, call.name[1:])(*args, **kwargs)


def _wanted(call: Call, result: Outcome) -> bool:
    fresh = "out" not in call.kwargs and "mean" not in call.kwargs
    return result.kind == "works" and fresh and call.name not in _FREE


FORMS = ("argument", "captured", "parameter", "constant")
PARTS = 24
"""Of the functions, so that several processes can share them."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", depth.some(range(PARTS), 2))
def test_compiled_functions_give_the_same_of_whatever_they_are_given(part: int) -> None:
    """Of an argument, a captured tensor, a parameter and a constant: the eager bits.

    Of one of these in turns; at the depth deep, of each.
    """
    outcomes = numpy_table.everything(part, PARTS)
    calls = [call for call, result in outcomes if _wanted(call, result)]
    assert calls
    forms = itertools.cycle(FORMS)
    for _, alike in itertools.groupby(calls, key=lambda call: (call.name, call.argument)):
        for call in list(alike)[: count(2)]:
            _compare(call, set(itertools.islice(forms, len(FORMS) if is_deep() else 1)))


def _compare(call: Call, forms: set[str]) -> None:
    arrays = _given(call)
    eager = [ns.tensor(array, requires_grad=array.dtype.kind in "fc").copy() for array in arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _called(call, eager)
        results = _tensors(expected)
        if not results and not isinstance(expected, type(None)):
            return  # The result is a shape or dtype.
        own_arrays = [
            ns.parameter(array) if array.dtype.kind == "f" else ns.tensor(array) for array in arrays
        ]
        captured = [ns.tensor(array) for array in arrays]
        fixed = [ns.constant(array) for array in arrays]
        # Calls that write get a copy, since a graph does not write to its arguments.
        writes = expected is None or call.kwargs.get("copy") is False
        own = (lambda xs: [x.copy() for x in xs]) if writes else list
        programs = {
            "argument": (ns.compile(lambda *xs: _all(call, own(xs))), arrays),
            "captured": (ns.compile(lambda: _all(call, own(captured))), []),
            "parameter": (ns.compile(lambda: _all(call, own(own_arrays))), []),
            "constant": (ns.compile(lambda: _all(call, own(fixed))), []),
        }
        wanted = [result.numpy() for result in (results or eager)]
        for form in forms:
            program, given = programs[form]
            result = _run(program, [ns.tensor(item) for item in given])
            if isinstance(result, NodescopeError):
                assert re.search("depends on|not known", result.message), call
                assert result.hint
                continue
            assert [_bits(item) for item in result] == [_bits(item) for item in wanted], (
                call,
                form,
            )


def _run(program: Any, tensors: list[Any]) -> Any:
    try:
        return program(*tensors)
    except NodescopeError as error:
        return error


def _all(call: Call, tensors: list[Any]) -> list[Any]:
    result = _called(call, tensors)
    return tensors if result is None else _tensors(result)


def _bits(value: Any) -> tuple[Any, ...]:
    array = value.numpy() if isinstance(value, ns.Tensor) else value
    return array.dtype, array.shape, array.tobytes()


def test_numpy_calls_that_make_arrays_of_tensors_name_an_alternative() -> None:
    """NumPy asks each tensor for an array here: no gradient is lost without a word."""
    t = ns.tensor([1.0, 2.0], requires_grad=True)
    total, index = t.sum(), ns.tensor([0, 1])
    lists: list[Any] = [
        lambda: np.array([total, t.mean()]), lambda: np.sum([t, t]), lambda: np.r_[t, t],
        lambda: np.c_[t, t], lambda: np.full(2, t), lambda: np.eye(2)[index], lambda: np.max([t]),
    ]  # fmt: skip
    for call in lists:
        with pytest.raises(NodescopeError, match=r"np\.stack.*np\.broadcast_to.*array\)\[x\]"):
            call()
    assert ns.tensor(np.eye(2))[index].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(NodescopeError, match=r"np\.full_like, np\.broadcast_to"):
        np.full(2, total, dtype=float)
    assert np.full(2, total, like=t).requires_grad


def test_wrong_arguments_are_reported_in_the_terms_of_numpy() -> None:
    x = ns.tensor(A).copy()
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: x.max(foo=1), TypeError, r"^max: it got an unexpected keyword argument 'foo'"),
        (lambda: x.reshape(12, foo=1), TypeError, r"^Tensor\.reshape\(\) got an unexpected"),
        (lambda: x.ravel("Q"), ValueError, "unknown order 'Q'.*one of C, F, A, K"),
        (lambda: x.reshape(12, order="K"), ValueError, "unknown order 'K'.*one of C, F, A"),
        (lambda: x.astype("i4", casting="safe"), TypeError, "float64 cannot be cast to int32"),
        (lambda: np.concatenate([x, x], dtype="i4"), TypeError, "float64 cannot be cast to int32"),
        (lambda: np.copyto(x, 1j), TypeError, "complex128 cannot be cast to float64"),
        (lambda: x.sum(out=x), ValueError, r"shape \(\) does not fit into shape \(3, 4\)"),
        (lambda: x.flat.__setitem__(99, 1.0), IndexError, "index 99 is out of bounds"),
        (lambda: x.sort(axis=2), ValueError, "axis 2 is out of range"),
        (lambda: ns.nn.linear(x, x), ValueError, r"a weight is \(inputs, outputs\)"),
    ]
    for call, kind, message in wrong:
        with pytest.raises(kind, match=message) as caught:
            call()
        assert not re.search("_bind|_dispatcher|lambda", str(caught.value))
    np.testing.assert_array_equal(x.numpy(), A)
    assert ns.nn.linear(x, x.T, x[:, 0]).shape == (3, 3)


def test_orders_that_memory_decides() -> None:
    """As NumPy's where the layout is known, else refused: never other elements in silence."""
    turned, cube = A.T, np.arange(12.0).reshape(2, 3, 2)
    for order in "CFAK":
        for read in (lambda x, o=order: x.ravel(o), lambda x, o=order: x.flatten(o)):
            assert read(ns.tensor(A).T).tolist() == read(turned).tolist()
    with pytest.raises(NodescopeError, match="depends on the memory layout"):
        ns.tensor(cube).transpose(1, 0, 2).ravel("K")
    with pytest.raises(NodescopeError, match="depends on the memory layout"):
        ns.compile(lambda x: x.ravel("A"))(A)


_OTHERWISE = {
    "argsort axis", ".argsort axis",  # NumPy orders equal elements arbitrarily.
    # The arrays here have repeated elements.
    "intersect1d assume_unique", "setxor1d assume_unique",
    "unique_values", "partition", ".partition",  # NumPy's result is unordered.
    "from_dlpack",  # Returns the given array itself.
    "linalg.eig", "linalg.eigvals",  # Always complex.
    "vecmat",  # NumPy does not conjugate where order="F".
}  # fmt: skip


def _as(value: Any, dtype: str) -> Any:
    if isinstance(value, T):
        array = np.asarray(value.array)
        return T(np.nan_to_num(np.round(array)).astype(dtype)) if array.dtype.kind == "f" else value
    if isinstance(value, list | tuple) and not isinstance(value, Out | Like):
        return type(value)([_as(item, dtype) for item in value])
    return value


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", depth.some(["float32", "int64", "int16", "complex128"], 2))
def test_other_dtypes_give_what_numpy_gives(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_table, "A", np.round(A).astype(dtype))
    wrong = []
    for call, _ in everything():
        key = f"{call.name} {call.argument}".strip()
        excused = {call.name, key, call.name.partition(".")[0]} & {*_OTHERWISE, *DIFFERENT}
        kwargs = {name: _as(value, dtype) for name, value in call.kwargs.items()}
        result = numpy_table.outcome(call._replace(args=_as(call.args, dtype), kwargs=kwargs))
        if result.kind in ("differs", "error") and not excused:
            wrong.append((key, result))
    assert wrong == []
