"""Unit: the work of one kernel, as primitives on values that may be views of memory.

A primitive computes elements (`Map`), sums or the like (`Reduce`), writes a value into a part of
another one's memory (`Place`), multiplies matrices (`Gemm`), or calls a C function
(`FunctionCall`).

Invariant: a value is written before it is read; views are never copied here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from nodescope import ops
from nodescope.engine.codegen.c_backend.expressions import CTYPES, OpExpression, expression
from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Operand

Sizes = tuple[int, ...]
How = Literal["sum", "prod", "max", "min", "any", "all"]


class NoKernel(Exception):
    """Why C cannot compute a node."""


class Val:
    """A value: the place of its elements in the memory of its base.

    Attributes:
        shape: Its shape.
        dtype: NumPy's name for its dtype.
        base: The value whose memory holds it; itself if it has its own.
        strides, offset: Its place in that memory, in elements.
        source: The value with the same elements under another shape.
        loose: Whether it is a number that promotes weakly: in memory it is a double.
    """

    __slots__ = ("base", "dtype", "id", "loose", "offset", "shape", "source", "strides")

    def __init__(
        self,
        number: int,
        shape: Sizes,
        dtype: str,
        base: Val | None = None,
        strides: Sizes | None = None,
        offset: int = 0,
        source: Val | None = None,
        loose: bool = False,
    ) -> None:
        self.id, self.shape, self.dtype = number, shape, dtype
        self.base = base or self
        self.strides = compact(shape) if strides is None else strides
        self.offset, self.source, self.loose = offset, source, loose

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype."""
        return TensorSpec(self.shape, self.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def compact(self) -> bool:
        """Whether its elements are contiguous."""
        return same_strides(self.shape, self.strides, compact(self.shape))

    @property
    def stored(self) -> str:
        """Its C type in memory."""
        if self.loose:
            return "f64"
        return "u8" if self.dtype == "bool" else CTYPES[self.dtype]

    def __repr__(self) -> str:
        return f"v{self.id}"


Arg = Val | bool | int | float


@dataclass(eq=False, slots=True)
class Map:
    """Computes elements from elements."""

    out: Val
    args: tuple[Arg, ...]
    how: OpExpression
    reads: tuple[Val, ...] = ()
    writes: tuple[Val, ...] = ()

    def __post_init__(self) -> None:
        self.reads = tuple([argument for argument in self.args if argument.__class__ is Val])
        self.writes = (self.out,)


@dataclass(eq=False, slots=True)
class Reduce:
    """Reduces elements along axes of its argument, which are absent in ``out``."""

    out: Val
    arg: Val
    axes: Sizes
    how: How
    reads: tuple[Val, ...] = ()
    writes: tuple[Val, ...] = ()

    def __post_init__(self) -> None:
        self.reads, self.writes = (self.arg,), (self.out,)


@dataclass(eq=False, slots=True)
class Place:
    """Writes a value into a part of memory; if ``plus``, 0 is added, as in a sum with zeros."""

    out: Val
    arg: Val
    plus: bool = False
    reads: tuple[Val, ...] = ()
    writes: tuple[Val, ...] = ()

    def __post_init__(self) -> None:
        self.reads, self.writes = (self.arg,), (self.out,)


@dataclass(eq=False, slots=True)
class Gemm:
    """``out = alpha * scale * a @ b``, added to the existing contents if ``add``.

    Attributes:
        scale: A number in memory, or None.
    """

    out: Val
    a: Val
    b: Val
    alpha: float = 1.0
    scale: Val | None = None
    add: bool = False
    reads: tuple[Val, ...] = ()
    writes: tuple[Val, ...] = ()

    def __post_init__(self) -> None:
        self.reads = (self.a, self.b) if self.scale is None else (self.a, self.b, self.scale)
        self.writes = (self.out,)


@dataclass(eq=False, slots=True)
class FunctionCall:
    """Calls a C function.

    Attributes:
        outs: The values that it writes.
        args: The values that it reads; contiguous.
        text: The call: ``{o0}``, ``{i0}`` are pointers to outs and args.
        needs: Names of functions of `helpers` that must be there.
        fails: Whether it returns a number other than 0 if a value is out of range.
    """

    outs: tuple[Val, ...]
    args: tuple[Val, ...]
    text: str
    needs: tuple[str, ...] = ()
    fails: bool = False
    reads: tuple[Val, ...] = ()
    writes: tuple[Val, ...] = ()

    def __post_init__(self) -> None:
        self.reads, self.writes = self.args, self.outs


Prim = Map | Reduce | Place | Gemm | FunctionCall
"""``reads`` are the values among a primitive's operands, ``writes`` its results."""


@dataclass
class Unit:
    """The primitives of one kernel, in order."""

    prims: list[Prim] = field(default_factory=list)
    inputs: list[Val] = field(default_factory=list)
    outputs: list[Val] = field(default_factory=list)
    count: int = 0
    parts: dict[Val, tuple[tuple[Val, Val], ...]] = field(default_factory=dict)

    def fresh(self, shape: Sequence[int], dtype: str, **more: Any) -> Val:
        """A new value with its own memory, if it needs any."""
        if dtype not in CTYPES:
            raise NoKernel(f"{dtype} is no dtype of C")
        self.count += 1
        return Val(self.count, tuple(shape), dtype, **more)

    def input(self, spec: TensorSpec, strides: Sizes | None = None, loose: bool = False) -> Val:
        """A new input."""
        value = self.fresh(spec.shape, spec.dtype, strides=strides, loose=loose)
        self.inputs.append(value)
        return value

    def view(
        self,
        v: Val,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int = 0,
        *,
        same: bool = False,
    ) -> Val:
        """A view of a value's elements; ``same`` says that it has all, in order, perhaps
        repeated.
        """
        return self.fresh(
            shape, v.dtype, base=v.base, strides=tuple(strides), offset=v.offset + offset,
            source=v if same else None, loose=v.loose,
        )  # fmt: skip

    def map(self, name: str, *args: Arg, **attrs: Any) -> Val:
        """An elementwise op. Raises `NoKernel` if C cannot compute it."""
        if name == "add" and self.parts:
            joined = self._put_together(*args)
            if joined is not None:
                return joined
        operands = tuple(
            argument.spec if isinstance(argument, Val) else argument for argument in args
        )
        how, shape = expressed(name, operands, attrs)
        out = self.fresh(shape, how.dtype)
        self.prims.append(Map(out, args, how))
        return out

    def put(self, shape: Sizes, dtype: str, pieces: Sequence[tuple[Val, Val]], *,
            plus: bool = False) -> Val:  # fmt: skip
        """Zeros except for some parts.

        Args:
            pieces: Views of a value of that shape, and their contents.
            plus: Whether 0 is added to the contents, as in a sum of several such values.
        """
        out = self.fresh(shape, dtype)
        moved = tuple((self.view(out, to.shape, to.strides, to.offset), v) for to, v in pieces)
        if sum(to.size for to, _ in pieces) != out.size:
            zeros = self.fill(shape, 0, dtype)
            self.prims.append(Place(self.view(out, shape, out.strides), zeros))
        self.prims += [Place(to, v, plus) for to, v in moved]
        self.parts[out] = moved
        return out

    def _put_together(self, *args: Arg) -> Val | None:
        """The sum of values that are zero except for disjoint parts."""
        first, second = args
        if not isinstance(first, Val) or not isinstance(second, Val):
            return None
        left, right = self.parts.get(first), self.parts.get(second)
        if (
            left is None
            or right is None
            or first.shape != second.shape
            or first.dtype != second.dtype
        ):
            return None
        pieces = (*left, *right)
        if not apart([to for to, _ in pieces], first.shape):
            return None
        return self.put(first.shape, first.dtype, pieces, plus=True)

    def fill(self, shape: Sizes, value: float, dtype: str) -> Val:
        """An array of one number."""
        out = self.fresh(shape, dtype)
        self.prims.append(Map(out, (value,), OpExpression("{0}", (dtype,), dtype, ())))
        return out

    def cast(self, v: Val, dtype: str) -> Val:
        """The value in another dtype."""
        if v.dtype == dtype and not v.loose:
            return v
        return self.map("astype", v, dtype=dtype)

    def dense(self, v: Val) -> Val:
        """The value with contiguous elements."""
        return v if v.compact else self.map("copy", v)

    def reduce(self, how: How, v: Val, axes: Sizes, keepdims: bool, dtype: str) -> Val:
        """A reduction over nonnegative axes."""
        axes = tuple(sorted(axes))
        kept = tuple(1 if i in axes else n for i, n in enumerate(v.shape))
        reduced_shape = tuple(n for i, n in enumerate(v.shape) if i not in axes)
        if all(v.shape[i] == 1 for i in axes):
            if how == "sum" and dtype.startswith("float"):
                v = self.map("add", self.cast(v, dtype), 0.0)  # 0.0 for -0.0, as sums begin at 0
            return self.reshape(self.cast(v, dtype), kept if keepdims else reduced_shape)
        out = self.fresh(kept, dtype)
        self.prims.append(Reduce(out, v, axes, how))
        return out if keepdims else self.reshape(out, reduced_shape)

    def reshape(self, v: Val, shape: Sizes) -> Val:
        """The same elements in another shape; copied if they cannot stay in place."""
        if shape == v.shape:
            return v
        strides = reshaped(v.shape, v.strides, shape)
        if strides is None:
            v = self.map("copy", v)
            strides = compact(shape)
        return self.view(v, shape, strides, same=True)

    def broadcast(self, v: Val, shape: Sizes) -> Val:
        """The value repeated to a shape."""
        if shape == v.shape:
            return v
        lead = len(shape) - len(v.shape)
        strides = (0,) * lead + tuple(
            0 if n == 1 else s for n, s in zip(v.shape, v.strides, strict=True)
        )
        return self.view(v, shape, strides, same=True)

    def transpose(self, v: Val, axes: Sequence[int]) -> Val:
        """The value with its axes in another order."""
        if tuple(axes) == tuple(range(len(v.shape))):
            return v
        return self.view(v, [v.shape[i] for i in axes], [v.strides[i] for i in axes])


_MAPS: dict[Any, tuple[OpExpression, Sizes] | None] = {}


def expressed(
    name: str, operands: tuple[Operand, ...], attrs: Mapping[str, Any]
) -> tuple[OpExpression, Sizes]:
    """An elementwise op's expression and the shape of its result. Raises `NoKernel`."""
    # The key has a scalar's type, sign and value: 1, 1.0 and True are different operands, as are
    # 0.0 and -0.0.
    key: Any = (
        name,
        tuple(operand if isinstance(operand, TensorSpec) else (type(operand), repr(operand))
              for operand in operands),
        tuple(sorted((k, repr(v)) for k, v in attrs.items())),
    )  # fmt: skip
    if key not in _MAPS:
        if len(_MAPS) > 4096:
            _MAPS.clear()
        _MAPS[key] = _expressed(name, operands, attrs)
    expression_ = _MAPS[key]
    if expression_ is None:
        raise NoKernel(f"{name} has no form in C for these dtypes")
    return expression_


def _expressed(
    name: str, operands: tuple[Operand, ...], attrs: Mapping[str, Any]
) -> tuple[OpExpression, Sizes] | None:
    op = ops.get(name)
    how = expression(op, operands, attrs)
    if how is None:
        return None
    out = op.infer(operands, dict(attrs))
    assert isinstance(out, TensorSpec)
    return how, tuple(out.shape)


def apart(parts: Sequence[Val], shape: Sizes) -> bool:
    """Whether parts are ranges along one dimension of a whole, and no two share an element."""
    ranges: list[tuple[int, int]] = []
    along: set[int] = set()
    steps = compact(shape)
    for part in parts:
        if len(part.shape) != len(shape) or not same_strides(part.shape, part.strides, steps):
            return False
        along |= {i for i, (n, m) in enumerate(zip(part.shape, shape, strict=True)) if n != m}
    if len(along) != 1:
        return False
    (axis,) = along
    for part in parts:
        start, rest = divmod(part.offset, steps[axis])
        if rest:
            return False
        ranges.append((start, start + part.shape[axis]))
    ranges.sort()
    return all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))


@lru_cache(maxsize=4096)
def compact(shape: Sizes) -> Sizes:
    """Strides of elements in C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def same_strides(shape: Sizes, first: Sizes, second: Sizes) -> bool:
    """Whether strides address the same elements; strides along sizes of 1 do not count."""
    if first == second or 0 in shape:
        return True
    return all(n == 1 or a == b for n, a, b in zip(shape, first, second, strict=True))


def reshaped(shape: Sizes, strides: Sizes, target: Sizes) -> Sizes | None:
    """The strides of a view in another shape, or None if no view has that shape."""
    if 0 in shape:
        return compact(target)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    new_strides: list[int] = []
    i, left, inner = 0, 1, 0  # of the run of old dimensions that is being split: size, last stride
    for n in target:
        if n == 1:
            new_strides.append(0)
            continue
        if left == 1:
            left, inner = old[i]
            i += 1
        while left % n:
            size, stride = old[i]
            if inner != stride * size:  # no single stride covers both
                return None
            left, inner, i = left * size, stride, i + 1
        left //= n
        new_strides.append(inner * left)
    return tuple(new_strides)
