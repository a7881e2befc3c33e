"""Kernel: ``summary.cu``, compiled by NVRTC for a device and a dtype, and its arguments.

Compiled kernels are cached beside the native tap.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import struct
from collections.abc import Sequence
from ctypes import c_char_p, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Final

import torch

from nodescope.adapters.torch.native_tap.building import cache_folder
from nodescope.errors import ArrayError

SOURCE: Final = Path(__file__).with_name("summary.cu")
THREADS: Final = 512
_MOST_BLOCKS: Final = 1024
_ALONE: Final = 16_384
"""Up to this many elements, one block is as fast as several that have to synchronise."""
_DIMS: Final = 8
_PREVIEW: Final = 8
CODES: Final = {
    torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3, torch.uint8: 4,
    torch.bool: 4, torch.int8: 5, torch.int16: 6, torch.int32: 7, torch.int64: 8,
}  # fmt: skip
"""The value of the macro ``DTYPE`` by dtype."""
_LAYOUT: Final = struct.Struct(f"<{6 + 2 * _DIMS + _PREVIEW}q")


def blocks_for(count: int, multiprocessors: int) -> int:
    """The number of blocks for ``count`` elements; all are resident on the device at once."""
    if count <= _ALONE:
        return 1
    return max(1, min(-(-count // (8 * THREADS)), most_blocks(multiprocessors)))


def most_blocks(multiprocessors: int) -> int:
    """The number of blocks that are certain to be resident on the device at once."""
    return min(2 * multiprocessors, _MOST_BLOCKS)


def arguments(tensor: Any, scratch: int, row: int) -> bytes | None:
    """The kernel's arguments, as ``Given`` of ``summary.cu``; None if it has too many axes.

    Args:
        tensor: A strided tensor, of a dtype in `CODES`.
        scratch: The address of its scratch memory.
        row: The address of the row of statistics.
    """
    sizes, strides, count = tensor.shape, tensor.stride(), tensor.numel()
    first: list[int] = []
    for nth in range(min(_PREVIEW, count)):
        at = 0
        for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
            nth, index = divmod(nth, size)
            at += index * stride
        first.append(at)
    axes = [(count, 1)] if tensor.is_contiguous() else merged(sizes, strides)
    if len(axes) > _DIMS:
        return None
    more = (0,) * (_DIMS - len(axes))
    return _LAYOUT.pack(
        tensor.data_ptr(), scratch, row, count, len(axes), len(first),
        *(size for size, _ in axes), *more, *(stride for _, stride in axes), *more,
        *first, *(0,) * (_PREVIEW - len(first)),
    )  # fmt: skip


def merged(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The fewest axes that reach the same elements, outermost in memory first."""
    axes: list[tuple[int, int]] = []
    for stride, size in sorted(
        ((stride, size) for size, stride in zip(sizes, strides, strict=True) if size != 1),
        reverse=True,
    ):
        if axes and axes[-1][1] == stride * size:
            axes[-1] = (axes[-1][0] * size, stride)
        else:
            axes.append((size, stride))
    return axes or [(1, 1)]


def compiled(capability: tuple[int, int], code: int) -> bytes:
    """The kernel for devices of a compute capability.

    Raises:
        ArrayError: NVRTC is missing, or rejects the source.
    """
    source = SOURCE.read_bytes()
    options = (
        f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode(),
        b"-DDTYPE=%d" % code, b"-default-device",
    )  # fmt: skip
    key = hashlib.sha256(repr((source, options, torch.version.cuda)).encode()).hexdigest()[:16]
    kept = cache_folder() / "cuda" / f"summary-{key}.cubin"
    with contextlib.suppress(OSError):
        return kept.read_bytes()
    image = _compile(source, options)
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")
        made.write_bytes(image)
        made.replace(kept)
    return image


def _compile(source: bytes, options: Sequence[bytes]) -> bytes:
    try:
        library = ctypes.CDLL(f"libnvrtc.so.{(torch.version.cuda or '').split('.')[0]}")
    except OSError as error:
        raise ArrayError(f"the kernel for statistics cannot be compiled: {error}") from error
    program, size = c_void_p(), c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"summary.cu", 0, None, None)
    given = (c_char_p * len(options))(*options)
    try:
        failed = library.nvrtcCompileProgram(program, len(options), given)
        if failed:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            text = log.value.decode(errors="replace").strip().partition("\n")[0]
            raise ArrayError(f"the kernel for statistics cannot be compiled: {text or failed}")
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, image)
        return image.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
