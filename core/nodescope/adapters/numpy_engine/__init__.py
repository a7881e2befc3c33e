"""The adapter of nodescope's own engine, which runs NumPy programs.

The engine emits events itself (`engine/tracer.py`); this module states its capabilities.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Final

from nodescope.adapters.protocol import Adapter, Attachment
from nodescope.arrays import ArrayOps
from nodescope.emit.emitter import Emitter
from nodescope.ir.capabilities import ENGINE, Capabilities


@functools.lru_cache(maxsize=1)
def _version() -> str:
    return version("nodescope")


class NumpyEngine:
    """The engine's `Adapter`."""

    name = "nodescope"
    module = "nodescope.engine"

    def missing(self) -> str:
        """Always ``""``: the engine comes with nodescope."""
        return ""

    def version(self) -> str:
        """The version of nodescope."""
        return _version()

    def capabilities(self) -> Capabilities:
        """All capabilities."""
        return ENGINE

    def arrays(self) -> Mapping[type, ArrayOps]:
        """Empty: NumPy's arrays are known in any case."""
        return {}

    @contextlib.contextmanager
    def attach(self, emitter: Emitter) -> Iterator[Attachment]:
        """Report the engine's operations through the emitter.

        Raises:
            UsageError: The engine is observed already.
        """
        from nodescope.engine import dispatch_mode, tracer

        attachment = tracer.attach(emitter)
        try:
            yield attachment
        finally:
            if dispatch_mode.attending() in (attachment, None):
                attachment.read_again()
                dispatch_mode.set_observer(None)


ADAPTER: Final[Adapter] = NumpyEngine()
