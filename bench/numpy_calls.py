"""Programs written with NumPy's functions, on small tensors, compared with the same in PyTorch.

On 3 x 3 and 8 x 16 numbers, the figures are mostly the overhead of each call. The rows are the
forward pass with the tape on, and forward and backward pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

import nodescope as ns
from bench.measure import Row, median_ns, paired, ratio

Body = Callable[..., Any]


class Program(NamedTuple):
    """A scalar function of some arrays, for NumPy's functions and for PyTorch's."""

    shapes: tuple[tuple[int, ...], ...]
    numpy: Body
    torch: Body
    must: tuple[float, float] | None = None  # forward, forward and backward


def _mixed(x: Any, w: Any) -> Any:
    h = np.exp(np.matmul(x, w) * 0.1) + x
    h = h - np.max(h, axis=1, keepdims=True)
    h = h / (np.sum(h, axis=1, keepdims=True) + 10.0)
    h = np.transpose(np.reshape(np.reshape(h, (9,)), (3, 3)))
    h = np.where(h > 0, h, h * 0.1)
    h = np.concatenate([h, x], axis=0)[1:4]
    h = np.mean(h, axis=0) + h
    h = h.sum(axis=0) + h[0]
    return h.mean()


def _mixed_torch(x: Any, w: Any) -> Any:
    import torch

    h = torch.exp(torch.matmul(x, w) * 0.1) + x
    h = h - torch.amax(h, dim=1, keepdim=True)
    h = h / (torch.sum(h, dim=1, keepdim=True) + 10.0)
    h = torch.transpose(torch.reshape(torch.reshape(h, (9,)), (3, 3)), 0, 1)
    h = torch.where(h > 0, h, h * 0.1)
    h = torch.cat([h, x], dim=0)[1:4]
    h = torch.mean(h, dim=0) + h
    h = h.sum(dim=0) + h[0]
    return h.mean()


_GRU_STEPS: Final = 10


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _gru(x: Any, w: Any, u: Any, b: Any) -> Any:
    h = np.tanh(x[0] * 0.0)
    for step in range(_GRU_STEPS):
        gates = np.matmul(x[step], w) + b
        more = np.matmul(h, u)
        update = _sigmoid(gates[:, :16] + more[:, :16])
        reset = _sigmoid(gates[:, 16:32] + more[:, 16:32])
        new = np.tanh(gates[:, 32:] + reset * more[:, 32:])
        h = (1.0 - update) * new + update * h
    return np.mean(h)


def _gru_torch(x: Any, w: Any, u: Any, b: Any) -> Any:
    import torch

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + torch.exp(-x))

    h = torch.tanh(x[0] * 0.0)
    for step in range(_GRU_STEPS):
        gates = torch.matmul(x[step], w) + b
        more = torch.matmul(h, u)
        update = sigmoid(gates[:, :16] + more[:, :16])
        reset = sigmoid(gates[:, 16:32] + more[:, 16:32])
        new = torch.tanh(gates[:, 32:] + reset * more[:, 32:])
        h = (1.0 - update) * new + update * h
    return torch.mean(h)


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    for _ in range(5):
        mean = np.mean(x, axis=-1, keepdims=True)
        centred = x - mean
        spread = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
        x = centred / spread * scale + shift
    return np.sum(x * x)


def _layer_norm_torch(x: Any, scale: Any, shift: Any) -> Any:
    import torch

    for _ in range(5):
        mean = torch.mean(x, dim=-1, keepdim=True)
        centred = x - mean
        spread = torch.sqrt(torch.mean(centred * centred, dim=-1, keepdim=True) + 1e-5)
        x = centred / spread * scale + shift
    return torch.sum(x * x)


def _depthwise(x: Any, kernel: Any) -> Any:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.mean(np.einsum("chwij,cij->chw", windows, kernel) ** 2)


def _depthwise_torch(x: Any, kernel: Any) -> Any:
    import torch

    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    windows = padded.unfold(1, 3, 1).unfold(2, 3, 1)
    return torch.mean(torch.einsum("chwij,cij->chw", windows, kernel) ** 2)


PROGRAMS: Final = {
    "mixed functions, 3 x 3": Program(((3, 3), (3, 3)), _mixed, _mixed_torch, (0.6, 0.6)),
    "GRU, 10 steps of 8 x 16": Program(
        ((10, 8, 16), (16, 48), (16, 48), (48,)), _gru, _gru_torch
    ),
    "layer norm, 5 times 8 x 16": Program(((8, 16), (16,), (16,)), _layer_norm, _layer_norm_torch),
    "depthwise convolution by windows, 8 x 12 x 12": Program(
        ((8, 12, 12), (8, 3, 3)), _depthwise, _depthwise_torch
    ),
}  # fmt: skip


def rows() -> Iterator[Row]:
    """Each program compared with PyTorch's eager mode; the ratio to NumPy is shown too."""
    for name, program in PROGRAMS.items():
        rng = np.random.default_rng(3)
        arrays = [rng.standard_normal(shape).astype(np.float32) * 0.5 for shape in program.shapes]
        yield from _rows(name, program, arrays)


def _rows(name: str, program: Program, arrays: list[Any]) -> Iterator[Row]:
    parameters = [ns.parameter(array.copy(), name=f"x{i}") for i, array in enumerate(arrays)]
    forward: dict[str, Callable[[], object]] = {
        "nodescope": lambda: program.numpy(*parameters),
        "numpy": lambda: program.numpy(*arrays),
    }
    both: dict[str, Callable[[], object]] = {
        "nodescope": lambda: _gradients(parameters, program.numpy(*parameters)),
    }
    if torch := _module("torch"):
        torch.set_num_threads(1)
        torch_arrays = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
        forward["torch"] = lambda: program.torch(*torch_arrays)
        both["torch"] = lambda: _gradients(torch_arrays, program.torch(*torch_arrays))
        for gradient, torch_gradient in zip(both["nodescope"](), both["torch"](), strict=True):  # type: ignore[call-overload]
            np.testing.assert_allclose(
                gradient.numpy(), torch_gradient.numpy(), rtol=1e-3, atol=1e-5
            )
    for what, contenders, limit in (
        ("forward", forward, 0), ("forward and backward", both, 1)
    ):  # fmt: skip
        times = paired(contenders)
        if "torch" not in times:
            yield Row(f"{name}, {what}", "torch", None, detail="torch is not installed")
            continue
        absolute = (f"{peer} {median_ns(times, peer) / 1000:.0f} µs" for peer in times)
        beside = {"numpy": ratio(times, "nodescope", "numpy")} if "numpy" in times else {}
        yield Row(
            f"{name}, {what}",
            "torch",
            ratio(times, "nodescope", "torch"),
            must=program.must[limit] if program.must else None,
            detail=", ".join(absolute),
            beside=beside,
        )


def _gradients(leaves: list[Any], loss: Any) -> list[Any]:
    for leaf in leaves:
        leaf.grad = None
    loss.backward()
    return [leaf.grad for leaf in leaves]


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
