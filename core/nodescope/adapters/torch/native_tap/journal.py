"""Journal: how Python handled each operator of a step, so that a step that repeats it can be
recognised.

Invariant: one item for each operator that the observer records, in the same order.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from nodescope.adapters.torch.storages import Geometry, Known, Memory, Owner
from nodescope.emit.state import current
from nodescope.ir.identity import Cursor, Entry

MADE: Final = "made"
WROTE: Final = "wrote"
DETACHED: Final = "detached"
READ: Final = "read"


class Entered(NamedTuple):
    """A call, with its node.

    Attributes:
        cursor, key: The cursor that counts the call, and its key there.
        number: The count, including this call.
        entry: The entry of its node.
    """

    cursor: Cursor
    key: str
    number: int
    entry: Entry


class Change(NamedTuple):
    """A storage holds a new value at one geometry.

    Attributes:
        kind: ``made``, ``wrote``, ``detached``; ``read``: the value was emitted as data.
        number: The number of the storage.
        geometry, id: The geometry, and the id of the value that is there now.
    """

    kind: str
    number: int
    geometry: Geometry
    id: int


class Read(NamedTuple):
    """A tensor that was emitted before the operator that reads it: as data, or as an updated view.

    Attributes:
        number, geometry: The number of the storage, and the geometry.
        owner: The owner of the storage, or None.
        is_updated: Whether it was emitted as an updated view, after writes through other views.
    """

    number: int
    geometry: Geometry
    owner: Owner | None
    is_updated: bool


class Outdated(NamedTuple):
    """A tensor read in the step, whose value was outdated by writes through other views.

    Attributes:
        number, geometry: The number of the storage, and the geometry.
        id: The value that was known there when the step began; 0 for none.
        writes: Value and geometry of each write between that value and the step's start, except
            those that the step had overwritten.
        covered: The geometries that the step wrote to before this read.
    """

    number: int
    geometry: Geometry
    id: int
    writes: tuple[tuple[int, Geometry], ...]
    covered: frozenset[Geometry]


class Hooked(NamedTuple):
    """An operand that got a hook for its gradient.

    Attributes:
        number, geometry, id: The number of the storage, the geometry, and the value id.
    """

    number: int
    geometry: Geometry
    id: int


class First(NamedTuple):
    """A value that the step used and that was known when the step began.

    Attributes:
        number, geometry: The number of the storage, and the geometry.
        differentiable: Whether the tensor required a gradient.
        id: The value id.
    """

    number: int
    geometry: Geometry
    differentiable: bool
    id: int


class After(NamedTuple):
    """The part of a thread's state that operators change, after an operator."""

    mark: int
    scope: str
    phase: Any
    forward: int | None
    outer: bool
    updated: str
    instruction: Any


class Item:
    """An operator of the step, or the arrival of a parameter's gradient.

    Attributes:
        signature, plain: The operator, and its arguments as in `Bound.plain`.
        entered: The emitted calls: data and updated views first, the operator last.
        leaves: The data and updated views that were emitted before the operator.
        leaf_attrs: Attributes emitted with an execution, by index into ``leaves``.
        hooked: The operands that got a hook.
        outputs: Storage number and geometry of each output; None for a number, ``()`` for an
            absent output.
        linked: The sequence number of the latest autograd node after it, relative to the step's
            first; None if no autograd node is linked to the operator.
        saved: How many earlier autograd nodes also belong to it, see `Operations.link_at`.
        attrs: The attributes emitted with the execution, or None.
        updates: Storages that belong to an updated parameter: storage number and path.
        pair: For a gradient: the value ids of the parameter and of the gradient.
        after: The thread's state after it.
        draws: Whether a generator state was recorded with it.
        thread: The thread that it ran on.
    """

    __slots__ = (
        "after", "attrs", "changes", "draws", "entered", "hooked", "leaf_attrs", "leaves",
        "linked", "outputs", "pair", "plain", "saved", "signature", "thread", "updates",
    )  # fmt: skip

    def __init__(self) -> None:
        self.signature: Any = None
        self.plain: tuple[Any, ...] = ()
        self.entered: list[Entered] = []
        self.leaves: list[Read] = []
        self.leaf_attrs: dict[int, dict[str, Any]] = {}
        self.hooked: list[Hooked] = []
        self.outputs: list[tuple[int, Geometry] | tuple[()] | None] = []
        self.linked: int | None = None
        self.saved = 0
        self.changes: list[Change] = []
        self.attrs: dict[str, Any] | None = None
        self.updates: list[tuple[int, str]] = []
        self.pair: tuple[int, int] | None = None
        self.after: After | None = None
        self.draws = False
        self.thread = current().thread


class StepJournal:
    """The journal of one step.

    Attributes:
        items: The operators, and arrivals of gradients.
        firsts: The values used that were known before the step.
        outdated: The tensors read whose known values were outdated by writes.
        owners: The owners that storages got in the step, by storage number.
        sound: Whether the journal is complete; otherwise no script can be made of it.
        version: The version of the graph when the step began.
    """

    def __init__(self, version: int) -> None:
        self.items: list[Item] = []
        self.firsts: list[First] = []
        self.outdated: list[Outdated] = []
        self.owners: dict[int, Owner] = {}
        self.sound = True
        self.version = version
        self._item: Item | None = None
        self._changed: set[tuple[int, Geometry]] = set()
        self._written: dict[int, list[Geometry]] = {}  # by storage: writes of the step so far

    def spoil(self) -> None:
        """Mark the step as one that cannot be recognised when it is repeated."""
        self.sound = False

    def begin(self) -> Item:
        """Begin an item."""
        self._item = Item()
        self.items.append(self._item)
        return self._item

    def end(self, after: After | None = None) -> None:
        """End the item."""
        if self._item is not None:
            self._item.after = after
        self._item = None

    @property
    def item(self) -> Item | None:
        """The item that has begun and not ended, or None."""
        return self._item

    def entered(self, cursor: Cursor, key: str, entry: Entry) -> None:
        """See `emit.emitter.Journal`."""
        if self._item is None:
            self.sound = False
        else:
            self._item.entered.append(Entered(cursor, key, cursor.slots[key][0], entry))

    def leaf(self, number: int, geometry: Geometry, id: int, owner: Owner | None) -> None:
        """Record that a tensor was emitted as data."""
        if self._item is None or not number:
            self.sound = False
        else:
            self._item.leaves.append(Read(number, geometry, owner, is_updated=False))
            self.changed(READ, number, geometry, id)

    def updated(
        self, memory: Memory, geometry: Geometry, id: int, known: Known | None,
        attrs: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        """Record that a tensor was emitted as an updated view, after writes through other views.

        Args:
            memory, geometry: The storage, and the geometry.
            id: The new value.
            known: The value that was known there, or None.
            attrs: The attributes emitted with the execution, or None.
        """
        number = memory.serial
        if self._item is None or not number:
            self.sound = False
            return
        if attrs is not None:
            self._item.leaf_attrs[len(self._item.leaves)] = attrs
        self._item.leaves.append(Read(number, geometry, None, is_updated=True))
        if (number, geometry) not in self._changed:
            written = self._written.get(number, [])
            began = memory.version - len(written)
            since = -1 if known is None else known.version
            writes = tuple(
                (write.id, write.geometry)
                for write in memory.writes
                if since < write.version <= began
            )
            known_id = 0 if known is None or memory.owner is not None else known.id
            outdated = Outdated(number, geometry, known_id, writes, frozenset(written))
            self.outdated.append(outdated)
        self.changed(READ, number, geometry, id)

    def owned(self, number: int, owner: Owner) -> None:
        """Record that a storage got an owner."""
        if self.owners.setdefault(number, owner) is not owner:
            self.sound = False

    def hooked(self, number: int, geometry: Geometry, id: int) -> None:
        """Record that an operand got a hook."""
        if self._item is None or not number:
            self.sound = False
        else:
            self._item.hooked.append(Hooked(number, geometry, id))

    def changed(self, kind: str, number: int, geometry: Geometry, id: int) -> None:
        """Record that a storage holds a new value at a geometry."""
        if self._item is None:
            self.sound = False
        else:
            self._item.changes.append(Change(kind, number, geometry, id))
            self._changed.add((number, geometry))
            if kind == WROTE:
                self._written.setdefault(number, []).append(geometry)

    def known(self, number: int, geometry: Geometry, id: int, *, differentiable: bool) -> None:
        """Record that the step used a known value."""
        if (number, geometry) not in self._changed:
            self.firsts.append(First(number, geometry, differentiable, id))
