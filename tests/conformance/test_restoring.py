"""Every sample of every op: a recorded call is restored as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import ops
from nodescope.debug.replay.dialects import recorded_call
from nodescope.engine.specs import attributes_of
from nodescope.engine.tensor import make
from nodescope.errors import ReplayError
from nodescope.ir.attrs import decode_node, encode
from nodescope.ir.graph import Graph, Node
from nodescope.ops.op import Op
from tests.conformance.test_dependence import SIGNALS, run, samples

ALL = [op for op in ops.all_ops() if op.name not in SIGNALS]


def recorded(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], *, captured: bool) -> Node:
    """A node read back from a recording, from the run's nodes or from a captured graph."""
    tensors = tuple(make(value) if isinstance(value, np.ndarray) else value for value in inputs)
    plain = attributes_of(op, tensors, attrs)
    if captured:
        plain = {**{name: value for name, value in plain.items() if name not in attrs}, **attrs}
    ports = tuple(i + 1 for i, value in enumerate(inputs) if isinstance(value, np.ndarray))
    return decode_node(encode(Node(1, op.name, op.name, op.family, ports, attrs=plain)))


def test_every_call_comes_back_and_gives_the_same() -> None:
    tried = 0
    for op in ALL:
        for inputs, attrs in samples(op):
            bodies = any(isinstance(value, Graph) for value in attrs.values())
            for captured in (False, True):
                node = recorded(op, inputs, attrs, captured=captured)
                if bodies and not captured:
                    with pytest.raises(ReplayError, match="does not hold the graph of its"):
                        recorded_call(node)
                    continue
                given = [x for x in inputs if isinstance(x, np.ndarray)]
                result = recorded_call(node).run(given)
                for first, other in zip(result, run(op, inputs, attrs), strict=True):
                    assert (first.dtype, first.shape) == (other.dtype, other.shape), op
                    assert first.tobytes() == other.tobytes(), op
                tried += 1
    assert tried > 1000
