"""Script: the operators of a recorded step, in a form with which later steps are compared.

Tensors are identified by the slot of their storage in the script, and their geometry there.
"""

from __future__ import annotations

import functools
import struct
from array import array as array_of
from collections.abc import Sequence
from typing import Any, Final

import torch

from nodescope.adapters.torch.compat import is_zero_tensor
from nodescope.adapters.torch.storages import Geometry

PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
"""The classes of tensors that are compared."""

_EXACT: Final = (
    int, bool, float, str, type(None), torch.dtype, torch.layout, torch.memory_format, torch.device,
    torch.Generator,
)  # fmt: skip
_STRIDED: Final = torch.strided
# NumPy's type characters, as `nodescope.native` takes them; "E" is bfloat16.
_CODES: Final = {
    torch.float32: "f", torch.float64: "d", torch.float16: "e", torch.bfloat16: "E",
    torch.uint8: "B", torch.int8: "b", torch.int16: "h", torch.int32: "i", torch.int64: "q",
    torch.bool: "?",
}  # fmt: skip


class Unsound(Exception):
    """An operator has arguments or results that cannot be compared."""


class Fact:
    """A tensor of an operator.

    Attributes:
        number: The number of its storage when the script was made.
        slot: The slot of its storage.
        offset, shape, strides, dtype: Its geometry in the storage.
        differentiable: Whether it requires a gradient.
        needed, layout: Set once it belongs to a script, see `_in_memory`.
    """

    __slots__ = (
        "differentiable", "dtype", "layout", "needed", "number", "offset", "shape", "slot",
        "strides",
    )  # fmt: skip

    def __init__(self, number: int, tensor: Any) -> None:
        self.number, self.slot = number, -1
        self.offset, self.shape, self.strides = (
            tensor.storage_offset(), tensor.shape, tensor.stride(),
        )  # fmt: skip
        self.dtype, self.differentiable = tensor.dtype, tensor.requires_grad
        self.needed, self.layout = 0, b""

    @property
    def geometry(self) -> Geometry:
        """See `Geometry`."""
        return self.offset, self.shape, self.strides, self.dtype


class Several(tuple[Any, ...]):
    """The expected items of a list that contains tensors."""

    __slots__ = ()


class Numbers(list[Any]):
    """A list that contains floats, which are compared bit by bit."""


class Item:
    """An operator of a step, or the arrival of a parameter's gradient.

    Attributes:
        function: The operator's overload; None for a gradient.
        place: The thread's `Place.mark`.
        before, after: Autograd's sequence number before and after it, relative to the script's
            first.
        node: The relative sequence number of the autograd node being evaluated, or None.
        reported: Whether it is a node of the graph.
        sound: Whether all its arguments and results can be compared.
        names: The names of its keyword arguments.
        given: The expected arguments: each a `Fact`, `Several`, or the value itself.
        returned: The expected result, in the same form.
        inputs, outputs: The facts in ``given`` and in ``returned``.
        seeded, draws: Whether it may draw random numbers, and whether it does.
        leaves: Indices of inputs that are emitted as data before it.
        results: The outputs of the node: indices of ``outputs``, ``-1 - index`` of ``inputs``, or
            None for a number.
        hooked: Indices of inputs that get a gradient hook, with their value ids.
        statistics: The index of its first row of statistics.
        nbytes: The bytes that copies of its values take.
        recording: The number of the recording that it belongs to.
    """

    __slots__ = (
        "after", "before", "draws", "function", "given", "hooked", "inputs", "leaves", "names",
        "nbytes",
        "node", "outputs", "place", "recording", "reported", "results", "returned", "seeded",
        "sound", "statistics",
    )  # fmt: skip

    def __init__(self, function: Any, place: int, recording: int) -> None:
        self.function, self.place, self.recording = function, place, recording
        self.before = self.after = 0
        self.node: int | None = None
        self.reported, self.sound = False, True
        self.seeded = self.draws = False
        self.names: tuple[str, ...] = ()
        self.given: tuple[Any, ...] = ()
        self.returned: Any = None
        self.inputs: list[Fact] = []
        self.outputs: list[Fact] = []
        self.leaves: tuple[int, ...] = ()
        self.hooked: tuple[tuple[int, int], ...] = ()
        self.results: tuple[int | None, ...] = ()
        self.statistics = self.nbytes = 0


class Script:
    """A recorded step with which later steps are compared.

    Attributes:
        items: Its operators, and arrivals of gradients.
        slots: By slot: the number of the storage if it is older than the step, else 0.
        numbers: By slot: the number of the storage, however old it is.
        statistics: The number of rows of statistics, one per output.
        kept: By output: the bytes of the copy of its elements.
        same: By output: the earlier output that has the same elements, see `same_elements`.
    """

    def __init__(self, items: list[Item], before: int) -> None:
        self.items = items
        self.slots: list[int] = []
        self.numbers: list[int] = []
        self.statistics = 0
        slot_of: dict[int, int] = {}
        for item in items:
            for fact in (*item.inputs, *item.outputs):
                slot = slot_of.setdefault(fact.number, len(slot_of))
                if slot == len(self.slots):
                    self.slots.append(fact.number if fact.number <= before else 0)
                    self.numbers.append(fact.number)
                fact.slot = slot
                fact.needed, fact.layout = _in_memory(
                    fact.offset, fact.shape, fact.strides, fact.dtype
                )
            item.statistics = self.statistics
            self.statistics += len(item.leaves) + len(item.results)
        self.kept = [0] * self.statistics
        self.same = [-1] * self.statistics

    def keep(self, nbytes: bytes, aligned: int) -> None:
        """Set how many bytes of each output are copied."""
        self.kept = array_of("q", nbytes).tolist()
        for item in self.items:
            first, end = item.statistics, item.statistics + len(item.leaves) + len(item.results)
            item.nbytes = sum(-(-size // aligned) * aligned for size in self.kept[first:end])


def is_comparable(tensor: Any) -> bool:
    """Whether a tensor is a plain strided tensor on the CPU."""
    return bool(
        tensor.__class__ in PLAIN
        and tensor.layout is _STRIDED
        and tensor.is_cpu
        and not tensor.is_nested
        and not tensor.is_quantized
        and not tensor.is_neg()
        and not tensor.is_conj()
        and not tensor.is_inference()
        and not is_zero_tensor(tensor)
    )


def is_exact(value: Any) -> bool:
    """Whether a non-tensor argument can be compared."""
    if value.__class__ in (list, tuple):
        return all(map(is_exact, value))
    return value.__class__ in _EXACT


def copied(value: Any) -> Any:
    """A non-tensor argument in the form with which later arguments are compared."""
    if value.__class__ not in (list, tuple):
        return value
    kind = Numbers if any(item.__class__ is float for item in value) else list
    return kind(value) if value.__class__ is list or kind is Numbers else value


def varies(expected: Any, value: Any) -> bool | None:
    """Compare a non-tensor argument with the expected one.

    Returns:
        False if they are equal, True if they only differ in numbers, None otherwise.
    """
    kind = expected.__class__
    if kind is Numbers:
        if value.__class__ not in (list, tuple) or len(value) != len(expected):
            return None
        compared = [varies(*pair) for pair in zip(expected, value, strict=True)]
        return None if None in compared else True in compared
    if value.__class__ is not kind:
        return None
    if kind is float:
        return struct.pack("d", expected) != struct.pack("d", value)
    if expected == value:
        return False
    if kind is int:
        return True
    if kind in (list, tuple) and len(value) == len(expected):
        compared = [varies(*pair) for pair in zip(expected, value, strict=True)]
        return None if None in compared else True in compared
    return None


@functools.lru_cache(maxsize=4096)
def _in_memory(
    offset: int, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype
) -> tuple[int, bytes]:
    """The least size in bytes of a tensor's storage, and the tensor's layout for the native core
    (see `layout_of`).
    """
    last = sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    needed = 0 if 0 in shape else (offset + last + 1) * dtype.itemsize
    return needed, layout_of(dtype, shape, strides)


def is_read(dtype: torch.dtype) -> bool:
    """Whether the native core reads elements of a dtype."""
    return dtype in _CODES


def layout_of(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> bytes:
    """A tensor's layout in the form that the native core reads; ``b""`` for other dtypes."""
    code = _CODES.get(dtype)
    if code is None:
        return b""
    size = dtype.itemsize
    steps = [step * size for step in strides]
    return array_of("q", [ord(code), size, len(shape), *shape, *steps]).tobytes()


def facts_of(facts: Sequence[Fact]) -> list[tuple[int, Geometry, bool]]:
    """Facts in the form that `step_script` takes."""
    return [(fact.number, fact.geometry, fact.differentiable) for fact in facts]
