"""Identity: determines the node of a dynamic graph that a call executes.

The key is (scope path, op, phase, ordinal in this step). The engine's tracer and the adapters of
other frameworks count the calls; this table maps a key to a node and keeps names and ids unique. A
call site that is reached repeatedly, in a loop, stops creating nodes: see `Site`.

Invariant: a key has one node id for the whole run; a node whose inputs change is redefined under
the same id.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec

from nodescope.ir.graph import Node, Phase, Role, SourceLocation, Spec, TensorSpec, Value
from nodescope.ir.scopes import join
from nodescope.polling_lock import polling_lock

LOOPED: Final = 32
"""A call site with this many nodes counts as a loop, outside of marked training steps."""

UNROLLED: Final = 65_536
"""The same within a training step: an unrolled network may be large."""

# Additional nodes that a site in a loop may create for inputs from outside of loops.
_MORE: Final = 32
_MOST: Final = 4096
# How often the nodes of one site are redefined for other inputs. After that they stay unchanged.
_MOST_REDEFINED: Final = 1000

UNTOLD: Final = (-1,)
"""Inputs of an entry whose node could not be emitted, such as at the recursion limit: no call has
these, so that the node is redefined, and emitted, at its next call.
"""

MOST_RESHAPED: Final = 256
"""How often a change of shape or dtype of one value is reported; a program may change it in every
step.
"""


_MOST_VARIANTS: Final = 4

Shapes = tuple[tuple[tuple[int, ...], str], ...]


class Entry:
    """The current definition of a key's node. Attributes are replaced, never the entry.

    Attributes:
        loop: The number of the loop in whose rounds it is counted, or 0.
        call: The number of the model calls in which it is counted, or 0.
        recent: In a loop: identities of the arrays from its last two executions or, for a leaf, of
            the one that it holds, and less than 0, the step that read it.
        derivatives: Where gradients of its values are computed, as a scope and the node's id; kept
            by whoever looked it up, else None.
        given: The source of the node's attributes, in its definer's form; None if unknown.
        id: The node's id.
        loose: Whether the shapes of its values may change although those of its inputs do not.
        nth: Its place among the entries of its key.
        place: Where whoever executes it again and again keeps what is needed for that, else None.
        reshaped: How often its values changed shape or dtype.
        site: Its call site; None if not tracked.
        variants: Its earlier values, by shapes and dtypes: a smaller last batch brings them back.
    """

    __slots__ = (
        "call", "derivatives", "given", "id", "inputs", "loop", "loose", "node", "nth", "outputs",
        "place", "recent", "reshaped", "site", "values", "variants",
    )  # fmt: skip

    def __init__(
        self, node: Node, values: tuple[Value, ...], nth: int = 0, loop: int = 0, call: int = 0
    ) -> None:
        self.recent: tuple[int, ...] = ()
        self.nth = nth
        self.loop, self.call = loop, call
        self.loose = False
        self.reshaped = 0
        self.site: Site | None = None
        self.node = node
        self.id = node.id
        self.inputs = node.inputs
        self.outputs = node.outputs
        self.values = values
        self.given: tuple[Any, ...] | None = None
        self.derivatives: tuple[str, int] | None = None
        self.variants: dict[Shapes, tuple[Value, ...]] | None = None
        self.place: int | None = None


class Site:
    """The nodes of one call site: of one key, reached by the same calls in the user's program.

    A loop without marked steps would create a node for each call. Once a site has created a number
    of nodes, a call with known inputs counts as another execution of the node with these inputs,
    and a call with inputs computed in the loop as one of its last node, redefined with these. So
    the graph of a loop closes after a few rounds, however long it runs.
    """

    __slots__ = ("_by_inputs", "_entries", "_redefined", "full")

    def __init__(self) -> None:
        self.full = False
        self._entries: list[Entry] = []
        self._by_inputs: dict[tuple[int, ...], Entry] = {}
        self._redefined = 0

    def add(self, entry: Entry) -> None:
        """Note that a node appeared here for the first time."""
        entry.site = self
        self._entries.append(entry)
        self._by_inputs[entry.inputs] = entry

    def again(
        self, inputs: tuple[int, ...], by_value: dict[int, Entry], limit: int
    ) -> tuple[Entry | None, bool]:
        """The node that a further call here executes again, and whether its inputs must be emitted.

        Returns no node if the call needs a new one.
        """
        count = len(self._entries)
        if count < limit:
            return None, False
        self.full = True
        known = self._by_inputs.get(inputs)
        if known is not None and known.inputs == inputs:
            return known, False
        last = self._entries[-1]
        makers = [by_value.get(value) for value in inputs]
        looped = any(made and made.site and made.site.full for made in makers)
        if count < (limit + _MOST if not looped else limit + _MORE if self._redefined else 0):
            return None, False
        if self._redefined >= _MOST_REDEFINED and last.inputs != UNTOLD:
            return last, False
        self._redefined += 1
        self._by_inputs.pop(last.inputs, None)
        self._by_inputs[inputs] = last
        return last, True


class Cursor:
    """One thread's count of the calls in one scope and phase, within one step.

    Attributes:
        step: The step that it counts in: a token unique to the step, None before the first.
        slots: By op (or leaf key): the number of calls so far, and the entries of that key.
        label: The name of its nodes in place of their ops: for a node of a static graph, which has
            its own cursor.
        device: The device of its nodes.
        control: Ids of the nodes that its nodes wait for.
        origin: For a node of a compiled graph: the traced nodes that it replaces.
        graph: The captured graph that it belongs to, or 0.
        loop: If steps are not distinguished: the loop in whose rounds it counts, or 0.
        call: The number of the model calls in which it counts, or 0.
    """

    __slots__ = (
        "call", "control", "device", "graph", "label", "loop", "origin", "owner", "phase", "scope",
        "slots", "step",
    )  # fmt: skip

    def __init__(
        self, owner: Identity, scope: str, phase: Phase, loop: int = 0, call: int = 0
    ) -> None:
        self.owner = owner
        self.loop, self.call = loop, call
        self.scope = scope
        self.phase = phase
        self.step: object = None
        self.slots: dict[str, list[Any]] = {}
        self.label = ""
        self.device = "cpu"
        self.control: tuple[int, ...] = ()
        self.origin: tuple[int, ...] = ()
        self.graph = 0

    def restart(self, step: object) -> None:
        """Count from zero again, because a step has begun."""
        self.step = step
        for slot in self.slots.values():
            slot[0] = 0

    def slot(self, key: str) -> list[Any]:
        """The ``[count, entries]`` of a key that is new to this cursor."""
        named = f"{key}@{self.call}" if self.call else key
        entries = self.owner.entries(self.scope, named, self.phase, self.loop)
        slot = self.slots[key] = [0, entries]
        return slot


class NodeSpec(msgspec.Struct, kw_only=True, gc=False):
    """The definition of a node, apart from its ids and its name.

    Attributes:
        specs: Specs of its outputs.
        label: Its name in place of its op, or ``""``.
        storages: Numbers of the memory of its outputs, as far as known.
        loop: The loop in whose rounds it is counted, or 0.
        call: The number of the model calls in which it is counted, or 0.
    """

    op: str
    family: str
    inputs: tuple[int, ...]
    specs: Sequence[Spec]
    attrs: dict[str, Any]
    scope: str
    phase: Phase
    source: SourceLocation | None
    forward: int | None = None
    label: str = ""
    device: str = "cpu"
    control_inputs: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()
    graph: int = 0
    role: Role = "op"
    dialect: str = "nodescope"
    native: str = ""
    writes: tuple[tuple[int, int], ...] = ()
    storages: tuple[int, ...] = ()
    loop: int = 0
    call: int = 0


@functools.lru_cache(maxsize=4096)
def leaf_key(kind: str, name: str) -> tuple[str, str, str]:
    """Scope, label and key of a leaf of a kind, by its name."""
    scope, _, label = name.rpartition("/")
    return scope, label, f"{kind}:{label}" if label else kind


class Identity:
    """The nodes of one run.

    Args:
        value_ids: The source of value ids: growing numbers that are never reused.

    Attributes:
        by_value: The entry of each value, by the value's id.
        by_node: The entries by the node's id.
        version: The number of extensions of the graph so far.
        changed: A token, replaced whenever an entry is defined, redefined or moved.
    """

    __slots__ = (
        "_entries", "_lock", "_names", "_node_ids", "_sites", "_value_ids", "by_node", "by_value",
        "changed", "version",
    )  # fmt: skip

    def __init__(self, value_ids: Callable[[], int] | None = None) -> None:
        self._lock = polling_lock()  # reentrant: signal handlers may compute here
        self._node_ids = itertools.count(1).__next__
        self._value_ids = value_ids or itertools.count(1).__next__
        self._entries: dict[tuple[str, str, Phase, int], list[Entry]] = {}
        self._names: set[str] = set()
        self._sites: dict[Hashable, Site] = {}
        self.by_value: dict[int, Entry] = {}
        self.by_node: dict[int, Entry] = {}
        self.version = 0
        self.changed = object()

    def entries(self, scope: str, key: str, phase: Phase, loop: int = 0) -> list[Entry]:
        """The entries of a key, by number of the call. The list grows only in `define` and `move`.

        Args:
            scope, key, phase: As in `Cursor`.
            loop: The loop in whose rounds they are counted, or 0.
        """
        with self._lock:
            return self._entries.setdefault((scope, key, phase, loop), [])

    def move(self, loop: int, around: int) -> set[tuple[str, str, Phase]]:
        """Count the entries of a loop in the rounds of the enclosing one; return their keys."""
        moved = set()
        with self._lock:
            self.changed = object()
            for (scope, key, phase, number), entries in list(self._entries.items()):
                if number == loop and entries:
                    moved.add((scope, key, phase))
                    outer = self.entries(scope, key, phase, around)
                    for entry in entries:
                        entry.nth, entry.loop = len(outer), around
                        outer.append(entry)
                    entries.clear()
        return moved

    def site(self, scope: str, key: str, phase: Phase, where: Hashable) -> Site:
        """The site of a key called at ``where``, any token for the place in the program."""
        with self._lock:
            return self._sites.setdefault((scope, key, phase, where), Site())

    def forget_loops(self) -> None:
        """Count all entries as if outside of loops, because steps are distinguished from now on."""
        with self._lock:
            self.changed = object()
            for (scope, key, phase, number), entries in list(self._entries.items()):
                if number:
                    outer = self.entries(scope, key.partition("@")[0], phase)
                    for entry in entries:
                        entry.nth, entry.loop = len(outer), 0
                        outer.append(entry)
                    entries.clear()

    def define(
        self, entries: list[Entry], nth: int, spec: NodeSpec
    ) -> tuple[Entry, tuple[Value, ...] | None]:
        """Define the ``nth`` entry, as new or with other inputs.

        Returns:
            The entry, and its values if the graph was extended; None if another thread was first.
        """
        with self._lock:
            if nth < len(entries):
                entry = entries[nth]
                if entry.inputs == spec.inputs and entry.node.graph == spec.graph:
                    return entry, None
                known = entry.node
                entry.node = msgspec.structs.replace(
                    known,
                    inputs=spec.inputs,
                    source=spec.source or known.source,
                    forward=known.forward if spec.forward is None else spec.forward,
                    attrs=spec.attrs,
                    origin=spec.origin,
                    graph=spec.graph,
                    writes=spec.writes,
                )
                entry.inputs = spec.inputs
                self.version += 1
                self.changed = object()
                return entry, entry.values
            name = self._unique(join(spec.scope, spec.label or spec.op), nth)
            values = tuple(
                [
                    Value(
                        self._value_ids(),
                        value_spec,
                        f"{name}:{port}" if port else name,
                        spec.storages[port] if port < len(spec.storages) else 0,
                    )
                    for port, value_spec in enumerate(spec.specs)
                ]
            )
            outputs = tuple([value.id for value in values])
            node = Node(
                id=self._node_ids(),
                name=name,
                op=spec.op,
                family=spec.family,
                inputs=spec.inputs,
                outputs=outputs,
                attrs=spec.attrs,
                scope=spec.scope,
                phase=spec.phase,
                device=spec.device,
                control_inputs=spec.control_inputs,
                source=spec.source,
                origin=spec.origin,
                forward=spec.forward,
                graph=spec.graph,
                role=spec.role,
                dialect=spec.dialect,
                native=spec.native,
                writes=spec.writes,
            )
            entry = Entry(node, values, len(entries), spec.loop, spec.call)
            self.by_node[node.id] = entry
            for id in outputs:
                self.by_value[id] = entry
            entries.append(entry)
            self.version += 1
            self.changed = object()
            return entry, values

    def reshape(
        self, entry: Entry, shapes: Sequence[tuple[tuple[int, ...], str]]
    ) -> tuple[Value, ...]:
        """Give an entry's values these shapes and dtypes; return the values that changed.

        Stops after a number of changes: such values are left as last reported.
        """
        for value, (shape, dtype) in zip(entry.values, shapes):  # noqa: B905 (at each execution)
            spec = value.spec
            if spec.shape != shape or spec.dtype != dtype:
                break
        else:
            return ()
        with self._lock:
            if entry.reshaped >= MOST_RESHAPED:
                return ()
            before = entry.values
            entry.values = _variant(entry, tuple(shapes))
            entry.reshaped += 1
            self.version += 1
            if len(before) == 1:
                return entry.values
            return tuple(
                new for new, old in zip(entry.values, before, strict=True) if new is not old
            )

    def respecify(self, entry: Entry, specs: Sequence[Spec]) -> tuple[Value, ...]:
        """Give an entry's values these specs; return the values that changed. Like `reshape`, for
        actual specs.
        """
        with self._lock:
            before = entry.values
            if entry.reshaped >= MOST_RESHAPED or all(
                value.spec == spec for value, spec in zip(before, specs, strict=False)
            ):
                return ()
            entry.reshaped += 1
            entry.values = tuple(
                msgspec.structs.replace(value, spec=spec)
                for value, spec in zip(before, specs, strict=True)
            )
            self.version += 1
            return tuple(
                new for new, old in zip(entry.values, before, strict=True) if new.spec != old.spec
            )

    def _unique(self, base: str, nth: int) -> str:
        name = f"{base}_{nth}" if nth else base
        while name in self._names:
            nth += 1
            name = f"{base}_{nth}"
        self._names.add(name)
        return name


def _variant(entry: Entry, shapes: Shapes) -> tuple[Value, ...]:
    """An entry's values with these shapes and dtypes: known ones, if it has had them lately."""
    variants = entry.variants
    if variants is None:
        variants = entry.variants = {}
    elif (known := variants.get(shapes)) is not None:
        return known
    if len(variants) == _MOST_VARIANTS:
        del variants[next(iter(variants))]
    values = variants[shapes] = tuple(
        [
            value
            if value.spec.shape == shape and value.spec.dtype == dtype
            else Value(value.id, TensorSpec(shape, dtype), value.name, value.storage)
            for value, (shape, dtype) in zip(entry.values, shapes)  # noqa: B905 (at each change)
        ]
    )
    return values
