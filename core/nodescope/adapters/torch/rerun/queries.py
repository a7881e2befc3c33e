"""Queries to PyTorch: an operator's results, how it moves elements, its derivatives.

Invariant: one process serves all readers. Answers about places are cached, since readers ask about
many elements of one output.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from nodescope.adapters.torch.rerun.process import TorchProcess
from nodescope.adapters.torch.rerun.wire import Request
from nodescope.events import Array
from nodescope.ir.attrs import encode

MOST_MAPS: Final = 64
"""The number of cached answers about places."""


class Torch:
    """PyTorch in a separate process.

    Attributes:
        process: The process.
        threads: The number of threads that it computes with; 0 for its own choice.
    """

    def __init__(self, process: TorchProcess) -> None:
        self.process = process
        self.threads = 0
        self._maps: OrderedDict[bytes, Array] = OrderedDict()

    def run(self, native: str, attrs: dict[str, Any], arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs of an operator. Raises `ReplayError`."""
        request = Request("run", native, encode(attrs), (), self.threads)
        return self.process.ask(request, arrays)

    def places(
        self, native: str, attrs: dict[str, Any], arrays: Sequence[Array], port: int,
        selectors: tuple[int, ...],
    ) -> Array:  # fmt: skip
        """For each element of an output, the number of the input element it is, counted through
        all inputs that do not select; -1 for none.

        Raises:
            ReplayError: PyTorch cannot say.
        """
        request = Request("places", native, encode(attrs), (), port=port, kept=selectors)
        key = hashlib.blake2b(repr(request).encode(), digest_size=16)
        for number, array in enumerate(arrays):
            key.update(repr((array.dtype.str, array.shape, array.strides)).encode())
            if number in selectors:
                key.update(array.tobytes())
        places = self._maps.get(key.digest())
        if places is None:
            (places,) = self.process.ask(request, arrays)
            self._maps[key.digest()] = places
            if len(self._maps) > MOST_MAPS:
                self._maps.popitem(last=False)
        return places

    def slopes(
        self, native: str, attrs: dict[str, Any], arrays: Sequence[Array], port: int,
        position: int, *, kept: tuple[int, ...] = (), pair: tuple[int, ...] = (),
    ) -> tuple[list[tuple[Array, Array]], Array | None]:  # fmt: skip
        """The elements with a nonzero derivative and the derivatives, by input.

        With a pair, also the partners of the elements of its first input.

        Raises:
            ReplayError: PyTorch cannot say.
        """
        request = Request(
            "slopes", native, encode(attrs), (), port=port, position=position, kept=kept, pair=pair
        )
        answer = list(self.process.ask(request, arrays))
        partners = answer.pop() if pair else None
        return list(zip(answer[::2], answer[1::2], strict=True)), partners


TORCH: Final = Torch(TorchProcess())
