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
"""Kinds of steps: takes ``out=``; copies or converts; puts operands beside each other among zeros;
writes over its first operand; makes a view; any function."""

MADE = (INTO, COPY, PUT)
"""Kinds that can be told where their result goes."""

Box = tuple[slice, ...]


class ProgramArray:
    """An array of a program, as it was when the program was observed.

    Attributes:
        id: Unique in the program.
        array: While the program is observed, the array (or Python float) itself.
        shape, dtype, strides: Its layout; strides None for a Python number.
        roots: Whose memory it may share; itself if it was made in memory of its own.
        loop: The loop whose body makes it, None outside of loops.
        boxes: Which values it holds, and where; elsewhere it is 0. None if it is not made so.
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
        """Whether it is a number of NumPy's own that planned memory can hold, densely."""
        return self.dtype is not None and self.dtype.kind in "biufc" and dense(self)

    @property
    def contiguous(self) -> bool:
        """Whether its elements stand in C order without gaps."""
        return self.strides is not None and self.strides == c_strides(self.shape, self.dtype)


@dataclass(eq=False, slots=True)
class Step:
    """One call.

    Attributes:
        kind: How it gives its result.
        fn: What is called.
        text: Its name in the generated text; for a view the expression, with ``{0}`` for what is
            viewed.
        args: Values, and Python numbers or arrays that are constants.
        keywords: Further arguments.
        outs: What it makes.
        elementwise: Element i of the result depends on elements i of the operands only.
        several: Gives a tuple.
        unsure: The layout of what it gives depends on more than layouts.
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
        number: The how-many-th node that runs.
        title: What the text says of it.
        steps: In order; loops among them.
        outs: The node's outputs.
        whole: Nothing but elementwise steps, which may run tile by tile.
    """

    number: int
    title: str
    steps: list[Step | Loop] = field(default_factory=list)
    outs: tuple[ProgramArray, ...] = ()
    whole: bool = False


@dataclass(eq=False)
class Loop:
    """A scan whose body is steps, too.

    Attributes:
        length: Iterations.
        backwards: Whether it goes from the last row to the first.
        start: The carries before the first iteration.
        carries: The carries at the begin of an iteration.
        columns: What is gone along, whole.
        rows: Its row in an iteration.
        steps: Of one iteration.
        ends: The carries at the end of an iteration.
        results: What is stacked, in an iteration.
        finals: The carries after the last iteration.
        stacks: The stacked results.
        peeled: Runs the first iteration by itself, since its carries have another layout.
        reads: Values from outside that an iteration reads.
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
        """What it makes."""
        return (*self.finals, *self.stacks)

    @property
    def unsure(self) -> bool:
        """Whether a step is."""
        return any(step.unsure for step in self.steps)

    @property
    def reads(self) -> list[ProgramArray]:
        """What it takes from outside."""
        inner = [v for step in self.steps for v in step.reads if v.loop is not self]
        return [*self.start, *self.columns, *self.around, *inner, *self._outer_ends()]

    def _outer_ends(self) -> list[ProgramArray]:
        return [end for end in (*self.ends, *self.results) if end.loop is not self]


def c_strides(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """The strides of an array in C order, as NumPy gives them to a fresh one."""
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
    """Whether two values have one dtype, shape and strides."""
    return (
        first.dtype == other.dtype and first.shape == other.shape and first.strides == other.strides
    )


def disjoint(boxes: Sequence[Box]) -> bool:
    """Whether no element lies in two of them; steps are 1."""
    return all(
        any(a.stop <= b.start or b.stop <= a.start for a, b in zip(first_slice, other, strict=True))
        for first_slice, other in itertools.combinations(boxes, 2)
    )


def volume(box: Box) -> int:
    """How many elements a box has."""
    return math.prod(max(slice_.stop - slice_.start, 0) for slice_ in box)


def boxed(fn: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands of a ufunc, Python numbers replaced by what its loop makes of them.

    A NumPy scalar is taken a third faster. What would change by it stays as it is.
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
    # Only where a strong scalar of that dtype leaves the promotion as it is.
    if number.__class__ not in (bool, int, float) or dtype not in kinds or dtype.kind not in "iuf":
        return number
    try:
        with np.errstate(all="ignore"):
            converted = dtype.type(number)
    except (OverflowError, ValueError):
        return number
    if dtype.kind == "f":
        # Whole numbers may be too large for NumPy to ask about; they are finite.
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
    """What an impl gives, as arrays."""
    return tuple(map(np.asarray, result)) if result.__class__ is tuple else (np.asarray(result),)
