"""Training loops that nobody here wrote: Hugging Face's Trainer and Lightning's."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import lightning
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

from nodescope.record.recording import Recording
from tests.torch.observing import observed, state_of

STEPS = 3


def hugging_face(folder: Path) -> nn.Module:
    """Three steps of a small BERT."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    data = [
        {
            "input_ids": torch.arange(number, number + 8),
            "attention_mask": torch.ones(8, dtype=torch.long),
            "labels": torch.tensor(number % 2),
        }
        for number in range(4 * STEPS)
    ]
    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=4, num_train_epochs=1, report_to=[],
        use_cpu=True, disable_tqdm=True, save_strategy="no", logging_strategy="no",
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=data).train()
    return model


class Regression(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 2)

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        return self.body(batch).square().mean()  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def lightnings(folder: Path) -> nn.Module:
    """Three steps of a linear layer."""
    torch.manual_seed(0)
    model = Regression()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(folder),
    )  # fmt: skip
    trainer.fit(model, DataLoader(torch.rand(2 * STEPS, 4), batch_size=2))  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize("train", [hugging_face, lightnings])
def test_a_trainers_steps_are_steps(train: Callable[[Path], nn.Module], tmp_path: Path) -> None:
    logging.getLogger("lightning").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = state_of(train(tmp_path / "plain"))
        with observed(tmp_path / "run.nscope", lambda: train(tmp_path / "run")) as (model, run):
            assert state_of(model) == plain
            check(run)


def check(run: Recording) -> None:
    steps = list(range(1, STEPS + 1))
    assert [step.step for step in run.steps() if run.ran_in(step.step)] == steps
    assert [row.step for row in run.losses()] == steps
    nodes = [row.node for row in run.nodes()]
    assert {node.phase for node in nodes} >= {"forward", "backward", "optimizer"}
    assert all(node.forward is not None for node in nodes if node.phase == "backward")
