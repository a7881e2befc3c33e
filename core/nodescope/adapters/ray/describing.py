"""Describing: converts values of a Ray program to `Content` for sending, and back.

Numbers, arrays, tensors and flat lists of numbers have elements; everything else is described by a
text. No ``__repr__`` or ``__array__`` of the user's is called.

Invariant: a described value is not changed, and an edited value is of the class of the original.
"""

from __future__ import annotations

import dataclasses
import linecache
import reprlib
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from nodescope.adapters.ray.wire import Content
from nodescope.arrays import dtype_name
from nodescope.events import Array
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import SourceLocation
from nodescope.protocol import Frame
from nodescope.record.summary import summarise

_NUMERIC: Final = "biufc"
_NUMBERS: Final = (bool, int, float, complex)
_LONGEST_LIST: Final = 10_000
_DEEPEST: Final = 6
_MOST_PARTS: Final = 20_000
_MOST_TEXT: Final = 200


class _Text(reprlib.Repr):
    """The text of plain Python objects; other objects are shown by their class."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 8
        self.maxlevel = 4

    def repr1(self, x: Any, level: int) -> str:
        """As in the base class, without calling user code."""
        kind = type(x)
        if kind in (str, bytes, int, list, tuple, dict, set, frozenset):
            return super().repr1(x, level)
        if kind in (float, bool, complex, type(None)):
            return repr(x)
        if kind is np.ndarray:
            return f"array({dtype_name(x.dtype)}, {x.shape})"
        if isinstance(x, np.generic):
            return str(x)
        if isinstance(x, type) or callable(x):
            return getattr(x, "__name__", None) or kind.__name__
        return f"<{kind.__name__}>"


_text = _Text()


def text_of(value: Any) -> str:
    """A short text for a value."""
    try:
        return _text.repr(value)[:_MOST_TEXT]
    except Exception:  # a container that changes meanwhile
        return f"<{type(value).__name__}>"


def elements_of(value: Any, *, arrays: bool = True) -> Array | None:
    """The elements of a value, which may share its memory; None if it has none.

    Without ``arrays``, a tensor's elements are not fetched: only shape and dtype are right.
    """
    kind = type(value)
    if kind is np.ndarray:
        return value if value.dtype.kind in _NUMERIC else None
    if kind in _NUMBERS or isinstance(value, np.generic):
        array = np.asarray(value)
        return array if array.dtype.kind in _NUMERIC else None
    if kind in (list, tuple) and 0 < len(value) <= _LONGEST_LIST:
        first = type(value[0])
        if first in _NUMBERS and all(type(item) is first for item in value):
            array = np.asarray(value)
            return array if array.dtype.kind in _NUMERIC else None
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        try:
            if not arrays and value.layout is torch.strided:  # a copy would wait for the device
                nothing = torch.empty((), dtype=value.dtype, device="cpu").numpy()
                return np.broadcast_to(nothing, tuple(value.shape))
            array = value.detach().cpu().numpy()
        except Exception:  # sparse, or of a dtype that NumPy lacks
            return None
        return array if array.dtype.kind in _NUMERIC else None
    return None


def describe(value: Any, inline: int, *, arrays: bool = True) -> Content:
    """The content of a value: its elements up to ``inline`` bytes, else their statistics.

    Without ``arrays``, only its class, shape and dtype.
    """
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    array = elements_of(value, arrays=arrays)
    if array is None:
        return Content(name, text=text_of(value) if arrays else "")
    data = summary = None
    if not arrays:
        pass
    elif array.nbytes <= inline:
        data = array.tobytes()
    else:
        summary = summarise(array)
    return Content(name, array.shape, dtype_name(array.dtype), array.nbytes, data, summary)


def described(array: Array) -> Content:
    """The content of an edited value's new elements."""
    data = np.ascontiguousarray(array).tobytes()
    return Content("", array.shape, dtype_name(array.dtype), array.nbytes, data)


def array_of(content: Content) -> Array | None:
    """A copy of the elements in a content; None if they were not sent."""
    if content.data is None:
        return None
    dtype = as_dtype(content.dtype)
    return np.frombuffer(bytearray(content.data), dtype).reshape(content.shape)


def restored(original: Any, content: Content) -> Any:
    """New elements as a value of the original's class."""
    array = array_of(content)
    if array is None:
        return original
    kind = type(original)
    if kind in _NUMBERS:
        return kind(array.item())
    if kind in (list, tuple):
        return kind(array.tolist())
    if isinstance(original, np.generic):
        return array[()]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(original, torch.Tensor):
        new = torch.from_numpy(array.copy()).to(original.device)
        return new.requires_grad_(original.requires_grad) if original.is_leaf else new
    return array


def references_in(value: Any, kind: type) -> Iterator[Any]:
    """The instances of ``kind`` in a value, also within containers and dataclasses."""
    left = [_MOST_PARTS]

    def walk(part: Any, depth: int) -> Iterator[Any]:
        left[0] -= 1
        if left[0] < 0 or depth > _DEEPEST:
            return
        if isinstance(part, kind):
            yield part
        elif isinstance(part, list | tuple | set | frozenset):
            # Plain values of a single type, such as numbers, contain no references.
            if part and type(next(iter(part))) in (int, float, str, bytes, bool):
                kinds = set(map(type, part))
                if len(kinds) == 1:
                    return
            for item in part:
                yield from walk(item, depth + 1)
        elif isinstance(part, dict):
            for item in part.values():
                yield from walk(item, depth + 1)
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            for field in dataclasses.fields(part):
                yield from walk(getattr(part, field.name, None), depth + 1)

    try:
        yield from walk(value, 0)
    except RuntimeError:  # a container that changes meanwhile
        return


def stack_of(
    raised: tuple[tuple[str, int, str], ...], source: SourceLocation | None
) -> tuple[Frame, ...]:
    """The stack of a waiting task: its own frames if it raised, then the line that submitted it."""
    frames = [*raised]
    if source is not None:
        frames.append((source.file, source.line, source.function))
    return tuple(
        Frame(file, line, function, linecache.getline(file, line).strip()[:500])
        for file, line, function in frames
    )
