"""Adapter protocol: how a library's operations become events.

An adapter is attached once its library has been imported, and never imports it before that. All its
events go through the run's `Emitter`. Its capabilities say what it supports; page and terminal
offer nothing else.

Invariant: an adapter never changes a result of the program unless the user edits a value, and its
exceptions never reach the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

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
        name: The dialect of its nodes, such as ``torch``.
        module: The module whose import triggers attaching.
    """

    name: str
    module: str

    def missing(self) -> str:
        """Why it cannot be attached to the installed library, such as its version, or ``""``."""

    def version(self) -> str:
        """The version of the library."""

    def capabilities(self) -> Capabilities:
        """What the adapter can observe, and what the debugger can do."""

    def arrays(self) -> Mapping[type, ArrayOps]:
        """The operations for the library's arrays, by array type."""

    def attach(self, emitter: Emitter) -> AbstractContextManager[Attachment]:
        """Emit the library's operations until the context is left."""


@runtime_checkable
class Detailed(Protocol):
    """An adapter that has more to say in ``nodescope doctor``."""

    def details(self) -> Sequence[tuple[str, str]]:
        """Rows of a name and a state. Must not import the library, nor raise."""


class Rerun(Protocol):
    """Runs recorded nodes of a dialect again, for *What if*, *why* and values that were not kept.

    A package names it in the entry point group ``nodescope.rerun``, under the dialect's name. It is
    loaded by readers of recordings, such as the server, so it must not import the library there but
    run it in a separate process.

    It may also have a method ``refusal(node, attrs, framework)``: why a node cannot be run again,
    or ``""``; `reads` is called even so. ``framework`` is the recorded `Framework`, or None.
    """

    def operands(self, node: Node, attrs: dict[str, Any], /) -> tuple[int | Scalar, ...]:
        """The node's operands by port: mostly `Node.inputs`, and scalars from ``attrs``.

        Raises:
            ReplayError: The node cannot be run again; the message says why, and what to do.
        """

    def run(
        self, node: Node, attrs: dict[str, Any], arrays: Sequence[Array], /
    ) -> tuple[Array, ...]:
        """The node's outputs, by port.

        Args:
            node: The executed node.
            attrs: Its arguments in the execution, as recorded.
            arrays: One per input that is a value, in its original memory layout; must not be
                written to.

        Raises:
            Exception: The node rejects its operands; the exception's text is shown.
        """

    def reads(
        self, node: Node, attrs: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Array],
        port: int, position: int, /,
    ) -> ElementDependence | None:  # fmt: skip
        """Which elements of a node's inputs an element of an output is computed from.

        Args:
            node, attrs: As in `run`.
            inputs: Its operands by port, including scalars.
            outputs: Its results.
            port, position: The output, and the element in C order.

        Returns:
            None if that is not known; then the node is run on other numbers to find out.
        """
