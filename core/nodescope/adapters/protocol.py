"""What an adapter is: how a library's operations become events.

An adapter is attached once its library has been imported, and never imports it itself before. All
that it emits goes through the run's `Emitter`; what it cannot do, its capabilities say, and neither
page nor terminal offers it.

Invariant: an adapter never changes a result of the program unless a person edits a value, and
nothing that it raises reaches the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from nodescope.arrays import ArrayOps
from nodescope.emit.emitter import Attachment as Attachment
from nodescope.emit.emitter import Emitter
from nodescope.events import Prices
from nodescope.ir.capabilities import Capabilities


class Adapter(Protocol):
    """One library.

    Attributes:
        name: Of its nodes' dialect, such as ``torch``.
        module: It is attached once this module has been imported.
    """

    name: str
    module: str

    def missing(self) -> str:
        """Why it cannot be attached to what is installed, such as a version, or ``""``."""

    def version(self) -> str:
        """Of the library."""

    def capabilities(self) -> Capabilities:
        """What can be seen and done."""

    def arrays(self) -> Mapping[type, ArrayOps]:
        """How its arrays are handled, by their types."""

    def attach(self, emitter: Emitter) -> AbstractContextManager[Attachment]:
        """Emit what the library does, until the context is left."""

    def calibrate(self) -> Prices | None:
        """What making events takes on this machine; None if that is not known."""
