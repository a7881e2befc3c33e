"""Rerun of PyTorch: recorded ATen operators run again, and which elements they read.

PyTorch runs in a process of its own (`process`, `worker`), which is started when it is needed. What
can be said by NumPy is said without it.

Invariant: nothing here imports PyTorch. A node is run with the arguments that are recorded, bit for
bit, or it is refused with the reason.
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

# The ports of operators that take numbers in place of tensors.
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
            TORCH.threads = framework.threads  # sums depend on it
        return refusal(node, attrs, framework)

    def operands(self, node: Node, attrs: dict[str, Any]) -> tuple[int | Scalar, ...]:
        """The inputs, and the numbers that were given in place of tensors."""
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
        """What PyTorch gives, or NumPy for what a tensor has become by writes to its memory."""
        if node.op == "updated_view":
            return (updated(arrays, attrs),)
        return TORCH.run(node.native, attrs, arrays)

    def reads(
        self, node: Node, attrs: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Array],
        port: int, position: int,
    ) -> ElementDependence | None:  # fmt: skip
        """By kind of operator, see `reads`."""
        return element_reads(node, attrs, inputs, outputs, port, position)


RERUN: Final[Rerun] = TorchRerun()
