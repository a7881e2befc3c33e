"""Arguments: rebuilds the arguments of a recorded call of an ATen operator.

Invariant: an argument is built according to its type in the operator's schema. A call with an
argument of another type, or one that needs more than data, is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from nodescope.adapters.torch.compat import schema_of
from nodescope.adapters.torch.signatures import Signature, signature_of
from nodescope.ir.attrs import opaque_in

_NATIVE: Final = re.compile(r"aten::([A-Za-z_][A-Za-z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_]*))?")
_SIMPLE: Final = frozenset(
    {"int", "float", "number", "bool", "str", "List[int]", "List[float]", "List[number]",
     "List[bool]", "List[str]"}
)  # fmt: skip
# Operators that use files, or memory other than their operands'.
_NOT_DATA: Final = frozenset(
    {"from_file", "set_", "set", "record_stream", "_print", "_record_function_enter", "resize_",
     "resize_as_", "_resize_output_", "resize", "_resize_output", "from_blob"}
)  # fmt: skip
_NAMED: Final[dict[str, Any]] = {
    **{
        str(value).removeprefix("torch."): value
        for value in vars(torch).values()
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format)
    },
    **{
        alias: value
        for alias, value in vars(torch).items()
        if isinstance(value, torch.dtype) and alias.islower()
    },
}


class NotTriedError(Exception):
    """The call is not made; the text says why."""


class Call(NamedTuple):
    """A call that can be made.

    Attributes:
        function: The overload.
        signature: Its signature.
        args, kwargs: Its arguments.
    """

    function: Any
    signature: Signature
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> tuple[Any, ...]:
        """Run the call. Returns the outputs by port: those returned, then those only written to."""
        bound = self.signature.bind(self.args, self.kwargs)
        outputs = self.signature.results(self.function(*self.args, **self.kwargs))
        _, extra = self.signature.written_ports(bound, len(outputs))
        return outputs + tuple(bound.inputs[port] for port in extra)


@functools.cache
def function_named(native: str) -> Any:
    """An overload by its full name.

    Raises:
        NotTriedError: It does not exist, is not ATen's, or works on more than data.
    """
    match = _NATIVE.fullmatch(native)
    if match is None:
        raise NotTriedError(f"{native or 'it'} is no operator of ATen")
    name, overload = match[1], match[2] or "default"
    if name in _NOT_DATA:
        raise NotTriedError(f"{native} works on memory or files, not on numbers")
    function = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if not isinstance(function, torch._ops.OpOverload):
        raise NotTriedError(f"PyTorch {torch.__version__} has no operator {native}")
    return function


def call_of(native: str, attrs: Mapping[str, Any], tensors: Sequence[Any]) -> Call:
    """The call of an operator with these attributes and tensors; see `signatures`.

    Raises:
        NotTriedError: They do not fit the schema.
    """
    function = function_named(native)
    signature = signature_of(function)
    schema = schema_of(function)
    missing = _missing(schema, signature, attrs, len(tensors))
    waiting = iter(tensors)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    try:
        for declared, argument in zip(schema.arguments, signature.arguments, strict=True):
            name = argument.name
            value: Any
            if _is_target(attrs.get(name)) and argument.written:
                targets = [_target(item) for item in attrs[name]]
                value = targets if argument.kind == "tensors" else targets[0]
            elif argument.kind == "tensors":
                value = _list(attrs.get(name), waiting)
            elif argument.kind == "tensor":
                value = _tensor(native, name, attrs, missing, waiting)
            elif name in attrs:
                value = _plain(native, name, str(declared.type), attrs[name])
            else:
                value = argument.default
            if declared.kwarg_only:
                kwargs[name] = value
            else:
                args.append(value)
    except StopIteration:
        raise NotTriedError(f"{native} has fewer tensors in the recording than it takes") from None
    if next(waiting, None) is not None:
        raise NotTriedError(f"{native} has more tensors in the recording than it takes")
    return Call(function, signature, tuple(args), kwargs)


def _missing(
    schema: Any, signature: Signature, attrs: Mapping[str, Any], count: int
) -> frozenset[str]:
    """The names of the optional tensors that were not given."""
    present = {
        argument.name
        for argument in signature.arguments
        if argument.kind == "tensor" and argument.name in attrs
    }
    optional = [
        declared.name
        for declared in schema.arguments
        if str(declared.type) == "Optional[Tensor]" and declared.name not in present
    ]
    if not optional:
        return frozenset()
    singles = sum(argument.kind == "tensor" for argument in signature.arguments)
    listed = sum(
        _length(attrs.get(argument.name))
        for argument in signature.arguments
        if argument.kind == "tensors"
    )
    needed = singles - len(present) - len(optional) + listed
    if count == needed + len(optional):
        return frozenset()
    if count == needed:
        return frozenset(optional)
    raise NotTriedError("which of its optional tensors were given is not recorded")


def _tensor(
    native: str, name: str, attrs: Mapping[str, Any], missing: frozenset[str],
    waiting: Iterator[Any],
) -> Any:  # fmt: skip
    if name in missing:
        return None
    if name not in attrs:
        return next(waiting)
    value = attrs[name]
    if isinstance(value, str):
        raise NotTriedError(f"the tensor {name} of {native} was {value}, and is recorded as dense")
    if value is None or isinstance(value, bool | int | float | complex):
        return value
    raise NotTriedError(f"the argument {name} of {native} is not recorded")


def _is_target(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], tuple)


def _target(item: Any) -> Any:
    """A tensor to be overwritten, from its recorded dtype and shape."""
    name, shape = item
    if not isinstance(_NAMED.get(name), torch.dtype) or any(type(n) is not int for n in shape):
        raise NotTriedError("what is overwritten is not recorded")
    return torch.zeros(tuple(shape), dtype=_NAMED[name])


def _length(value: Any) -> int:
    """The number of tensors present in a list argument."""
    if isinstance(value, int):
        return value
    return sum(map(bool, value)) if isinstance(value, tuple) and not _is_target(value) else 0


def _list(value: Any, waiting: Iterator[Any]) -> list[Any] | None:
    if value is None:
        return None
    if isinstance(value, int):
        return [next(waiting) for _ in range(value)]
    return [next(waiting) if there else None for there in value]


def _plain(native: str, name: str, kind: str, value: Any) -> Any:
    """An argument other than a tensor, of the schema's type."""
    optional = kind.startswith("Optional[")
    if optional:
        kind = kind.removeprefix("Optional[").removesuffix("]")
    if value is None:
        return None
    if opaque_in(value) or (kind not in _SIMPLE and kind != "Device"):
        raise NotTriedError(f"the argument {name} of {native} cannot be restored: {value}")
    if isinstance(value, str) and kind != "str":
        if kind == "Device":
            if value in ("cpu", "meta"):
                return torch.device(value)
            raise NotTriedError(f"{native} makes a tensor on {value}")
        if value not in _NAMED:
            raise NotTriedError(f"the argument {name} of {native} is not known: {value}")
        return _NAMED[value]
    return list(value) if isinstance(value, tuple) else value
