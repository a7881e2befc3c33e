"""NativeTap: passes the operators that the C++ observer sees to `Operations`.

The observer sees the operators of all threads; those of nodescope's own threads are ignored.

Invariant: an `Exception` of this code never reaches the program.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nodescope import native
from nodescope.adapters.torch.compat import (
    compiling_callback,
    never_compiled,
    not_compiled,
    not_traced,
    operator_of,
    tracing_state,
)
from nodescope.adapters.torch.native_tap.failures import again, kept_instead
from nodescope.adapters.torch.signatures import signature_of

if TYPE_CHECKING:
    from nodescope.adapters.torch.native_tap.fast_path import StepFastPath
    from nodescope.adapters.torch.operations import Call, Instruction, Operations

_now = time.perf_counter_ns
BEGINS, ENDED, FAILED, FLUSHES, WAITS = range(5)
# Operators that only do autograd's bookkeeping: they compute nothing.
_ABOVE: Final = frozenset({
    "aten::detach_", "aten::set_data", "aten::_fw_primal", "aten::retain_grad", "aten::_backward",
})  # fmt: skip


class NativeTap:
    """The native tap of a run.

    Args:
        library: The compiled module.
        operations: The run's operations.
        fast_path: The run's fast path.
    """

    def __init__(self, library: Any, operations: Operations, fast_path: StepFastPath) -> None:
        self._library = library
        self._operations = operations
        self._fast_path = fast_path
        self._attached = False
        operations.values.storages.use(library)
        library.use_core(native.float_statistics)

    def enter(self) -> None:
        """Observe the operators of all threads."""
        if not self._attached:
            self._attached = True
            self._library.attach(_resolve, self._called)

    def leave(self) -> None:
        """Stop observing operators."""
        if self._attached:
            self._attached = False
            self._library.detach()

    def forked(self) -> None:
        """Observe nothing in a forked child."""
        self._attached = False
        self._library.forked()

    @never_compiled
    def _called(
        self, what: int, given: Any, more: Any, start: int = 0, end: int = 0,
        saved: Sequence[Any] = (),
    ) -> Any:  # fmt: skip
        """The callback of the observer.

        A single function handles all events, so that the frames at an operator's beginning and end
        differ only by the instruction: `emit.rounds` then sees the end after the beginning.

        Args:
            what: The event: ``BEGINS``, ``ENDED`` or ``FAILED``; ``FLUSHES``: emit the followed
                executions; ``WAITS``: set gradient hooks on operands of a followed operator.
            given: For ``BEGINS`` the operator; for ``ENDED`` and ``FAILED`` the call that
                ``BEGINS`` returned; for ``WAITS`` the value ids of the operands.
            more: For ``BEGINS`` the arguments; for ``ENDED`` the result; for ``FAILED`` the tensors
                that were detached in the operator; for ``WAITS`` the operands.
            start, end: When the operator began and ended, by `time.perf_counter_ns`.
            saved: Tensors that the operator has overwritten, each followed by the copy of its old
                contents that autograd keeps for the backward pass.

        Returns:
            For ``BEGINS``: the call, or None if it is not a node. True if the operator begins a
            step: the observer then tries to follow the script, and calls again if it cannot.
        """
        # C++ threads have no calling frame. A frame in a local variable that referred to itself
        # would keep its tensors alive.
        caller = sys._getframe().f_back
        instruction = _ALONE if caller is None else (caller.f_code, caller.f_lasti)
        if compiling_callback() is not None:
            return _apart(self._do, what, given, more, start, end, saved, instruction)
        if tracing_state() is not None:
            return not_traced(self._do, what, given, more, start, end, saved, instruction)
        return self._do(what, given, more, start, end, saved, instruction)

    def _do(
        self, what: int, given: Any, more: Any, start: int, end: int, saved: Sequence[Any],
        instruction: Instruction,
    ) -> Any:  # fmt: skip
        fast_path = self._fast_path
        data = self._operations.place.data
        if data is not None and what in (BEGINS, ENDED, FAILED):
            return self._in_data(data, what, given, more, start, end, saved, instruction)
        if what == BEGINS:
            if fast_path.begins_step(given):
                return True
            fast_path.operator_begins()
            call = self._begin(given, more, instruction)
            if call is None:
                fast_path.operator_ended()
            return call
        if what == FLUSHES:
            fast_path.flushed()
        elif what == WAITS:
            fast_path.waits(more, given)
        elif what == ENDED:
            given.start = start
            self._operations.end(given, more, end, saved)
            fast_path.operator_ended()
        else:
            self._failed(self._operations, given, more)
        return None

    def _in_data(
        self, operations: Operations, what: int, given: Any, more: Any, start: int, end: int,
        saved: Sequence[Any], instruction: Instruction,
    ) -> Any:  # fmt: skip
        """Like `_do`, for an operator of data loading in the program."""
        if what == BEGINS:
            call = operations.begin(given, more, {}, instruction)
            if call is not None:
                call.start = _now()
            return call
        if what == ENDED:
            given.start = start
            operations.end(given, more, end, saved)
        else:
            self._failed(operations, given, more)
        return None

    def _begin(self, function: Any, args: tuple[Any, ...], instruction: Instruction) -> Call | None:
        operations = self._operations
        place = operations.place
        if operations.off or place.quiet:
            return None
        if place.mode is None and not self._is_programs(place):
            return None
        call = operations.begin(function, args, {}, instruction)
        if call is not None:
            call.start = _now()
        return call

    def _failed(self, operations: Operations, call: Call, kept: list[Any]) -> None:
        try:
            result = again(call)
            known = operations.values.known
            new = [tensor for tensor in kept if not known(tensor)]
            result = kept_instead(result, new)
        except Exception as error:
            operations.failed(call, error)
        else:
            operations.end(call, result, _now())

    def _is_programs(self, place: Any) -> bool:
        """Whether a thread whose start was not observed is the program's; registers it if so."""
        if threading.current_thread().name.startswith("nodescope"):
            return False
        place.mode = self
        return True


@not_compiled
def _apart(do: Callable[..., Any], *given: Any) -> Any:
    return do(*given)


def _resolve(name: str) -> Any:
    function = None if name in _ABOVE else operator_of(name)
    return None if function is None or signature_of(function).unseen else function


_ALONE: Final = (NativeTap._called.__code__, 0)
