"""Which recorded nodes of PyTorch are not run again, and why."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from nodescope.adapters.torch.rerun import RERUN
from nodescope.adapters.torch.rerun.refusals import draws, plain_name, refusal
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar


def node(native: str, inputs: tuple[int, ...] = (1,), device: str = "cpu") -> Node:
    return Node(1, "n", "n", "other", inputs, outputs=(9,), native=native, device=device)


@pytest.mark.parametrize(
    ("native", "attrs", "word"),
    [
        ("aten::bernoulli_.float", {}, "random"),
        ("aten::native_dropout", {"p": 0.5, "train": True}, "random"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", {"dropout_p": 0.1}, "random"),
        ("aten::empty_like", {}, "whatever"),
        ("aten::_sparse_sum", {}, "dense"),
        ("aten::mm", {"self": "sparse_csr"}, "dense"),
        ("torchvision::nms", {}, "torchvision"),
        ("", {}, "somebody else"),
    ],
)
def test_refused(native: str, attrs: dict[str, Any], word: str) -> None:
    assert word in refusal(node(native), attrs, None)


def test_other_devices_are_refused() -> None:
    assert "cuda:0" in refusal(node("aten::mm", device="cuda:0"), {}, None)


def test_another_version_is_refused() -> None:
    reason = refusal(node("aten::mm"), {}, Framework("torch", "1.0.0"))
    installed = "torch" in {
        distribution.name for distribution in importlib.metadata.distributions()
    }
    assert ("pip install torch==1.0.0" if installed else "pip install 'nodescope[torch]'") in reason


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("native_dropout", {"p": 0.5, "train": False}),
        ("native_dropout", {"p": 0.0, "train": True}),
        ("_scaled_dot_product_flash_attention_for_cpu", {}),
        ("add", {}),
    ],
)
def test_what_draws_nothing_is_run(name: str, attrs: dict[str, Any]) -> None:
    assert not draws(name, attrs)


def test_names() -> None:
    assert plain_name("aten::add_.Tensor") == "add"
    assert plain_name("aten::__and__.Scalar") == "__and__"
    assert plain_name("aten::mm") == "mm"


def test_numbers_in_place_of_tensors_are_operands() -> None:
    assert RERUN.operands(node("aten::mul.Tensor"), {"other": 2.0}) == (1, Scalar(2.0))
    assert RERUN.operands(node("aten::pow.Scalar"), {"self": 2.0}) == (Scalar(2.0), 1)
    assert RERUN.operands(node("aten::add.Tensor", (1, 2)), {"alpha": 2}) == (1, 2)
    assert RERUN.operands(node("aten::where.self", (1, 2, 3)), {}) == (1, 2, 3)
