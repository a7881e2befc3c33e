"""The core's CRC-32 is zlib's, whatever the length, the place in memory and the number before."""

from __future__ import annotations

import random
import zlib

import pytest

from nodescope import native
from tests.depth import some


@pytest.mark.parametrize("seed", some(range(400), 60))
def test_checksums_are_those_of_zlib(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.choice((draw.randrange(200), draw.randrange(5000), draw.randrange(1 << 18)))
    data = draw.randbytes(size)
    if draw.random() < 0.2:
        data = bytes(size) if draw.random() < 0.5 else b"\xff" * size
    part = memoryview(data)[draw.randrange(18) :]
    before = draw.choice((0, 1, 0xFFFFFFFF, draw.randrange(1 << 32)))
    assert native.crc32(part, before) == zlib.crc32(part, before)
    assert native.crc32(part, native.crc32(data, 0)) == zlib.crc32(part, zlib.crc32(data))
    page = draw.choice((1, 16, 63, 64, 100, 512, 4096))
    assert native.crc32_of_pages(part, page) == native._crc32_of_pages(part, page)


def test_each_bit_counts() -> None:
    data = bytearray(range(200))
    sums = {native.crc32(bytes(data), 0)}
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        sums.add(native.crc32(bytes(data), 0))
        data[bit // 8] ^= 1 << bit % 8
    assert len(sums) == 1 + 8 * len(data)


def test_a_rest_that_is_no_page_is_left_out() -> None:
    sums = native.crc32_of_pages(memoryview(bytes(70)), 32)
    assert sums == 2 * zlib.crc32(bytes(32)).to_bytes(4, "little")
