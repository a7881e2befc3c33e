"""Compat: the private and semi-private names of PyTorch 2.13 that the adapter depends on.

Invariant: no other file of the adapter uses a private name of PyTorch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    get_eval_frame_callback,
    set_code_exec_strategy,
)
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.nn.modules import module as modules
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode,
    _push_mode,
)
from torch.utils.checkpoint import CheckpointFunction, _CheckpointFrame, _recomputation_hook
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL, fetch, worker
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

__all__ = [
    "LOADERS_OWN_WAIT_S",
    "WORKER_ID",
    "CheckpointFunction",
    "CheckpointedRegion",
    "FakeTensor",
    "OpOverload",
    "RecomputationHook",
    "TorchDispatchMode",
    "add_last_hook",
    "autograd_node",
    "compiling_callback",
    "constant_of",
    "current_mode",
    "current_stream",
    "data_loader_iterator",
    "fake_mode_of",
    "fetchers",
    "flat_inputs",
    "has_last_hook",
    "hidden_hooks",
    "hint_of",
    "is_composite",
    "is_zero_tensor",
    "never_compiled",
    "not_compiled",
    "not_traced",
    "operator_of",
    "other_worker_loop",
    "pop_mode",
    "push_mode",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "remove_last_hook",
    "schema_of",
    "sequence_number",
    "sequence_of",
    "storage_address",
    "tracing_state",
    "unflattened",
    "unflattened_inputs",
    "waiting_for_workers",
    "worker_loop",
]  # fmt: skip

OpOverload: Final = torch._ops.OpOverload
"""The class of operators."""

autograd_node: Final[Callable[[], Any]] = torch._C._current_autograd_node
"""The autograd node that the calling thread evaluates, or None."""

current_stream: Final[Callable[[int], int]] = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda index: 0
)
"""The calling thread's current stream on a CUDA device, as a CUDA stream handle."""

sequence_number: Final[Callable[[], int]] = torch.autograd._get_sequence_nr
"""The number that the next autograd node of the calling thread gets."""

current_mode: Final[Callable[[], Any]] = _get_current_dispatch_mode
"""The dispatch mode on top of the calling thread's stack, or None."""

pop_mode: Final[Callable[[], Any]] = _pop_mode
push_mode: Final[Callable[[Any], None]] = _push_mode
data_loader_iterator: Final = _BaseDataLoaderIter

worker_loop: Final[Callable[..., None]] = worker._worker_loop
"""The loop that a data loader worker runs."""

WORKER_ID: Final = 10
"""The position of the worker's number among the arguments of `worker_loop`."""

LOADERS_OWN_WAIT_S: Final = MP_STATUS_CHECK_INTERVAL
"""The seconds that a data loader waits for a batch at a time if the program sets no timeout."""

fetchers: Final[tuple[Any, ...]] = (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher)
"""The classes whose method ``fetch`` makes a batch."""

CheckpointedRegion: Final = _CheckpointFrame
"""The record that a checkpoint keeps if it does not use reentrant backward."""

RecomputationHook: Final = _recomputation_hook
"""The context in which such a checkpoint recomputes; made from a reference to the region."""


@contextlib.contextmanager
def other_worker_loop(make: Callable[[Callable[..., None]], Any]) -> Iterator[None]:
    """Have workers that start inside the context run another loop.

    Args:
        make: Makes the loop from the one that the workers would otherwise run.
    """
    before = worker._worker_loop
    worker._worker_loop = make(before)
    try:
        yield
    finally:
        worker._worker_loop = before


@contextlib.contextmanager
def waiting_for_workers(
    wait: Callable[[Callable[[float], tuple[bool, Any]], float], tuple[bool, Any]],
) -> Iterator[None]:
    """Have data loaders wait for batches through another function.

    Args:
        wait: Waits for a batch; called with PyTorch's own function, which waits for the given
            seconds, and with the timeout in seconds.
    """
    before = _MultiProcessingDataLoaderIter._try_get_data

    def waiting(iterator: Any, timeout: float = LOADERS_OWN_WAIT_S) -> tuple[bool, Any]:
        return wait(lambda seconds: before(iterator, seconds), timeout)

    _MultiProcessingDataLoaderIter._try_get_data = waiting
    try:
        yield
    finally:
        _MultiProcessingDataLoaderIter._try_get_data = before


@contextlib.contextmanager
def hidden_hooks(*hooks: Any) -> Iterator[None]:
    """Hide these global module hooks where PyTorch checks whether any are registered.

    PyTorch would otherwise warn that it may call such hooks more often than the program expects.
    """
    kinds = ("backward_pre", "backward", "forward_pre", "forward")
    tables = [getattr(modules, f"_global_{kind}_hooks") for kind in kinds]
    original = modules._has_any_global_hook
    ours = {hook.id for hook in hooks}
    modules._has_any_global_hook = lambda: any(set(table) - ours for table in tables)
    try:
        yield
    finally:
        modules._has_any_global_hook = original


_LAST: Final = "nodescope"


def add_last_hook(module: Any, hook: Callable[..., Any]) -> bool:
    """Add a hook that runs after a module's own forward hooks, also if the call raises.

    Returns:
        Whether the hook was added; it is not if the module has no forward hooks of its own.
    """
    if not module._forward_hooks:
        return False
    module._forward_hooks[_LAST] = hook
    module._forward_hooks_always_called[_LAST] = True
    return True


def has_last_hook(module: Any) -> bool:
    """Whether a module has a hook that `add_last_hook` added."""
    return _LAST in module._forward_hooks


def remove_last_hook(module: Any) -> None:
    """Remove the hook that `add_last_hook` added, if any."""
    module._forward_hooks.pop(_LAST, None)
    module._forward_hooks_always_called.pop(_LAST, None)


def schema_of(function: Any) -> Any:
    """The schema of an operator overload."""
    return function._schema


def operator_of(name: str) -> Any:
    """The operator overload with a full name, such as ``aten::add.Tensor``, or None."""
    whole, _, overload = name.partition(".")
    namespace, _, short = whole.partition("::")
    if "." in namespace:  # the name of the operator's library has a dot
        return None
    try:
        packet = getattr(getattr(torch.ops, namespace), short)
        return getattr(packet, overload or "default")
    except (AttributeError, RuntimeError):
        return None


def sequence_of(node: Any) -> int:
    """The number that an autograd node got when it was made."""
    number: int = node._sequence_nr()
    return number


def storage_address(storage: Any) -> int:
    """The address of a storage; unique as long as it lives."""
    address: int = storage._cdata
    return address


compiling_callback: Final[Callable[[], Any]] = get_eval_frame_callback
"""The callback that compiles new frames, as inside a function compiled by torch.compile; None if
there is none."""


def never_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have Dynamo run a function uncompiled; functions that it calls may be compiled."""
    strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.DEFAULT)
    set_code_exec_strategy(function.__code__, strategy)
    return function


def not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that Dynamo compiles neither it nor anything that it calls."""
    wrapped: Callable[..., Any] = torch._disable_dynamo(function, recursive=True)
    return wrapped


tracing_state: Final[Callable[[], Any]] = torch._C._get_tracing_state
"""The state of `torch.jit.trace` on the calling thread; None if no trace is running there."""


def not_traced(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function without `torch.jit.trace` recording its operators."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return function(*given)
    finally:
        torch._C._set_tracing_state(state)


def is_zero_tensor(tensor: Any) -> bool:
    """Whether a tensor represents zeros without storing them."""
    return bool(tensor._is_zerotensor())


# Exported programs


def constant_of(value: Any) -> int | float | bool | None:
    """The value of a symbolic number that is constant; None if it may vary."""
    node = value.node
    if isinstance(value, torch.SymInt):
        known: int | None = node.maybe_as_int()
        return known
    expression = node.expr
    return float(expression) if expression.is_number and expression.is_Float else None


def is_composite(function: Any) -> bool:
    """Whether an operator overload is implemented by other operators."""
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd")
    )


def fake_mode_of(tensors: Iterable[Any]) -> Any:
    """The mode in which the first fake tensor was made; a new one if there is no fake tensor."""
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    return FakeTensorMode()


def flat_inputs(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs of an exported program's graph, including its parameters.

    Raises:
        Exception: The arguments do not match the program's signature.
    """
    return tuple(program._graph_module_flat_inputs(args, kwargs))


def unflattened(program: Any, results: Sequence[Any]) -> Any:
    """The return value of an exported program, built from its flat outputs."""
    return pytree.tree_unflatten(list(results), program.call_spec.out_spec)


def unflattened_inputs(program: Any, flat: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an exported program, built from its flat inputs."""
    args, kwargs = pytree.tree_unflatten(list(flat), program.call_spec.in_spec)
    return tuple(args), dict(kwargs)


def hint_of(size: Any, otherwise: int) -> int:
    """A size as an int; for a symbolic one its size during tracing, or ``otherwise`` if unknown."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    hint = size.node.hint if size.node.has_hint() else None
    return otherwise if hint is None else int(hint)
