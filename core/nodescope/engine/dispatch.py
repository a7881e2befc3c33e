"""NumPy on tensors: NEP 13 (ufuncs) and NEP 18 (functions).

Invariant: a function that is not traced is refused by name; none ever falls back to plain arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import numpy_functions
from nodescope.engine.native_functions import UFUNC, array_function, special
from nodescope.engine.numpy_functions import refused, ufuncs
from nodescope.engine.numpy_functions.writing import into
from nodescope.engine.run import apply, operands
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor, operand
from nodescope.errors import UnsupportedError
from nodescope.ops.op import Op
from nodescope.registry import did_you_mean

UFUNCS: dict[Any, Op] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def bound(op: Op) -> Callable[..., Tensor]:
    """An op as a function with NumPy's arguments."""
    bind = op.bind

    def function(*args: Any, **kwargs: Any) -> Tensor:
        if bind is None:
            inputs, attrs = args, kwargs or NO_ATTRS
        else:
            try:
                inputs, attrs = bind(*args, **kwargs)
            except TypeError as error:
                raise _wrong_arguments(op.name, error) from None
        given = operands(inputs)
        if given is None:
            wrong = next(value for value in inputs if operand(value) is None)
            raise UnsupportedError(
                f"{op.name}: cannot take a {type(wrong).__name__}", source=where()
            )
        return apply(op, given, attrs)

    function.__name__ = function.__qualname__ = op.name
    return function


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    op = UFUNCS.get(ufunc)
    if method == "__call__" and op is not None and not kwargs:
        given = operands(inputs)
        return NotImplemented if given is None else apply(op, given, NO_ATTRS)
    return ufuncs.called(op, ufunc, method, inputs, kwargs, _not_traced)


def _array_function(
    self: Tensor, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    function = FUNCTIONS.get(func)
    if function is None:
        module = getattr(func, "__module__", "numpy").replace("numpy", "np", 1)
        raise _not_traced(f"{module}.{func.__name__}")
    if kwargs.get("out") is not None:
        target = kwargs.pop("out")
        name, wider = f"np.{func.__name__}", func in _WIDER
        return into(name, target, lambda: func(*args, **kwargs), wider=wider)
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        raise _wrong_arguments(f"np.{func.__name__}", error) from None


_WIDER = frozenset((np.clip, np.round, np.around, np.fix, np.isposinf, np.isneginf))
"""Functions that act on elements: their ``out`` may be larger than the result."""


def _wrong_arguments(name: str, error: TypeError) -> UnsupportedError:
    """The message for arguments that a function does not take, in NumPy's terms."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if unknown:
        message = f"the argument {unknown[1]}= is not traced"
    else:
        message = re.sub(r"^\S*\(\) ", "it ", str(error))
    return UnsupportedError(
        f"{name}: {message}", source=where(), hint="omit that argument, or use .numpy() first"
    )


def _not_traced(name: str) -> UnsupportedError:
    if hint := refused.hint_of(name.rpartition(".")[2]):
        return UnsupportedError(f"{name} is not traced", source=where(), hint=hint)
    known = sorted({f"np.{function.__name__}" for function in (*UFUNCS, *FUNCTIONS)})
    near = did_you_mean(name, known)
    return UnsupportedError(
        f"{name} is not traced",
        source=where(),
        hint=f"{near} Or use .numpy() first to leave the graph".replace("? Or", "? or")
        if near
        else "use .numpy() first to leave the graph",
    )


def _fill_tables() -> None:
    for op in ops.all_ops():
        for function in op.numpy:
            if isinstance(function, np.ufunc):
                UFUNCS[function] = op
            else:
                FUNCTIONS[function] = bound(op)
    for table in numpy_functions.tables():
        FUNCTIONS.update(table)


_fill_tables()
Tensor.__array_ufunc__ = special(UFUNC, None, _array_ufunc, UFUNCS)  # type: ignore[method-assign]
Tensor.__array_function__ = array_function(_array_function)  # type: ignore[method-assign]
