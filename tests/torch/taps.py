"""Runs programs in PyTorch under either tap, and returns their nodes in a comparable form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from nodescope.record.recording import Recording
from tests.adapters.driving import recorded

TAPS = ("python", "native")


class Seen(NamedTuple):
    """A node.

    Attributes:
        native: The operator, under a name that is the same for both taps.
        inputs: By port, the number of the node that made the input, and the output's port.
        forward: The number of the node that it differentiates, or -1.
    """

    phase: str
    scope: str
    op: str
    native: str
    inputs: tuple[tuple[int, int], ...]
    attrs: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    forward: int
    line: int


# Under a dispatch mode, autograd does not add in place, and a reshape is a view.
_ALIKE = {"aten::add_.Tensor": "aten::add.Tensor", "aten::_reshape_alias": "aten::view"}


def seen(
    tap: str, program: Callable[[], Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, list[Seen]]:
    """A program's result, and its nodes."""
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    torch.manual_seed(0)
    result = recorded(path, program, level="values")
    with Recording.open(path) as recording:
        nodes = [row.node for row in recording.nodes()]
        # The order of the workers of a data loader differs from run to run.
        nodes.sort(key=lambda node: node.scope if node.scope.startswith("data/") else "")
        specs = {row.value.id: str(row.value.spec) for row in recording.values()}
    number = {node.id: at for at, node in enumerate(nodes)}
    made = {id: (at, port) for at, node in enumerate(nodes) for port, id in enumerate(node.outputs)}
    return result, [
        Seen(
            node.phase, node.scope, node.op, _ALIKE.get(node.native, node.native),
            tuple(made[id] for id in node.inputs),
            tuple(sorted((name, str(value)) for name, value in node.attrs.items()
                         if node.native != "aten::_reshape_alias" or name != "stride")),
            tuple(specs[id] for id in node.outputs),
            -1 if node.forward is None else number[node.forward],
            node.source.line if node.source else 0,
        )
        for node in nodes
    ]  # fmt: skip


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors in nested lists."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for item in result for tensor in tensors(item)]
