"""Imports torchvision, timm and similar libraries from a folder beside the environment's packages.

torchvision's wheel contains CUDA kernels and cannot be imported with a CPU build of PyTorch, so it
is not in the environment, where other libraries would try to import it. Only two operators are
missing, which no model here uses; declaring them is enough. `transformers` looks for torchvision
when it is imported, so it is imported last.
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
