"""Writer: names, constants and single calls of the generated text.

Invariant: a name refers to one place, or one value, for as long as it is read.
"""

from __future__ import annotations

import keyword
import math
import re
import time
from typing import Any

import numpy as np

from nodescope.engine.codegen.numpy_backend.place import MemoryPlacement
from nodescope.engine.codegen.numpy_backend.steps import (
    COPY,
    INTO,
    OVER,
    PUT,
    VIEW,
    ProgramArray,
    Step,
    volume,
)

_RESERVED = re.compile(
    r"[a-z]\d+(_\d+)?|(first|tiles|share)\d+|F|T|_|i|j|run|bind|arena|map|zip|range|list"
    r"|part|turns|split|run_shares"
)


class OtherLayout(Exception):
    """A value has another layout than when the program was observed."""


class ProgramWriter:
    """Writes a program.

    Attributes:
        placed: The placement of values.
        space: Objects behind the text's names, besides those that it defines itself.
        bind: Lines that run once for a set of buffers.
        body: Lines that run in each call; new ones are indented by ``indent``.
        names: Current names of values.
        bound: Values that are the same arrays in each call, known to ``bind``.
    """

    def __init__(self, placed: MemoryPlacement) -> None:
        self.placed = placed
        self.space: dict[str, Any] = {
            "np": np, "asarray": np.asarray, "copyto": np.copyto, "empty": np.empty,
            "planned": planned, "OtherLayout": OtherLayout, "clock": time.perf_counter_ns,
        }  # fmt: skip
        self.bind: list[str] = []
        self.body: list[str] = []
        self.indent = "        "
        self.names: dict[ProgramArray, str] = {}
        self.bound: set[ProgramArray] = set()
        self._constants: dict[tuple[Any, ...], str] = {}
        self._functions: dict[int, str] = {}
        self._places: dict[tuple[Any, ...], str] = {}
        self._count = 0

    # Names

    def planned(self, value: ProgramArray, offset: int, name: str = "") -> str:
        """Give a value its place in the arena; return its name."""
        key = (offset, value.shape, value.dtype, value.strides)
        if name or key not in self._places:
            name = name or f"b{value.id}"
            dtype = self.constant(value.dtype)
            where = f"{offset}, {value.shape!r}, {dtype}, {value.strides!r}"
            self.bind.append(f"    {name} = planned(arena, {where})")
            self._places[key] = name
        self.names[value] = name = self._places[key]
        self.bound.add(value)
        return name

    def new(self, value: ProgramArray) -> str:
        """Name a value with its own memory."""
        name = self.names[value] = f"v{value.id}"
        return name

    def operand(self, operand: Any) -> str:
        """The name of a value, or a constant."""
        return self.names[operand] if operand.__class__ is ProgramArray else self.constant(operand)

    def constant(self, operand: Any) -> str:
        """A number as written in the text, or a name for a constant that has no literal."""
        if operand is None or operand.__class__ in (bool, int) or (
            operand.__class__ is float and math.isfinite(operand)
        ):  # fmt: skip
            return repr(operand)
        if isinstance(operand, np.generic):
            key: tuple[Any, ...] = (operand.dtype, operand.tobytes())
        elif isinstance(operand, np.dtype):
            key = ("dtype", operand)
        else:
            key = (id(operand),)
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"c{len(self._constants)}"
            self.space[name] = operand
            if isinstance(operand, np.generic):
                self.bind.append(f"    # {name} is {clean(repr(operand))}")
        return name

    def function(self, step: Step) -> str:
        """The name of the function that a step calls."""
        name = self._functions.get(id(step.fn))
        if name is None:
            name = re.sub(r"\W", "_", step.text.removeprefix("np."))
            while name in self.space or keyword.iskeyword(name) or _RESERVED.fullmatch(name):
                name += "_"
            self.space[name] = step.fn
            self._functions[id(step.fn)] = name
        return name

    def line(self, text: str) -> None:
        """Add a line to the body."""
        self.body.append(self.indent + text)

    # Steps

    def step(self, step: Step) -> None:
        """Write a step."""
        if step.kind == VIEW:
            self.view(step)
        elif step.kind == OVER:
            x, out = step.args[0], step.outs[0]
            self.line(self.into(step, self.names[x]))
            self.names[out] = self.names[x]
            if x in self.bound:
                self.bound.add(out)
        elif step.kind == PUT:
            self._put(step)
        elif step.kind in (INTO, COPY):
            out = step.outs[0]
            if out in self.names:
                self.line(self.into(step, self.names[out]))
            else:
                expression = self._fresh(step)
                self.line(f"{self.new(out)} = {expression}")
        else:
            expression = f"{self.function(step)}({self.arguments(step)})"
            if not step.several:
                self.line(f"{self.new(step.outs[0])} = asarray({expression})")
            else:
                names = "".join(f"{self.new(o)}, " for o in step.outs)
                self.line(f"{names.rstrip()} = map(asarray, {expression})")
            for output in step.outs if step.unsure else ():
                self.line(f"if {self.names[output]}.strides != {output.strides!r}:")
                self.line("    raise OtherLayout")

    def _put(self, step: Step) -> None:
        out, boxes = step.outs[0], step.keywords["boxes"]
        covered = sum(map(volume, boxes)) == math.prod(out.shape)
        if out not in self.names:
            make, dtype = "empty" if covered else "np.zeros", self.constant(out.dtype)
            self.line(f"{self.new(out)} = {make}({out.shape!r}, {dtype})")
        elif not covered:
            self.line(f"{self.names[out]}.fill(0)")
        name = self.names[out]
        zero = self.constant(out.dtype.type(0))
        for box, x in zip(boxes, step.args, strict=True):
            index = ", ".join(f"{box_slice.start}:{box_slice.stop}" for box_slice in box)
            part = f"{name}[{index}]"
            if out in self.bound:
                self._count += 1
                self.bind.append(f"    u{self._count} = {part}")
                part = f"u{self._count}"
            if step.keywords["plus"]:
                self.line(f"np.add({self.names[x]}, {zero}, out={part})")
            else:
                self.line(f"copyto({part}, {self.names[x]})")

    def view(self, step: Step) -> None:
        """Write a view: into ``bind`` if its base is the same in each call."""
        x, out = step.args[0], step.outs[0]
        text = step.text.format(self.names[x])
        if x in self.bound:
            self.bind.append(f"    w{out.id} = {text}")
            self.names[out] = f"w{out.id}"
            self.bound.add(out)
        else:
            self.line(f"{self.new(out)} = {text}")

    def arguments(self, step: Step) -> str:
        """Operands and further arguments of a step's call."""
        parts = [self.operand(argument) for argument in step.args]
        for key, operand in step.keywords.items():
            parts.append(f"{key}={self._plain(operand)}")
        return ", ".join(parts)

    def _plain(self, operand: Any) -> str:
        if isinstance(operand, tuple) and all(part.__class__ is int for part in operand):
            return repr(operand)
        return self.constant(operand)

    def into(self, step: Step, out: str) -> str:
        """The call that writes into existing memory."""
        if step.kind == COPY:
            casting = ', casting="unsafe"' if "dtype" in step.keywords else ""
            return f"copyto({out}, {self.operand(step.args[0])}{casting})"
        if step.text.endswith(".reduce"):
            axis, keep = self._plain(step.keywords["axis"]), step.keywords["keepdims"]
            x = self.operand(step.args[0])
            return f"{self.function(step)}({x}, {axis}, None, {out}, {keep})"
        return f"{self.function(step)}({self.arguments(step)}, out={out})"

    def _fresh(self, step: Step) -> str:
        """The call that returns new memory."""
        x = self.operand(step.args[0])
        if step.kind == COPY:
            if "dtype" in step.keywords:
                expression = f"{x}.astype({self.constant(step.keywords['dtype'])})"
            else:
                expression = f"{x}.copy()"
        else:
            expression = f"{self.function(step)}({self.arguments(step)})"
        return expression if step.outs[0].shape else f"asarray({expression})"


def planned(
    arena: Any, offset: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]
) -> Any:
    """An array in the arena."""
    return np.ndarray(shape, dtype, arena, offset, strides)


def clean(text: str) -> str:
    """Text made safe for a comment."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)
