"""Runs recorded operations of `library` again, in the library's own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.adapters.protocol import Rerun
from nodescope.events import Array
from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar
from nodescope.ops.reading import ElementDependence, Read
from tests.adapters.foreign import library


class DistantRerun:
    """See `Rerun`."""

    def operands(self, node: Node, attrs: dict[str, Any]) -> tuple[int | Scalar, ...]:
        return node.inputs

    def run(self, node: Node, attrs: dict[str, Any], arrays: Sequence[Array]) -> tuple[Array, ...]:
        sent = [library.distant(array) for array in arrays]
        return (library.again(node.native.removeprefix("distant::"), sent, attrs),)

    def reads(
        self, node: Node, attrs: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Array],
        port: int, position: int,
    ) -> ElementDependence | None:  # fmt: skip
        if node.op != "frobnicate":
            return None
        row, column = np.unravel_index(position, outputs[port].shape)
        size, width = inputs[1].shape
        terms = inputs[0][row] * inputs[1][:, column]
        reads = (Read(0, np.arange(size) + row * size), Read(1, np.arange(size) * width + column))
        return ElementDependence(reads, True, "sum", terms, (0, 1))


RERUN: Rerun = DistantRerun()
