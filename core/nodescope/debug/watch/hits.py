"""Hits: a finding on a node, with the user's line, as text.

Invariant: pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from nodescope.debug.watch.rule import Setting
from nodescope.debug.watch.watch import Hit, Watch
from nodescope.ir.graph import Node


def hit_of(
    watch: Watch,
    settings: Mapping[str, Any],
    node: Node,
    port: int,
    name: str,
    at: tuple[int, int],
    finding: tuple[str, Mapping[str, Setting]],
    in_row: int,
) -> Hit:
    """A finding as a hit.

    Args:
        watch: The watch, with the rule's own name.
        settings: All settings, including defaults.
        node, port: The node, and the output port of the value.
        name: The value's name for the user.
        at: Step and seq.
        finding: The description, and the numbers found.
        in_row: The number of consecutive findings on the value.
    """
    step, seq = at
    source = node.source
    location = f" ({PurePath(source.file).name}:{source.line})" if source is not None else ""
    text = f"{watch.rule}: {name} in step {step}{location}: {finding[0]}"
    if watch.patience > 1:
        text += f" ({in_row} times in a row)"
    return Hit(
        rule=watch.rule,
        watch=watch.id,
        node=node.id,
        node_name=node.name,
        value=node.outputs[port],
        port=port,
        step=step,
        seq=seq,
        configured=dict(settings),
        actual=dict(finding[1]),
        text=text,
        actions=watch.actions,
        in_row=in_row,
    )
