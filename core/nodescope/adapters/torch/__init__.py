"""The PyTorch adapter: eager operations of the forward pass, the backward pass and optimizers.

It does not import PyTorch until it is attached, which happens once the program has imported it.
`attachment` connects the parts. Operations are observed by one of two taps: `native_tap`, which is
compiled at first use, or `tap`, a dispatch mode.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nodescope.adapters.protocol import Adapter, Attachment
from nodescope.arrays import ArrayOps
from nodescope.emit.emitter import Emitter
from nodescope.ir.capabilities import Capabilities

SUPPORTED: Final = (2, 13)
"""The version that is tested."""
ALSO: Final = ((2, 11), (2, 12))
"""Other versions that are accepted: they have everything that the adapter needs."""


class TorchAdapter:
    """PyTorch's `Adapter`."""

    name = "torch"
    module = "torch"

    def missing(self) -> str:
        """Why the installed version is not supported, or ``""``."""
        version = self.version()
        numbers = tuple(
            int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit()
        )
        if numbers == SUPPORTED or numbers in ALSO:
            return ""
        return (
            f"PyTorch {version or 'of an unknown version'} is installed, and "
            f"{'.'.join(map(str, SUPPORTED))} is supported: pip install 'nodescope[torch]'"
        )

    def version(self) -> str:
        """The version of PyTorch."""
        try:
            return importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            return ""

    def threads(self) -> int:
        """The number of threads that compute an operation, on which the rounding of sums depends; 0
        if PyTorch is not loaded.
        """
        torch = sys.modules.get("torch")
        return 0 if torch is None else int(torch.get_num_threads())

    def capabilities(self) -> Capabilities:
        """Everything except re-running whole graphs."""
        return Capabilities(
            before=True, edit="in_place", gradients=True, scopes="modules", steps="optimizer",
            timing="host", values="full", rerun="node",
        )  # fmt: skip

    def arrays(self) -> Mapping[type, ArrayOps]:
        """The array operations for tensors, and for values of data loader workers."""
        import torch

        from nodescope.adapters.torch.loading.messages import InWorker, InWorkerContents
        from nodescope.adapters.torch.tensors import TorchTensors

        return {torch.Tensor: TorchTensors(), InWorker: InWorkerContents()}

    def details(self) -> Sequence[tuple[str, str]]:
        """Which tap a run would use, and why."""
        from nodescope.adapters.torch.native_tap.choosing import state

        return [("  tap", state())]

    @contextlib.contextmanager
    def attach(self, emitter: Emitter) -> Iterator[Attachment]:
        """Emit PyTorch's operations until the context is left."""
        from nodescope.adapters.attached import framework_of
        from nodescope.adapters.torch.attachment import TorchAttachment

        attachment = TorchAttachment(emitter, framework_of(self))
        with attachment.attached():
            yield attachment


ADAPTER: Final[Adapter] = TorchAdapter()
