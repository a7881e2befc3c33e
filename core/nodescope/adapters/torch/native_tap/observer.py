"""NativeTap: passes the operators that the C++ observer sees to `Operations`.

Operators run on whichever thread calls them; those of nodescope's own threads are not the
program's.

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
# Autograd does these alone: nothing is computed.
_ABOVE: Final = frozenset({
    "aten::detach_", "aten::set_data", "aten::_fw_primal", "aten::retain_grad", "aten::_backward",
})  # fmt: skip


class NativeTap:
    """The native tap of a run.

    Args:
        library: The compiled module.
        operations: Of the run.
        fast_path: The fast path of the run.
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
        """Observe none."""
        if self._attached:
            self._attached = False
            self._library.detach()

    def forked(self) -> None:
        """Observe nothing in the child of a fork."""
        self._attached = False
        self._library.forked()

    @never_compiled
    def _called(
        self, what: int, given: Any, more: Any, start: int = 0, end: int = 0,
        saved: Sequence[Any] = (),
    ) -> Any:  # fmt: skip
        """What the observer calls.

        One function for all, so that the frames of an operator's beginning and end differ by an
        instruction: then the one comes after the other, see `emit.rounds`.

        Args:
            what: ``BEGINS``, ``ENDED`` or ``FAILED``; ``FLUSHES``: emit what was noted on the fast
                path; ``WAITS``: wait for the gradients of operands of a followed operator.
            given: The operator that begins; else the call, as this returned it; the values of
                operands.
            more: Its arguments; when it has ended, its result; when it raised, what was detached in
                it; the operands.
            start, end: When it began and ended, by `time.perf_counter_ns`.
            saved: Tensors that it has overwritten, each followed by the copy of what was there
                before, which autograd keeps for the backward pass.

        Returns:
            When it begins: the call, or None if it is not a node. True if a step begins with it: it
            may follow the script, else this is called again.
        """
        # Threads of C++ have no other frame. A frame that refers to itself would keep its tensors.
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
        """The same for an operator by which a data set makes a sample."""
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
        """Whether an operator on a thread that was not seen starting is the program's."""
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
