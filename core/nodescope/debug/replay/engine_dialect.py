"""The dialect of nodescope's own engine: reruns nodes by the impls of their ops.

Invariant: never loads the engine; `nodescope.ops` is enough.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from nodescope import ops
from nodescope.adapters.protocol import Rerun
from nodescope.debug.replay.dialects import check_restored
from nodescope.errors import RegistryError, ReplayError
from nodescope.events import Array
from nodescope.ir.graph import Graph, Node
from nodescope.ops.calls import Call, Scalar, call_of
from nodescope.ops.dependence import made_from
from nodescope.ops.fused import run_body
from nodescope.ops.op import port_name
from nodescope.ops.reading import ElementDependence

LONGEST_LOOP_S: Final = 8.0
"""The time limit for rerunning a ``while_loop``."""

_BODIES: Final = {
    "fused": ("body",), "scan": ("body",), "cond": ("then", "otherwise"),
    "while_loop": ("condition", "body"),
}  # fmt: skip


class EngineRerun:
    """The `Rerun` of nodescope's own engine."""

    def operands(self, node: Node, attrs: dict[str, Any]) -> tuple[int | Scalar, ...]:
        """The operands by port.

        Raises:
            ReplayError: The op is unknown, or an attribute or a graph was not recorded.
        """
        try:
            op = ops.get(node.op)
        except RegistryError as error:
            raise ReplayError(f"{node.name}: {error.message}") from None
        bodies = _BODIES.get(node.op, ())
        check_restored(node, attrs, bodies)
        holds = op.family in ("kernel", "control")
        missing = [name for name in bodies if not isinstance(attrs.get(name), Graph)]
        if holds and missing:
            raise ReplayError(
                f"{node.name}: the recording does not hold the graph of its {missing[0]}",
                hint="graphs of loops and branches are kept for compiled functions",
            )
        try:
            return _call(node, attrs).args
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise ReplayError(f"{node.name}: its attributes do not fit its op ({error})") from None

    def run(self, node: Node, attrs: dict[str, Any], arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The results of the op's impl."""
        return run_call(_call(node, attrs), arrays)

    def reads(
        self,
        node: Node,
        attrs: dict[str, Any],
        inputs: Sequence[Any],
        outputs: Sequence[Array],
        port: int,
        position: int,
    ) -> ElementDependence | None:
        """The input elements read, by `nodescope.ops.dependence`."""
        call = _call(node, attrs)
        return made_from(call.op, inputs, call.attrs, outputs, position, port)


RERUN: Final[Rerun] = EngineRerun()


def _call(node: Node, attrs: dict[str, Any]) -> Call:
    return call_of(node if node.attrs is attrs else msgspec.structs.replace(node, attrs=attrs))


def scalars_in(node: Node, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The Python scalars among the attributes of an execution, by port name."""
    op = ops.get(node.op)
    ports = {port_name(op, port) for port in range(len(node.inputs) + len(attrs))}
    return {port: attrs[port] for port in ports.intersection(attrs)}


def run_call(call: Call, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Run a call on its array operands. Exceptions of the op propagate."""
    operands = iter(arrays)
    args = [
        argument.value if isinstance(argument, Scalar) else next(operands) for argument in call.args
    ]
    loop = call.op.name == "while_loop" and _closed(call)
    data = _looped(call, args) if loop else call.op.impl(*args, **call.attrs)
    return tuple(map(np.asarray, data)) if isinstance(data, tuple) else (np.asarray(data),)


def _closed(call: Call) -> bool:
    """Whether the loop's bodies contain no constants; only the engine can run those."""
    bodies = (call.attrs["condition"], call.attrs["body"])
    return all(not node.is_leaf or node.role == "input" for body in bodies for node in body.nodes)


def _looped(call: Call, args: list[Any]) -> tuple[Array, ...]:
    """Run a while loop with a time limit: with changed inputs it may not terminate."""
    end = time.monotonic() + LONGEST_LOOP_S
    condition, body = (
        msgspec.structs.replace(
            graph, nodes=tuple(node for node in graph.nodes if not node.is_leaf)
        )
        for graph in (call.attrs["condition"], call.attrs["body"])
    )
    carries = call.attrs["carries"]
    carry, around = tuple(map(np.asarray, args[:carries])), tuple(args[carries:])
    while bool(run_body(condition, (*carry, *around))[0]):
        if time.monotonic() > end:
            raise ReplayError(
                f"{call.node.name}: its loop was stopped after {LONGEST_LOOP_S:g} s",
                hint="with these values it may never end",
            )
        carry = run_body(body, (*carry, *around))
    return carry
