"""Edits: changes of a value of the running program.

Invariant: pure; the given array is not modified, and the returned one has its shape and dtype.
Values that cannot be represented are refused, never silently rounded (except to the precision of
floating-point numbers).
"""

from __future__ import annotations

import ast
import io
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.arrays import ops_of
from nodescope.arrays.lazy import HeldArray, LazyArray, held, whole
from nodescope.console_output import shape_words
from nodescope.errors import EditError
from nodescope.events import AnyArray, Array
from nodescope.ir.graph import Node
from nodescope.protocol import SetValue
from nodescope.registry import did_you_mean

MAX_INDEX: Final = 200
_CHOICES: Final[dict[str, Callable[[Array], Array]]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "nonfinite": lambda array: ~np.isfinite(array),
    "zero": lambda array: array == 0,
    "negative": lambda array: array < 0,
    "positive": lambda array: array > 0,
}
# Numbers, slices and dots: only these may reach Python's parser.
_PLAIN: Final = re.compile(r"[-0-9,:. ]*")
_INDEX_HINT: Final = "such as 3, or 0, 2:5, or :, -1; or isnan"


def edited(array: HeldArray, command: SetValue) -> Array:
    """The array with some elements changed.

    An array of another library is fetched only if some elements stay, and after the edit has been
    validated.

    Raises:
        EditError: The index is out of range, the number does not fit the dtype, or the file's array
            has another shape.
    """
    if array.dtype.kind not in "biufc":
        raise EditError(f"values of dtype {array.dtype} cannot be edited")
    if isinstance(array, LazyArray):
        if not command.index.strip() and command.how == "set":
            return np.full(array.shape, _fitting(number_of(command), array.dtype), array.dtype)
        edited(np.broadcast_to(np.zeros((), array.dtype), array.shape), command)  # may be refused
    array = whole(array)
    place = index_of(command.index, array)
    result = np.array(array)  # in the same layout
    part = np.asarray(result[place])
    with np.errstate(all="ignore"):
        result[place] = _new(part, command)
    return result


def edited_live(array: AnyArray, command: SetValue) -> Array:
    """A value that the program holds, with some elements changed.

    Raises:
        EditError: As `edited`; or the library cannot take up another value.
    """
    refusal = "" if array.__class__ is np.ndarray else ops_of(array).refusal(array)
    if refusal:
        raise EditError(f"this value cannot be changed: {refusal}")
    return edited(held(array), command)


def number_of(command: SetValue) -> float | complex:
    """The number of a command."""
    return complex(command.number, command.imaginary) if command.imaginary else command.number


def describe_edit(command: SetValue, name: str) -> str:
    """A description of an edit: ``net/tanh[3] set to 0``."""
    place = f"{name}[{command.index}]" if command.index.strip() else name
    match command.how:
        case "set":
            return f"{place} set to {number_of(command):g}"
        case "add":
            return f"{place} plus {number_of(command):g}"
        case "scale":
            return f"{place} times {number_of(command):g}"
        case "clip":
            return f"{place} clipped to {_bound(command.low)}..{_bound(command.high)}"
        case "noise":
            return f"{place} with noise of {number_of(command):g}, seed {command.seed}"
        case "npy":
            return f"{place} from a file"


def unaffected(value: int, ran: Node | None) -> str:
    """A note that a node has already run with the old value, or ``""``."""
    if ran is None or value in ran.outputs:
        return ""
    return (
        f"{ran.name} has already run with the old value and does not run again, only what reads it "
        f"later gets the new one. To see {ran.name} with it, use What if, or stop before it"
    )


def _bound(number: float | None) -> str:
    return "" if number is None else f"{number:g}"


def _new(part: Array, command: SetValue) -> Any:
    """The new elements, exactly as they will be stored."""
    dtype, number = part.dtype, number_of(command)
    match command.how:
        case "set":
            return _fitting(number, dtype)
        case "add":
            _arithmetic(dtype, "added to")
            return _checked(part + _fitting(number, dtype), dtype)
        case "scale":
            _arithmetic(dtype, "scaled")
            if dtype.kind in "iu":
                return _whole(part.astype(np.float64) * _real(number), dtype)
            return part * _fitting(number, dtype)
        case "clip":
            _ordered(dtype)
            low, high = command.low, command.high
            if low is None and high is None:
                raise EditError("clip needs a lower or an upper bound")
            if low is not None and high is not None and low > high:
                raise EditError(f"the bounds {low:g} and {high:g} are in the wrong order")
            bounds = [None if bound is None else _fitting(bound, dtype) for bound in (low, high)]
            return np.clip(part, *bounds)
        case "noise":
            if dtype.kind not in "fc":
                raise EditError(f"noise is for floating-point values, not {dtype}")
            spread = _real(number)
            if command.seed < 0:
                raise EditError(f"the seed {command.seed} is negative", hint="0 or more")
            if not spread >= 0:
                raise EditError(f"the standard deviation {spread:g} is not positive")
            drawn: Array = np.asarray(
                np.random.default_rng(command.seed).normal(0.0, spread, part.shape)
            )
            return part + drawn.astype(dtype)
        case "npy":
            return _loaded(command.npy, part)


def _arithmetic(dtype: np.dtype[Any], operation: str) -> None:
    if dtype.kind == "b":
        raise EditError(f"booleans cannot be {operation}", hint="set them")


def _ordered(dtype: np.dtype[Any]) -> None:
    if dtype.kind in "bc":
        raise EditError(f"values of dtype {dtype} cannot be clipped: they have no order")


def _real(number: Any) -> float:
    if isinstance(number, complex):
        raise EditError(f"{number} is not real")
    return float(number)


def _fitting(number: Any, dtype: np.dtype[Any]) -> Any:
    """The number in a dtype. Raises `EditError` if the dtype cannot hold it."""
    if dtype.kind == "b":
        if number not in (0, 1):
            raise EditError(f"{number:g} is not a boolean", hint="0 or 1")
        return np.bool_(number)
    if isinstance(number, complex) and dtype.kind != "c":
        raise EditError(f"{number} does not fit into {dtype}")
    if dtype.kind in "iu":
        if float(number) != number or not float(number).is_integer():
            raise EditError(f"{number:g} is not an integer, which {dtype} requires")
        limits = np.iinfo(dtype)
        if not limits.min <= int(number) <= limits.max:
            raise EditError(f"{number:g} does not fit into {dtype}, {limits.min} to {limits.max}")
        return dtype.type(int(number))
    with np.errstate(all="ignore"):
        result = dtype.type(number)
    if np.isinf(result) and not np.isinf(complex(number)):
        raise EditError(f"{number:g} does not fit into {dtype}, at most {np.finfo(dtype).max:g}")
    return result


def _checked(result: Array, dtype: np.dtype[Any]) -> Array:
    return result if result.dtype == dtype else result.astype(dtype)


def _whole(result: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    if (
        not np.isfinite(result).all()
        or result.min(initial=0) < limits.min
        or (result.max(initial=0) > limits.max)
    ):
        raise EditError(f"the result does not fit into {dtype}")
    if (result != np.trunc(result)).any():
        raise EditError(f"the result has a fractional part, which {dtype} cannot hold")
    return result.astype(dtype)


def _loaded(content: bytes, part: Array) -> Array:
    try:
        _check_size(content)
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
    except EditError:
        raise
    except Exception as error:  # a broken header fails in Python's own parser, too
        raise EditError(f"the file is not a .npy array: {error}") from None
    if not isinstance(loaded, np.ndarray):
        raise EditError("the file holds several arrays", hint="save one with np.save")
    if loaded.shape != part.shape:
        raise EditError(
            f"the file's array has shape {shape_words(loaded.shape)}, "
            f"but replaces shape {shape_words(part.shape)}"
        )
    if not np.can_cast(loaded.dtype, part.dtype, "same_kind"):
        raise EditError(f"the file's {loaded.dtype} cannot be converted to {part.dtype}",
                        hint=f"save it with .astype({part.dtype.name!r})")  # fmt: skip
    result = loaded.astype(part.dtype)
    if loaded.dtype.kind in "iu" and (result != loaded).any():
        raise EditError(f"numbers in the file do not fit into {part.dtype}")
    return result


def _check_size(content: bytes) -> None:
    """Refuse a file whose header claims more data than follows, before memory is allocated."""
    file = io.BytesIO(content)
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        return
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise EditError(f"the file is a .npy file of version {version[0]}.{version[1]}",
                        hint="save a plain array with np.save")  # fmt: skip
    size = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and not 0 <= size <= len(content) - file.tell():
        raise EditError("the file is truncated: its header announces more data than follows")


def index_of(text: str, array: Array) -> Any:
    """An index in text form applied to an array: basic indices, or the mask of a condition.

    Raises:
        EditError: The text is not an index, or it is out of range.
    """
    text = text.strip()
    if not text:
        return ...
    if len(text) > MAX_INDEX:
        raise EditError(f"the index is longer than {MAX_INDEX} characters")
    if text.isidentifier():
        if text not in _CHOICES:
            near = did_you_mean(text, _CHOICES) or f"one of {', '.join(_CHOICES)}"
            raise EditError(f"no element selection named {text!r}", hint=near)
        if array.dtype.kind == "c" and text in ("negative", "positive"):
            raise EditError(f"complex numbers cannot be {text}")
        return _CHOICES[text](array)
    if not _PLAIN.fullmatch(text):
        at = next(index for index, char in enumerate(text) if not _PLAIN.fullmatch(char))
        raise EditError(f"{text!r} is not an index: {text[at]!r}", column=at, hint=_INDEX_HINT)
    try:
        tree = ast.parse(f"x[{text}]", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise EditError(f"{text!r} is not an index", hint=_INDEX_HINT) from None
    if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
        raise EditError(f"{text!r} is not an index", hint=_INDEX_HINT)
    parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    place = tuple(_part(element, text) for element in parts)
    try:
        array[place]
    except IndexError:
        raise EditError(f"[{text}] is out of range for shape {shape_words(array.shape)}") from None
    return place


def _part(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Slice):
        parts = [None if bound is None else _number(bound, text)
                 for bound in (node.lower, node.upper, node.step)]  # fmt: skip
        if parts[2] == 0:
            raise EditError("the step of a slice must not be 0")
        return slice(*parts)
    if isinstance(node, ast.Constant) and node.value is Ellipsis:
        return ...
    return _number(node, text)


def _number(node: ast.expr, text: str) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    raise EditError(f"{text!r} is not an index", hint=_INDEX_HINT)
