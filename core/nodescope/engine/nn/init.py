"""Initial weights, each from an explicit NumPy generator.

Invariant: weights depend only on the generator and the numbers of inputs and outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Init = Callable[[np.random.Generator, int, int], Array]
"""Weights of shape (inputs, outputs), where each output sums over this many inputs."""


def he(rng: np.random.Generator, inputs: int, outputs: int) -> Array:
    """Normal weights of variance 2 / inputs, for layers before relu. Shape (inputs, outputs)."""
    return rng.standard_normal((inputs, outputs)) * math.sqrt(2.0 / max(inputs, 1))


def glorot(rng: np.random.Generator, inputs: int, outputs: int) -> Array:
    """Uniform weights of variance 2 / (inputs + outputs). Shape (inputs, outputs)."""
    limit = math.sqrt(6.0 / max(inputs + outputs, 1))
    return rng.uniform(-limit, limit, (inputs, outputs))


def lecun(rng: np.random.Generator, inputs: int, outputs: int) -> Array:
    """Normal weights of variance 1 / inputs. Shape (inputs, outputs)."""
    return rng.standard_normal((inputs, outputs)) * math.sqrt(1.0 / max(inputs, 1))


def orthogonal(rng: np.random.Generator, inputs: int, outputs: int) -> Array:
    """Weights whose rows or columns are orthonormal (Saxe et al., 2014), for recurrent layers."""
    square = rng.standard_normal((max(inputs, outputs), min(inputs, outputs)))
    q, r = np.linalg.qr(square)
    rows: Array = q * np.sign(np.diag(r))  # makes the distribution uniform
    return rows if inputs >= outputs else rows.T


def kernels(
    init: Init, rng: np.random.Generator, outputs: int, inputs: int, size: tuple[int, ...]
) -> Array:
    """Weights of a convolution, (outputs, inputs, *size), drawn by ``init``."""
    fan = inputs * math.prod(size)
    return np.ascontiguousarray(init(rng, fan, outputs).T).reshape(outputs, inputs, *size)
