"""Values: the value ids of tensors, and the nodes of data that no observed operation made.

Parameters, buffers and the state of optimizers are read again in each step, as nodes without
inputs. A tensor that was written to through another view of its memory becomes the output of an
``updated_view`` node, whose inputs are the old value and the written values.

Invariant: called on the thread that uses the tensor, within a quiet place.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from nodescope.adapters.torch.native_tap.journal import DETACHED, MADE, WROTE, StepJournal
from nodescope.adapters.torch.storages import (
    Geometry,
    Known,
    Memory,
    Owner,
    Storages,
    Write,
    counter_of,
    geometry_of,
    is_strided,
)
from nodescope.adapters.torch.tensors import TorchTensors, spec_of
from nodescope.emit.emitter import Edits, Emitter
from nodescope.emit.state import current

DIALECT = "torch"
_ARRAYS = TorchTensors()


class Values:
    """The values of a run.

    Attributes:
        storages: The storages of the run.
        gap: The number of unobserved stretches so far; a value known from before the last one may
            have changed since.
        journal: The journal of the step, or None.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self.storages = Storages()
        self.gap = 0
        self.journal: StepJournal | None = None
        self._odd: dict[int, tuple[weakref.ref[Any], int]] = {}

    def known(self, tensor: Any) -> int:
        """The id of a tensor's value; 0 if it is not known."""
        if not is_strided(tensor):
            return self._odd_id(tensor)
        memory = self.storages.memory(tensor)
        known = None if memory is None else self._at(memory, geometry_of(tensor), tensor)
        return 0 if known is None or memory is None or known.version != memory.version else known.id

    def id_of(self, tensor: Any) -> int:
        """The id of a tensor's value; data that no observed operation made is emitted first."""
        memory = self.storages.memory(tensor) if is_strided(tensor) else None
        if memory is None:
            return self._odd_id(tensor) or self._leaf(tensor, None, None)
        geometry = geometry_of(tensor)
        if (
            memory.owner is None
            and tensor.requires_grad
            and tensor.is_leaf
            and torch.is_grad_enabled()
            and current().phase == "forward"
        ):
            # A trained tensor that belongs to no module: the operation that made it is not part of
            # a step.
            memory.owner = Owner("parameter", "", "")
            return self._leaf(tensor, memory, geometry)
        known = self._at(memory, geometry, tensor)
        if known is not None:
            if known.gap != self.gap:
                if memory.owner is not None or counter_of(tensor) != known.counter:
                    return self._leaf(tensor, memory, geometry)
                known.gap = self.gap
            elif (
                memory.owner is not None
                and self._emitter.stepped
                and known.token is not self._emitter.epoch
            ):
                return self._leaf(tensor, memory, geometry)
            if known.version == memory.version:
                if self.journal is not None:
                    self.journal.known(
                        memory.serial, geometry, known.id, differentiable=tensor.requires_grad
                    )
                return known.id
        if memory.writes:
            return self._updated(tensor, memory, geometry, known)
        return self._leaf(tensor, memory, geometry)

    def _at(self, memory: Memory, geometry: Geometry, tensor: Any) -> Known | None:
        if memory.detached is not None and not tensor.requires_grad:
            known = memory.detached.get(geometry)
            if known is not None:
                return known
        return memory.known.get(geometry)

    def made(self, tensor: Any, id: int, *, viewed: Any = None, detached: bool = False) -> None:
        """Register a tensor that an operation returned.

        Args:
            tensor, id: The tensor and its value id.
            viewed: The tensor that it is a view of, or None. If the view covers the whole tensor
                again, that tensor keeps its value.
            detached: Whether it was detached from the autograd graph.
        """
        memory = self.storages.memory(tensor) if is_strided(tensor) else None
        if memory is None:
            self._keep_odd(tensor, id)
            return
        geometry = geometry_of(tensor)
        known = self._fresh(tensor, id, memory.version)
        if detached:
            if self.journal is not None:
                self.journal.changed(DETACHED, memory.serial, geometry, id)
            memory.detached = {**(memory.detached or {}), geometry: known}
            return
        if viewed is not None:
            whole = memory.known.get(geometry)
            if (
                whole is not None
                and whole.version == memory.version
                and whole.gap == self.gap
                and (memory.owner is not None or whole.token is self._emitter.epoch)
                and geometry_of(viewed) != geometry
            ):
                return
        memory.known[geometry] = known
        if self.journal is not None:
            self.journal.changed(MADE, memory.serial, geometry, id)

    def wrote(self, tensor: Any, id: int) -> None:
        """Register that an operation wrote to a tensor in place, which now has this value."""
        memory = self.storages.memory(tensor) if is_strided(tensor) else None
        if memory is None:
            self._keep_odd(tensor, id)
            return
        geometry = geometry_of(tensor)
        memory.wrote(id, geometry)
        memory.known[geometry] = self._fresh(tensor, id, memory.version)
        if self.journal is not None:
            self.journal.changed(WROTE, memory.serial, geometry, id)

    def own(self, tensor: Any, owner: Owner) -> None:
        """Set the owner of a tensor, unless it has one with a label."""
        memory = self.storages.memory(tensor) if is_strided(tensor) else None
        if memory is not None and (memory.owner is None or not memory.owner.label):
            memory.owner = owner
            if self.journal is not None:
                self.journal.owned(memory.serial, owner)

    def is_owned(self, tensor: Any) -> bool:
        """Whether `own` would change nothing."""
        memory = self.storages.memory(tensor) if is_strided(tensor) else None
        return memory is None or (memory.owner is not None and memory.owner.label != "")

    def take(self, edits: Edits, tensors: tuple[Any, ...], ids: tuple[int, ...]) -> None:
        """Write the user's edits into the tensors with these value ids."""
        for tensor, id in zip(tensors, ids, strict=False):
            new = edits.get(id)
            if new is not None:
                _ARRAYS.write(tensor, new)

    def _keep_odd(self, tensor: Any, id: int) -> None:
        self._odd[builtin_id(tensor)] = (weakref.ref(tensor), id)
        if self.journal is not None:
            self.journal.spoil()

    def _fresh(self, tensor: Any, id: int, version: int) -> Known:
        return Known(id, version, self._emitter.epoch, self.gap, counter_of(tensor))

    def _odd_id(self, tensor: Any) -> int:
        """The id of a tensor without a storage of its own, such as a sparse one."""
        known = self._odd.get(builtin_id(tensor))
        return known[1] if known is not None and known[0]() is tensor else 0

    def _leaf(self, tensor: Any, memory: Memory | None, geometry: Geometry | None) -> int:
        """Emit a tensor as data."""
        owner = None if memory is None else memory.owner
        state = current()
        saved = (state.scope, state.phase, state.cursor, state.forward)
        role, label = "input", ""
        if owner is not None:
            role, label = owner.role, owner.label
            state.scope, state.forward, state.cursor = owner.scope, None, None
            state.phase = "optimizer" if owner.scope.startswith("optimizer") else "forward"
        op = {"input": "tensor"}.get(role, role)
        device = str(tensor.device)
        try:
            pending = self._emitter.enter(
                op, role, (), (spec_of(tensor),), {}, dialect=DIALECT, label=label, device=device,
                storages=() if memory is None else (memory.serial,),
            )  # fmt: skip
        finally:
            state.scope, state.phase, state.cursor, state.forward = saved
        id = pending.outputs[0]
        if memory is None or geometry is None:
            self._keep_odd(tensor, id)
        else:
            memory.known[geometry] = self._fresh(tensor, id, memory.version)
            if self.journal is not None:
                self.journal.leaf(memory.serial, geometry, id, owner)
        edits = self._emitter.finish(pending, (tensor,))
        if edits:
            self.take(edits, (tensor,), (id,))
        return id

    def _updated(self, tensor: Any, memory: Memory, geometry: Geometry, known: Known | None) -> int:
        """Emit an ``updated_view`` node for a tensor changed by writes through other views."""
        before: list[tuple[int, Geometry]] = []
        if known is not None:
            since, before = known.version, [(known.id, geometry)]
        else:
            since = 0
            alike = [item for item in memory.known.items() if item[0][3] == geometry[3]]
            if alike:
                at, other = max(alike, key=lambda item: item[0][1].numel())
                since, before = other.version, [(other.id, at)]
        writes: list[Write] = [write for write in memory.writes if write.version > since]
        parts = before + [(write.id, write.geometry) for write in writes]
        attrs: dict[str, Any] = {}
        if all(at[3] == geometry[3] for _, at in parts):
            attrs = {
                "places": tuple((at[0], tuple(at[1]), tuple(at[2])) for _, at in parts),
                "place": (geometry[0], tuple(geometry[1]), tuple(geometry[2])),
            }
        elif memory.owner is not None:  # such as after a byte-wise copy of the module
            return self._leaf(tensor, memory, geometry)
        arrays = tuple(_seen_at(tensor, at) for _, at in parts)
        pending = self._emitter.enter(
            "updated_view", "op", tuple(id for id, _ in parts), (spec_of(tensor),), attrs,
            arrays=arrays, dialect=DIALECT, family="layout", device=str(tensor.device),
            storages=(memory.serial,),
        )  # fmt: skip
        id = pending.outputs[0]
        attrs_now = attrs if attrs != pending.node.attrs else None
        if self.journal is not None:
            self.journal.updated(memory, geometry, id, known, attrs_now)
        memory.known[geometry] = self._fresh(tensor, id, memory.version)
        edits = self._emitter.finish(pending, (tensor,), attrs=attrs_now)
        if edits:
            self.take(edits, (tensor,), (id,))
        return id


def _seen_at(tensor: Any, geometry: Geometry) -> Any:
    """A tensor with the elements at a geometry in a tensor's memory."""
    offset, shape, strides, dtype = geometry
    if dtype == geometry_of(tensor)[3]:
        return tensor.detach().as_strided(shape, strides, offset)
    conjugated = isinstance(dtype, tuple)
    plain = torch.empty(0, dtype=dtype[0] if conjugated else dtype, device=tensor.device)
    plain.set_(tensor.untyped_storage(), offset, tuple(shape), tuple(strides))
    return plain.conj() if conjugated else plain


def builtin_id(tensor: Any) -> int:
    """The identity of a Python object."""
    return id(tensor)
