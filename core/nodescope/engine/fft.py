"""`nodescope.fft`: Fourier transforms, under the names of the array API and of `numpy.fft`.

Invariant: this module only provides names, and frequencies, which are constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.autodiff.grad import constant
from nodescope.engine.numpy_functions.fft import (
    fft,
    fft2,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from nodescope.engine.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`'s output for a sample spacing of ``d``."""
    return constant(np.fft.fftfreq(n, d), dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`'s output for a sample spacing of ``d``."""
    return constant(np.fft.rfftfreq(n, d), dtype)
