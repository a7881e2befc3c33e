"""Operations: turns one ATen call into the events of one node.

A forward operation is linked to its autograd node by the node's sequence number, so the operations
that evaluate the autograd node in the backward pass belong to the forward node and its scope.
Detaching a tensor without gradients, and PyTorch's own bookkeeping operations, are not nodes.

Invariant: an exception of this code never reaches the program: the operation runs unobserved.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

from nodescope.adapters.torch.compat import autograd_node, sequence_number, sequence_of
from nodescope.adapters.torch.device.times import DeviceTimes, Enqueued
from nodescope.adapters.torch.generators import GENERATOR_STATE, Generators
from nodescope.adapters.torch.gradients import Gradients
from nodescope.adapters.torch.places import FastPath, Place
from nodescope.adapters.torch.signatures import Bound, Signature, signature_of
from nodescope.adapters.torch.storages import geometry_of
from nodescope.adapters.torch.tensors import spec_of
from nodescope.adapters.torch.values import DIALECT, Values
from nodescope.emit.emitter import NOT_KNOWN_YET, Emitter, Pending
from nodescope.emit.state import ThreadState, current
from nodescope.ir.graph import Spec
from nodescope.ir.scopes import join

if TYPE_CHECKING:
    from nodescope.adapters.torch.native_tap.journal import StepJournal

# Autograd nodes that accumulate the gradients of a leaf have sequence numbers from this one on.
_ACCUMULATES = 1 << 62
_MOST_LINKS = 1 << 18
_MOST_UNCLAIMED = 8
# Autograd makes two nodes for a write to a view: for the whole tensor, and for the new view.
_SLICES = 2
INITIALISATION = "initialisation"
"""The scope of operations in constructors of modules, and of those that fill new modules."""
_INITIALISERS = os.path.join("torch", "nn", "init.py")
_INITIALISING = frozenset({
    "__init__", "reset_parameters", "reset_running_stats", "_reset_parameters",
})  # fmt: skip
_now = time.perf_counter_ns

Instruction = tuple[CodeType, int]
"""A Python instruction: code, and offset in it."""


class Call:
    """An operation that is running.

    Attributes:
        function, args: The operator overload, and its positional arguments.
        signature, bound: The overload's signature, and the arguments mapped by it.
        ids: The value ids of the operands.
        state: The state of the thread that runs it.
        pending: The call's node, if its start was emitted; else None.
        start: When it began, by `time.perf_counter_ns`.
        drawn: The state of the generator that it draws from; ``b""`` for none.
    """

    __slots__ = (
        "args", "bound", "drawn", "function", "ids", "pending", "signature", "start", "state",
    )  # fmt: skip

    def __init__(
        self, function: Any, args: Sequence[Any], signature: Signature, bound: Bound,
        ids: tuple[int, ...], state: ThreadState,
    ) -> None:  # fmt: skip
        self.function, self.args, self.signature, self.bound = function, args, signature, bound
        self.ids, self.state = ids, state
        self.pending: Pending | None = None
        self.start = 0
        self.drawn = b""


class Operations:
    """The operations of a run.

    Attributes:
        off: Whether nothing is emitted.
        place: The adapter's state of the calling thread.
        values: The values of tensors.
        gradients: The gradients of values.
        has_optimizer: Whether the program has made an optimizer, whose steps end training steps.
        devices: When devices executed the operations.
    """

    def __init__(self, emitter: Emitter, complain: Callable[[str], None]) -> None:
        self.emitter = emitter
        self.off = True
        self.has_optimizer = False
        self.place = Place()
        self.values = Values(emitter)
        self.gradients = Gradients(emitter, self.values, self.place)
        self.generators = Generators()
        self.devices = DeviceTimes(emitter)
        self._complain = complain
        self._complained = False
        # By sequence number of the autograd node: forward node and its scope.
        self._links: dict[int, tuple[int, str]] = {}
        self.updates: dict[int, str] = {}  # by storage serial: the parameter that it updates
        self.owners: Callable[[Any], dict[int, str]] = lambda optimizer: {}
        self.deferred: Any = None  # an optimizer whose `updates` are not known yet
        self.fast_path: FastPath | None = None

    def is_unseen(self, function: Any) -> bool:
        """Whether an operation is bookkeeping of PyTorch's own."""
        try:
            return signature_of(function).unseen
        except Exception as error:
            self._fault(error)
            return True

    def state_before(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
        """The state of the generator that an operator is about to draw from, not yet deducted from
        `Generators.left`; ``b""`` if it is not kept.
        """
        signature = signature_of(function)
        state = self.generators.state_before(signature, signature.bind(args, kwargs))
        self.generators.left += len(state)
        return state

    def begin_step(self) -> None:
        """Forget what belongs to the previous step."""
        self.gradients.begin_step()
        self.devices.begin_step()
        if len(self._links) > _MOST_LINKS:
            self._links.clear()

    def run(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], instruction: Instruction
    ) -> Any:
        """Run one operation, and emit it; the arguments are those of `begin`."""
        call = self.begin(function, args, kwargs, instruction)
        if call is None:
            return function(*args, **kwargs)
        call.start = _now()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self.failed(call, error)
            raise
        self.end(call, result, _now())
        return result

    def begin(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], instruction: Instruction
    ) -> Call | None:
        """Prepare for an operation that is about to run; blocks if the debugger stops there.

        Args:
            function: The operator overload.
            args, kwargs: Its arguments.
            instruction: The Python instruction that called it, directly or through C++.

        Returns:
            The call, to be passed to `end` or `failed`; None if it is not a node.
        """
        try:
            signature = signature_of(function)
            state = current()
            if signature.unseen or not self._place(state, signature, args, instruction):
                return None
            self._note(self.place, state, signature, instruction)
            bound = signature.bind(args, kwargs)
            ids = tuple([self.values.id_of(tensor) for tensor in bound.inputs])
            self.gradients.follow(bound.inputs, ids)  # before: writing changes autograd nodes
            call = Call(function, args, signature, bound, ids, state)
            if signature.is_seeded and self.emitter.bus.demand.arrays:
                call.drawn = self.generators.state_before(signature, bound)
            if self.emitter.bus.demand.starts:
                call.pending = self._enter(signature, bound, ids, self._expected(signature, bound))
            return call
        except Exception as error:
            self._fault(error)
            return None

    def failed(self, call: Call, error: BaseException) -> None:
        """Emit that an operation raised."""
        if self.values.journal is not None:
            self.values.journal.spoil()
        try:
            pending = call.pending
            if pending is None:
                signature, bound = call.signature, call.bound
                expected = self._expected(signature, bound)
                pending = self._enter(signature, bound, call.ids, expected, call.start)
            self.emitter.fail(pending, error)
            self._leave_initialisation(call.state)
        except Exception as fault:
            self._fault(fault)

    def end(self, call: Call, result: Any, end: int, saved: Sequence[Any] = ()) -> None:
        """Emit that an operation has run, or was enqueued; blocks if the debugger stops there.

        Args:
            call, result: The call, and its result.
            end: When it ended, by `time.perf_counter_ns`.
            saved: Tensors that it has overwritten, each followed by autograd's copy of its old
                contents.
        """
        try:
            # This must come first, before anything else is enqueued on the device.
            enqueued = self.devices.enqueued(call.bound, result)
            self._finish(
                call.signature, call.bound, call.ids, result, call.pending, call.state, call.start,
                end, call.drawn, saved, enqueued,
            )  # fmt: skip
            self._leave_initialisation(call.state)
        except Exception as error:
            self._fault(error)

    def _finish(
        self, signature: Signature, bound: Bound, ids: tuple[int, ...], result: Any,
        pending: Pending | None, state: ThreadState, start: int, end: int, drawn: bytes,
        saved: Sequence[Any], enqueued: Enqueued | None = None,
    ) -> None:  # fmt: skip
        emitter, values = self.emitter, self.values
        outputs = signature.results(result)
        writes: tuple[tuple[int, int], ...] = ()
        if bound.written:
            writes, extra = signature.written_ports(bound, len(outputs))
            if extra:
                outputs += tuple(bound.inputs[port] for port in extra)
        specs = tuple(map(spec_of, outputs))
        if pending is None:
            pending = self._enter(signature, bound, ids, specs, start, writes, outputs)
        made = pending.outputs
        if len(made) != len(outputs):  # a list of tensors had an unexpected length
            outputs = outputs[: len(made)]
            specs = specs[: len(made)] + _specs(pending)[len(outputs) :]
        detached = signature.is_detach
        if bound.overwritten:
            # Overwritten operands are not inputs; their memory holds the result.
            for tensor, id in zip(bound.overwritten, made, strict=False):
                values.wrote(tensor, id)
        elif writes:
            written = dict(writes)
            for port, (tensor, id) in enumerate(zip(outputs, made, strict=False)):
                if port in written:
                    values.wrote(tensor, id)
                elif isinstance(tensor, torch.Tensor):
                    values.made(tensor, id)
        else:
            viewed = bound.inputs[0] if signature.is_view and not detached else None
            for tensor, id in zip(outputs, made, strict=False):
                if isinstance(tensor, torch.Tensor):
                    values.made(tensor, id, viewed=viewed, detached=detached)
        for overwritten, copy in zip(saved[::2], saved[1::2], strict=True):
            for tensor, id in zip(bound.inputs, ids, strict=True):
                if tensor is overwritten:  # the copy holds the value that the tensor had before
                    values.made(copy, id)
        more = self._link(state, pending, len(saved) // 2, self._sliced(writes, outputs))
        if state.phase == "optimizer" and self.place.updated and not writes:
            for tensor in outputs:
                memory = (
                    values.storages.memory(tensor) if isinstance(tensor, torch.Tensor) else None
                )
                if memory is not None:
                    self.updates.setdefault(memory.serial, self.place.updated)
                    if values.journal is not None and values.journal.item is not None:
                        item = values.journal.item
                        item.updates.append((memory.serial, self.place.updated))
        node = pending.node
        if enqueued is not None:
            self.devices.ran(enqueued, node.id, start)
        attrs = None
        if not _is_given(pending.entry.given, bound.plain):
            attrs = signature.attrs(bound.plain)
            if attrs == node.attrs:
                pending.entry.given = bound.plain
                attrs = None
        if values.journal is not None:
            if drawn and values.journal.item is not None:
                values.journal.item.draws = True
            self._note_end(values.journal, state, signature, bound, outputs, attrs, more)
        if drawn:  # for this execution only, so the journal above got the attributes without it
            attrs = {**(node.attrs if attrs is None else attrs), GENERATOR_STATE: drawn}
        edits = emitter.finish(
            pending, outputs, start, end, specs=None if specs == _specs(pending) else specs,
            attrs=attrs,
        )  # fmt: skip
        if edits:
            if values.journal is not None:
                values.journal.spoil()
            values.take(edits, (*outputs, *bound.inputs), (*made, *ids))

    def _note_end(
        self, journal: StepJournal, state: ThreadState, signature: Signature, bound: Bound,
        outputs: Sequence[Any], attrs: dict[str, Any] | None, saved: int,
    ) -> None:  # fmt: skip
        item = journal.item
        if item is None:
            return
        item.signature, item.plain, item.attrs = signature, bound.plain, attrs
        item.linked, item.saved = (0 if state.phase != "optimizer" else None), saved
        for tensor in outputs:
            if signature.is_read:
                item.outputs.append(None)
            elif isinstance(tensor, torch.Tensor):
                memory = self.values.storages.memory(tensor)
                if memory is None:
                    journal.spoil()
                else:
                    item.outputs.append((memory.serial, geometry_of(tensor)))
            else:
                item.outputs.append(())

    def _enter(
        self, signature: Signature, bound: Bound, ids: tuple[int, ...], specs: Sequence[Spec],
        start: int = 0, writes: tuple[tuple[int, int], ...] | None = None,
        outputs: tuple[Any, ...] = (),
    ) -> Pending:  # fmt: skip
        if writes is None:
            returned = len(specs) - self._unreturned(signature, bound)
            writes = signature.written_ports(bound, returned)[0] if bound.written else ()
        storages: tuple[int, ...] = ()
        if outputs and (signature.is_view or writes):
            memory_of = self.values.storages.memory
            memories = [
                memory_of(tensor) if isinstance(tensor, torch.Tensor) else None
                for tensor in outputs
            ]
            storages = tuple(0 if memory is None else memory.serial for memory in memories)
        device = "cpu"
        for tensor in bound.inputs or outputs:
            if isinstance(tensor, torch.Tensor) and not tensor.is_cpu:
                device = str(tensor.device)
        state = current()
        aside = signature.is_read and state.phase == "forward" and self.emitter.between_steps
        if aside:  # reading a number between steps, as to print the loss, does not begin a step
            state.phase, state.cursor = "other", None
        pending = self.emitter.enter(
            signature.op, "op", ids, specs, _Attrs(signature, bound.plain), writes,
            arrays=bound.inputs, dialect=DIALECT, native=signature.native,
            family=signature.family, label=signature.label, device=device, storages=storages,
            inside=self.place.inside, kind=signature.kind(len(specs)),
        )  # fmt: skip
        if aside:
            state.phase, state.cursor = "forward", None
        if pending.edits:
            self.values.take(pending.edits, bound.inputs, ids)
        return pending

    def _unreturned(self, signature: Signature, bound: Bound) -> int:
        """The number of written arguments that are not returned."""
        if not bound.written:
            return 0
        return len(signature.written_ports(bound, signature.expected_count(bound))[1])

    def _expected(self, signature: Signature, bound: Bound) -> tuple[Spec, ...]:
        """Placeholder specs, one for each expected output of the call."""
        count = signature.expected_count(bound)
        return (NOT_KNOWN_YET,) * (count + self._unreturned(signature, bound))

    def _note(
        self, place: Place, state: ThreadState, signature: Signature, instruction: Instruction
    ) -> None:
        """Determine whether an operation is part of the same call as the last one.

        A call may run several operations, but the same operator again means a new call.
        """
        place.inside = state.phase == "backward" or (
            place.instruction == instruction and signature not in place.called
        )
        if not place.inside:
            place.called = set()
        place.instruction = instruction
        place.called.add(signature)

    def _place(
        self,
        state: ThreadState,
        signature: Signature,
        args: Sequence[Any],
        instruction: Instruction,
    ) -> bool:
        """Set the thread's scope and phase for an operation; return whether it is a node."""
        place = self.place
        node = autograd_node()
        if node is None or len(place.modules) > place.depth or place.recomputed is not None:
            if place.outer is not None:
                self.restore(place, state)
            if signature.is_detach:
                # At the same instruction as the last operation, autograd detaches to save a result.
                return bool(
                    state.phase == "forward" and not self.emitter.between_steps
                    and torch.is_grad_enabled() and args and args[0].requires_grad
                    and instruction != place.instruction
                )  # fmt: skip
            if state.phase == "optimizer":
                self._update(place, state, args)
            elif not place.modules and _initialises(instruction[0]):
                place.outer = (state.scope, state.phase, state.cursor, state.forward)
                state.scope, state.cursor = INITIALISATION, None
            elif (
                self.has_optimizer
                and not self.emitter.stepped
                and state.phase == "forward"
                and _is_differentiated(args)
            ):
                self.emitter.root_called()  # in a program without modules, this begins a step
            return True
        if signature.is_detach:
            return False
        number = sequence_of(node)
        if number >= _ACCUMULATES:
            key: tuple[Any, ...] = (number, id(node))
        else:
            key = (number,)
        if key == place.differentiated and state.phase == "backward":
            return True
        if place.outer is None:
            place.outer = (state.scope, state.phase, state.cursor, state.forward)
        place.differentiated = key
        link = self._links.get(number)
        if link is None and number >= _ACCUMULATES:
            link = self._accumulated(node)
        scope, forward = ("", None) if link is None else (link[1], link[0])
        state.phase, state.cursor, state.forward = "backward", None, forward
        state.scope = join("backward", scope.removeprefix("recompute").lstrip("/")).rstrip("/")
        return True

    def restore(self, place: Place, state: ThreadState) -> None:
        """Restore the thread's scope and phase from `Place.outer`."""
        state.scope, state.phase, state.cursor, state.forward = place.outer
        place.outer, place.differentiated = None, ()

    def _leave_initialisation(self, state: ThreadState) -> None:
        """Leave the scope of initialisation, before a newly entered scope could save it."""
        place = self.place
        if place.outer is not None and not place.differentiated:
            self.restore(place, state)

    def _accumulated(self, node: Any) -> tuple[int, str] | None:
        """The node and scope of the leaf whose gradient this autograd node accumulates, or None."""
        variable = getattr(node, "variable", None)
        if variable is None:
            return None
        leaf = self.emitter.node_of(self.values.known(variable))
        return None if leaf is None else (leaf.id, leaf.scope)

    def _update(self, place: Place, state: ThreadState, args: Sequence[Any]) -> None:
        """Set the scope to the parameter that the optimizer is updating."""
        serials: list[int] = []
        for tensor in args:
            if isinstance(tensor, torch.Tensor):
                memory = self.values.storages.memory(tensor)
                if memory is not None:
                    serials.append(memory.serial)
            elif isinstance(tensor, list | tuple) and len(tensor) > 1:
                return
        path = self._updated(serials)
        if not path and serials and place.optimized is not None:
            # An optimizer creates its state in its first step, so look for the owners again.
            optimizer, place.optimized = place.optimized, None
            self.updates = self.owners(optimizer)
            path = self._updated(serials)
        if path and path != place.updated:
            place.updated = path
            state.scope, state.cursor = join("optimizer", path), None

    def _updated(self, serials: Sequence[int]) -> str:
        return next((self.updates[serial] for serial in serials if serial in self.updates), "")

    def _sliced(self, writes: tuple[tuple[int, int], ...], outputs: Sequence[Any]) -> bool:
        """Whether a view that requires a gradient was written to: autograd makes further nodes."""
        return any(
            isinstance(outputs[port], torch.Tensor)
            and outputs[port].requires_grad
            and outputs[port]._is_view()
            for port, _ in writes
        )

    def _link(self, state: ThreadState, pending: Pending, saved: int, sliced: bool) -> int:
        """Link the autograd node that was just made to its forward node.

        The autograd node is the latest one, unless an inner operation is linked to that: an
        in-place operation makes its node, then copies the contents that it overwrites.

        Args:
            state: The state of the thread.
            pending: The call that has run.
            saved: How many autograd nodes before the latest also belong to it.
            sliced: Whether autograd makes further nodes for it: before the native tap sees its end,
                but after the Python tap does.

        Returns:
            How many autograd nodes before the latest belong to it.
        """
        if state.phase == "optimizer":
            return saved
        if state.phase == "backward" and not self.place.backward and not torch.is_grad_enabled():
            return saved  # a thread of autograd, which makes no nodes and has its own numbers
        latest = sequence_number() - 1
        if sliced:
            saved = max(saved, min(latest - self.place.sequence - 1, _SLICES))
        node = pending.node
        self.link_at(latest, node.id, node.scope, saved)
        if sliced:
            self.place.sliced = (node.id, node.scope)
        return saved

    def link_at(self, latest: int, node: int, scope: str, saved: int = 0) -> None:
        """Link autograd nodes to a forward node that has run.

        Args:
            latest: The sequence number of the latest autograd node.
            node, scope: The id of the forward node, and its scope.
            saved: How many autograd nodes before the latest belong to it: copies by autograd.
        """
        place, links = self.place, self._links
        if place.sliced is not None:
            own = place.sequence + 1 + _SLICES
            for number in range(place.sequence + 1, min(latest, own + _MOST_UNCLAIMED)):
                links.setdefault(number, place.sliced if number < own else (node, scope))
            place.sliced = None
        for number in range(latest - saved, latest):
            links.setdefault(number, (node, scope))
            place.sequence = max(place.sequence, number)
        if latest - place.sequence > 1:
            place.unclaimed += range(max(place.sequence + 1, latest - _MOST_UNCLAIMED), latest)
            del place.unclaimed[:-_MOST_UNCLAIMED]
        place.sequence = latest
        if latest not in links:
            links[latest] = (node, scope)
        elif place.unclaimed:
            for number in place.unclaimed:
                links.setdefault(number, (node, scope))
            place.unclaimed.clear()

    def _fault(self, error: Exception) -> None:
        if self.values.journal is not None:
            self.values.journal.spoil()
        self.complain(error)

    def complain(self, error: Exception) -> None:
        """Report once that an operation could not be observed."""
        if not self._complained:
            self._complained = True
            self._complain(
                f"an operation of PyTorch went unobserved: {type(error).__name__}: {error}"
            )


def _is_given(known: tuple[Any, ...] | None, plain: tuple[Any, ...]) -> bool:
    """Whether the arguments equal those of the node's definition."""
    try:
        return known == plain
    except Exception:  # C++ objects that cannot be compared
        return False


def _is_differentiated(args: Sequence[Any]) -> bool:
    """Whether any argument requires a gradient, and gradients are enabled."""
    return torch.is_grad_enabled() and any(
        isinstance(tensor, torch.Tensor) and tensor.requires_grad
        for argument in args
        for tensor in (argument if isinstance(argument, list | tuple) else (argument,))
    )


@functools.lru_cache(maxsize=4096)
def _initialises(code: CodeType) -> bool:
    """Whether a function fills the parameters and buffers of a new module."""
    return code.co_filename.endswith(_INITIALISERS) or code.co_name in _INITIALISING


class _Attrs(Mapping[str, Any]):
    """Attributes that are computed only when a node is defined, which is rare."""

    def __init__(self, signature: Signature, plain: tuple[Any, ...]) -> None:
        self._signature, self._plain = signature, plain
        self._made: dict[str, Any] | None = None

    def _all(self) -> dict[str, Any]:
        if self._made is None:
            self._made = self._signature.attrs(self._plain)
        return self._made

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _specs(pending: Pending) -> tuple[Spec, ...]:
    return tuple(value.spec for value in pending.entry.values)
