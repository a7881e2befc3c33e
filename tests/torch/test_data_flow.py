"""Data flow: through views, writes in place, detaching, casts, recomputation, evaluation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import nodescope as ns
from nodescope.adapters.torch.operations import Operations
from nodescope.adapters.torch.places import Place
from nodescope.adapters.torch.tensors import host_array
from nodescope.api import Run
from nodescope.record.recording import Recording
from tests.torch.observing import edges_of, nodes_of, observed
from tests.torch.tap_programs import written_view, written_views
from tests.torch.taps import TAPS


def test_a_write_through_a_view_reaches_its_base(tmp_path: Path) -> None:
    def program() -> Any:
        x = torch.zeros(4)
        x[1:3].fill_(2.0)
        y = x * 2
        x[1:].mul_(3)
        return (y + x).sum().item()

    with observed(tmp_path / "run.nscope", program) as (result, recording):
        assert result == 20
        edges = edges_of(recording)
    assert edges["mul"] == ["updated_view"]
    assert edges["updated_view"] == ["zeros", "fill_"]
    assert edges["updated_view_1"] == ["updated_view", "mul_"]
    assert edges["add"] == ["mul", "updated_view_1"]


def test_a_write_to_the_base_reaches_its_views(tmp_path: Path) -> None:
    def program() -> None:
        x = torch.ones(2, 3)
        row = x[0]
        x.add_(1)
        row.sum()

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        edges = edges_of(recording)
    assert edges["sum"] == ["updated_view"]
    assert edges["updated_view"] == ["select", "add_"]


@pytest.mark.parametrize("program", [written_view, written_views])
@pytest.mark.parametrize("tap", TAPS)
def test_the_backward_pass_of_a_write_to_a_view_is_linked(
    tap: str, program: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    with observed(tmp_path / "run.nscope", program) as (_, recording):
        nodes = nodes_of(recording).values()
    assert not [node.name for node in nodes if node.phase == "backward" and not node.forward]


def test_nodes_of_steps_that_were_left_out_are_not_linked_one_by_one() -> None:
    """After a write to a view, whose own further nodes are."""
    operations: Any = SimpleNamespace(place=Place(), _links={})
    operations.place.sliced = (1, "a")
    Operations.link_at(operations, 10_000_000, 2, "b")
    assert operations._links[0] == (1, "a")
    assert operations._links[10_000_000] == (2, "b")
    assert len(operations._links) < 100


def test_results_given_as_out_and_lists(tmp_path: Path) -> None:
    def program() -> None:
        a, b = torch.ones(3), torch.zeros(3)
        torch.add(a, 1, out=b)
        torch._foreach_mul_([a, b], 2.0)
        torch.cat([a, b]).split(2)[1].sum()

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        edges, nodes = edges_of(recording), nodes_of(recording)
    assert edges["add"] == ["ones"]
    assert edges["foreach_mul_"] == ["ones", "add"]
    assert nodes["foreach_mul_"].writes == ((0, 0), (1, 1))
    assert edges["cat"] == ["foreach_mul_", "foreach_mul_"]
    assert len(nodes["split"].outputs) == 3


def test_detaching_is_a_node_where_a_gradient_ends(tmp_path: Path) -> None:
    def program() -> None:
        w = nn.Parameter(torch.ones(3))
        y = torch.sigmoid(w)  # Autograd detaches the output that it saves.
        (y.detach() * y).sum().backward()

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        edges = edges_of(recording)
    assert [name for name in edges if "detach" in name] == ["detach"]
    assert edges["mul"] == ["detach", "sigmoid"]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        context.save_for_backward(x)
        return x.sin() * 2

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        (x,) = context.saved_tensors
        return gradient * x.cos() * 2


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x))


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice = Part(), Part()
        self.norm = nn.BatchNorm1d(4)
        self.output = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = Doubled.apply(checkpoint(self.first, x, use_reentrant=False))
        return self.output(self.norm(self.twice(self.twice(x))))


def everyday() -> list[Any]:
    """Autocast, checkpointing, a function of one's own, a loader with workers, evaluation."""
    torch.manual_seed(0)
    model = Whole()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
    loader = DataLoader(data, 8, num_workers=2)
    said: list[Any] = []
    for _ in range(2):
        model.train()
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            said += [(model(x).argmax(1) == y).sum().item() for x, y in loader]
    with torch.inference_mode():
        said.append(model(torch.ones(3, 4)).sum().item())
    return [*said, *(parameter.tolist() for parameter in model.parameters())]


def test_an_everyday_training_run(tmp_path: Path) -> None:
    plain = everyday()
    with observed(tmp_path / "run.nscope", everyday, "values") as (result, recording):
        assert result == plain
        nodes, edges = nodes_of(recording), edges_of(recording)
        steps = [row.step for row in recording.steps()]
    assert steps == list(range(1, 18))  # 8 training steps, 8 of evaluation, and the last call.
    again = [node for node in nodes.values() if node.phase == "recompute"]
    assert {node.scope for node in again} == {
        "recompute/Whole/first",
        "recompute/Whole/first/linear",
    }
    backward = [node for node in nodes.values() if node.phase == "backward"]
    assert all(node.forward for node in backward)
    own = next(node for node in backward if node.name == "backward/Whole/cos")
    forward = next(node for node in nodes.values() if node.id == own.forward)
    assert forward.name == "Whole/sin"
    assert "Whole/twice_1/linear/addmm" in nodes  # The second call of the same module.
    assert edges["backward/Whole/first/threshold_backward"][1] == "recompute/Whole/first/relu"


def test_other_kinds_of_tensors_are_harmless(tmp_path: Path) -> None:
    def program() -> list[float]:
        def parallel() -> None:
            results.append(torch.ones(2).exp().sum().item())

        results: list[float] = []
        thread = threading.Thread(target=parallel)
        thread.start()
        thread.join()
        gradient = torch.func.vmap(torch.func.grad(lambda x: (x**3).sum()))
        results.append(gradient(torch.ones(3, 2)).sum().item())
        results.append((torch.eye(3).to_sparse() @ torch.ones(3, 1)).sum().item())
        assert (torch.empty(3, device="meta") + 1).shape == (3,)
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
        results.append((nested * 2).values().sum().item())
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (first * first).sum().backward()
        assert x.grad is not None
        results.append(x.grad.sum().item())
        results.append(torch.tensor([1 + 2j]).conj().imag.sum().item())
        compiled = torch.compile(lambda x: torch.sin(x) * 2, backend="aot_eager")
        results.append(compiled(torch.ones(3)).sum().item())
        return results

    plain = program()
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        assert any(node.op == "exp" for node in nodes_of(recording).values())


def test_zeros_that_are_held_nowhere_are_shown_as_zeros() -> None:
    assert host_array(torch._efficientzerotensor(3)).tolist() == [0, 0, 0]


def test_what_begins_a_step_that_is_left_out_is_the_same_node(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters())
    run = Run(tmp_path / "run.nscope", max_slowdown=1e9)
    run.start()
    run.bus.leaves_out = lambda step, _: step > 2
    try:
        for _ in range(6):
            loss = model(torch.randn(4, 3)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    finally:
        run.finish()
    with Recording.open(tmp_path / "run.nscope") as recording:
        names = [row.node.name for row in recording.nodes() if row.node.op == "randn"]
    assert names == ["randn"]


class Failing(nn.Module):
    """A module within others that raises for negative inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.max()) < 0:
            raise ValueError("negative")
        return nn.functional.relu(x)


def test_a_call_of_a_model_is_one_step_however_many_modules_it_has(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(Failing(), nn.Linear(4, 1)))
    other = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    run = Run(tmp_path / "run.nscope", max_slowdown=1e9)
    run.start()
    # Two of three steps are unobserved.
    run.bus.leaves_out = lambda step, unit: unit == "step" and step % 3 > 0
    try:
        with torch.no_grad():
            for _ in range(6):
                model(torch.ones(2, 3))
                with pytest.raises(ValueError, match="negative"):
                    model[1](-torch.ones(2, 4))
                other(torch.ones(2, 3))
    finally:
        run.finish()
    with Recording.open(tmp_path / "run.nscope") as recording:
        steps = recording.steps()
    assert [step.step for step in steps] == list(range(1, 19))
    assert sum(step.observed for step in steps) == 6


def test_what_follows_an_initialisation_is_not_a_part_of_it(tmp_path: Path) -> None:
    def program() -> None:
        nn.Linear(2, 2)
        with ns.name_scope("mine"):
            torch.ones(2)
        torch.zeros(2)

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        names = set(nodes_of(recording))
    assert {"mine/ones", "zeros"} <= names
    assert any(name.startswith("initialisation/") for name in names)


@pytest.mark.parametrize("tap", TAPS)
def test_what_is_overwritten_has_another_gradient_then(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> Any:
        weight = nn.Parameter(torch.randn(4, 4))
        y = torch.randn(3, 4) @ weight
        z = torch.zeros(3, 4)
        z.add_(y.sigmoid_())
        (z * 3).sum().backward()
        return weight.grad

    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    with observed(tmp_path / "run.nscope", program) as (_, recording):
        made = {id: node for node in nodes_of(recording).values() for id in node.outputs}
        pairs = {made[row.value].name: made[row.gradient].op for row in recording.gradients()}
    assert pairs["mm"] == "sigmoid_backward"
    assert pairs["sigmoid_"] == pairs["add_"] == "multiply"
    assert "zeros" not in pairs
