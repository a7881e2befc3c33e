"""Tensors as Ray's adapter describes them."""

from __future__ import annotations

import pytest
import torch

from nodescope.adapters.ray.describing import describe


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_no_element_is_fetched_where_none_is_described(device: str) -> None:
    content = describe(torch.ones(2, 3, device=device, requires_grad=True), -1, arrays=False)
    assert (content.shape, content.dtype, content.nbytes) == ((2, 3), "float32", 24)
    assert content.data is content.summary is None


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_a_dtype_that_numpy_lacks_is_described_by_its_class_alone() -> None:
    content = describe(torch.ones(2, dtype=torch.complex32), -1, arrays=False)
    assert (content.type, content.shape, content.dtype) == ("torch.Tensor", (), "")
