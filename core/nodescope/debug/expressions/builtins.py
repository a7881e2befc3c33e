"""Builtins of conditions: names, functions and operators, and their effect on arrays.

Invariant: the tables are the whole language. Results are numbers, arrays and tuples of numbers; no
result has more elements than its operands, or than `MAX_ELEMENTS`, and Python integers stay within
64 bits.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from nodescope.arrays.lazy import HeldArray, LazyArray, whole
from nodescope.console_output import shape_words
from nodescope.errors import ArrayError, ConditionError
from nodescope.events import AnyArray, Array

MAX_ELEMENTS: Final = 1 << 22
MAX_INT: Final = 1 << 64
TRUTHS: Final = (np.bool_, bool)


class Scene:
    """The variables of a condition: one node at one moment.

    Args:
        value: The node's first output, or None before it has run.
        inputs: The arrays at the node's input ports.
        step: Training step.
        node: The node's name, for messages.
        elapsed: Seconds since the run began, without time held by the debugger.
        grad: Returns the gradient of ``value``, or None if none is recorded.
    """

    __slots__ = ("elapsed", "grad", "inputs", "node", "step", "value")

    def __init__(
        self,
        value: HeldArray | None,
        inputs: tuple[HeldArray, ...] = (),
        step: int = 0,
        node: str = "",
        *,
        elapsed: float = 0.0,
        grad: Callable[[], HeldArray | None] | None = None,
    ) -> None:
        self.value = value
        self.inputs = inputs
        self.step = step
        self.elapsed = elapsed
        self.node = node
        self.grad = grad


class LazyInputs(tuple[HeldArray, ...]):
    """Inputs that are fetched individually when they are indexed."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return whole(super().__getitem__(index))

    def held(self, index: int) -> HeldArray:
        """An input without fetching it."""
        return super().__getitem__(index)


class LazyScene(Scene):
    """A scene of arrays of other libraries, fetched only as far as a condition needs them."""

    __slots__ = ("_array", "_arrays")

    def __init__(
        self, value: AnyArray, inputs: tuple[AnyArray, ...] = (), *args: Any, **kwargs: Any
    ) -> None:
        self._array, self._arrays = value, inputs
        super().__init__(None, (), *args, **kwargs)
        del self.value, self.inputs

    def __getattr__(self, name: str) -> Any:
        """Fill an empty slot. Raises `ArrayError` if there are no elements."""
        if name == "value":
            self.value = None if self._array is None else as_held(self._array)
            return self.value
        if name == "inputs":
            self.inputs = LazyInputs(map(as_held, self._arrays))
            return self.inputs
        raise AttributeError(name)


def as_held(array: AnyArray) -> HeldArray:
    """An array of any library. Raises `ArrayError` if it has no elements."""
    return array if isinstance(array, np.ndarray | LazyArray) else LazyArray(array)


def are_ours(arrays: tuple[Any, ...]) -> bool:
    """Whether arrays are NumPy's own, so that a condition reads them as they are."""
    for array in arrays:  # noqa: SIM110 - a generator is far slower
        if array.__class__ is not np.ndarray:
            return False
    return True


def scene_of(value: Any, inputs: tuple[Any, ...] = (), *args: Any, **kwargs: Any) -> Scene:
    """The scene of arrays of any library; the arguments are those of `Scene`."""
    ours = (value is None or value.__class__ is np.ndarray) and are_ours(inputs)
    return (Scene if ours else LazyScene)(value, inputs, *args, **kwargs)


Eval = Callable[[Scene], Any]


def truth(result: Any) -> bool:
    """The truth of one number; ConditionError for several (arrays) or none (tuples)."""
    if type(result) in TRUTHS:
        return bool(result)
    if isinstance(result, np.ndarray) and result.size != 1:
        raise ConditionError(
            f"the condition yields {result.size} booleans "
            f"(shape {shape_words(result.shape)}), not one",
            hint="use any() or all()",
        )
    if isinstance(result, tuple):
        raise ConditionError("a tuple is not a boolean", hint="compare it, or index it")
    return bool(result)


def reason(error: Exception) -> str:
    """The reason, in one line, why an expression could not be evaluated."""
    if isinstance(error, ArrayError):
        return str(error)
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return "a number is too large"
    if isinstance(error, IndexError):
        return "the index is out of range"
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def bounded(result: Any) -> Any:
    """Limit Python's unbounded integers to 64 bits."""
    if type(result) is int and not -MAX_INT < result < MAX_INT:
        raise ConditionError("a number is too large", hint="write it as a float, such as 1e30")
    if isinstance(result, complex) and not isinstance(result, np.generic):
        raise ConditionError("the power of a negative number is not real")
    return result


def operand(x: Any) -> Any:
    """``x`` itself, which must not be a tuple."""
    if isinstance(x, tuple):
        raise ConditionError("a tuple is not a number", hint="index it, as in inputs[0]")
    return x


def check_pair(a: Any, b: Any) -> None:
    """Refuse tuples, and arrays that would broadcast to something huge."""
    operand(a)
    operand(b)
    if (
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and a.shape != b.shape
        and math.prod(np.broadcast_shapes(a.shape, b.shape)) > max(a.size, b.size, MAX_ELEMENTS)
    ):
        raise ConditionError(
            f"shapes {shape_words(a.shape)} and {shape_words(b.shape)} "
            "broadcast to too many elements"
        )


def _power(a: Any, b: Any) -> Any:
    # In floats, so that 9**9**9 overflows at once instead of filling the memory with digits.
    if isinstance(a, int | float) and isinstance(b, int | float):
        return float(a) ** float(b)
    return a**b


def _nonzero_divisor(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(a: Any, b: Any) -> Any:
        # A literal zero is a mistake; zeros in arrays follow IEEE 754.
        if isinstance(b, int | float) and not isinstance(b, np.generic) and b == 0:
            raise ZeroDivisionError
        return divide(a, b)

    return checked


def _full(x: Any) -> Array:
    x = np.asarray(operand(x))
    if not x.size:
        raise ConditionError("an empty array has no such statistic")
    return cast(Array, x)


def index_of(container: Any, index: Any) -> Any:
    """``container[index]`` with whole numbers only."""
    if not isinstance(container, tuple | np.ndarray | LazyArray):
        raise ConditionError("only inputs, a shape or an array can be indexed")
    if isinstance(index, tuple):
        if isinstance(container, tuple):
            raise ConditionError("a tuple can only be indexed by one integer")
        return container[tuple(operator.index(position) for position in index)]
    return container[operator.index(index)]


FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "min": (1, lambda x: np.min(_full(x))),
    "max": (1, lambda x: np.max(_full(x))),
    "mean": (1, lambda x: np.mean(_full(x))),
    "std": (1, lambda x: np.std(_full(x))),
    "norm": (1, lambda x: np.linalg.norm(np.ravel(operand(x)))),
    "sum": (1, lambda x: np.sum(operand(x))),
    "any": (1, lambda x: np.any(operand(x))),
    "all": (1, lambda x: np.all(operand(x))),
    "isnan": (1, lambda x: np.isnan(operand(x))),
    "isinf": (1, lambda x: np.isinf(operand(x))),
    "isfinite": (1, lambda x: np.isfinite(operand(x))),
    "abs": (1, lambda x: np.abs(operand(x))),
    "size": (1, lambda x: len(x) if isinstance(x, tuple) else int(np.size(x))),
    "shape": (1, lambda x: tuple(np.shape(operand(x)))),
    "count": (1, lambda x: int(np.count_nonzero(operand(x)))),
    "quantile": (2, lambda x, q: np.quantile(_full(x), operand(q))),
}
LOGICAL: Final = frozenset({"any", "all", "isnan", "isinf", "isfinite"})
METHODS: Final = frozenset({"any", "all", "min", "max", "mean", "std", "sum"})

BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _nonzero_divisor(operator.truediv),
    ast.FloorDiv: _nonzero_divisor(operator.floordiv),
    ast.Mod: _nonzero_divisor(operator.mod),
    ast.Pow: _power,
}
COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


_ndarray: Final = np.ndarray


def _value_of(scene: Scene) -> Any:
    value = scene.value
    return value if value.__class__ is _ndarray else whole(_held_value(scene))


def _held_value(scene: Scene) -> Any:
    if scene.value is None:
        raise ConditionError(f"{scene.node or 'the node'} has no value here")
    return scene.value


def _gradient_of(scene: Scene) -> Any:
    return whole(_held_gradient(scene))


def _held_gradient(scene: Scene) -> Any:
    gradient = scene.grad() if scene.grad is not None else None
    if gradient is None:
        raise ConditionError(f"no gradient was recorded for {scene.node or 'this node'}")
    return gradient


def held_input(scene: Scene, index: int) -> Any:
    """An input without fetching it, if its library is not NumPy."""
    inputs = scene.inputs
    return inputs.held(index) if isinstance(inputs, LazyInputs) else inputs[index]


NAMES: Final[dict[str, Eval]] = {
    "value": _value_of,
    "inputs": lambda scene: scene.inputs,
    "grad": _gradient_of,
    "step": lambda scene: scene.step,
    "elapsed": lambda scene: scene.elapsed,
}
HELD: Final[dict[str, Eval]] = {"value": _held_value, "grad": _held_gradient}
"""Like `NAMES`, for single arrays that may not be fetched yet."""
CONSTANTS: Final = {"inf": math.inf}


def compared(compare: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """``compare(a, b)``; tuples of numbers compare with tuples."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple)):
            raise ConditionError("a tuple can only be compared with a tuple", hint="index it")
        if any(isinstance(element, np.ndarray | LazyArray) for element in (*a, *b)):
            raise ConditionError("arrays in tuples cannot be compared", hint="as in inputs[0] > 1")
        return compare(a, b)
    check_pair(a, b)
    return compare(a, b)
