"""Freed memory: kept by the C library for the next arrays, instead of returned to the system.

By default, glibc maps each large array anew and unmaps it when it is freed, or gives the end of its
heap back, depending on what was freed before: pages that are touched again cost up to a third of a
training step. Other C libraries are left alone.

Invariant: a setting of the user's takes precedence.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

# Numbers of parameters in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
KEPT_BYTES: Final = 256 << 20
"""The most free memory at the end of the heap that is kept."""

MAPPED_BYTES: Final = 32 << 20
"""Arrays from this size on are always mapped anew: the most that glibc accepts."""

_CHOSEN: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep(environment: Mapping[str, str] = os.environ) -> bool:
    """Keep freed memory from now on; return whether the C library does so.

    Args:
        environment: Where the user may have set glibc's own variables.
    """
    is_chosen = any(name in environment for name in _CHOSEN)
    if is_chosen or "glibc.malloc" in environment.get("GLIBC_TUNABLES", ""):
        return False
    function = _mallopt()
    # Either setting ends glibc's own adjustment of both.
    return function is not None and all([
        function(_MMAP_THRESHOLD, MAPPED_BYTES), function(_TRIM_THRESHOLD, KEPT_BYTES)
    ])  # fmt: skip


def _mallopt() -> Any:
    """The function ``mallopt`` of glibc; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (other C libraries do not have it)
        return library.mallopt
    except (OSError, AttributeError):
        return None
