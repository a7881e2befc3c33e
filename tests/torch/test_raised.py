"""An operator of PyTorch that raised says which sizes do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.core.debug.why.test_why import why
from tests.torch.observing import nodes_of

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "mm": (
        lambda: torch.ones(3, 4) @ torch.ones(5, 6),
        "4 of ones (3, 4) and 5 of ones_1 (5, 6)",
    ),
    "addmm": (
        lambda: torch.nn.functional.linear(torch.ones(3, 4), torch.ones(6, 5), torch.ones(6)),
        "the inner sizes do not fit: 4 of ones (3, 4) and 5 of t (5, 6)",
    ),
    "convolution": (
        lambda: torch.conv2d(torch.ones(1, 3, 8, 8), torch.ones(6, 2, 3, 3)),
        "ones has 3 channels (1, 3, 8, 8), and ones_1 is for 2 (6, 2, 3, 3)",
    ),
    "cat": (
        lambda: torch.cat([torch.ones(3, 4), torch.ones(2, 5)], 1),
        "ones_1 has 2 along axis 0 (2, 5), and ones has 3 (3, 4)",
    ),
    "add": (
        lambda: torch.ones(3, 4) + torch.ones(5),
        "along axis -1, ones has 4 (3, 4), and ones_1 has 5 (5,)",
    ),
}


@pytest.mark.parametrize("op", CASES)
def test_sizes_that_do_not_fit_are_named(op: str, tmp_path: Path) -> None:
    program, told = CASES[op]

    def failing() -> None:
        with pytest.raises(RuntimeError):
            program()

    recorded(tmp_path / "run.nscope", failing, level="values")
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert op in nodes_of(recording)
        assert told in why(recording, op).root.ranges[0]
