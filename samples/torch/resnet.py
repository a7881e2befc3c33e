"""Train a small residual network in PyTorch to read handwritten digits.

    nodescope run samples/torch/resnet.py [--epochs N]

Three stages of two residual blocks with batch norm, on 1,797 digits of 8x8 pixels; a shuffling data
loader, a falling learning rate, and an evaluation after each epoch.

Invariant: the same seed gives the same accuracy, observed or not.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

DIGITS = Path(__file__).resolve().parents[1] / "data" / "digits.csv.gz"


class Residual(nn.Module):
    """Two convolutions, with their input added to the result."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Maps images of one channel to the logits of ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.stage1 = nn.Sequential(Residual(8, 8, 1), Residual(8, 8, 1))
        self.stage2 = nn.Sequential(Residual(8, 16, 2), Residual(16, 16, 1))
        self.stage3 = nn.Sequential(Residual(16, 32, 2), Residual(32, 32, 1))
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stage3(self.stage2(self.stage1(self.stem(images))))
        return self.head(x.mean(dim=(2, 3)))


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Images (N, 1, 8, 8) from 0 to 1 with their digits: a training and a test set."""
    with gzip.open(DIGITS, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(table))
    images = torch.from_numpy(table[order, :64].reshape(-1, 1, 8, 8) / 16.0)
    labels = torch.from_numpy(table[order, 64].astype(np.int64))
    return TensorDataset(images[:1437], labels[:1437]), TensorDataset(images[1437:], labels[1437:])


@torch.no_grad()
def accuracy(model: ResNet, loader: DataLoader) -> float:
    """The share of digits that are classified correctly."""
    model.eval()
    right = sum(int((model(images).argmax(dim=1) == labels).sum()) for images, labels in loader)
    model.train()
    return right / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    training, testing = digits()
    loader = DataLoader(training, batch_size=64, shuffle=True)
    test_loader = DataLoader(testing, batch_size=120)
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
    for epoch in range(options.epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}  accuracy {accuracy(model, test_loader):.3f}", flush=True)
    print(f"accuracy {accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
