"""The op registry: lookup, near names, completeness."""

from __future__ import annotations

from typing import get_args

import pytest

from nodescope import ops
from nodescope.errors import RegistryError
from nodescope.ops.op import Family
from tests.parts import in_parts


def test_ops_are_found_and_near_names_suggested() -> None:
    assert ops.get("matmul").name == "matmul"
    with pytest.raises(RegistryError, match="did you mean 'matmul'"):
        ops.get("matmull")
    with pytest.raises(RegistryError, match="registered twice"):
        ops.register(ops.get("add"))


@in_parts(1)
@pytest.mark.parametrize("op", list(ops.all_ops()), ids=lambda op: op.name)
def test_every_op_is_described(op: ops.Op) -> None:
    assert op.family in get_args(Family)
    assert op.vjp is None or op.variadic or len(op.vjp) == len(op.ports)
