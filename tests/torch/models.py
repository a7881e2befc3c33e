"""Models of third parties, small and with random parameters, and a batch for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.torch.vision import segmentation_models_pytorch, timm, torchvision, transformers

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 100,
}  # fmt: skip
ENCODER_DECODER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
WORDS = {
    "vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
RESNET = {"embedding_size": 16, "num_labels": 5}
Made = tuple[Any, Callable[[Any], Any]]
"""A model, and a function that computes its loss."""


def _with(**batch: Any) -> Callable[[Any], Any]:
    return lambda model: model(**batch).loss


def _text() -> Callable[[Any], Any]:
    letters = torch.randint(0, 100, (2, 12))
    return _with(input_ids=letters, labels=letters)


def _images(size: int = 32) -> Callable[[Any], Any]:
    return _with(pixel_values=torch.randn(2, 3, size, size), labels=torch.tensor([1, 2]))


def _classified(size: int = 32) -> Callable[[Any], Any]:
    images, labels = torch.randn(2, 3, size, size), torch.tensor([1, 2])
    return lambda model: F.cross_entropy(model(images), labels)


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
    config = transformers.WhisperConfig(
        **ENCODER_DECODER, **WORDS, num_mel_bins=16, max_source_positions=30
    )
    sound, labels = torch.randn(2, 16, 60), torch.randint(0, 100, (2, 12))
    model = transformers.WhisperForConditionalGeneration(config)
    return model, _with(input_features=sound, labels=labels)


def _resnet18() -> Made:
    return torchvision.models.resnet18(num_classes=5), _classified()


def _resnet50() -> Made:
    config = transformers.ResNetConfig(
        **RESNET, hidden_sizes=[32, 64, 128, 256], depths=[3, 4, 6, 3]
    )
    return transformers.ResNetForImageClassification(config), _images()


def _segformer() -> Made:
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], decoder_hidden_size=16, num_labels=4
    )
    batch = {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 4, (2, 64, 64))}
    return transformers.SegformerForSemanticSegmentation(config), _with(**batch)


def _efficientnet() -> Made:
    return timm.create_model("test_efficientnet", num_classes=5), _classified()


def _efficientnet_b0() -> Made:
    return torchvision.models.efficientnet_b0(num_classes=5), _classified()


def _unet() -> Made:
    model: nn.Module = segmentation_models_pytorch.Unet(
        "tu-test_resnet", encoder_depth=4, encoder_weights=None, classes=4,
        decoder_channels=(32, 16, 8, 8),
    )  # fmt: skip
    images, labels = torch.randn(2, 3, 64, 64), torch.randint(0, 4, (2, 64, 64))
    return model, lambda model: F.cross_entropy(model(images), labels)


def _detr() -> Made:
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
        out_features=["stage2"],
    )  # fmt: skip
    config = transformers.DetrConfig(
        **ENCODER_DECODER, backbone_config=backbone, use_timm_backbone=False, num_queries=6,
        num_labels=4,
    )  # fmt: skip
    labels = [
        {"class_labels": torch.tensor([1, 2]), "boxes": torch.rand(2, 4)},
        {"class_labels": torch.tensor([0]), "boxes": torch.rand(1, 4)},
    ]
    model = transformers.DetrForObjectDetection(config)
    return model, _with(pixel_values=torch.randn(2, 3, 64, 64), labels=labels)


MODELS: tuple[Callable[[], Made], ...] = (
    _gpt2, _bert, _llama, _mixtral, _mamba, _t5, _vit, _whisper, _resnet18, _resnet50,
    _efficientnet, _efficientnet_b0, _unet, _segformer, _detr,
)  # fmt: skip
NAMES = tuple(make.__name__[1:] for make in MODELS)
