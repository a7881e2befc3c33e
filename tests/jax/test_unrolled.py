"""The contenders of the unrolled GRU compute the same."""

from __future__ import annotations

import numpy as np

from bench import unrolled
from bench.programs.case import BACKENDS, JAX, NUMPY


def test_the_losses_are_the_same() -> None:
    compiled, x = unrolled._ours(4, BACKENDS[NUMPY])
    graded, other = unrolled._jax(4)
    assert np.isclose(float(compiled(x).numpy()), float(graded(other)[0]), rtol=1e-5)
    assert unrolled.measured(JAX, "2")["took"] > 0
