"""The adapter of `library`, whose arrays are in another process."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np

from nodescope.adapters.protocol import Attachment
from nodescope.arrays import ArrayOps, Captured, Window
from nodescope.emit.emitter import Emitter
from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.capabilities import Capabilities
from nodescope.ir.graph import OpaqueSpec, Spec, TensorSpec
from nodescope.record.summary import TensorSummary
from tests.adapters.foreign import library
from tests.adapters.foreign.library import Distant


class Snapshot:
    """A copy made in the other process, which the recorder fetches."""

    def __init__(self, array: Distant) -> None:
        sizes = [size or 0 for size in array.shape]
        self.nbytes = int(np.prod(sizes)) * 8
        handle = next(library._handles)
        library.process().tell("copy", array.handle, handle)
        self._future: Future[Any] = library.process().ask("fetch", handle, None)
        library.process().tell("free", handle)

    def resolve(self) -> Any:
        """The elements."""
        return self._future.result(30)


class Statistics:
    """Statistics computed in the other process, fetched by the recorder or at a stop."""

    nbytes = 512

    def __init__(self, array: Distant) -> None:
        self._spec = TensorSpec(tuple(size or 0 for size in array.shape), array.dtype)
        handle = next(library._handles)
        library.process().tell("copy", array.handle, handle)
        self._future: Future[Any] = library.process().ask("describe", handle)
        library.process().tell("free", handle)

    def resolve(self) -> Any:
        """The statistics."""
        nbytes = int(np.prod(self._spec.shape)) * 8
        return TensorSummary(self._spec, nbytes, **self._future.result(30))


class DistantArrays:
    """See `ArrayOps`."""

    def spec(self, array: Distant) -> Spec:
        return TensorSpec(array.shape, array.dtype, "distant:0")

    def nbytes(self, array: Distant) -> int:
        return int(np.prod([size or 0 for size in array.shape])) * 8

    def capture(self, array: Distant, level: Level) -> Array | Captured | None:
        known = None not in array.shape
        return Statistics(array) if level == "summary" and known else Snapshot(array)

    def numpy(self, array: Distant, window: Window | None = None) -> Array:
        try:
            return array.fetch(window)
        except Exception as error:
            raise ArrayError(f"it is not to be had: {error}") from error

    def refusal(self, array: Distant) -> str:
        return "it is a view of another value" if array.base is not None else ""

    def write(self, array: Distant, new: Array) -> None:
        library.process().tell("write", array.handle, new)


SEEDS = ("one_like",)
"""The starting values of backward passes: data made by the library, computed from nothing."""


def storage(array: Distant) -> int:
    """A number for the memory of an array: the handle of its base."""
    return array.handle if array.base is None else storage(array.base)


class Attached:
    """See `Attachment`."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.off = False
        self._ids: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def rest(self) -> None:
        self.off = True

    def wake(self) -> None:
        self.off = False

    def step_begins(self) -> None:
        pass

    def steps_end(self) -> None:
        pass

    def forked(self) -> None:
        self.off = True

    def hook(self, name: str, inputs: tuple[Any, ...], attrs: Any, run: Any) -> Any:
        """Called by the library around each operation."""
        emitter = self.emitter
        if self.off:
            return run()
        if name in SEEDS:
            result = run()
            self._id(result, "constant")
            return result
        ids = tuple(self._id(array) for array in inputs)
        writes = ((0, 0),) if name.endswith("_") else ()
        specs: list[Any] = [self._expected(name, inputs)]
        pending = emitter.enter(
            name, "op", ids, specs, attrs, writes, arrays=inputs, dialect="distant",
            native=f"distant::{name}", device="distant:0",
            storages=tuple(map(storage, inputs[:1])) if name in ("peek", "nudge_") else (),
        )  # fmt: skip
        self._take(pending.edits, inputs)
        start = time.perf_counter_ns()
        try:
            result = run()
        except BaseException as error:
            emitter.fail(pending, error)
            raise
        self._ids[result] = pending.outputs[0]
        if writes:
            self._ids[inputs[0]] = pending.outputs[0]
        edits = emitter.finish(pending, (result,), start, time.perf_counter_ns())
        self._take(edits, (result, *inputs))
        return result

    def differentiated(self, result: Distant) -> contextlib.AbstractContextManager[None]:
        """Called by the library around operations that differentiate one."""
        if self.off:
            return contextlib.nullcontext()
        node = self.emitter.node_of(self._ids.get(result, 0))
        return self.emitter.phase("backward", None if node is None else node.id)

    def backward(self, loss: Distant) -> None:
        """Called by the library when a backward pass begins, also in steps that are left out."""
        self.emitter.backward_begins(self._ids.get(loss, 0), loss.fetch())

    def gradient(self, array: Distant, gradient: Distant) -> None:
        """Called by the library with each gradient."""
        if not self.off:
            edits = self.emitter.gradient(self._id(array), self._id(gradient), gradient)
            self._take(edits, (gradient,))

    def _expected(self, name: str, inputs: tuple[Any, ...]) -> Any:
        shape = {
            "frobnicate": lambda: (inputs[0].shape[0], inputs[1].shape[1]),
            "quash": lambda: (),
            "pile": lambda: (inputs[0].shape[0] + inputs[1].shape[0], inputs[0].shape[1]),
            "peek": lambda: inputs[0].shape[1:],
            "sieve": lambda: (None,),
            "quash_back": lambda: inputs[1].shape,
            "frobnicate_back": lambda: (inputs[1].shape[1], inputs[0].shape[1]),
        }.get(name, lambda: inputs[0].shape)
        if name == "ponder":
            return OpaqueSpec("library.Token")
        return TensorSpec(shape(), "float64", "distant:0")

    def _id(self, array: Any, role: str = "input") -> int:
        known = self._ids.get(array)
        if known is None:
            spec = TensorSpec(array.shape, array.dtype, "distant:0")
            role = "parameter" if array.weight else role
            op = {"input": "tensor"}.get(role, role)
            pending = self.emitter.enter(
                op, role, (), [spec], {}, dialect="distant", storages=(storage(array),)
            )
            known = self._ids[array] = pending.outputs[0]
            self.emitter.finish(pending, (array,))
        return known

    def _take(self, edits: Mapping[int, Array], arrays: tuple[Any, ...]) -> None:
        for array in arrays if edits else ():
            new = edits.get(self._ids.get(array, 0))
            if new is not None:
                DistantArrays().write(array, new)


class DistantAdapter:
    """See `Adapter`."""

    name = "distant"
    module = "tests.adapters.foreign.library"

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "0.1"

    def capabilities(self) -> Capabilities:
        return Capabilities(
            before=True, edit="in_place", gradients=True, scopes="names", steps="optimizer",
            timing="host", values="full", rerun="none",
        )  # fmt: skip

    def arrays(self) -> Mapping[type, ArrayOps]:
        return {Distant: DistantArrays()}

    @contextlib.contextmanager
    def attach(self, emitter: Emitter) -> Iterator[Attachment]:
        attached = Attached(emitter)
        library.HOOKS.append(attached.hook)
        library.STEP_HOOKS.append(emitter.optimizer_stepped)
        library.SECTION_HOOKS.append(emitter.scope)
        library.BACKWARD_HOOKS.append(attached.differentiated)
        library.LOSS_HOOKS.append(attached.backward)
        library.GRADIENT_HOOKS.append(attached.gradient)
        try:
            yield attached
        finally:
            library.HOOKS.remove(attached.hook)
            library.STEP_HOOKS.remove(emitter.optimizer_stepped)
            library.SECTION_HOOKS.remove(emitter.scope)
            library.BACKWARD_HOOKS.remove(attached.differentiated)
            library.LOSS_HOOKS.remove(attached.backward)
            library.GRADIENT_HOOKS.remove(attached.gradient)


ADAPTER = DistantAdapter()
