"""Names of all operators of this PyTorch."""

from __future__ import annotations

import torch

from nodescope.adapters.torch.names import canonical_name, family_of, label_of
from nodescope.ops import all_ops

NAMES = {
    name.partition("::")[2].partition(".")[0]
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("aten::")
}


def test_every_operator_has_a_name_a_label_and_a_family() -> None:
    assert len(NAMES) > 1000
    for name in NAMES:
        assert canonical_name(name)
        assert label_of(name)
        assert family_of(canonical_name(name), name)


def test_an_operator_has_the_colour_of_nodescopes_own() -> None:
    families = {op.name: op.family for op in all_ops() if op.family != "leaf"}
    named = {name: canonical_name(name) for name in NAMES}
    assert sum(op in families for op in named.values()) > 200
    for name, op in named.items():
        if op in families:
            assert family_of(op, name) == families[op], name


def test_backward_operators_are_called_after_the_forward_one() -> None:
    assert canonical_name("_softmax_backward_data") == "softmax_backward"
    name = "_scaled_dot_product_flash_attention_for_cpu_backward"
    assert canonical_name(name) == "scaled_dot_product_attention_backward"
