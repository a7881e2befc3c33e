"""SciPy's array API functions on tensors and on arrays; run with SCIPY_ARRAY_API=1.

Invariant: prints one line per function, its name and "same"; anything else is a failure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate, special, stats

import nodescope as ns

DATA = np.linspace(0.1, 2.0, 8) ** 1.5
FUNCTIONS: dict[str, Any] = {
    "special.logsumexp": special.logsumexp,
    "special.softmax": special.softmax,
    "special.log_softmax": special.log_softmax,
    "special.xlogy": lambda x: special.xlogy(x, x),
    "stats.skew": stats.skew,
    "stats.kurtosis": stats.kurtosis,
    "stats.moment": lambda x: stats.moment(x, order=3),
    "stats.gmean": stats.gmean,
    "stats.hmean": stats.hmean,
    "stats.zscore": stats.zscore,
    "stats.describe": lambda x: stats.describe(x).variance,
    "integrate.trapezoid": integrate.trapezoid,
}


def main() -> None:
    """Compare all."""
    for name, function in FUNCTIONS.items():
        result = function(ns.asarray(DATA))
        assert isinstance(result, ns.Tensor), name
        np.testing.assert_allclose(result.numpy(), function(DATA), rtol=1e-10)
        print(name, "same")
    x = ns.tensor(DATA, requires_grad=True)
    stats.skew(x).backward()
    step = 1e-6 * np.arange(8.0)
    slope = (stats.skew(DATA + step) - stats.skew(DATA - step)) / 2
    assert x.grad is not None
    np.testing.assert_allclose(np.sum(x.grad.numpy() * step), slope, rtol=1e-5)
    print("gradient of stats.skew", "same")


if __name__ == "__main__":
    main()
