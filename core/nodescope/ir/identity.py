"""Identity: which node of a dynamic graph a call is.

The key is (scope path, op, phase, how-many-th such in this step). The engine's tracer and the
adapters of other frameworks count the calls; this table turns a key into a node and keeps names
and ids unique. A call site that is reached again and again, a loop, stops making nodes: see `Site`.

Invariant: a key has one node id for the whole run; a node with other inputs than before is defined
again under the same id.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec

from nodescope.ir.graph import Node, Phase, SourceLocation, TensorSpec, Value
from nodescope.ir.scopes import join

LOOPED: Final = 32
"""So many nodes of one call site are a loop, where no training step is marked around it."""

UNROLLED: Final = 65_536
"""So many within a training step: an unrolled network is as large as it is."""

# Of a site that is a loop, so many nodes more for other inputs; these come from outside of loops.
_MORE: Final = 32
_MOST: Final = 4096
# How often the nodes of one site are defined again for other inputs. After that they stay as drawn.
_MOST_REDEFINED: Final = 1000


class Entry:
    """A key's node as it is defined now. Replaced attributes, never a replaced entry.

    Attributes:
        given: What the node's attributes were made of, as who defined it keeps it; None if unknown.
        nth: Its place among the entries of its key.
        site: The call site that it was met at; None if that is not looked at.
    """

    __slots__ = ("given", "inputs", "node", "nth", "outputs", "site", "values")

    def __init__(self, node: Node, values: tuple[Value, ...], nth: int = 0) -> None:
        self.nth = nth
        self.site: Site | None = None
        self.node = node
        self.inputs = node.inputs
        self.outputs = node.outputs
        self.values = values
        self.given: tuple[Any, ...] | None = None


class Site:
    """The nodes of one call site: of one key, reached by the same calls in the user's program.

    A loop that marks no steps would make a node of each call. Once a site has made so many, a call
    with known inputs is the node that has them, executed again; one with inputs that the loop
    itself computes is its last node, defined again with these. So the graph of a loop closes after
    a few rounds, however long it runs.
    """

    __slots__ = ("_by_inputs", "_entries", "_redefined", "full")

    def __init__(self) -> None:
        self.full = False
        self._entries: list[Entry] = []
        self._by_inputs: dict[tuple[int, ...], Entry] = {}
        self._redefined = 0

    def add(self, entry: Entry) -> None:
        """A node was met here for the first time."""
        entry.site = self
        self._entries.append(entry)
        self._by_inputs[entry.inputs] = entry

    def again(
        self, inputs: tuple[int, ...], by_value: dict[int, Entry], limit: int
    ) -> tuple[Entry | None, bool]:
        """The node that a further call here executes again, and whether its inputs are to be told.

        No node if the call is a new one.
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
        if self._redefined >= _MOST_REDEFINED:
            return last, False
        self._redefined += 1
        self._by_inputs.pop(last.inputs, None)
        self._by_inputs[inputs] = last
        return last, True


class Cursor:
    """One thread's count, within one step, of the calls in one scope and phase.

    Attributes:
        step: What it counts within: any token that no other step has, None before the first.
        slots: By op (or leaf key): how many calls so far, and the entries of that key.
        label: What its nodes are called, instead of their ops: for the node of a static graph,
            which has a cursor of its own.
        device: Where its nodes run.
        control: Ids of the nodes that they wait for.
        origin: Of the node of a compiled graph: the traced nodes that it stands for.
        graph: The captured graph that it is part of, or 0.
    """

    __slots__ = (
        "control", "device", "graph", "label", "origin", "owner", "phase", "scope", "slots", "step",
    )  # fmt: skip

    def __init__(self, owner: Identity, scope: str, phase: Phase) -> None:
        self.owner = owner
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
        """Count from zero again: a step has begun."""
        self.step = step
        for slot in self.slots.values():
            slot[0] = 0

    def slot(self, key: str) -> list[Any]:
        """The ``[count, entries]`` of a key that this cursor has not met yet."""
        slot = self.slots[key] = [0, self.owner.entries(self.scope, key, self.phase)]
        return slot


class Identity:
    """The nodes of one run.

    Args:
        value_ids: Where value ids come from; numbers that grow and are never reused.
    """

    def __init__(self, value_ids: Callable[[], int] | None = None) -> None:
        self._lock = threading.RLock()  # a signal handler may compute here, too
        self._node_ids = itertools.count(1).__next__
        self._value_ids = value_ids or itertools.count(1).__next__
        self._entries: dict[tuple[str, str, Phase], list[Entry]] = {}
        self._names: set[str] = set()
        self._sites: dict[Hashable, Site] = {}
        self.by_value: dict[int, Entry] = {}
        self.version = 0

    def entries(self, scope: str, key: str, phase: Phase) -> list[Entry]:
        """The entries of a key, by how-many-th call. The list grows in `define` only."""
        with self._lock:
            return self._entries.setdefault((scope, key, phase), [])

    def site(self, scope: str, key: str, phase: Phase, where: Hashable) -> Site:
        """The site of a key that is called at ``where``, any token of the place in the program."""
        with self._lock:
            return self._sites.setdefault((scope, key, phase, where), Site())

    def define(
        self,
        entries: list[Entry],
        nth: int,
        *,
        op: str,
        family: str,
        inputs: tuple[int, ...],
        specs: Sequence[TensorSpec],
        attrs: dict[str, Any],
        scope: str,
        phase: Phase,
        source: SourceLocation | None,
        forward: int | None = None,
        label: str = "",
        device: str = "cpu",
        control_inputs: tuple[int, ...] = (),
        origin: tuple[int, ...] = (),
        graph: int = 0,
    ) -> tuple[Entry, tuple[Value, ...] | None]:
        """Define the ``nth`` entry, anew or with other inputs.

        Returns:
            The entry, and its values if the graph was extended; None if another thread was first.
        """
        with self._lock:
            if nth < len(entries):
                entry = entries[nth]
                if entry.inputs == inputs and entry.node.graph == graph:
                    return entry, None
                known = entry.node
                entry.node = msgspec.structs.replace(
                    known,
                    inputs=inputs,
                    source=source or known.source,
                    forward=known.forward if forward is None else forward,
                    attrs=attrs,
                    origin=origin,
                    graph=graph,
                )
                entry.inputs = inputs
                self.version += 1
                return entry, entry.values
            name = self._unique(join(scope, label or op), nth)
            outputs = tuple(self._value_ids() for _ in specs)
            values = tuple(
                Value(id, spec, f"{name}:{port}" if port else name)
                for port, (id, spec) in enumerate(zip(outputs, specs, strict=True))
            )
            node = Node(
                id=self._node_ids(),
                name=name,
                op=op,
                family=family,
                inputs=inputs,
                outputs=outputs,
                attrs=attrs,
                scope=scope,
                phase=phase,
                device=device,
                control_inputs=control_inputs,
                source=source,
                origin=origin,
                forward=forward,
                graph=graph,
            )
            entry = Entry(node, values, len(entries))
            for id in outputs:
                self.by_value[id] = entry
            entries.append(entry)
            self.version += 1
            return entry, values

    def _unique(self, wanted: str, nth: int) -> str:
        name = f"{wanted}_{nth}" if nth else wanted
        while name in self._names:
            nth += 1
            name = f"{wanted}_{nth}"
        self._names.add(name)
        return name
