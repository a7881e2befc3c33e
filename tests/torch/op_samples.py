"""Samples from PyTorch's own database of operators, `torch.testing._internal`."""

from __future__ import annotations

import itertools
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch


class OpSample(NamedTuple):
    """A call of one of PyTorch's functions.

    Attributes:
        name: The function, its variant and the dtype.
        run: Calls it, and differentiates the result where it has a derivative.
    """

    name: str
    run: Callable[[], None]


def _database() -> list[Any]:
    if "expecttest" not in sys.modules:  # The database needs it only for its own tests.
        stub: Any = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
        stub.assert_expected_inline = None
        sys.modules["expecttest"] = stub
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def samples(
    dtypes: tuple[torch.dtype, ...], per_op: int, part: tuple[int, int] = (0, 1)
) -> Iterator[OpSample]:
    """The first samples of every operator that has the dtype on the processor.

    Args:
        dtypes: The dtypes of the arguments.
        per_op: The number of samples per operator and dtype.
        part: Which of how many parts: every n-th operator.
    """
    number, count = part
    for op in _database()[number::count]:
        for dtype in dtypes:
            if dtype not in op.dtypes:
                continue
            torch.manual_seed(0)
            differentiated = op.supports_autograd and dtype.is_floating_point
            try:
                given = list(
                    itertools.islice(
                        op.sample_inputs("cpu", dtype, requires_grad=differentiated), per_op
                    )
                )
            except Exception:  # The sample needs a library that is not installed.
                continue
            variant = f".{op.variant_test_name}" if op.variant_test_name else ""
            for sample in given:
                yield OpSample(
                    f"{op.name}{variant} {str(dtype).removeprefix('torch.')}",
                    _call(op, sample, differentiated),
                )


def _call(op: Any, sample: Any, differentiated: bool) -> Callable[[], None]:
    def run() -> None:
        result = op(sample.input, *sample.args, **sample.kwargs)
        if not differentiated:
            return
        results = result if isinstance(result, tuple | list) else (result,)
        made = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
        if made:
            torch.autograd.backward(made, [torch.ones_like(x) for x in made])

    return run
