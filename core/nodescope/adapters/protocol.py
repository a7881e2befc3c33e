"""What an adapter is: how a library's operations become events.

An adapter is attached once its library has been imported, and never imports it itself before. All
that it emits goes through the run's `Emitter`; what it cannot do, its capabilities say, and neither
page nor terminal offers it.

Invariant: an adapter never changes a result of the program unless a person edits a value, and
nothing that it raises reaches the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nodescope.arrays import ArrayOps
from nodescope.emit.emitter import Attachment as Attachment
from nodescope.emit.emitter import Emitter
from nodescope.events import Array
from nodescope.ir.capabilities import Capabilities
from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar
from nodescope.ops.reading import ElementDependence


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
        """What the adapter can observe, and what the debugger can do."""

    def arrays(self) -> Mapping[type, ArrayOps]:
        """How its arrays are handled, by their types."""

    def attach(self, emitter: Emitter) -> AbstractContextManager[Attachment]:
        """Emit what the library does, until the context is left."""


class Rerun(Protocol):
    """Runs recorded nodes of a dialect again, for *What if*, *why* and values that were not kept.

    It is named by the entry point ``nodescope.rerun`` of its package, under the dialect's name, and
    loaded by whoever reads recordings, such as the server: it must not import the library there,
    but run it in a process of its own.
    """

    def operands(self, node: Node, attrs: dict[str, Any], /) -> tuple[int | Scalar, ...]:
        """The node's operands by port: mostly `Node.inputs`, and scalars from ``attrs``.

        Raises:
            ReplayError: It cannot be run again; says why, and what to do.
        """

    def run(
        self, node: Node, attrs: dict[str, Any], arrays: Sequence[Array], /
    ) -> tuple[Array, ...]:
        """The node's outputs, by port.

        Args:
            node: What ran.
            attrs: Its arguments in the execution, as recorded.
            arrays: One per input that is a value, laid out as they were; not to be written to.

        Raises:
            Exception: It refuses them; the text is shown.
        """

    def reads(
        self, node: Node, attrs: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Array],
        port: int, position: int, /,
    ) -> ElementDependence | None:  # fmt: skip
        """Which elements of its inputs an element of an output is made from.

        Args:
            node, attrs: As of `run`.
            inputs: What it took, by port, scalars included.
            outputs: What it gave.
            port, position: Of which output, and which element, counted in C order.

        Returns:
            None if that is not known: it is found out by running the node on other numbers.
        """
