"""Rerun of PyTorch: runs recorded ATen operators again, and finds which elements they read.

PyTorch runs in a separate process (`process`, `worker`), which starts when it is first needed.
Questions that NumPy can answer do not need it.

Invariant: this module does not import PyTorch. A node is run with exactly the recorded arguments,
or it is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nodescope.adapters.protocol import Rerun
from nodescope.adapters.torch.rerun.kinds import words
from nodescope.adapters.torch.rerun.queries import TORCH
from nodescope.adapters.torch.rerun.reads import element_reads
from nodescope.adapters.torch.rerun.refusals import plain_name, refusal
from nodescope.adapters.torch.rerun.written_views import updated
from nodescope.events import Array
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar
from nodescope.ops.reading import ElementDependence

# The ports of operators that accept numbers in place of tensors.
_PORTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        words(
            "add sub mul div true_divide floor_divide fmod remainder eq ne gt ge lt le maximum"
            " minimum atan2 hypot logical_and logical_or logical_xor bitwise_and bitwise_or"
            " bitwise_xor xlogy rsub"
        ),
        ("self", "other"),
    ),
    "pow": ("self", "exponent"), "float_power": ("self", "exponent"),
    "clamp_min": ("self", "min"), "clamp_max": ("self", "max"), "clamp": ("self", "min", "max"),
    "masked_fill": ("self", "mask", "value"), "where": ("condition", "self", "other"),
    "fill": ("self", "value"), "lerp": ("self", "end", "weight"),
}  # fmt: skip


class TorchRerun:
    """See `Rerun`."""

    def refusal(self, node: Node, attrs: dict[str, Any], framework: Framework | None) -> str:
        """Why a node cannot be run again, or ``""``."""
        if framework is not None:
            TORCH.threads = framework.threads  # the order of sums depends on it
        return refusal(node, attrs, framework)

    def operands(self, node: Node, attrs: dict[str, Any]) -> tuple[int | Scalar, ...]:
        """The operands by port: inputs, and numbers that were given in place of tensors."""
        ports = _PORTS.get(plain_name(node.native), ())
        waiting = list(node.inputs)
        operands: list[int | Scalar] = []
        for name in ports:
            if attrs.get(name) is not None and isinstance(
                attrs[name], bool | int | float | complex
            ):
                operands.append(Scalar(attrs[name]))
            elif waiting:
                operands.append(waiting.pop(0))
        return (*operands, *waiting)

    def run(self, node: Node, attrs: dict[str, Any], arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs, from PyTorch; those of ``updated_view`` come from NumPy."""
        if node.op == "updated_view":
            return (updated(arrays, attrs),)
        return TORCH.run(node.native, attrs, arrays)

    def reads(
        self, node: Node, attrs: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Array],
        port: int, position: int,
    ) -> ElementDependence | None:  # fmt: skip
        """See `reads`, which decides by the kind of operator."""
        return element_reads(node, attrs, inputs, outputs, port, position)


RERUN: Final[Rerun] = TorchRerun()
