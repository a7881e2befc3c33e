"""Models that nobody here wrote: three training steps, plainly and observed, are the same bits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
from tests.torch.observing import nodes_of, observed, state_of  # noqa: E402

STEPS = 3
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 100,
}  # fmt: skip
ENCODER_DECODER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 100,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
RESNET = {"embedding_size": 16, "num_labels": 5}
Made = tuple[Any, dict[str, Any]]


def _text() -> dict[str, Any]:
    letters = torch.randint(0, 100, (2, 12))
    return {"input_ids": letters, "labels": letters}


def _images(size: int = 32) -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, size, size), "labels": torch.tensor([1, 2])}


def _gpt2() -> Made:
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=32, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config), _text()


def _bert() -> Made:
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)), _text()


def _llama() -> Made:
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config), _text()


def _mixtral() -> Made:
    config = transformers.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)
    return transformers.MixtralForCausalLM(config), _text()


def _mamba() -> Made:
    config = transformers.MambaConfig(
        hidden_size=32, num_hidden_layers=2, vocab_size=100, state_size=8
    )
    return transformers.MambaForCausalLM(config), _text()


def _t5() -> Made:
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100,
        decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config), _text()


def _vit() -> Made:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=32, patch_size=8, num_labels=5,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config), _images()


def _whisper() -> Made:
    config = transformers.WhisperConfig(**ENCODER_DECODER, num_mel_bins=16, max_source_positions=30)
    labels = torch.randint(0, 100, (2, 12))
    model = transformers.WhisperForConditionalGeneration(config)
    return model, {"input_features": torch.randn(2, 16, 60), "labels": labels}


def _resnet18() -> Made:
    config = transformers.ResNetConfig(
        **RESNET, hidden_sizes=[16, 32, 64, 128], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return transformers.ResNetForImageClassification(config), _images()


def _resnet50() -> Made:
    config = transformers.ResNetConfig(
        **RESNET, hidden_sizes=[32, 64, 128, 256], depths=[3, 4, 6, 3]
    )
    return transformers.ResNetForImageClassification(config), _images()


def _segformer() -> Made:
    """A network in the form of a U: features at four scales are joined again."""
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], decoder_hidden_size=16, num_labels=4
    )
    batch = {**_images(64), "labels": torch.randint(0, 4, (2, 64, 64))}
    return transformers.SegformerForSemanticSegmentation(config), batch


MODELS: tuple[Callable[[], Made], ...] = (
    _gpt2, _bert, _llama, _mixtral, _mamba, _t5, _vit, _whisper, _resnet18, _resnet50, _segformer,
)  # fmt: skip


def trained(make: Callable[[], Made]) -> tuple[float, dict[str, bytes]]:
    """Train a new model for some steps; its last loss, and all its bits."""
    torch.manual_seed(0)
    model, batch = make()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach()), state_of(model)


@pytest.mark.parametrize("make", MODELS, ids=[make.__name__[1:] for make in MODELS])
def test_a_training_step_is_observed_whole(make: Callable[[], Made], tmp_path: Path) -> None:
    plain = trained(make)
    with observed(tmp_path / "run.nscope", lambda: trained(make)) as (result, recording):
        assert result == plain
        assert [row.step for row in recording.steps()] == list(range(1, STEPS + 1))
        assert recording.losses()[-1].value == plain[0]
        nodes = nodes_of(recording).values()
        unlinked = [node.name for node in nodes if node.phase == "backward" and not node.forward]
        assert not unlinked
        phases = Counter(node.phase for node in nodes if not node.is_leaf)
        assert min(phases["forward"], phases["backward"], phases["optimizer"]) > 50
        # Each tensor of a model is known by its name: no version is without origin.
        last = {row.node for row in recording.executions() if row.step == STEPS}
        names = {node.name for node in nodes if node.role == "parameter" and node.id in last}
        assert names
        assert all("/" in name for name in names), names
