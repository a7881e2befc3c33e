"""Variables of graphs built by hand: reading and updating them.

A session keeps the values. It passes them to these ops in place of their first input, and stores
the results of update ops.

Invariant: as with ``assign``, nothing is written in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_output


def _update(name: str, ufunc: np.ufunc) -> None:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        old, change = specs
        assert isinstance(old, TensorSpec)
        assert isinstance(change, TensorSpec)
        if old.shape != change.shape:
            raise ShapeError(
                f"{name}: a variable of shape {old.shape} cannot be updated by shape {change.shape}"
            )
        if old.dtype == "bool" or change.dtype == "bool":
            raise DtypeError(f"{name}: booleans cannot be added")
        if not np.can_cast(np.dtype(change.dtype), np.dtype(old.dtype), "same_kind"):
            raise DtypeError(
                f"{name}: {change.dtype} cannot be stored in a variable of {old.dtype}"
            )
        return old

    impl: Callable[[Array, Array], Any] = lambda old, change: ufunc(  # noqa: E731
        old, change.astype(old.dtype, casting="same_kind", copy=False)
    )
    register(
        Op(
            name=name,
            family="update",
            infer=infer,
            impl=impl,
            ports=("old", "change"),
            samples=lambda rng: [
                Sample((rng.standard_normal(shape), rng.standard_normal(shape)))
                for shape in ((3, 4), (0, 2), (1,), ())
            ],
            flops=one_per_output,
        )
    )


_update("assign_add", np.add)
_update("assign_sub", np.subtract)
register(
    Op(
        name="read",
        family="leaf",
        infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
        impl=lambda x: x,
        elementwise=True,
    )
)
"""The value of a variable at the time when the node runs, not at the start of the run."""
