"""A graph sent in columns equals the graph sent in rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope import events
from nodescope.ir.attrs import encode
from nodescope.ir.graph import Node, OpaqueSpec, SourceLocation, TensorSpec, Value
from nodescope.record import graph_table
from nodescope.record.recorder import Recorder
from nodescope.record.recording import MAX_SEQ, Recording
from nodescope_server.wire import convert, graph_columns
from tests.core.record.runs import record
from tests.server.support import nodes_in, numbers_in, values_in

NODES = (
    Node(
        1, "net/w", "parameter", "leaf", outputs=(1,), scope="net", role="parameter",
        source=SourceLocation("train.py", 7, "step"),
    ),
    Node(
        2, "net/split", "split", "layout", inputs=(1,), outputs=(2, 3), scope="net",
        attrs={"axis": 1, "index": (slice(0, 8, None), ...)}, writes=((1, 0),), control_inputs=(1,),
    ),
    Node(
        9, "odd", "add_", "update", inputs=(2, 3), outputs=(4,), scope="backward/net",
        phase="backward", forward=2, origin=(1, 2), dialect="torch", native="aten::add_.Tensor",
        attrs={"code": "x" * 5000, "sizes": tuple(range(500))}, device="cuda:0", graph=3,
    ),
    Node(2, "net/split", "split", "layout", inputs=(4,), outputs=(2, 3), scope="net"),
)  # fmt: skip
VALUES = (
    (Value(1, TensorSpec((4, None), "float32"), "net/w", 7), 1),
    (Value(2, TensorSpec((), "bfloat16", "cuda:0"), "net/split"), 2),
    (Value(3, OpaqueSpec("data.Set", 12), "net/split:1"), 2),
    (Value(5, TensorSpec((3,), "int64"), "fed"), None),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.nscope"
    recorder = Recorder(path, level="timing")
    recorder.emit(events.RunStarted("0" * 16, "t.py", (), 1, 1))
    recorder.emit(events.GraphExtended(NODES[:2], tuple(value for value, _ in VALUES)))
    recorder.emit(events.GraphExtended(NODES[2:], ()))
    recorder.close()
    return path


def test_nodes_and_values_arrive_as_they_were_defined(path: Path) -> None:
    with Recording.open(path) as recording:
        message = convert.snapshot(recording, recording.run(), None, recording.last_seq())
        rows = recording.nodes()
    arrived = nodes_in(message.nodes)
    assert [seq for seq, _ in arrived] == [row.seq for row in rows]
    expected = [convert.shown_node(row.node) for row in rows]
    assert [node for _, node in arrived] == expected
    assert len(expected[2].attrs["code"]) < 300, "long texts come when a node is looked at"
    values = values_in(message.values, expected)
    assert {(value.value, value.producer) for value in values} == set(VALUES)


def test_a_snapshot_has_only_the_nodes_defined_by_its_moment(path: Path) -> None:
    with Recording.open(path) as recording:
        rows = recording.nodes()
        message = convert.snapshot(recording, recording.run(), None, rows[1].seq)
    assert [node.id for _, node in nodes_in(message.nodes)] == [1, 2]
    assert message.last_event >= rows[1].seq


@given(st.lists(st.integers(0, 2**53), max_size=20))
def test_numbers_take_as_few_bytes_as_they_need(column: list[int]) -> None:
    packed = graph_columns.numbers(column)
    assert numbers_in(packed, len(column)) == column
    largest = max(column, default=0)
    width = 0 if largest == 0 else 1 if largest < 256 else 8 if largest >= 1 << 32 else None
    assert width is None or len(packed) == width * len(column)


PATHS = st.one_of(
    st.text(max_size=8), st.sampled_from(["", "/", "a", "a/b", "网络/层", "شبكة", "🧠" * 300])
)


@given(st.lists(st.tuples(PATHS, PATHS, st.booleans()), max_size=8))
def test_any_name_in_any_scope_arrives(names: list[tuple[str, str, bool]]) -> None:
    nodes = [
        Node(number, f"{scope}/{name}" if inside else name, "exp", "other", scope=scope)
        for number, (scope, name, inside) in enumerate(names, 1)
    ]
    encoded = [graph_table._decode(encode(node)) for node in nodes]
    arrived = nodes_in(graph_columns.node_columns([1] * len(nodes), encoded))
    assert [node for _, node in arrived] == nodes


def test_both_ways_to_the_latest_executions_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "run.nscope", level="timing")
    record(recorder)
    recorder.close()
    with Recording.open(recorder.path) as recording:
        seqs = [0, *(row.seq for row in recording.executions()), MAX_SEQ]
        scanned = [recording.graph_table.latest(seq) for seq in seqs]
        monkeypatch.setattr(graph_table, "_EXECUTIONS_A_NODE", 0)
        looked_up = [recording.graph_table.latest(seq) for seq in seqs]
    for one, other in zip(scanned, looked_up, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(scanned[-1]) > 1


def test_a_damaged_attribute_is_a_fault_of_the_file() -> None:
    node = graph_table._decode(encode(NODES[1]).replace(b"axis", b"\xa4xi\x01"))
    with pytest.raises(Exception, match=r"(?i)utf|malformed|expected|truncated|invalid"):
        graph_columns.node_columns([1], [node])
