"""Exported programs: drawn, run node by node, differentiated, and refused if they are not data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nodescope as ns
from nodescope.adapters.torch.static import Program
from nodescope.adapters.torch.static.inputs import inputs_of
from nodescope.debug.replay import Replay
from nodescope.errors import GraphError
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from tests.adapters.driving import debugged, recorded
from tests.torch.observing import nodes_of, observed
from tests.torch.static_programs import HIDDEN, Branching, Classifier, Net, batch


def program(**options: Any) -> tuple[Net, Program]:
    torch.manual_seed(0)
    model = Net().eval()
    return model, ns.torch.graph(model, batch(), **options)


def ran(recording: Recording) -> set[int]:
    return {execution.node for execution in recording.executions()}


def shape_of(node: Node, specs: dict[int, Any]) -> tuple[int | None, ...]:
    return tuple(specs[node.outputs[0]].shape)


def test_the_graph_is_that_of_the_eager_model(tmp_path: Path) -> None:
    model, static = program()
    with torch.no_grad(), observed(tmp_path / "eager.nscope", lambda: model(*batch())) as (_, run):
        eager = nodes_of(run)
    graph = static.graph
    assert graph.kind == "static"
    drawn = {node.name: node for node in graph.nodes}
    operators = {name for name, node in eager.items() if node.role == "op"}
    assert operators == {name for name, node in drawn.items() if node.role == "op"}
    for name in operators:
        assert drawn[name].native == eager[name].native
        assert drawn[name].attrs == eager[name].attrs
        assert (drawn[name].source is None) == (eager[name].source is None)
        assert drawn[name].source.line == eager[name].source.line  # type: ignore[union-attr]
    roles = {name: node.role for name, node in drawn.items() if node.is_leaf}
    assert roles["tokens"] == "input"
    assert roles["Net/blocks/0/qkv/weight"] == "parameter"
    assert roles["Net/blocks/1/scale"] == "buffer"
    assert "constant" in roles.values()


def test_sizes_that_are_symbols_are_unknown() -> None:
    size = torch.export.Dim("size", min=2, max=64)
    _, static = program(dynamic_shapes=({0: size}, {0: size}))
    graph = static.graph
    specs = {value.id: value.spec for value in graph.values}
    named = {node.name: node for node in graph.nodes}
    assert shape_of(named["tokens"], specs) == (None, 5)
    assert shape_of(named["Net/blocks/0/norm/layer_norm"], specs) == (None, 5, HIDDEN)
    assert shape_of(named["Net/head/weight"], specs) == (10, HIDDEN)
    assert str(named["Net/blocks/0/view"].attrs["size"][0]).startswith("s")


def test_a_run_executes_the_nodes_that_were_drawn(tmp_path: Path) -> None:
    model, static = program()
    with torch.no_grad():
        expected = model(*batch())
    with observed(tmp_path / "run.nscope", lambda: static.run(*batch())) as (result, run):
        assert torch.equal(result, expected)
        nodes = {row.node.id for row in run.nodes()}
        assert nodes == ran(run)
        assert [step.step for step in run.steps()] == [1]


def test_a_program_may_be_drawn_and_not_run(tmp_path: Path) -> None:
    _, static = program()
    with observed(tmp_path / "run.nscope", static.draw) as (count, run):
        drawn = [row.node for row in run.nodes()]
        assert count == sum(node.role == "op" for node in drawn) > 20
        assert not ran(run)


def test_a_run_leaves_the_program_as_it_is() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    static = ns.torch.graph(model, (torch.ones(2, 3),))
    before = {name: value.clone() for name, value in static.exported.state_dict.items()}
    assert torch.equal(static.run(torch.randn(2, 3)), static.run(torch.randn(2, 3))) is False
    for name, value in static.exported.state_dict.items():
        assert torch.equal(value, before[name]), name


def test_the_joint_graph_gives_the_gradients_of_the_eager_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net().eval()
    static = ns.torch.joint(model, batch())
    assert static.graph.kind == "backward-joined"
    model(*batch()).backward()
    with observed(tmp_path / "run.nscope", lambda: static.run(*batch())) as (result, run):
        gradients = {name: value.grad for name, value in model.named_parameters()}
        assert result.gradients.keys() == gradients.keys()
        assert all(torch.equal(result.gradients[name], gradients[name]) for name in gradients)
        backward = [row.node for row in run.nodes() if row.node.phase == "backward"]
        assert len(backward) > 30
        assert all(node.forward is not None for node in backward)
        assert any(node.scope.startswith("backward/Net/blocks/1") for node in backward)


def test_a_loss_may_be_put_after_a_model() -> None:
    torch.manual_seed(0)
    model = Classifier()
    x, labels = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    static = ns.torch.joint(model, (x,), loss=lambda logits: F.cross_entropy(logits, labels))
    F.cross_entropy(model(x), labels).backward()
    result = static.run(x)
    assert torch.equal(result.gradients["model.body.weight"], model.body.weight.grad)
    names = {node.name for node in static.graph.nodes}
    assert {"Classifier/body/addmm", "Classifier/body/weight", "cross_entropy/nll_loss"} <= names


def test_a_loss_without_parameters_is_refused() -> None:
    with pytest.raises(GraphError, match="does not depend on any parameter"):
        _ = ns.torch.joint(nn.ReLU(), (torch.ones(3),)).graph


def test_a_static_graph_stops_and_continues_with_an_edit(tmp_path: Path) -> None:
    _, static = program()
    plain = static.run(*batch())
    at = "node:Net/blocks/0/norm/layer_norm"
    with debugged(tmp_path / "run.nscope", lambda: static.run(*batch()), at) as seen:
        assert seen.stop() is not None
        seen.controller.edit("value *= 0")
        edited = seen.end()
    assert not torch.equal(edited, plain)
    with Recording.open(tmp_path / "run.nscope") as run:
        (edit,) = run.edits()
        assert edit.how.startswith("Net/blocks/0/norm/layer_norm")


def test_what_if_is_what_a_run_on_other_inputs_gives(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Classifier()
    x = torch.randn(4, 6)
    static = ns.torch.graph(model, (x,))
    recorded(tmp_path / "run.nscope", lambda: static.run(x), level="values")
    with Recording.open(tmp_path / "run.nscope") as run:
        nodes, replay = nodes_of(run), Replay(run)
        branch = replay.what_if({nodes["x"].outputs[0]: (x * 1.5).numpy()})
        assert branch.blocked == ()
        changed = branch.value(nodes["Classifier/softmax"].outputs[0])
        assert changed is not None
        assert np.array_equal(changed.new, static.run(x * 1.5).detach().numpy())


def test_graphs_inside_of_graphs_run_where_they_belong(tmp_path: Path) -> None:
    model = Branching()
    for sign in (1.0, -1.0):
        x = torch.full((3,), sign)
        static = ns.torch.graph(model, (x,))
        path = tmp_path / f"{sign}.nscope"
        with observed(path, lambda given=x, static=static: static.run(given)) as (result, run):
            assert torch.equal(result, model(x))
            natives = {row.node.native for row in run.nodes() if row.node.id in ran(run)}
        assert "aten::cos" in natives  # Runs under no_grad.
        assert ("aten::sin" in natives) == (sign > 0)
        assert ("aten::exp" in natives) == (sign < 0)


def test_inputs_that_do_not_fit_are_named() -> None:
    _, static = program()
    with pytest.raises(GraphError, match=r"the inputs do not fit the program: .*shape"):
        static.run(torch.zeros(2, 2, dtype=torch.long), torch.zeros(2, 2, dtype=torch.long))


def test_a_model_that_cannot_be_exported_is_refused_in_words() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(GraphError, match=r"torch\.export refuses the model"):
        ns.torch.graph(Odd(), (torch.ones(3),))


def test_inputs_are_examples_a_file_or_random(tmp_path: Path) -> None:
    _, static = program()
    given = inputs_of(static)
    assert "saved with" in given.origin
    assert torch.equal(given.args[0], batch()[0])
    size = torch.export.Dim("size", min=2, max=64)
    _, static = program(dynamic_shapes=({0: size}, {0: size}))
    static.exported.example_inputs = None
    drawn = inputs_of(static)
    assert "random" in drawn.origin
    assert drawn.args[0].dtype == torch.int64
    static.run(*drawn.args, **drawn.kwargs)
    file = tmp_path / "given.npz"
    tokens, labels = (value.numpy() for value in batch())
    np.savez(file, tokens=tokens, labels=labels)
    assert torch.equal(static.run(*inputs_of(static, file).args), static.run(*batch()))
    np.savez(file, tokens=tokens)
    with pytest.raises(GraphError, match="has no array 'labels'"):
        inputs_of(static, file)
