"""Roles of nodes, what they write, and values that are no tensors."""

from __future__ import annotations

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.errors import GraphError
from nodescope.events import NodeFinished
from nodescope.ir.graph import LEAF_ROLES, Node, OpaqueSpec, TensorSpec, Value, usual_role
from tests.core.engine.events_of import observed


def test_every_leaf_has_the_role_of_data_and_no_other_op_has() -> None:
    for op in ops.all_ops():
        assert (op.role in LEAF_ROLES) == (op.family == "leaf") == op.is_leaf, op
    roles = {name: ops.get(name).role for name in ("placeholder", "tensor", "read", "constant")}
    assert roles == {
        "placeholder": "input", "tensor": "input", "read": "buffer", "constant": "constant",
    }  # fmt: skip
    assert usual_role("receive", "control") == ops.get("receive").role == "receive"


def test_nodes_of_a_run_say_what_they_are_for_and_what_they_write() -> None:
    with observed() as events:
        w = ns.parameter(np.ones(3), name="w")
        x = ns.tensor(np.arange(3.0))
        ns.assign(w, w * x)
    nodes = {event.node.op: event.node for event in events.of(NodeFinished)}
    assert {op: node.role for op, node in nodes.items()} == {
        "parameter": "parameter", "tensor": "input", "multiply": "op", "assign": "op",
    }  # fmt: skip
    assert (nodes["assign"].writes, nodes["multiply"].writes) == (((0, 0),), ())
    assert nodes["parameter"].is_weight
    assert not nodes["tensor"].is_weight


def test_stepping_passes_over_what_a_graph_is_fed_with() -> None:
    fed = Node(1, "x", "placeholder", "leaf", role="input")
    read = Node(2, "read", "read", "leaf", (3,), role="buffer")
    assert fed.is_leaf
    assert read.is_leaf
    assert not Node(4, "train", "train", "other", role="task").is_leaf


def test_a_value_that_is_not_a_tensor_says_what_it_is() -> None:
    value = Value(1, OpaqueSpec("pandas.DataFrame", 2048), "frame")
    assert (str(value.spec), value.spec.shape) == ("pandas.DataFrame, 2,048 bytes", ())
    with pytest.raises(GraphError, match=r"value frame is not a tensor but pandas\.DataFrame"):
        _ = value.tensor
    assert str(TensorSpec((None, 10), "float32")) == "float32 (?, 10)"
