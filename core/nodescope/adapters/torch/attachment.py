"""Attachment: connects the parts of the adapter for one run.

Invariant: once detached, PyTorch is as before in the thread that began and ended the run; dispatch
modes that remain in other threads pass every operation on unobserved.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import msgspec
import torch

from nodescope.adapters.torch.backward_passes import BackwardPasses
from nodescope.adapters.torch.compat import current_mode
from nodescope.adapters.torch.follower.follower import Follower
from nodescope.adapters.torch.loading.in_program import InProgram
from nodescope.adapters.torch.loading.workers import Workers
from nodescope.adapters.torch.module_scopes import ModuleScopes
from nodescope.adapters.torch.native_tap.choosing import Choice, choose
from nodescope.adapters.torch.native_tap.fast_path import StepFastPath
from nodescope.adapters.torch.native_tap.observer import NativeTap
from nodescope.adapters.torch.operations import Operations
from nodescope.adapters.torch.optimizer_steps import OptimizerSteps
from nodescope.adapters.torch.places import Place
from nodescope.adapters.torch.recomputations import Recomputations
from nodescope.adapters.torch.surroundings import data_loading, function_scopes, thread_starts
from nodescope.adapters.torch.tap import Tap
from nodescope.console_output import say
from nodescope.emit.emitter import Emitter
from nodescope.events import FrameworkAttached
from nodescope.ir.capabilities import Framework


class TorchAttachment:
    """See `Attachment`.

    Args:
        emitter, framework: The run's emitter and framework.
        in_worker: Whether this process is a data loader worker, see `loading`.
    """

    def __init__(self, emitter: Emitter, framework: Framework, *, in_worker: bool = False) -> None:
        self._emitter = emitter
        self._framework = framework  # as emitted last
        self._operations = Operations(emitter, say)
        self._modules = ModuleScopes(emitter, self._operations, self._resume)
        self._optimizers = OptimizerSteps(emitter, self._operations)
        self._backward = BackwardPasses(emitter, self._operations)
        self._recomputations = Recomputations(emitter, self._operations)
        self._ended = False
        attach = functools.partial(TorchAttachment, framework=framework, in_worker=True)
        self._workers = None if in_worker else Workers(emitter, attach)
        choice = Choice(None, "it is a worker") if in_worker else choose()
        if choice.announced:
            say(f"PyTorch is observed by the Python tap, which costs more: {choice.reason}")
        self._native: NativeTap | None = None
        library = choice.library
        if library is None:
            library = Follower(self._operations.place, self._operations.state_before)
            self._operations.values.storages.use(library)
        self._fast_path = StepFastPath(library, self._operations)
        self._operations.fast_path = self._operations.gradients.fast_path = self._fast_path
        if choice.library is not None:
            self._native = NativeTap(choice.library, self._operations, self._fast_path)
        else:
            library.waits = self._fast_path.waits
        self._library = library
        self._in_program = (
            None if in_worker else InProgram(emitter, self._operations, choice.library)
        )

    @property
    def operations(self) -> Operations:
        """The operations of the run."""
        return self._operations

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Observe PyTorch until the context is left."""
        operations, emitter = self._operations, self._emitter
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._modules.hooked())
            stack.enter_context(self._optimizers.hooked())
            stack.enter_context(self._backward.followed())
            stack.enter_context(self._recomputations.followed())
            stack.enter_context(data_loading(emitter, operations, self._workers, self._in_program))
            stack.enter_context(function_scopes(emitter, operations))
            stack.enter_context(self._fast_path.connected())
            if self._workers is not None:
                stack.enter_context(thread_starts(self._enter, self._leave))
                stack.enter_context(self._workers.observed())
            operations.off = False
            self._enter()
            try:
                yield
            finally:
                self._fast_path.end()
                self._tell_threads()
                operations.off = self._ended = True
                operations.gradients.detach()
                if self._in_program is not None:
                    self._in_program.end()
                self._leave()
                if self._native is not None:
                    self._native.leave()
                operations.devices.end()

    def name_model(self, module: object, name: str) -> None:
        """Name an outermost module, see `nodescope.watch`."""
        self._modules.name_model(module, name)

    # Attachment

    def rest(self) -> None:
        """Emit nothing until `wake`."""
        self._fast_path.rest()
        self._operations.off = self._operations.gradients.off = True
        self._operations.values.gap += 1
        self._leave()

    def wake(self) -> None:
        """Emit again."""
        if not self._ended:
            self._operations.off = self._operations.gradients.off = False
            self._enter()

    def step_begins(self) -> None:
        """Forget what belongs to the previous step."""
        self._tell_threads()
        self._fast_path.step_begins()
        self._operations.begin_step()

    def steps_end(self) -> None:
        """Do nothing: no count here outlives a step."""

    def forked(self) -> None:
        """Emit nothing in a forked child."""
        self._operations.off = self._operations.gradients.off = self._ended = True
        self._operations.devices.forked()
        if self._workers is not None:
            self._workers.forked()
        if self._native is not None:
            self._native.forked()
        else:
            self._library.forked()
        with contextlib.suppress(Exception):
            self._leave()

    # Threads

    def _tell_threads(self) -> None:
        """Emit the number of PyTorch's compute threads if the program has changed it."""
        threads = torch.get_num_threads()
        if threads != self._framework.threads:
            self._framework = msgspec.structs.replace(self._framework, threads=threads)
            self._emitter.bus.emit(FrameworkAttached(self._framework))

    def _enter(self) -> None:
        """Observe the calling thread."""
        place = self._operations.place
        if self._native is not None:
            place.mode = self._native
            if not self._ended:
                self._native.enter()
        elif place.mode is None and not self._ended:
            place.mode = Tap(self._operations, self._fast_path, self._library)
            place.mode.__enter__()

    def _leave(self) -> None:
        """Stop observing the calling thread.

        A dispatch mode that is not the innermost stays, and passes operations on unobserved.
        """
        place = self._operations.place
        if self._native is not None:
            if self._operations.off:
                self._native.leave()
        elif place.mode is not None and current_mode() is place.mode:
            place.mode.__exit__(None, None, None)
            place.mode = None

    def _resume(self, place: Place) -> None:
        """Stop or resume observing at the start of an outermost call, as the step requires."""
        if self._operations.off:
            self._leave()
        else:
            self._enter()
