"""The suffixes of graph files that can be read.

Invariant: data only; a command can use it without loading a reader.
"""

from __future__ import annotations

from typing import Final

ONNX: Final = (".onnx", ".onnxtxt", ".textproto")
GRAPHDEF: Final = (".pb", ".pbtxt", ".graphdef")
DOT: Final = (".dot", ".gv")
MODEL_EXPLORER: Final = (".json",)
OWN: Final = (".nsgraph", ".nsprogram")
SUFFIXES: Final = (*ONNX, *GRAPHDEF, *DOT, *MODEL_EXPLORER, *OWN)
