"""Devices: the blocks `nodescope.device` that a thread is in.

A device is ``cpu:0``, ``worker:1`` or ``worker:1/cpu:0``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


def merged(outer: str, inner: str) -> str:
    """The device of nested blocks; parts that the inner one omits come from the outer one."""
    parts: dict[str, str] = {}
    for device in (outer, inner):
        for part in filter(None, device.split("/")):
            kind = "worker" if part.split(":")[0] == "worker" else "device"
            parts[kind] = part
    return "/".join(parts[kind] for kind in ("worker", "device") if kind in parts)


class DeviceBlocks(threading.local):
    """The `nodescope.device` blocks around each thread's current place."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []

    @contextlib.contextmanager
    def within(self, device: Any) -> Iterator[None]:
        """See `nodescope.device`."""
        self._blocks.append(device)
        try:
            yield
        finally:
            self._blocks.pop()

    def here(self, op: str) -> str:
        """The device of a node made here; ``""`` without an enclosing block."""
        device = ""
        for device_or_function in self._blocks:
            given = device_or_function(op) if callable(device_or_function) else device_or_function
            device = "" if given is None else merged(device, given)
        return device
