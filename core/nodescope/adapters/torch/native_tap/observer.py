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
    autograd_node,
    compiling_callback,
    never_compiled,
    not_compiled,
    operator_of,
)
from nodescope.adapters.torch.native_tap.failures import again, kept_instead
from nodescope.adapters.torch.signatures import signature_of
from nodescope.emit.state import current

if TYPE_CHECKING:
    from nodescope.adapters.torch.native_tap.fast_path import NativeFastPath
    from nodescope.adapters.torch.native_tap.journal import StepJournal
    from nodescope.adapters.torch.operations import Call, Instruction, Operations

_now = time.perf_counter_ns
BEGINS, ENDED, FAILED, FLUSHES = range(4)
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

    def __init__(self, library: Any, operations: Operations, fast_path: NativeFastPath) -> None:
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
                path.
            given: The operator that begins; else the call, as this returned it.
            more: Its arguments; when it has ended, its result; when it raised, what was detached in
                it.
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
        return self._do(what, given, more, start, end, saved, instruction)

    def _do(
        self, what: int, given: Any, more: Any, start: int, end: int, saved: Sequence[Any],
        instruction: Instruction,
    ) -> Any:  # fmt: skip
        fast_path = self._fast_path
        if what == BEGINS:
            if self._begins_step(given):
                return True
            if fast_path.away:
                fast_path.lose()
            journal = fast_path.journal
            if journal is not None:
                journal.begin()
            call = self._begin(given, more, instruction)
            if call is None and journal is not None:
                self._note_end(journal)
            return call
        if what == FLUSHES:
            fast_path.flushed()
        elif what == ENDED:
            given.start = start
            self._operations.end(given, more, end, saved)
            if fast_path.journal is not None:
                self._note_end(fast_path.journal)
        else:
            self._failed(given, more)
        return None

    def _note_end(self, journal: StepJournal) -> None:
        journal.end(self._fast_path.after(current(), self._operations.place))

    def _begins_step(self, function: Any) -> bool:
        """Begin the step that a node of this operator begins, if it begins one."""
        emitter = self._operations.emitter
        if (
            not emitter.between_steps
            or current().phase != "forward"
            or self._operations.place.quiet
        ):
            return False
        signature = signature_of(function)
        if signature.unseen or signature.is_read or signature.is_detach or autograd_node():
            return False
        emitter.begin_due()
        return True

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

    def _failed(self, call: Call, kept: list[Any]) -> None:
        try:
            result = again(call)
            known = self._operations.values.known
            new = [tensor for tensor in kept if not known(tensor)]
            result = kept_instead(result, new)
        except Exception as error:
            self._operations.failed(call, error)
        else:
            self._operations.end(call, result, _now())

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
