"""Where torchvision, timm and their like are: in a folder beside the environment's packages.

torchvision's wheel holds kernels for CUDA, and cannot be imported beside a PyTorch for the
processor alone, where other libraries would try to. What is missing is two operators, which no
model here uses: it is enough to declare them. `transformers` looks for torchvision when it is
imported, so that comes last.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

FOLDER = Path(sys.prefix) / "vision"
_MISSING = ("nms", "qnms")

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.append(str(FOLDER))
if torch.version.cuda is None:
    for _name in _MISSING:
        torch.library.define(f"torchvision::{_name}", "(Tensor a, Tensor b, float c) -> Tensor")

import segmentation_models_pytorch  # noqa: E402
import timm  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

__all__ = ["segmentation_models_pytorch", "timm", "torchvision", "transformers"]
