"""Runs a PyTorch program twice: plainly and observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded


def state_of(module: torch.nn.Module) -> dict[str, bytes]:
    """The bits of parameters, buffers, and the random generator's state."""
    state = {name: value.numpy().tobytes() for name, value in module.state_dict().items()}
    return {**state, "generator": torch.get_rng_state().numpy().tobytes()}


@contextmanager
def observed(
    path: Path, program: Callable[[], Any], level: str = "timing"
) -> Iterator[tuple[Any, Recording]]:
    """A program's result under a run, and its recording."""
    said: list[str] = []
    with patch("nodescope.adapters.torch.attachment.say", said.append):
        result = recorded(path, program, level=level)
    assert not [line for line in said if "unobserved" in line], said
    with Recording.open(path) as recording:
        yield result, recording


def nodes_of(recording: Recording) -> dict[str, Node]:
    """The nodes by name, in their latest definition."""
    by_id = {row.node.id: row.node for row in recording.nodes()}
    return {node.name: node for node in by_id.values()}


def edges_of(recording: Recording) -> dict[str, list[str]]:
    """The nodes whose outputs a node reads, by node."""
    nodes = nodes_of(recording)
    makers = {value: node.name for node in nodes.values() for value in node.outputs}
    return {name: [makers[value] for value in node.inputs] for name, node in nodes.items()}
