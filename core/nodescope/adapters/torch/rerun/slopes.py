"""Places and slopes: finds the input elements of an output element by running the operator.

An operator that only moves elements runs on their positions. Any other is differentiated by
autograd in double precision: an element matters if its derivative is not zero. Where autograd has
no derivative, as for most backward operators, elements are changed a little (`perturbation`).

Invariant: answers are reproducible; stand-in numbers are drawn with fixed seeds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from nodescope.adapters.torch.rerun.arguments import NotTriedError, call_of
from nodescope.adapters.torch.rerun.perturbation import moved_reads
from nodescope.adapters.torch.rerun.wire import Request
from nodescope.events import Array

MOST_ELEMENTS: Final = 1 << 22
"""The largest number of input elements of a request; beyond it, the request is refused."""
_UNKNOWN: Final = re.compile(
    r"respect to argument '(\w+)'|the derivative for '(?:\w+ )?(\w+)' is not implemented"
)
# Autograd differentiates these through the statistics, which here are inputs of their own.
_MOVED: Final = frozenset({"aten::native_layer_norm_backward", "aten::native_batch_norm_backward"})
NO_DERIVATIVE: Final = -1
"""In place of positions: the input has integers or booleans."""
_FLOATING: Final = frozenset(
    {"float16", "bfloat16", "float32", "float64", "half", "float", "double"}
)


def places(request: Request, attrs: dict[str, Any], tensors: Sequence[Any]) -> Array:
    """For each element of an output, the number of the input element that it is, counted through
    all inputs that do not select; -1 where it is none.
    """
    _check_size(tensors)
    native = request.native
    if native == "aten::_reshape_alias":  # its strides refer to the recorded memory
        native, attrs = "aten::reshape", {"shape": attrs.get("size", ())}
    slopes = []
    total = sum(tensor.numel() for tensor in tensors)
    for shift in (0, total):
        start = 0
        operands = []
        for port, tensor in enumerate(tensors):
            if port in request.kept:
                operands.append(tensor)
                continue
            numbers = torch.arange(start, start + tensor.numel(), dtype=torch.float64) + shift
            operands.append(_laid_like(numbers.reshape(tensor.shape), tensor))
            start += tensor.numel()
        with torch.inference_mode():
            outputs = call_of(native, _doubled(attrs), operands).run()
        slopes.append(outputs[request.port].to(torch.int64).reshape(-1).numpy())
    moved: Array = np.where(slopes[1] - slopes[0] == total, slopes[0], -1)
    return moved


def slopes(request: Request, attrs: dict[str, Any], tensors: Sequence[Any]) -> list[Array]:
    """The derivatives of one output element; see `Request` and `Reply`."""
    _check_size(tensors)
    attrs = _doubled(attrs)
    least = "min" in request.native
    operands = [
        _stand_in(tensor, port, port in request.kept, least) for port, tensor in enumerate(tensors)
    ]
    for port in request.pair:
        ones = torch.ones(tensors[port].shape, dtype=torch.float64)
        operands[port] = ones.requires_grad_()
    derivatives, moved = _derivatives(request, attrs, operands)
    results: list[Array] = []
    for number, (operand, derivative) in enumerate(zip(operands, derivatives, strict=True)):
        if number in moved:
            at = moved_reads(request, attrs, operands, number)
            results += [at, np.full(at.size, np.nan)]
        elif not operand.requires_grad:
            results += [np.full(1, NO_DERIVATIVE), np.zeros(1)]
        else:
            at = np.zeros(0, np.int64) if derivative is None else np.flatnonzero(derivative)
            weights = np.zeros(0) if derivative is None else derivative[at]
            results += [at.astype(np.int64), weights.real.astype(np.float64)]
    if request.pair:
        results.append(_partners(request, attrs, operands, results[2 * request.pair[0]]))
    return results


def _partners(request: Request, attrs: Mapping[str, Any], operands: list[Any], at: Array) -> Array:
    """For each element of the pair's first input, the element of the second that multiplies it."""
    first, other = request.pair
    numbers = torch.arange(1, operands[other].numel() + 1, dtype=torch.float64)
    operands = list(operands)
    operands[other] = numbers.reshape(operands[other].shape).requires_grad_()
    codes = _derivatives(request, attrs, operands)[0][first]
    if codes is None:
        return np.full(at.size, -1)
    partners: Array = np.rint(codes[at].real).astype(np.int64) - 1
    return partners


def _derivatives(
    request: Request, attrs: Mapping[str, Any], operands: Sequence[Any]
) -> tuple[list[Array | None], frozenset[int]]:
    """The derivatives by input, None for inputs without one; and the numbers of the floating inputs
    whose derivatives autograd does not know.
    """
    floating = [number for number, tensor in enumerate(operands) if tensor.requires_grad]
    none: list[Array | None] = [None] * len(operands)
    excluded: set[int] = set()
    while request.native not in _MOVED and len(excluded) < len(floating):
        try:
            return _differentiated(request, attrs, operands, excluded), frozenset(excluded)
        except RuntimeError as error:  # NotImplementedError is one
            named = _UNKNOWN.search(str(error))
            number = named and _number_of(request, attrs, operands, named[1] or named[2])
            if number is None or number in excluded:
                break
            excluded.add(number)
    if not floating:
        raise NotTriedError("it has no derivative")
    return none, frozenset(floating)


def _number_of(
    request: Request, attrs: Mapping[str, Any], operands: Sequence[Any], name: str
) -> int | None:
    """The number of the input that is the argument of this name."""
    call = call_of(request.native, attrs, operands)
    for argument, value in zip(
        call.signature.arguments, (*call.args, *call.kwargs.values()), strict=True
    ):
        if argument.name == name:
            return next((n for n, tensor in enumerate(operands) if tensor is value), None)
    return None


def _differentiated(
    request: Request, attrs: Mapping[str, Any], operands: Sequence[Any], excluded: set[int]
) -> list[Array | None]:
    inputs = [
        tensor
        for number, tensor in enumerate(operands)
        if tensor.requires_grad and number not in excluded
    ]
    with torch.enable_grad():
        taken = [
            tensor.detach().clone()
            if number in excluded
            else tensor.clone()
            if tensor.requires_grad
            else tensor
            for number, tensor in enumerate(operands)
        ]
        output = call_of(request.native, attrs, taken).run()[request.port]
        element = output.reshape(-1)[request.position]
        if not element.requires_grad:
            raise RuntimeError("the output has no derivative")
        parts = [element.real, element.imag] if element.is_complex() else [element]
        grads: list[Any] = [None] * len(inputs)
        for part in parts:
            some = torch.autograd.grad(part, inputs, retain_graph=True, allow_unused=True)
            grads = [_added(old, new) for old, new in zip(grads, some, strict=True)]
    waiting = iter(grads)
    derivatives: list[Array | None] = []
    for number, tensor in enumerate(operands):
        grad = next(waiting) if tensor.requires_grad and number not in excluded else None
        flat = None if grad is None else grad.detach().reshape(-1).resolve_conj()
        derivatives.append(None if flat is None else flat.resolve_neg().numpy())
    return derivatives


def _added(old: Any, new: Any) -> Any:
    """Combine two parts' gradients so that the result is zero only where both are."""
    if old is None or new is None:
        return old if new is None else new
    return old.abs() + new.abs()


def _stand_in(tensor: Any, port: int, kept: bool, least: bool) -> Any:
    """Numbers in place of an input: positive where possible, as a variance must be."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    if kept:
        # NaN wins both the maximum and the minimum.
        nan = -1e300 if least else 1e300
        numbers = torch.nan_to_num(tensor.to(wide), nan=nan, posinf=1e290, neginf=-1e290)
        return numbers.detach().clone().requires_grad_()
    rng = np.random.default_rng(port + 1)
    real = torch.from_numpy(rng.uniform(0.3, 0.9, tuple(tensor.shape)))
    if tensor.is_complex():
        real = torch.complex(real, torch.from_numpy(rng.uniform(0.1, 0.7, tuple(tensor.shape))))
    return _laid_like(real, tensor).requires_grad_()


def _laid_like(numbers: Any, tensor: Any) -> Any:
    """The numbers in a tensor with the strides of another, since a view depends on them."""
    laid = torch.empty_strided(tensor.shape, tensor.stride(), dtype=numbers.dtype)
    return laid.copy_(numbers) if _is_dense(tensor) else numbers.contiguous()


def _is_dense(tensor: Any) -> bool:
    return all(
        stride > 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1
    )


def _doubled(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes with float64 in place of other floating dtypes."""
    return {
        name: "float64" if isinstance(value, str) and value in _FLOATING else value
        for name, value in attrs.items()
        if name != "half_to_float"
    }


def _check_size(tensors: Sequence[Any]) -> None:
    if sum(tensor.numel() for tensor in tensors) > MOST_ELEMENTS:
        raise NotTriedError(f"it has more than {MOST_ELEMENTS:,} elements")
