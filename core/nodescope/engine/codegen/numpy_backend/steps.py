"""Steps: a lowered graph as a sequence of NumPy calls.

Invariant: a step describes its call with newly allocated memory; whether it gets planned memory
instead is decided elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nodescope.ops.op import Array

INTO, COPY, PUT, OVER, VIEW, CALL = "into", "copy", "put", "over", "view", "call"
"""Kinds of steps: takes ``out=``; copies or converts; puts operands side by side among zeros;
writes over its first operand; makes a view; any other function.
"""

MADE = (INTO, COPY, PUT)
"""Kinds whose result can be directed to a given place."""

Box = tuple[slice, ...]


class ProgramArray:
    """An array of a program, as observed.

    Attributes:
        id: Unique in the program.
        array: While the program is observed, the array (or Python float) itself.
        shape, dtype, strides: Its layout; strides None for a Python number.
        roots: The arrays whose memory it may share; itself if it has its own memory.
        loop: The loop whose body makes it, None outside of loops.
        boxes: The values that it contains, and their places; it is 0 elsewhere. None if it is not
            made that way.
    """

    __slots__ = ("array", "boxes", "dtype", "id", "loop", "nbytes", "roots", "shape", "strides")

    def __init__(
        self, number: int, array: Any, roots: tuple[ProgramArray, ...] | None, loop: Any
    ) -> None:
        self.id, self.array, self.loop = number, array, loop
        self.boxes: tuple[tuple[Box, ProgramArray], ...] | None = None
        self.roots: tuple[ProgramArray, ...] = (self,) if roots is None else roots
        strides = getattr(array, "strides", None)
        self.strides: tuple[int, ...] | None = strides
        if strides is None:
            self.shape: tuple[int, ...] = ()
            self.dtype: Any = None
            self.nbytes = 0
        else:
            self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes

    @property
    def plain(self) -> bool:
        """Whether it is an array of numbers without gaps, which planned memory can hold."""
        return self.dtype is not None and self.dtype.kind in "biufc" and dense(self)

    @property
    def contiguous(self) -> bool:
        """Whether its elements are in C order without gaps."""
        return self.strides is not None and self.strides == c_strides(self.shape, self.dtype)


@dataclass(eq=False, slots=True)
class Step:
    """A call.

    Attributes:
        kind: How the call gives its result.
        fn: The function called.
        text: Its name in the generated text; for a view, the expression, with ``{0}`` for its base.
        args: Values, and Python numbers or arrays that are constants.
        keywords: Further arguments.
        outs: Its results.
        elementwise: Whether element i of the result depends only on elements i of the operands.
        several: Whether it returns a tuple.
        unsure: Whether the layout of its result depends on more than layouts.
    """

    kind: str
    fn: Callable[..., Any]
    text: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    outs: tuple[ProgramArray, ...]
    elementwise: bool = False
    several: bool = False
    unsure: bool = False

    @property
    def reads(self) -> list[ProgramArray]:
        """The values among its arguments."""
        return [argument for argument in self.args if argument.__class__ is ProgramArray]


@dataclass(eq=False)
class Group:
    """The steps of one node.

    Attributes:
        number: Position of the node among those that run.
        title: Its description in the text.
        steps: Steps and loops, in order.
        outs: The node's outputs.
        whole: Whether all steps are elementwise, so that they may run tile by tile.
    """

    number: int
    title: str
    steps: list[Step | Loop] = field(default_factory=list)
    outs: tuple[ProgramArray, ...] = ()
    whole: bool = False


@dataclass(eq=False)
class Loop:
    """A scan whose body consists of steps as well.

    Attributes:
        length: Iterations.
        backwards: Whether it goes from the last row to the first.
        start: The carries before the first iteration.
        carries: The carries at the beginning of an iteration.
        columns: The whole arrays that it iterates over.
        rows: Their rows in an iteration.
        steps: The steps of one iteration.
        ends: The carries at the end of an iteration.
        results: The values of an iteration that are stacked.
        finals: The carries after the last iteration.
        stacks: The stacked results.
        peeled: Runs the first iteration separately, if its carries have another layout; else None.
        around: Operands from outside that are the same in each iteration.
    """

    length: int
    backwards: bool
    start: tuple[ProgramArray, ...]
    columns: tuple[ProgramArray, ...]
    carries: tuple[ProgramArray, ...] = ()
    rows: tuple[ProgramArray, ...] = ()
    steps: list[Step | Loop] = field(default_factory=list)
    ends: tuple[ProgramArray, ...] = ()
    results: tuple[ProgramArray, ...] = ()
    finals: tuple[ProgramArray, ...] = ()
    stacks: tuple[ProgramArray, ...] = ()
    peeled: Callable[..., Any] | None = None
    around: tuple[ProgramArray, ...] = ()

    @property
    def outs(self) -> tuple[ProgramArray, ...]:
        """The values that it makes."""
        return (*self.finals, *self.stacks)

    @property
    def unsure(self) -> bool:
        """Whether any of its steps is unsure."""
        return any(step.unsure for step in self.steps)

    @property
    def reads(self) -> list[ProgramArray]:
        """The values that it takes from outside."""
        inner = [v for step in self.steps for v in step.reads if v.loop is not self]
        return [*self.start, *self.columns, *self.around, *inner, *self._outer_ends()]

    def _outer_ends(self) -> list[ProgramArray]:
        return [end for end in (*self.ends, *self.results) if end.loop is not self]


def c_strides(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """The strides of an array in C order, as NumPy assigns them to a new one."""
    strides, step = [], dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dense(value: ProgramArray) -> bool:
    """Whether its elements fill its memory without gaps or overlaps, forwards."""
    assert value.strides is not None
    step = value.dtype.itemsize
    for stride, size in sorted(zip(value.strides, value.shape, strict=True)):
        if size == 1:
            continue
        if stride != step:
            return False
        step *= size
    return True


def same_layout(first: ProgramArray, other: ProgramArray) -> bool:
    """Whether two values have the same dtype, shape and strides."""
    return (
        first.dtype == other.dtype and first.shape == other.shape and first.strides == other.strides
    )


def disjoint(boxes: Sequence[Box]) -> bool:
    """Whether no element lies in two boxes; steps are 1."""
    return all(
        any(a.stop <= b.start or b.stop <= a.start for a, b in zip(first_slice, other, strict=True))
        for first_slice, other in itertools.combinations(boxes, 2)
    )


def volume(box: Box) -> int:
    """The number of elements in a box."""
    return math.prod(max(slice_.stop - slice_.start, 0) for slice_ in box)


def boxed(fn: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands of a ufunc, with Python numbers replaced by the scalars that its loop makes of them.

    NumPy converts its own scalars a third faster. Numbers for which the result would change are
    kept.
    """
    if fn.__class__ is not np.ufunc or all(argument.__class__ is ProgramArray for argument in args):
        return args
    kinds = tuple(
        type(argument)
        if argument.__class__ is not ProgramArray
        else argument.dtype or type(argument.array)
        for argument in args
    )
    try:
        loop = fn.resolve_dtypes((*kinds, *(None,) * fn.nout))
    except (TypeError, ValueError):
        return args
    return tuple(
        argument if argument.__class__ is ProgramArray else _box(argument, dtype, kinds)
        for argument, dtype in zip(args, loop, strict=False)
    )


def _box(number: Any, dtype: np.dtype[Any], kinds: tuple[Any, ...]) -> Any:
    # Only if a strong scalar of that dtype leaves the promotion unchanged.
    if number.__class__ not in (bool, int, float) or dtype not in kinds or dtype.kind not in "iuf":
        return number
    try:
        with np.errstate(all="ignore"):
            converted = dtype.type(number)
    except (OverflowError, ValueError):
        return number
    if dtype.kind == "f":
        # Integers may be too large for a NumPy check; they are finite.
        exact = np.isfinite(converted) or (number.__class__ is float and not math.isfinite(number))
        return converted if exact else number
    return converted if converted == number else number


def shared(first: Any, other: Any) -> bool:
    """Whether two arrays may share memory."""
    return (
        isinstance(first, np.ndarray) and isinstance(other, np.ndarray)
        and first.size > 0 and other.size > 0 and bool(np.may_share_memory(first, other))
    )  # fmt: skip


def as_arrays(result: Any) -> tuple[Array, ...]:
    """The result of an impl, as arrays."""
    return tuple(map(np.asarray, result)) if result.__class__ is tuple else (np.asarray(result),)
