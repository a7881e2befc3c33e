"""Inputs of a saved program: its example inputs, those of a file, or random ones of its shapes.

Invariant: random inputs are the same each time, and the global generators are not used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from nodescope.adapters.torch.compat import hint_of, unflattened_inputs
from nodescope.adapters.torch.static.program import Program
from nodescope.console_output import last_line
from nodescope.errors import GraphError

_SEED: Final = 0
_LEAST: Final = 2
"""The size that is used for an axis of unknown size."""


class Inputs(NamedTuple):
    """The arguments of a call.

    Attributes:
        args, kwargs: The positional and the keyword arguments.
        origin: A clause that says where they come from.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origin: str


def inputs_of(program: Program, file: Path | None = None) -> Inputs:
    """Choose the inputs to run a program with.

    Args:
        program: The program.
        file: A file of arrays by input name (``.npz``), or of one array (``.npy``); or None.

    Raises:
        GraphError: The file does not match the program's inputs; the message says how.
    """
    if file is not None:
        return _from_file(program, file)
    examples = program.exported.example_inputs
    if examples is not None:
        args, kwargs = examples
        origin = "the inputs are those that the program was saved with"
        return Inputs(tuple(args), dict(kwargs), origin)
    generator = torch.Generator().manual_seed(_SEED)
    flat = [_drawn(fake, generator) for _, fake in program.inputs]
    return Inputs(
        *unflattened_inputs(program.exported, flat),
        "the inputs are random numbers of the right shapes: the program was saved without any; "
        "--input FILE.npz gives it your own",
    )


def _drawn(fake: Any, generator: torch.Generator) -> Any:
    if not isinstance(fake, torch.Tensor):
        return fake
    shape = tuple(hint_of(size, _LEAST) for size in fake.shape)
    dtype = fake.dtype
    if dtype.is_floating_point or dtype.is_complex:
        kind = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=kind).to(dtype)
    # 0 and 1 are valid indices almost everywhere.
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def _from_file(program: Program, file: Path) -> Inputs:
    names = [name for name, _ in program.inputs]
    try:
        held = np.load(file, allow_pickle=False)
        arrays = {"arr_0": held} if isinstance(held, np.ndarray) else dict(held)
    except Exception as error:
        raise GraphError(f"cannot read {str(file)!r}: {last_line(error)}") from None
    flat: list[Any] = []
    for number, (name, fake) in enumerate(program.inputs):
        array = arrays.get(name, arrays.get(f"arr_{number}"))
        if array is None:
            if isinstance(fake, torch.Tensor):
                raise GraphError(
                    f"{file.name} has no array {name!r}",
                    hint=f"the inputs are {', '.join(names)}; or arr_0, arr_1, … in this order",
                )
            flat.append(fake)
            continue
        tensor = torch.from_numpy(np.ascontiguousarray(array).copy())
        flat.append(tensor.to(fake.dtype) if isinstance(fake, torch.Tensor) else tensor.item())
    args, kwargs = unflattened_inputs(program.exported, flat)
    return Inputs(args, kwargs, f"the inputs are those of {file.name}")
