"""Identity: keys to nodes, without any engine."""

from __future__ import annotations

from typing import Any

from nodescope.ir.graph import TensorSpec, Value
from nodescope.ir.identity import MOST_RESHAPED, Cursor, Identity, NodeSpec


def define(identity: Identity, nth: int, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "op": "add", "family": "elementwise", "inputs": (), "specs": [TensorSpec((), "float32")],
        "attrs": {}, "scope": "a", "phase": "forward", "source": None,
    }  # fmt: skip
    fields.update(changes)
    entries = identity.entries(fields["scope"], fields["op"], fields["phase"])
    return identity.define(entries, nth, NodeSpec(**fields))


def test_keys_names_and_values() -> None:
    identity = Identity()
    first, values = define(identity, 0, specs=[TensorSpec((), "float32")] * 2)
    assert first.node.name == "a/add"
    assert [v.name for v in values] == ["a/add", "a/add:1"]
    assert define(identity, 1)[0].node.name == "a/add_1"
    assert define(identity, 0, op="add_1")[0].node.name == "a/add_1_1"
    assert identity.by_value[values[1].id] is first
    assert identity.version == 3


def test_same_inputs_are_no_news_and_others_keep_the_id() -> None:
    identity = Identity()
    entry, _ = define(identity, 0, inputs=(7,))
    assert define(identity, 0, inputs=(7,)) == (entry, None)
    before = entry.node
    again, values = define(identity, 0, inputs=(8,), forward=3)
    assert again is entry
    assert values is entry.values
    assert (entry.node.id, entry.node.inputs, entry.node.forward) == (before.id, (8,), 3)
    assert before.inputs == (7,)


def test_a_cursor_counts_within_a_step() -> None:
    identity = Identity()
    cursor = Cursor(identity, "a", "forward")
    cursor.restart(1)
    slot = cursor.slot("add")
    slot[0] = 5
    cursor.restart(2)
    assert (slot[0], cursor.step) == (0, 2)
    define(identity, 0)
    assert len(slot[1]) == 1


def test_shapes_that_return_bring_back_the_same_values() -> None:
    identity = Identity()
    specs = [TensorSpec((64, 2), "float32"), TensorSpec((), "float32")]
    entry, _ = define(identity, 0, specs=specs)
    first, scalar = entry.values
    large, small = [((64, 2), "float32"), ((), "float32")], [((5, 2), "float32"), ((), "float32")]
    assert identity.reshape(entry, large) == ()
    (shrunk,) = identity.reshape(entry, small)
    assert shrunk == Value(first.id, TensorSpec((5, 2), "float32"), first.name)
    assert entry.values == (shrunk, scalar)
    (grown,) = identity.reshape(entry, large)
    assert grown == first
    for _ in range(3):
        assert identity.reshape(entry, small)[0] is shrunk
        assert identity.reshape(entry, large)[0] is grown


def test_shapes_that_never_return_are_not_kept() -> None:
    identity = Identity()
    entry, _ = define(identity, 0)
    for rows in range(1, 2 * MOST_RESHAPED):
        told = identity.reshape(entry, [((rows,), "float32")])
        assert bool(told) == (rows <= MOST_RESHAPED)
    assert entry.values[0].tensor.shape == (MOST_RESHAPED,)
    assert entry.variants is not None
    assert len(entry.variants) <= 4
