"""Every registered op: a call as a recording holds it is the call that it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import ops
from nodescope.debug.replay.replay import run_call
from nodescope.debug.replay.restoring import bodies_missing, restored
from nodescope.engine.tensor import make
from nodescope.engine.tracer import plain_attrs
from nodescope.ir.graph import Node
from nodescope.ops.calls import call_of
from nodescope.ops.op import Op
from nodescope.record.recording import _node
from nodescope.record.schema import encode
from tests.conformance.test_dependence import SIGNALS, run, samples

ALL = [op for op in ops.all_ops() if op.name not in SIGNALS]
BODIES = {"fused", "cond", "scan", "while_loop"}


def recorded(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], *, captured: bool) -> Node:
    """A node as it comes back from a recording: of the run, or of a captured graph."""
    tensors = tuple(make(each) if isinstance(each, np.ndarray) else each for each in inputs)
    plain = plain_attrs(op, tensors, attrs)
    if captured:
        plain = {**{name: value for name, value in plain.items() if name not in attrs}, **attrs}
    given = tuple(i + 1 for i, each in enumerate(inputs) if isinstance(each, np.ndarray))
    return _node(encode(Node(1, op.name, op.name, op.family, given, attrs=plain)))


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_a_call_is_what_it_was(op: Op, captured: bool) -> None:
    if op.name in BODIES and not captured:
        node = recorded(op, *samples(op)[0], captured=False)
        assert bodies_missing(restored(node, node.attrs))
        return
    for inputs, attrs in samples(op):
        node = recorded(op, inputs, attrs, captured=captured)
        whole = restored(node, node.attrs)
        assert bodies_missing(whole) == ""
        found = run_call(call_of(whole), [x for x in inputs if isinstance(x, np.ndarray)])
        for one, other in zip(found, run(op, inputs, attrs), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes()
