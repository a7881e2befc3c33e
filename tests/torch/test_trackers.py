"""Trackers of experiments beside a run: TensorBoard's writer, and Weights & Biases offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nodescope as ns
from tests.torch.observing import Recording, nodes_of, recorded, state_of
from tests.torch.taps import TAPS


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(self.hidden(x)))


def training(tracker: Any, *, watched: bool) -> dict[str, Any]:
    """What five steps give; losses and gradients go to a tracker."""
    torch.manual_seed(0)
    model = Net()
    if watched:
        ns.watch(model, "net")
    tracker.begin(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(5):
        loss = model(torch.randn(16, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        tracker.step(step, loss, model)
    tracker.end()
    return {"losses": losses, **state_of(model)}


class Board:
    """TensorBoard, with all that is written to it here and there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, model: Any) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.folder))
        self.writer.add_graph(model, torch.ones(2, 4))

    def step(self, step: int, loss: Any, model: Any) -> None:
        self.writer.add_scalar("loss", loss, step)
        for name, parameter in model.named_parameters():
            self.writer.add_histogram(name, parameter, step)
            self.writer.add_histogram(f"{name}.grad", parameter.grad, step)
        self.writer.add_image("weights", model.hidden.weight[None], step)

    def end(self) -> None:
        self.writer.close()

    def written(self) -> list[tuple[str, bytes]]:
        """Every summary, without its time."""
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        return [
            (value.tag, value.tensor.SerializeToString(deterministic=True))
            for path in sorted(self.folder.iterdir())
            for event in EventFileLoader(str(path)).Load()
            for value in event.summary.value
        ]


class Weights:
    """Weights & Biases, which hooks gradients and parameters of the model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, model: Any) -> None:
        import wandb

        self.folder.mkdir()
        self.run = wandb.init(mode="offline", dir=str(self.folder), project="test")
        self.run.watch(model, log="all", log_freq=1)

    def step(self, step: int, loss: Any, model: Any) -> None:
        self.run.log({"loss": loss.item()}, step=step)

    def end(self) -> None:
        self.run.finish()


def _names(path: Path) -> set[str]:
    with Recording.open(path) as recording:
        assert [row.step for row in recording.steps()][:5] == [1, 2, 3, 4, 5]
        return set(nodes_of(recording))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # add_graph
@pytest.mark.parametrize("tap", TAPS)
def test_a_summary_writer_beside_a_watched_model(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    boards = [Board(tmp_path / name) for name in ("plain", "observed")]
    plain = training(boards[0], watched=False)
    path = tmp_path / "run.nscope"
    assert recorded(path, lambda: training(boards[1], watched=True), level="values") == plain
    assert boards[0].written() == boards[1].written()
    assert {tag for tag, _ in boards[1].written()} >= {"loss", "hidden.weight.grad", "weights"}
    assert {
        "net/hidden/addmm",
        "backward/net/out/mm",
        "optimizer/net/hidden/weight/add_",
    } <= _names(path)


@pytest.mark.parametrize("tap", TAPS)
def test_weights_and_biases_beside_a_watched_model(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    monkeypatch.setenv("WANDB_SILENT", "true")
    plain = training(Weights(tmp_path / "plain"), watched=False)
    path = tmp_path / "run.nscope"
    program = lambda: training(Weights(tmp_path / "observed"), watched=True)  # noqa: E731
    assert recorded(path, program, level="values") == plain
    assert {
        "net/hidden/addmm",
        "backward/net/out/mm",
        "optimizer/net/hidden/weight/add_",
    } <= _names(path)
    assert list((tmp_path / "observed" / "wandb").glob("offline-run-*/*.wandb"))
