"""Names of all operators of this PyTorch."""

from __future__ import annotations

import torch

from nodescope.adapters.torch.names import canonical_name, family_of, label_of


def test_every_operator_has_a_name_a_label_and_a_family() -> None:
    names = {
        name.partition("::")[2].partition(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    }
    assert len(names) > 1000
    for name in names:
        assert canonical_name(name)
        assert label_of(name)
        assert family_of(canonical_name(name), name)


def test_backward_operators_are_called_after_the_forward_one() -> None:
    assert canonical_name("_softmax_backward_data") == "softmax_backward"
    name = "_scaled_dot_product_flash_attention_for_cpu_backward"
    assert canonical_name(name) == "scaled_dot_product_attention_backward"
