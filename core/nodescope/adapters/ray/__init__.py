"""The adapter of Ray: tasks, actors and their methods, in whichever process they run.

It imports nothing of Ray until it is attached, which happens once the program has imported it.
`attachment` puts the parts together: `submitting` observes submissions, in the program and in
workers; `worker` observes the tasks that run there; `hub` keeps the connections to workers; `book`
turns all this into nodes.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from typing import Final

from nodescope.adapters.protocol import Adapter, Attachment
from nodescope.arrays import ArrayOps
from nodescope.emit.emitter import Emitter
from nodescope.ir.capabilities import Capabilities

SUPPORTED: Final = (2, 60)
"""The version of Ray that is tested."""


class RayAdapter:
    """Ray's `Adapter`."""

    name = "ray"
    module = "ray"

    def missing(self) -> str:
        """Why the installed version is not supported, or ``""``."""
        version = self.version()
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers == SUPPORTED:
            return ""
        return (
            f"Ray {version or 'of an unknown version'} is installed, and "
            f"{'.'.join(map(str, SUPPORTED))} is supported: pip install 'nodescope[ray]'"
        )

    def version(self) -> str:
        """The version of Ray."""
        try:
            return importlib.metadata.version("ray")
        except importlib.metadata.PackageNotFoundError:
            return ""

    def capabilities(self) -> Capabilities:
        """Everything but gradients, steps of its own, and running tasks again."""
        return Capabilities(
            before=True, edit="replace", scopes="names", timing="host", values="full", workers=True,
            immutable=True, unrolled=True,
        )  # fmt: skip

    def arrays(self) -> Mapping[type, ArrayOps]:
        """The operations for values that stay in a worker."""
        from nodescope.adapters.ray.distant import Distant, DistantContents

        return {Distant: DistantContents()}

    @contextlib.contextmanager
    def attach(self, emitter: Emitter) -> Iterator[Attachment]:
        """Emit the program's tasks until the context is left."""
        from nodescope.adapters.ray.attachment import RayAttachment

        attachment = RayAttachment(emitter)
        with attachment.attached():
            yield attachment


ADAPTER: Final[Adapter] = RayAdapter()
