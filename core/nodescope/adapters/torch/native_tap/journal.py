"""Journal: what Python made of each operator of a step, so that the next step can be recognised.

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
    """A call that was given its node.

    Attributes:
        cursor, key, number: What counts it, and how many there were with it.
    """

    cursor: Cursor
    key: str
    number: int
    entry: Entry


class Change(NamedTuple):
    """What became of a storage.

    Attributes:
        kind: ``made``, ``wrote``, ``detached``; ``read``: it was emitted as data.
        number: Of the storage.
        geometry, id: The place in it, and the value that is there now.
    """

    kind: str
    number: int
    geometry: Geometry
    id: int


class Read(NamedTuple):
    """A tensor that was emitted before the operator that reads it: as data, or as an updated view.

    Attributes:
        number, geometry: Storage, and place in it.
        owner: Whose it is.
        is_updated: Whether it is what writes through other views have made of it.
    """

    number: int
    geometry: Geometry
    owner: Owner | None
    is_updated: bool


class Outdated(NamedTuple):
    """A place that was read in the step, although it had been written to through other views.

    Attributes:
        number, geometry: Storage, and place in it.
        id: The value that was known there when the step began.
        writes: Value and place of each write since that, before the step; without those that the
            step has covered.
        covered: The places that it has written to before it read this one.
    """

    number: int
    geometry: Geometry
    id: int
    writes: tuple[tuple[int, Geometry], ...]
    covered: frozenset[Geometry]


class Hooked(NamedTuple):
    """An operand that a hook was set on, which waits for its gradient.

    Attributes:
        number, geometry, id: Storage, place in it, and its value.
    """

    number: int
    geometry: Geometry
    id: int


class First(NamedTuple):
    """A value that was known when the step began.

    Attributes:
        number, geometry: Storage, and place in it.
        differentiable: Whether the tensor required a gradient.
    """

    number: int
    geometry: Geometry
    differentiable: bool
    id: int


class After(NamedTuple):
    """Where the thread is after an operator, as far as operators determine it."""

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
        entered: The calls that were emitted: data and updated views first, the operator last.
        leaves: What was emitted before the operator, by call.
        leaf_attrs: By the number of the call: attributes as emitted with the execution.
        hooked: Its operands that hooks were set on.
        outputs: Storage and place of each output; None for a number, ``()`` for nothing.
        linked: The number that the next autograd node got after it, counted from the step's first;
            None if no node of autograd can be its.
        saved: How many copies of what it has overwritten autograd keeps.
        attrs: As emitted with the execution.
        updates: Storages that belong to a parameter, by number.
        pair: For a gradient: ids of the parameter and of the gradient.
        draws: Whether the state of a generator was recorded with it.
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
        items: What happened.
        firsts: The values that were known before.
        outdated: The places that were known before, and written to since.
        owners: Whose storages became, other than by reading them as data.
        sound: Whether it holds all that happened.
        version: Of the graph, when the step began.
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
        self._written: dict[int, list[Geometry]] = {}  # by storage: in the step so far

    def spoil(self) -> None:
        """Something happened that cannot be recognised."""
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
        """The item that is under way."""
        return self._item

    def entered(self, cursor: Cursor, key: str, entry: Entry) -> None:
        """See `emit.emitter.Journal`."""
        if self._item is None:
            self.sound = False
        else:
            self._item.entered.append(Entered(cursor, key, cursor.slots[key][0], entry))

    def leaf(self, number: int, geometry: Geometry, id: int, owner: Owner | None) -> None:
        """Note that a tensor was emitted as data."""
        if self._item is None or not number:
            self.sound = False
        else:
            self._item.leaves.append(Read(number, geometry, owner, is_updated=False))
            self.changed(READ, number, geometry, id)

    def updated(
        self, memory: Memory, geometry: Geometry, id: int, known: Known | None,
        attrs: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        """Note that a tensor was emitted as what writes through other views have made of it.

        Args:
            memory, geometry: Storage, and place in it.
            id: Its value now.
            known: The value that was known there.
            attrs: As emitted with the execution.
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
        """Note that a storage became somebody's."""
        if self.owners.setdefault(number, owner) is not owner:
            self.sound = False

    def hooked(self, number: int, geometry: Geometry, id: int) -> None:
        """Note that a hook was set on an operand."""
        if self._item is None or not number:
            self.sound = False
        else:
            self._item.hooked.append(Hooked(number, geometry, id))

    def changed(self, kind: str, number: int, geometry: Geometry, id: int) -> None:
        """Note that a storage holds another value at a place."""
        if self._item is None:
            self.sound = False
        else:
            self._item.changes.append(Change(kind, number, geometry, id))
            self._changed.add((number, geometry))
            if kind == WROTE:
                self._written.setdefault(number, []).append(geometry)

    def known(self, number: int, geometry: Geometry, id: int, *, differentiable: bool) -> None:
        """Note that a value was known."""
        if (number, geometry) not in self._changed:
            self.firsts.append(First(number, geometry, differentiable, id))
