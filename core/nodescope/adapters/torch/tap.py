"""Tap: the dispatch mode that receives each ATen operation of a thread.

Invariant: it calls every operation once, with the program's arguments, and returns its result.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch

from nodescope.adapters.torch.compat import (
    FakeTensor,
    OpOverload,
    TorchDispatchMode,
    compiling_callback,
    never_compiled,
    not_compiled,
)
from nodescope.adapters.torch.follower.follower import FLUSHED_NS, Follower
from nodescope.adapters.torch.follower.step_recording import FAST, RECORDING

if TYPE_CHECKING:
    from nodescope.adapters.torch.follower.script import Item
    from nodescope.adapters.torch.native_tap.fast_path import StepFastPath
    from nodescope.adapters.torch.operations import Instruction, Operations

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WITHOUT_SHAPES = (FakeTensor, torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)
_NONE: Final[dict[str, Any]] = {}
_now = time.perf_counter_ns


class Tap(TorchDispatchMode):  # type: ignore[misc]
    """Passes operations to `Follower`, and those that the follower does not expect to `Operations`.

    The follower checks whether a step repeats its script, the recording of an earlier step.
    """

    # Without this, operators that take functions (cond, flex_attention) raise.
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: torch.compile compiles as it would without the mode."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: PyTorch's own way to keep Dynamo out costs as much as the operation."""
        return False

    def __init__(self, operations: Operations, fast_path: StepFastPath, follower: Follower) -> None:
        super().__init__()
        self._operations = operations
        self._fast_path = fast_path
        self._follower = follower

    @never_compiled
    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operation."""
        follower = self._follower  # its mode is not FAST while nothing is observed
        if follower.mode == FAST and compiling_callback() is None:
            try:
                tensors = follower.begin(func, args, kwargs or _NONE)
            except Exception as error:
                self._fast_path.give_up(error)
                tensors = None
            if tensors is not None:
                start = _now()
                try:
                    result = func(*args, **kwargs) if kwargs else func(*args)
                except BaseException as error:
                    instruction = _instruction(sys._getframe().f_back)
                    self._failed(func, args, kwargs or {}, instruction, start, error)
                    raise
                end = _now()
                try:
                    follows = follower.end(tensors, result, start, end)
                except Exception as error:
                    self._fast_path.give_up(error)
                    follows = False
                if not follows:
                    instruction = _instruction(sys._getframe().f_back)
                    self._ended(func, args, kwargs or {}, instruction, result, start, end)
                elif follower.is_full or end - follower.flushed_ns > FLUSHED_NS:
                    self._fast_path.flushed()
                return result
        operations = self._operations
        if operations.off or operations.place.quiet or not isinstance(func, OpOverload):
            return func(*args, **(kwargs or {}))
        for kind in types:
            if kind not in _PLAIN and issubclass(kind, _WITHOUT_SHAPES):
                return func(*args, **(kwargs or {}))
        if kwargs is None:
            kwargs = {}
        # Threads of autograd have no calling frame. A frame in a local variable that referred to
        # itself would keep its tensors alive.
        instruction = _instruction(sys._getframe().f_back)
        if compiling_callback() is not None:
            return _run_apart(self._run, func, args, kwargs, instruction)
        return self._run(func, args, kwargs, instruction)

    def _run(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], instruction: Instruction
    ) -> Any:
        """Run an operation that is not the script's next one."""
        operations, fast_path, follower = self._operations, self._fast_path, self._follower
        if operations.is_unseen(function):
            return function(*args, **kwargs)
        tensors: list[Any] | None = None
        if fast_path.begins_step(function):
            if operations.off:  # the step is left out
                return function(*args, **kwargs)
            tensors = self._begins(function, args, kwargs)
        item = call = None
        if tensors is None:
            if follower.mode == RECORDING:
                item = self._captured(function, args, kwargs)
            fast_path.operator_begins()
            call = operations.begin(function, args, kwargs, instruction)
            if call is None:
                fast_path.operator_ended()
                if item is not None:
                    follower.captured(item, None, reported=False)
                return function(*args, **kwargs)
            call.start = _now()
        start = _now()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            follower.spoil()
            if call is None:
                self._failed(function, args, kwargs, instruction, start, error)
            else:
                operations.failed(call, error)
            raise
        end = _now()
        if tensors is not None:
            if not self._follows(tensors, result, start, end):
                self._ended(function, args, kwargs, instruction, result, start, end)
            return result
        if item is not None:
            self._captured_to_the_end(item, result)
        assert call is not None
        operations.end(call, result, end)
        fast_path.operator_ended()
        return result

    # Observation around an operation: an exception raised here never reaches the program.

    def _begins(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> list[Any] | None:
        """The tensor arguments of a step's first operation if it matches the script, else None."""
        if self._follower.mode != FAST:
            return None
        try:
            return self._follower.begin(function, args, kwargs)
        except Exception as error:
            self._fast_path.give_up(error)
            return None

    def _follows(self, tensors: Sequence[Any], result: Any, start: int, end: int) -> bool:
        """Whether an operation that has run matches the script."""
        try:
            return self._follower.end(tensors, result, start, end)
        except Exception as error:
            self._fast_path.give_up(error)
            return False

    def _captured(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Item | None:
        """Record an operation of a step that may become a script; None if that is not possible."""
        if self._follower.thread == threading.get_ident():
            try:
                return self._follower.capture(function, args, kwargs)
            except Exception as error:
                self._fast_path.give_up(error)
        self._follower.spoil()
        return None

    def _captured_to_the_end(self, item: Item, result: Any) -> None:
        try:
            self._follower.captured(item, result, reported=True)
        except Exception as error:
            self._fast_path.give_up(error)

    def _ended(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], instruction: Instruction,
        result: Any, start: int, end: int,
    ) -> None:  # fmt: skip
        """Emit an operation that has run and does not match the script after all."""
        self._fast_path.operator_begins()
        call = self._operations.begin(function, args, kwargs, instruction)
        if call is not None:
            call.start = start
            self._operations.end(call, result, end)
        self._fast_path.operator_ended()

    def _failed(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], instruction: Instruction,
        start: int, error: BaseException,
    ) -> None:  # fmt: skip
        """Emit that an operation of the script raised."""
        self._fast_path.operator_begins()
        call = self._operations.begin(function, args, kwargs, instruction)
        if call is not None:
            call.start = start
            self._operations.failed(call, error)


def _instruction(caller: FrameType | None) -> Instruction:
    return _ALONE if caller is None else (caller.f_code, caller.f_lasti)


@not_compiled
def _run_apart(run: Callable[..., Any], *call: Any) -> Any:
    return run(*call)


_ALONE: Final = (Tap.__torch_dispatch__.__code__, 0)
