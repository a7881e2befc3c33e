"""Messages between the reader of a recording and the process that runs PyTorch for it.

A message is a length, a MessagePack header, and the memory of arrays. Arrays keep their strides,
since the order in which a kernel sums depends on them.

Invariant: a header is data of fixed types; nothing is evaluated or unpickled. This module does not
import PyTorch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np

from nodescope.events import Array
from nodescope.ir.dtypes import as_dtype

LENGTH: Final = struct.Struct("<Q")
MOST_HEADER_BYTES: Final = 1 << 28

Task = Literal["run", "places", "slopes"]


class ArrayHeader(msgspec.Struct, frozen=True):
    """The layout of an array whose memory follows.

    Attributes:
        dtype: NumPy's name, or ``bfloat16``.
        shape: A size per axis.
        strides: In bytes; none is negative.
        nbytes: The size of the memory from the first element to the last.
        same_as: The number of the earlier array that this one is, sent without memory; else -1.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int
    same_as: int = -1


class Request(msgspec.Struct, frozen=True):
    """A request to the process.

    Attributes:
        task: ``run``: the outputs. ``places``: for each element of the output ``port`` the input
            element that it is, of an operator that only moves elements. ``slopes``: the derivatives
            of one element of an output.
        native: The operator, ``aten::add.Tensor``.
        attrs: Its arguments other than tensors; see `nodescope.ir.attrs.encode`.
        arrays: One per input.
        threads: The number of threads to compute with; 0 for PyTorch's choice.
        port, position: The output, and the element of it, in C order.
        kept: For ``places``, the inputs that select, which are unchanged. For ``slopes``, the
            inputs that keep their values; others get numbers at which no derivative vanishes by
            chance.
        pair: For ``slopes``, two inputs that are multiplied, to find the pairs of their elements.
    """

    task: Task
    native: str
    attrs: bytes
    arrays: tuple[ArrayHeader, ...]
    threads: int = 0
    port: int = 0
    position: int = 0
    kept: tuple[int, ...] = ()
    pair: tuple[int, ...] = ()


class Reply(msgspec.Struct, frozen=True):
    """The answer.

    Attributes:
        arrays: The results. For ``slopes``, by input, the positions with a nonzero derivative and
            the derivatives; then, with `Request.pair`, the partner of each element of the pair's
            first input.
        error: The reason why there are no results, or ``""``.
        refused: Whether ``error`` says why the request was not tried.
    """

    arrays: tuple[ArrayHeader, ...] = ()
    error: str = ""
    refused: bool = False


class Hello(msgspec.Struct, frozen=True):
    """The first message of the process: the version of its PyTorch, or why it has none."""

    version: str = ""
    error: str = ""


def packed(arrays: Sequence[Array]) -> tuple[tuple[ArrayHeader, ...], list[Array]]:
    """The headers of arrays, and the memory of each distinct array as bytes."""
    headers: list[ArrayHeader] = []
    memories: list[Array] = []
    known: dict[int, int] = {}
    for number, array in enumerate(arrays):
        earlier = known.setdefault(id(array), number)
        if earlier != number:
            headers.append(msgspec.structs.replace(headers[earlier], nbytes=0, same_as=earlier))
            continue
        plain = _plain(array)
        memory = _memory(plain)
        headers.append(ArrayHeader(plain.dtype.name, plain.shape, plain.strides, memory.size))
        memories.append(memory)
    return tuple(headers), memories


def _plain(array: Array) -> Array:
    """The array, or a copy if its memory has gaps or runs backwards."""
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    backwards = any(step < 0 for step in steps)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if backwards or (array.size and sum(steps) + array.itemsize > 2 * array.nbytes + 4096):
        return np.array(array)
    return array


def _memory(array: Array) -> Array:
    if not array.size:
        return np.empty(0, np.uint8)
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    first = array[(slice(0, 1),) * array.ndim].reshape(1).view(np.uint8)
    steps = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(
        first, (sum(steps) + array.itemsize,), (1,), writeable=False
    )


def checked(header: ArrayHeader) -> np.dtype[Any]:
    """The dtype of an array, after a check that its layout fits its memory.

    Raises:
        ValueError: The layout does not fit.
    """
    dtype = as_dtype(header.dtype)
    layout = list(zip(header.shape, header.strides, strict=True))
    if any(size < 0 or stride < 0 for size, stride in layout):
        raise ValueError("a negative size or stride")
    extent = sum((size - 1) * stride for size, stride in layout) + dtype.itemsize
    if all(size for size, _ in layout) and extent > header.nbytes:
        raise ValueError("an array that is larger than its memory")
    return dtype


def unpacked(headers: Sequence[ArrayHeader], memories: Sequence[Any]) -> tuple[Array, ...]:
    """The arrays, which use the given memories.

    Raises:
        ValueError: A layout does not fit its memory.
    """
    return tuple(
        np.ndarray(header.shape, checked(header), memory, 0, header.strides)
        if header.nbytes
        else np.empty(header.shape, checked(header))
        for header, memory in zip(headers, memories, strict=True)
    )
