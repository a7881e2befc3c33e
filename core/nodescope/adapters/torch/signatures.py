"""Signatures: how the arguments and results of an ATen operator map to ports and attributes.

Tensors, and the tensors of lists, are inputs in the order of the schema. All other arguments are
attributes under their names, omitted if they have the default value. If only some of the optional
tensors are given, each missing one is an attribute with the value None. A tensor that is not dense
also has an attribute with its layout. A list of tensors also has an attribute: its length or, if
some of its tensors are missing, a tuple that tells which are present.

A tensor that is overwritten without being read, by ``fill_`` or as the argument ``out``, is not an
input: it has an attribute with its dtype and shape.
Outputs are the returned tensors, followed by the tensors that are written without being returned,
such as the running statistics of batch norm.

Invariant: one `Signature` per overload, made when it is first called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import torch

from nodescope.adapters.torch.compat import constant_of, schema_of
from nodescope.adapters.torch.names import canonical_name, family_of, label_of

Kind = Literal["tensor", "tensors", "plain"]

# Arguments that are written if the flag argument is true, although the schema does not say so.
_UNDECLARED_WRITES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "aten::native_batch_norm": (("running_mean", "running_var"), "training"),
    "aten::cudnn_batch_norm": (("running_mean", "running_var"), "training"),
    "aten::miopen_batch_norm": (("running_mean", "running_var"), "training"),
}
# PyTorch's bookkeeping operators, which compute nothing.
_UNSEEN_NAMESPACES: Final = frozenset({"profiler", "prim", "prims", "debugprims"})
_UNSEEN: Final = frozenset({
    "aten::lift_fresh", "aten::lift", "aten::empty", "aten::empty_like", "aten::empty_strided",
    "aten::empty_permuted", "aten::new_empty", "aten::new_empty_strided", "aten::resize_",
    "aten::set_", "aten::_resize_output_",
    # `as_subclass` makes the Python object of the result, so observing must not make one before.
    "aten::alias",
})  # fmt: skip
# In-place operators that do not read what they overwrite, as is true of any argument ``out``.
_OVERWRITES: Final = frozenset({
    "aten::fill_", "aten::zero_", "aten::copy_", "aten::normal_", "aten::uniform_",
    "aten::random_", "aten::bernoulli_", "aten::exponential_", "aten::geometric_",
    "aten::cauchy_", "aten::log_normal_", "aten::eye_",
})  # fmt: skip
# Argument values that are usual or follow from the result; they are omitted from attributes.
_USUAL: Final[dict[str, tuple[Any, ...]]] = {
    "pin_memory": (False,), "device": ("cpu",), "layout": ("strided",),
    "memory_format": ("preserve_format",), "non_blocking": (False,),
}  # fmt: skip
_TO_THE_END: Final = (1 << 63) - 1
"""The end that Python passes for ``x[1:]``; equals an omitted end in operators in `_SLICES`."""
_SLICES: Final = frozenset({"aten::slice.Tensor", "aten::slice_copy.Tensor"})
_STRIDED: Final = torch.strided
_TENSOR_TYPES: Final = {
    "Tensor": "tensor", "Optional[Tensor]": "tensor",
    "List[Tensor]": "tensors", "List[Optional[Tensor]]": "tensors", "Tensor[]": "tensors",
    "Optional[List[Tensor]]": "tensors",
}  # fmt: skip


class Argument(NamedTuple):
    """An argument of an operator."""

    name: str
    kind: Kind
    default: Any
    written: bool


class Bound(NamedTuple):
    """The arguments of a call.

    Attributes:
        inputs: The tensors, by input port.
        plain: One comparable entry per argument: a plain value as it is; for tensors, which are
            present, and their layout or, if overwritten, their dtype and shape.
        written: The input ports that are written to.
        overwritten: The tensors that are written without being read.
    """

    inputs: tuple[Any, ...]
    plain: tuple[Any, ...]
    written: tuple[int, ...]
    overwritten: tuple[Any, ...] = ()


class Signature:
    """One overload of an operator.

    Attributes:
        native: The operator's full name, such as ``aten::add_.Tensor``.
        op: The canonical name: nodescope's name if it has one for this operation.
        label: The name that users know the operator by.
        family: The op's family, which determines the node's colour.
        unseen: Whether calls are not emitted.
        is_view: Whether it returns a view of an input.
        is_detach: Whether it only detaches a tensor from the autograd graph.
        is_read: Whether the program reads a number from a tensor by it.
        is_seeded: Whether it may draw random numbers.
        overwritten: The indices of arguments that are written without being read.
        returns: The kinds of its results.
        returned: For each result, the index of the argument that is returned as it, or None.
    """

    def __init__(self, function: Any) -> None:
        schema = schema_of(function)
        name = str(schema.name)
        overload = str(schema.overload_name)
        self.native = f"{name}.{overload}" if overload else name
        namespace, _, short = name.partition("::")
        self.op = canonical_name(short if namespace == "aten" else name.replace("::", "."))
        self.label = label_of(short) if namespace == "aten" else self.op
        self.family = family_of(self.op, short)
        self.unseen = namespace in _UNSEEN_NAMESPACES or name in _UNSEEN
        undeclared, self._flag = _UNDECLARED_WRITES.get(name, ((), ""))
        self.arguments = tuple(
            Argument(
                argument.name,
                _kind(argument.type),
                argument.default_value,
                bool(argument.alias_info and argument.alias_info.is_write)
                or argument.name in undeclared,
            )
            for argument in schema.arguments
        )
        written = {
            label: index
            for index, argument in enumerate(schema.arguments)
            if argument.alias_info and argument.alias_info.is_write
            for label in argument.alias_info.before_set
        }
        self.returns: tuple[Kind, ...] = tuple(_kind(result.type) for result in schema.returns)
        self.returned: tuple[int | None, ...] = tuple(
            next(
                (written[label] for label in result.alias_info.before_set if label in written), None
            )
            if result.alias_info
            else None
            for result in schema.returns
        )
        self.is_view = any(
            result.alias_info is not None and not result.alias_info.is_write
            for result in schema.returns
        )
        self.is_detach = short in ("detach", "alias") and namespace == "aten"
        self.is_read = short == "_local_scalar_dense"
        self.is_seeded = torch.Tag.nondeterministic_seeded in function.tags
        overwrites = name in _OVERWRITES
        self.overwritten = frozenset(
            index
            for index, argument in enumerate(self.arguments)
            if argument.written and (argument.name.startswith("out") or (overwrites and not index))
        )
        if not schema.returns and not any(argument.written for argument in self.arguments):
            self.unseen = True
        self._kinds: dict[int, str] = {}
        self._optional = frozenset(
            index
            for index, argument in enumerate(schema.arguments)
            if str(argument.type) == "Optional[Tensor]"
        )

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Bound:
        """Map the arguments of a call to ports and attributes."""
        inputs: list[Any] = []
        plain: list[Any] = []
        written: list[int] = []
        overwritten: list[Any] = []
        count = len(args)
        for index, argument in enumerate(self.arguments):
            if index < count:
                value = args[index]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
            else:
                value = argument.default
            if argument.kind == "plain":
                plain.append(value)
            elif index in self.overwritten and value is not None:
                targets = value if argument.kind == "tensors" else (value,)
                overwritten += targets
                plain.append(tuple([(target.dtype, target.shape) for target in targets]))
            elif argument.kind == "tensor":
                if isinstance(value, torch.Tensor):
                    if argument.written:
                        written.append(len(inputs))
                    inputs.append(value)
                    layout = value.layout
                    plain.append(True if layout is _STRIDED else str(layout))
                else:
                    plain.append(value)
            elif value is None:
                plain.append(None)
            else:
                present = [isinstance(item, torch.Tensor) for item in value]
                if argument.written:
                    written += range(len(inputs), len(inputs) + sum(present))
                inputs += [item for item in value if isinstance(item, torch.Tensor)]
                plain.append(len(present) if all(present) else tuple(present))
        if written and self._flag and not self._flag_of(plain):
            written = []
        return Bound(tuple(inputs), tuple(plain), tuple(written), tuple(overwritten))

    def _flag_of(self, plain: Sequence[Any]) -> bool:
        return any(
            bool(value)
            for argument, value in zip(self.arguments, plain, strict=True)
            if argument.name == self._flag
        )

    def attrs(self, plain: Sequence[Any]) -> dict[str, Any]:
        """The attributes of a call, from `Bound.plain`."""
        attrs: dict[str, Any] = {}
        optional = [value for i, value in enumerate(plain) if i in self._optional]
        ambiguous = any(value is None for value in optional) and any(
            value is not None for value in optional
        )
        for index, (argument, value) in enumerate(zip(self.arguments, plain, strict=True)):
            if index in self.overwritten:
                if value:
                    attrs[argument.name] = tuple(
                        (_encoded(dtype), tuple(shape)) for dtype, shape in value
                    )
                continue
            if argument.kind == "tensor":
                if value is None:
                    if ambiguous:
                        attrs[argument.name] = None
                elif value is not True:
                    attrs[argument.name] = _encoded(value)
            elif argument.kind == "tensors":
                attrs[argument.name] = value
            elif not _same(value, argument.default):
                encoded = _encoded(value)
                to_the_end = encoded == _TO_THE_END and self.native in _SLICES
                if encoded not in _USUAL.get(argument.name, ()) and not to_the_end:
                    attrs[argument.name] = encoded
        return attrs

    def results(self, result: Any) -> tuple[Any, ...]:
        """The returned tensors, by output port."""
        returns = self.returns
        if self.is_read:
            return (torch.as_tensor(result),)
        if len(returns) == 1:
            if returns[0] == "tensor":
                return (result,)
            return tuple(result) if returns[0] == "tensors" else ()
        outputs: list[Any] = []
        for kind, value in zip(returns, result if returns else (), strict=False):
            if kind == "tensor":
                outputs.append(value)
            elif kind == "tensors":
                outputs += value
        return tuple(outputs)

    def kind(self, outputs: int) -> str:
        """The key that separates nodes by overload and number of outputs."""
        kind = self._kinds.get(outputs)
        if kind is None:
            kind = self._kinds[outputs] = f"{self.native}/{outputs}"
        return kind

    def expected_count(self, bound: Bound) -> int:
        """The expected number of returned tensors, before the call; a list of unknown length counts
        as one.
        """
        return self.is_read or sum(
            self._list_length(bound) if kind == "tensors" else 1
            for kind in self.returns
            if kind != "plain"
        )

    def _list_length(self, bound: Bound) -> int:
        named = dict(zip((argument.name for argument in self.arguments), bound.plain, strict=True))
        for argument in self.arguments:
            if argument.kind == "tensors":
                length = named[argument.name]
                return length if isinstance(length, int) else 1
        if not bound.inputs:
            return 1
        sizes, axis = bound.inputs[0].shape, named.get("dim", 0)
        if self.op == "unbind":
            return int(sizes[axis])
        split = named.get("split_size", named.get("split_sizes"))
        if isinstance(split, list | tuple):
            return len(split)
        if isinstance(split, int) and split > 0:
            return max(1, -(-int(sizes[axis]) // split))
        return 1

    def written_ports(
        self, bound: Bound, returned: int
    ) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
        """The ports that a call writes.

        Args:
            bound: The arguments of the call.
            returned: The number of returned tensors.

        Returns:
            Pairs of output and input port, as in `Node.writes`; and the input ports of written
            tensors that are not returned, which become additional outputs.
        """
        if not bound.written:
            return (), ()
        pairs: list[tuple[int, int]] = []
        paired: set[int] = set()
        if returned and "tensors" not in self.returns:
            # The first input port of an argument, by the argument's index.
            ports: dict[int, int] = {}
            port = 0
            for index, (argument, value) in enumerate(
                zip(self.arguments, bound.plain, strict=True)
            ):
                if argument.kind == "plain" or value is None or index in self.overwritten:
                    continue
                if argument.kind == "tensor" and not (value is True or isinstance(value, str)):
                    continue
                ports[index] = port
                port += 1 if argument.kind == "tensor" else _length(value)
            for output, index_of in enumerate(self.returned):
                if index_of is not None and index_of in ports:
                    pairs.append((output, ports[index_of]))
                    paired.add(ports[index_of])
        extra = tuple(port for port in bound.written if port not in paired)
        pairs += [(returned + nth, port) for nth, port in enumerate(extra)]
        return tuple(pairs), extra


def _length(present: Any) -> int:
    """The number of tensors that are present in a list, from its entry in `Bound.plain`."""
    return present if isinstance(present, int) else sum(present)


_known: dict[Any, Signature] = {}


def signature_of(function: Any) -> Signature:
    """The signature of an overload."""
    known = _known.get(function)
    if known is None:
        known = _known[function] = Signature(function)
    return known


def _kind(type_of: Any) -> Kind:
    return _TENSOR_TYPES.get(str(type_of), "plain")  # type: ignore[return-value]


def _same(value: Any, default: Any) -> bool:
    try:
        return value is default or (type(value) is type(default) and bool(value == default))
    except Exception:
        return False


def _encoded(value: Any) -> Any:
    """An argument as an attribute: numbers and text unchanged, lists as tuples, others as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | complex):
        return value
    if isinstance(value, list | tuple):
        return tuple(_encoded(item) for item in value)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        known = constant_of(value)
        return str(value) if known is None else known
    text = str(value)
    return text.removeprefix("torch.") if text.startswith("torch.") else text
