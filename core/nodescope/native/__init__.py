"""The native core: per-array and per-call work of recording in C; without it, Python does the same.

The sources are in ``core/native``. Installing nodescope compiles them if there is a compiler.
``NODESCOPE_NATIVE=0`` switches the core off.

Invariant: results are those of the Python code: counts, extremes and histograms exactly, moments
up to the order of sums.
"""

from __future__ import annotations

import os
import zlib
from array import array as array_of
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np

REVISION: Final = 49
"""Revision of the core's interface; a file built from other sources is not used."""

MOST_BINS: Final = 256

# numpy.dtype.char of the elements that the core reads, and its own code for bfloat16.
_READ: Final = frozenset("?bBhHiIlLqQefd")
_BFLOAT16: Final = ord("E")

Memory = Any  # a buffer that has a length: the core's type of this name, or bytes
HeldArrays = Any  # the type of this name, of the core
Piece = tuple[Memory, int, int, HeldArrays | None]
"""A block of noted outputs, where some of them begin and end in it, and the arrays they hold."""

Statistics = tuple[Any, ...]
"""Low, high, mean, std, norm; counts of NaN, Inf and zeros; histogram and preview."""


def _load() -> tuple[ModuleType | None, str]:
    """The core, and a description of its state."""
    if os.environ.get("NODESCOPE_NATIVE") == "0":
        return None, "off: NODESCOPE_NATIVE is 0"
    try:
        # Belongs to no package: it is compiled, and may be missing.
        core = __import__("nodescope.native._core", fromlist=["summarise"])
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        return None, "not built; statistics take longer" if missing else f"not usable: {error}"
    if core.REVISION != REVISION:
        return None, "of another version; install nodescope again"
    return core, "in use"


_core, STATE = _load()
"""``STATE``: whether the core is in use, or why not."""


def _identities(first: tuple[Any, ...], second: tuple[Any, ...]) -> bytes:
    return array_of("Q", [id(item) for item in (*first, *second)]).tobytes()


identities: Callable[[tuple[Any, ...], tuple[Any, ...]], bytes] = getattr(
    _core, "identities", _identities
)
"""The identities of the items of two tuples, as `id` gives them, uint64 each; computed in each
execution.
"""


Calls: Final[Callable[[tuple[Any, ...], tuple[Any, ...], int], Any] | None] = getattr(
    _core, "Calls", None
)
"""The common case of observed calls; see `nodescope.engine.tracer`. None without a core."""


Plain: Final[Callable[[tuple[Any, ...], Any, Any], Any] | None] = getattr(_core, "Plain", None)
"""Unobserved calls; see `nodescope.engine.run`. None without a core."""


Pull: Final[Callable[[tuple[Any, ...], Any, Any, Any, bool], Any] | None] = getattr(
    _core, "Pull", None
)
"""Reverse mode; see `nodescope.engine.autodiff.tape`. None without a core."""


PollingLock: Final[Callable[[], Any] | None] = getattr(_core, "PollingLock", None)
"""A lock that only a running thread gets; see `nodescope.polling_lock`. None without a core."""


Pauses: Final[Callable[[], Any] | None] = getattr(_core, "Pauses", None)
"""Waits until no execution is noted; see `nodescope.record.host_sampler`. None without a core."""


active_ns: Final[Callable[[int], int | None] | None] = getattr(_core, "active_ns", None)
"""How long a thread, by its number in the system, has been running or ready to run; see
`nodescope.record.host_sampler`. None without a core, and where the system does not report it."""


NotedTimes: Final[Callable[[int, Callable[[], None], Callable[[], None]], Any] | None] = getattr(
    _core, "NotedTimes", None
)
"""Executions noted by their times alone; see `nodescope.record.noted_times`. None without a
core."""


NotedOutputs: Final[Callable[..., Any] | None] = getattr(_core, "NotedOutputs", None)
"""Executions noted with their outputs; see `nodescope.record.noted_outputs`. None without a
core."""


summarise_noted: Final[Callable[..., tuple[Any, ...]] | None] = getattr(
    _core, "summarise_noted", None
)
"""Statistics of noted outputs, in columns. None without a core."""


place_elements: Final[Callable[[tuple[Piece, ...], Any, Any], tuple[int, bytes]] | None] = getattr(
    _core, "place_elements", None
)
"""Where elements of noted outputs would lie in a row, equal ones once. None without a core."""


gather_elements: Final[
    Callable[[tuple[Piece, ...], Any, Any, Any, int], tuple[Memory, bytes]] | None
] = getattr(_core, "gather_elements", None)
"""Elements of noted outputs at these places, and which outputs were written to after they were
noted. None without a core.
"""


def _holds(array: object) -> int:
    """Nothing is held."""
    return 0


holds: Final[Callable[[object], int]] = getattr(_core, "holds", _holds)
"""How many references to an array are held because its elements are to be written."""


def _no_column(numbers: Any, mode: int) -> None:
    """Encodes nothing."""


column: Final[Callable[[Any, int], bytes | None]] = getattr(_core, "column", _no_column)
"""Encodes int64 like `nodescope.record.timed.packing.column`, with mode 1 for differences, plus 2
for runs. None without a core, or for other numbers.
"""


def _no_result(numbers: Any) -> None:
    """Computes nothing."""


column_of_rows: Final[Callable[[Any], bytes | None]] = getattr(_core, "column_of_rows", _no_result)
"""Encodes int64 and uint32 like `nodescope.record.timed.packing.column_of_rows`. None without a
core, or for other numbers.
"""


distinct: Final[Callable[[Any], tuple[bytes, bytes, bytes] | None]] = getattr(
    _core, "distinct", _no_result
)
"""`nodescope.record.timed.packing.distinct` of int64, as bytes. None without a core, or for other
numbers.
"""


step_additions: Final[Callable[..., tuple[bytes, bytes] | None] | None] = getattr(
    _core, "step_additions", None
)
"""What executions add to steps; see `nodescope.record.step_times.step_page`. None without a
core.
"""


narrow_floats: Final[Callable[[Any], bytes | None]] = getattr(_core, "narrow_floats", _no_result)
"""Contiguous float64 as float32 after the byte ``f``. None without a core, or if a number changes.
"""


Writers: Final[Callable[[], Any] | None] = getattr(_core, "Writers", None)
"""Which execution wrote each operand; see `nodescope.record.operand_writers`. None without a
core."""


float_statistics: Final[Any] = getattr(_core, "float_statistics", None)
"""A capsule with the core's function for contiguous float32, for extensions compiled elsewhere.
None without a core.
"""


def _crc32_of_pages(data: memoryview, page: int) -> bytes:
    ends = range(page, len(data) + 1, page)
    return np.array([zlib.crc32(data[end - page : end]) for end in ends], dtype="<u4").tobytes()


crc32: Final[Callable[[bytes | memoryview, int], int]] = getattr(_core, "crc32", zlib.crc32)
"""`zlib.crc32`, several times as fast where the processor has instructions for it."""


crc32_of_pages: Final[Callable[[memoryview, int], bytes]] = getattr(
    _core, "crc32_of_pages", _crc32_of_pages
)
"""The CRC-32 of each page of the given size in bytes, uint32; a shorter rest is left out."""


fill_row: Final[Callable[[int, int, int, int, int, int, bytes, int], bool] | None] = getattr(
    _core, "fill_row", None
)
"""Fills a row of statistics from elements in memory, as `nodescope.record.blocks` describes it; its
documentation names the arguments. None without a core."""


def in_use() -> bool:
    """Whether statistics are computed by the core."""
    return _core is not None


def statistics(
    array: np.ndarray[Any, Any], bins: int, *, packed: bool = False
) -> Statistics | None:
    """Statistics of an array in one pass over its memory and one for spread and histogram.

    Args:
        array: The array; it is only read.
        bins: Bins of the histogram.
        packed: Whether histogram and preview are bytes, as a recording keeps them.

    Returns:
        The statistics; None without a core, or if it cannot read the array: it is empty, of a dtype
        unknown to the core, or holds numbers whose squares float64 cannot represent.
    """
    dtype = array.dtype
    if _core is None or not array.size or bins > MOST_BINS:
        return None
    if dtype.char in _READ:
        code = ord(dtype.char)
        if not dtype.isnative:
            return None
    elif dtype.name == "bfloat16":
        array, code = array.view(np.uint16), _BFLOAT16
    else:
        return None
    return _core.summarise(array, code, bins, packed)  # type: ignore[no-any-return]
