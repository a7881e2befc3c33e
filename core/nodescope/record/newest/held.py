"""Held: the outputs of one execution, held in memory until they are written or dropped."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

ENTRY_BYTES: Final = 512
"""The bytes that each one counts in addition to its arrays."""


class Held(NamedTuple):
    """The outputs of one execution, copied.

    Attributes:
        outputs: Arrays by value. For arrays of other libraries, their captures, which are resolved
            before they are written.
        layouts: Strides of the arrays that are not in C order.
        attrs: Attributes as in `NodeFinished`, if not recorded yet.
        summarised: Whether their statistics are recorded, or will be.
    """

    seq: int
    step: int
    outputs: tuple[tuple[int, Any], ...]
    nbytes: int
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    attrs: dict[str, Any] | None = None
    summarised: bool = True
