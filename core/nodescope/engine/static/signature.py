"""Signature: the properties of arguments that a trace depends on, as a key and as text.

Tensors, arrays and NumPy scalars are dynamic leaves: their shape, dtype and whether they require a
gradient count. Everything else is static, and part of the key by value or by identity.

Invariant: calls with equal keys have the same graph, as far as arguments determine it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.console_output import shape_words
from nodescope.engine.symbolic import Abstract, escaped
from nodescope.engine.tensor import LEAF, Tensor, settled
from nodescope.engine.trees import LEAF as TREE_LEAF
from nodescope.engine.trees import Structure, flatten
from nodescope.errors import UsageError
from nodescope.ir.graph import TensorSpec

Key = Any
PLAIN, WANTS, ASKS, OWN, HELD = range(5)
"""Roles of a tensor argument: data; computed from a tensor that requires a gradient; data that
requires one; a parameter; a parameter or state that requires none. The last two can be assigned to,
so the traced function gets the tensor itself.
"""

_ndarray = np.ndarray


class Same:
    """Stands in a key for an object that is compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def role(tensor: Tensor) -> int:
    """One of `PLAIN`, `WANTS`, `ASKS`, `OWN`, `HELD`."""
    edge = tensor.edge
    is_parameter = getattr(tensor, "_kind", "") == "parameter"
    if edge is None:
        return HELD if is_parameter else PLAIN
    if edge is not LEAF:
        return WANTS
    return OWN if is_parameter else ASKS


def key_of(value: Any, leaves: list[Any]) -> Key:
    """A hashable key that distinguishes calls; dynamic leaves are appended to ``leaves``.

    Raises:
        TraceError: A tensor belongs to a graph that is no longer built.
    """
    kind = value.__class__
    if kind is Tensor:
        leaves.append(value)
        data = value.data
        if data.__class__ is not _ndarray:
            if data.__class__ is Abstract:
                raise escaped(data)
            data.check()  # donated
        edge = value.edge
        if edge is None and getattr(value, "_kind", "") != "parameter":
            return data.shape, data.dtype
        return data.shape, data.dtype, role(value)
    if kind is _ndarray:
        leaves.append(value)
        return value.shape, value.dtype, "array"
    if kind is tuple or kind is list:
        return (kind, *[key_of(item, leaves) for item in value])
    if kind is dict:
        return (dict, tuple(value), *[key_of(item, leaves) for item in value.values()])
    return _other(value, leaves)


def _other(value: Any, leaves: list[Any]) -> Key:
    kind = value.__class__
    if isinstance(value, Tensor):  # written to since
        return key_of(settled(value), leaves)
    if isinstance(value, np.generic):
        leaves.append(value)
        return (), value.dtype, "scalar"
    if isinstance(value, _ndarray):
        leaves.append(value)
        return value.shape, value.dtype, kind
    if isinstance(value, dict):
        return (kind, tuple(value), *[key_of(item, leaves) for item in value.values()])
    if isinstance(value, tuple | list):
        return (kind, *[key_of(item, leaves) for item in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        return (kind, *[key_of(getattr(value, name), leaves) for name in fields])
    return static_key(value)


def static_key(value: Any) -> Key:
    """The key of a static leaf: its value if hashable, else its identity."""
    kind = value.__class__
    if kind is float:
        # 0.0 == -0.0 and nan != nan, but a program may treat them differently.
        return (kind, math.copysign(1.0, value) if value == 0 else "", repr(value))
    if kind is complex:
        return (kind, repr(value))
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return (kind, value)


def required_key(name: str, value: Any) -> Key:
    """The key of an argument named in ``static_argnames``.

    Raises:
        UsageError: The argument cannot be compared by value.
    """
    if isinstance(value, Tensor | _ndarray):
        raise UsageError(
            f"the static argument {name!r} is {_noun(value)}, whose elements cannot be compared",
            hint="remove it from static_argnames, or pass a tuple of numbers",
        )
    try:
        hash(value)
    except TypeError:
        raise UsageError(
            f"the static argument {name!r} is a {type(value).__name__}, which is not hashable",
            hint="pass a tuple, a frozenset or a frozen dataclass",
        ) from None
    return (value.__class__, static_key(value))


def _noun(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else "an array"


# As text


@dataclass(frozen=True, slots=True)
class Argument:
    """One leaf of the arguments.

    Attributes:
        path: Its place: ``params['w']``.
        spec: The spec of a dynamic leaf.
        role: The role of a tensor, see `PLAIN`.
        value: The value of a static leaf.
    """

    path: str
    spec: TensorSpec | None
    role: int | str
    value: Any = None

    def __str__(self) -> str:
        if self.spec is None:
            return f"{self.path}={self.value!r}"
        return f"{self.path}: {self.spec}"


@dataclass(frozen=True, slots=True)
class _Absent:
    """Stands for a released leaf; holds the position of the first leaf with the same object."""

    position: int


@dataclass(frozen=True, slots=True)
class Form:
    """The arguments of one call, taken apart.

    Attributes:
        names: Name of each argument: positional ones first.
        positional: The number of positional arguments.
        structures: The structure of each argument.
        leaves: Every leaf, including static ones, in order.
        arguments: A description of each leaf.
        same: For each leaf, the position of the first that is the same object.
    """

    names: tuple[str, ...]
    positional: int
    structures: tuple[Structure, ...]
    leaves: tuple[Any, ...]
    arguments: tuple[Argument, ...]
    same: tuple[int, ...]

    def forgotten(self, *, everything: bool = False) -> Form:
        """The form without the arrays of its call, and without parameters if requested."""
        leaves = tuple(
            _Absent(self.same[i])
            if argument.spec is not None and (everything or argument.role not in (OWN, HELD))
            else leaf
            for i, (leaf, argument) in enumerate(zip(self.leaves, self.arguments, strict=True))
        )
        return dataclasses.replace(self, leaves=leaves)

    @property
    def dynamic(self) -> list[int]:
        """Positions of the dynamic leaves."""
        return [i for i, argument in enumerate(self.arguments) if argument.spec is not None]


def form_of(
    names: tuple[str, ...], static: frozenset[str], args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Form:  # fmt: skip
    """Take the arguments of a call apart.

    Args:
        names: Names of the positional arguments; further ones are numbered.
        static: Names of arguments that are not taken apart.
    """
    called = [names[i] if i < len(names) else f"args[{i}]" for i in range(len(args))]
    leaves: list[Any] = []
    arguments: list[Argument] = []
    structures = []
    for name, value in [*zip(called, args, strict=True), *sorted(kwargs.items())]:
        inner, structure = ([value], TREE_LEAF) if name in static else flatten(value)
        inner = [settled(leaf) for leaf in inner]
        structures.append(structure)
        leaves.extend(inner)
        arguments.extend(
            _argument(path, v, name in static)
            for path, v in zip(structure.paths(name), inner, strict=True)
        )
    ids = [*map(id, leaves)]
    return Form(
        (*called, *sorted(kwargs)), len(called), tuple(structures), tuple(leaves), tuple(arguments),
        tuple(map(ids.index, ids)),
    )  # fmt: skip


def _argument(path: str, value: Any, static: bool) -> Argument:
    if not static:
        if value.__class__ is Tensor:
            spec = TensorSpec(value.data.shape, value.data.dtype.name)
            return Argument(path, spec, role(value))
        if isinstance(value, _ndarray | np.generic):
            kind = "array" if isinstance(value, _ndarray) else "scalar"
            return Argument(path, TensorSpec(value.shape, value.dtype.name), kind)
    return Argument(path, None, "static", value)


def differences(before: Form, now: Form) -> list[str]:
    """How the arguments of two calls differ, as text, as far as a trace depends on it."""
    old, new = ({argument.path: argument for argument in form.arguments} for form in (before, now))
    lines = [f"{path}: newly given" for path in new if path not in old]
    lines += [f"{path}: no longer given" for path in old if path not in new]
    for path, argument in new.items():
        lines += _difference(old[path], argument) if path in old else []
    reasons = lines
    if not reasons and before.structures != now.structures:
        reasons = ["the containers of the arguments have different types"]
    if not reasons and before.names != now.names:
        reasons = [f"arguments {', '.join(now.names)} instead of {', '.join(before.names)}"]
    if not reasons and before.positional != now.positional:
        first, last = sorted((before.positional, now.positional))
        how = "by name" if now.positional == first else "by position"
        reasons = [f"{', '.join(now.names[first:last])}: given {how} now"]
    return reasons


def _difference(old: Argument, new: Argument) -> list[str]:
    path = new.path
    if old.spec is None and new.spec is None:
        if static_key(old.value) == static_key(new.value):
            return []
        hint = ""
        if isinstance(new.value, int | float | complex) and not isinstance(new.value, bool):
            hint = (
                f" (a Python number is part of the signature: pass "
                f"np.{'float32' if isinstance(new.value, float) else 'int64'}(...) to trace it)"
            )
        return [f"argument {path}: {old.value!r} → {new.value!r}{hint}"]
    reasons = []
    if old.role != new.role:
        reasons.append(f"{path}: {_kind(old)} → {_kind(new)}")
    if old.spec is not None and new.spec is not None:
        if old.spec.shape != new.spec.shape:
            before, after = shape_words(old.spec.shape), shape_words(new.spec.shape)
            reasons.append(f"{path}: shape {before} → {after}")
        if old.spec.dtype != new.spec.dtype:
            reasons.append(f"{path}: dtype {old.spec.dtype} → {new.spec.dtype}")
    return reasons


_ROLES: dict[int | str, str] = {
    PLAIN: "a tensor",
    WANTS: "a tensor computed from one that requires a gradient",
    ASKS: "a tensor that requires a gradient",
    OWN: "a parameter",
    HELD: "a parameter that requires no gradient",
    "array": "a NumPy array",
    "scalar": "a NumPy scalar",
}


def _kind(argument: Argument) -> str:
    return f"the {type(argument.value).__name__} {argument.value!r}" if argument.spec is None else (
        _ROLES[argument.role]
    )  # fmt: skip
