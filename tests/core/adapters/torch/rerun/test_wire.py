"""Arrays sent to the process that runs PyTorch keep every bit and stride."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from nodescope.adapters.torch.rerun.wire import packed, unpacked
from nodescope.ir.dtypes import bfloat16

CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "array",
    [
        CUBE, CUBE.T, CUBE[:, :, 1:3], np.float32(2.5).reshape(()), np.zeros((0, 3)),
        np.arange(5, dtype=np.int8), np.array([True, False]), CUBE.astype(bfloat16()),
        np.array([np.nan, -0.0, np.inf]), np.broadcast_to(np.arange(3.0), (4, 3)),
        CUBE.astype(">f8"), CUBE[::-1],
    ],
)  # fmt: skip
def test_every_bit_arrives(array: np.ndarray) -> None:
    headers, memories = packed([array])
    (arrived,) = unpacked(headers, [memory.tobytes() for memory in memories])
    assert arrived.shape == array.shape
    assert arrived.dtype == array.dtype.newbyteorder("=")
    assert np.array(arrived).tobytes() == array.astype(arrived.dtype).tobytes(order="K") or (
        np.ascontiguousarray(arrived).tobytes()
        == np.ascontiguousarray(array.astype(arrived.dtype)).tobytes()
    )


@pytest.mark.parametrize("array", [CUBE, CUBE.T, CUBE.transpose(1, 0, 2), CUBE[:, :, 1:3]])
def test_strides_are_kept(array: np.ndarray) -> None:
    headers, memories = packed([array])
    (arrived,) = unpacked(headers, memories)
    assert arrived.strides == array.strides


def test_memory_with_large_gaps_is_not_sent() -> None:
    _, (memory,) = packed([np.zeros((1000, 1000))[:, 0]])
    assert memory.nbytes == 8000


def test_the_same_array_is_sent_once() -> None:
    headers, memories = packed([CUBE, CUBE])
    assert len(memories) == 1
    assert headers[1].same_as == 0


@pytest.mark.parametrize(
    "change", [{"strides": (-8,)}, {"strides": (16,)}, {"shape": (4,)}, {"shape": (-1,)}]
)
def test_a_layout_beyond_its_memory_is_refused(change: dict[str, tuple[int, ...]]) -> None:
    (header,), memories = packed([np.zeros(3)])
    with pytest.raises(ValueError, match=r"negative|larger"):
        unpacked([msgspec.structs.replace(header, **change)], memories)
