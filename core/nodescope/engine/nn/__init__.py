"""Networks: modules, layers and the functions that they are made of; `nodescope.nn`.

Invariant: layers are ordinary tensor code; only `Module` calls and updates of running statistics
inform the tracer or the graph builder.
"""

from __future__ import annotations

import difflib
from typing import NoReturn

from nodescope.engine.functions import mse
from nodescope.engine.nn import functional
from nodescope.engine.nn.attention import (
    MultiHeadAttention,
    TransformerBlock,
    scaled_dot_product_attention,
)
from nodescope.engine.nn.conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from nodescope.engine.nn.functional import *  # noqa: F403 (its __all__ is what nn offers)
from nodescope.engine.nn.init import Init, glorot, he, lecun, orthogonal
from nodescope.engine.nn.linear import Dense, Dropout, Embedding, Flatten, Linear
from nodescope.engine.nn.module import Module, Sequential, buffer
from nodescope.engine.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    GroupNorm,
    LayerNorm,
    RMSNorm,
)
from nodescope.engine.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AvgPool1d,
    AvgPool2d,
    MaxPool1d,
    MaxPool2d,
)
from nodescope.engine.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

linear = functional.linear  # the module of that name would shadow it


def __getattr__(name: str) -> NoReturn:
    """Raise an error that suggests similar names: other libraries use other names for some
    layers.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    spelled_out = name.replace("bce", "binary_cross_entropy")
    matches = difflib.get_close_matches(spelled_out, sorted(set(__all__)), n=3, cutoff=0.7)
    hint = f"; did you mean {', '.join(f'nn.{match}' for match in matches)}?" if matches else ""
    raise AttributeError(f"nodescope.nn has no {name!r}{hint}", name=name)


__all__ = [
    *functional.__all__,
    "GRU", "LSTM", "RNN", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv1d",
    "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "Dense", "Dropout", "Embedding", "Flatten",
    "GRUCell", "GroupNorm", "Init", "LSTMCell", "LayerNorm", "Linear", "MaxPool1d", "MaxPool2d",
    "Module", "MultiHeadAttention", "RMSNorm", "RNNCell", "Sequential", "TransformerBlock",
    "buffer", "functional", "glorot", "he", "lecun", "mse", "orthogonal",
    "scaled_dot_product_attention",
]  # fmt: skip
