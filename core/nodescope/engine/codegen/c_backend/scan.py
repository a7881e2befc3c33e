"""Scan: a loop of a graph as a loop in C, over the rows of columns and stacks in place.

A product of a column with a loop-invariant value, independent of all carries, becomes one product
before the loop. A step that only adds a product to a carry becomes one product after it. Carries
alternate between two buffers, so that the last one is in the output.

Invariant: apart from those products, each step computes exactly what the body's kernels compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nodescope.engine.codegen.c_backend import kernel, primitives, products
from nodescope.engine.codegen.c_backend.kernel import ALIGN, Body, Memory
from nodescope.engine.codegen.c_backend.schedule import schedule
from nodescope.engine.codegen.c_backend.unit import (
    FunctionCall,
    Gemm,
    Map,
    NoKernel,
    Sizes,
    Unit,
    Val,
    compact,
    same_strides,
)
from nodescope.ir.graph import TensorSpec
from nodescope.ops.calls import Call as NodeCall


class Operand(Protocol):
    """An operand of the scan: its spec, and its memory layout."""

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype."""

    @property
    def strides(self) -> Sizes:
        """Strides in elements."""

    @property
    def loose(self) -> bool:
        """Whether it is a number that promotes weakly."""


def compose(call: NodeCall, inputs: Sequence[Operand], outs: Sequence[TensorSpec]) -> Body:
    """The body of a function for a scan. Raises `NoKernel` if C cannot compute its body."""
    return _Scan(call.attrs, inputs, outs).text()


class _Scan:
    def __init__(
        self, attrs: dict[str, Any], inputs: Sequence[Operand], outs: Sequence[TensorSpec]
    ) -> None:
        self.inputs, self.outs = inputs, outs
        self.carries, self.columns = attrs["carries"], attrs["columns"]
        self.length, self.reverse = attrs["length"], attrs["reverse"]
        if not self.length:
            raise NoKernel("a scan of no steps")
        self.unit = Unit()
        self.values = [self._value(j) for j in range(len(inputs))]
        self.ends = primitives.lower_graph(self.unit, attrs["body"], self.values)
        if any(isinstance(prim, FunctionCall) and prim.fails for prim in self.unit.prims):
            raise NoKernel("a scan whose body takes elements by number")
        self.before: list[Gemm] = []
        self.after: list[tuple[int, Gemm]] = []  # number of the carry, its product
        self.stacks: list[tuple[Val, Val]] = []  # a value of the body, and all of its steps
        self.hoisted: list[tuple[Val, Val]] = []
        self.whole = {
            value.base: Val(-1 - j, tuple(v.spec.shape), v.spec.dtype, strides=v.strides,
                            loose=v.loose)
            for j, (value, v) in enumerate(zip(self.values, inputs, strict=True))
        }  # fmt: skip

    def _value(self, j: int) -> Val:
        operand = self.inputs[j]
        spec, strides = operand.spec, operand.strides
        if j < self.carries:
            return self.unit.input(spec)
        if j < self.carries + self.columns:
            return self.unit.input(TensorSpec(spec.shape[1:], spec.dtype), strides[1:])
        return self.unit.input(spec, None if operand.loose else strides, operand.loose)

    # Products that leave the loop

    def _leave(self) -> None:
        unit = self.unit
        reads: dict[Val, int] = {}
        for prim in unit.prims:
            for v in prim.reads:
                reads[v.base] = reads.get(v.base, 0) + 1
        for v in self.ends:
            reads[v.base] = reads.get(v.base, 0) + 1
        around = {v.base for v in self.values[self.carries + self.columns :]}
        for prim in list(unit.prims):
            if isinstance(prim, Gemm) and prim.b.base in around:
                self._hoist(prim)
        gemms = {prim.out.base: prim for prim in unit.prims if isinstance(prim, Gemm)}
        for i in range(self.carries):
            self._sink(i, gemms, reads)

    def _column(self, v: Val, axis: int) -> Val | None:
        """A matrix of all steps, from a column with its rows (columns) joined; or None."""
        at = next((j for j, value in enumerate(self.values) if value.base is v.base), -1)
        if not self.carries <= at < self.carries + self.columns:
            return None
        step = self.inputs[at].strides[0]
        return self._joined(v, axis, step, self.whole[v.base])

    def _joined(self, v: Val, axis: int, step: int, base: Val) -> Val | None:
        if len(v.shape) != 2:
            return None
        size, stride = v.shape[axis], v.strides[axis]
        if size == 1:
            stride = step
        if step != size * stride:
            return None
        shape, strides = list(v.shape), list(v.strides)
        shape[axis], strides[axis] = size * self.length, stride
        joined = Val(base.id, tuple(shape), v.dtype, base=base, strides=tuple(strides),
                    offset=v.offset)  # fmt: skip
        return joined if products.leading(joined) is not None else None

    def _hoist(self, gemm: Gemm) -> None:
        a = self._column(gemm.a, 0)
        if a is None or gemm.add or gemm.out.size != gemm.out.base.size:
            return
        base = gemm.out.base
        m, n = gemm.out.shape[-2:]
        stack = self._fresh((self.length, *base.shape), base.dtype)
        out = Val(stack.id, (self.length * m, n), base.dtype, base=stack, strides=(n, 1))
        b = gemm.b
        b = Val(b.id, b.shape, b.dtype, base=self.whole[b.base], strides=b.strides, offset=b.offset)
        self.before.append(Gemm(out, a, b, gemm.alpha))
        self.unit.prims.remove(gemm)
        self.hoisted.append((base, stack))

    def _sink(self, i: int, gemms: dict[Val, Gemm], reads: dict[Val, int]) -> None:
        """Move a carry out of the loop if each step only adds a product to it."""
        carry, end = self.values[i], self.ends[i]
        add = next((p for p in self.unit.prims if isinstance(p, Map) and p.out is end), None)
        if add is None or add.how.text != "{0} + {1}" or reads.get(carry.base) != 1:
            return
        if carry not in add.args or reads.get(end.base) != 1:
            return
        other = next((argument for argument in add.args if argument is not carry), None)
        if not isinstance(other, Val) or other.base not in gemms or reads.get(other.base) != 1:
            return
        gemm = gemms[other.base]
        if gemm.add or len(gemm.out.shape) != 2 or gemm.out.shape != carry.shape:
            return
        a, b = self._all_steps(gemm.a, 1), self._all_steps(gemm.b, 0)
        if a is None or b is None:
            return
        out = Val(-1000 - i, carry.shape, carry.dtype)
        self.after.append((i, Gemm(out, a, b, gemm.alpha, None, True)))
        self.unit.prims.remove(add)
        self.unit.prims.remove(gemm)

    def _all_steps(self, v: Val, axis: int) -> Val | None:
        column = self._column(v, axis)
        if column is not None:
            return column
        base = v.base
        if not any(base is out.base for prim in self.unit.prims for out in prim.writes):
            return None
        known = next((stack for value, stack in self.stacks if value is base), None)
        stack = known or self._fresh((self.length, *base.shape), base.dtype)
        joined = self._joined(v, axis, base.size, stack)
        if joined is not None and known is None:
            self.stacks.append((base, stack))
        return joined

    def _fresh(self, shape: Sizes, dtype: str) -> Val:
        self.unit.count += 1
        return Val(self.unit.count, shape, dtype)

    # Text

    def text(self) -> Body:
        """The whole function."""
        self._leave()
        unit, length = self.unit, self.length
        left = {i for i, _ in self.after}
        kept = [i for i in range(len(self.ends)) if i not in left]
        unit.outputs = [self.ends[i] for i in kept] + [value for value, _ in self.stacks]
        unit.inputs += [base for base, _ in self.hoisted]
        kernel.settle(unit)
        values = list(unit.outputs)
        memory = Memory(
            {value.base: f"m{value.base.id}" for value in (*unit.inputs, *values)}, unit.count
        )
        inside = kernel.staged(schedule(unit), values, memory)
        declared, scratch = memory.declared()
        scratch = -(-scratch // ALIGN) * ALIGN
        names: dict[Val, str] = {}
        count = len(self.inputs)
        lines = [
            f"const {whole.stored} *const q{j} = (const {whole.stored} *)p[{j}];"
            for j, whole in enumerate(self.whole.values())
        ]
        names.update({whole: f"q{j}" for j, whole in enumerate(self.whole.values())})
        kinds = [Val(0, (), spec.dtype).stored for spec in self.outs]
        lines += [f"{kind} *const o{k} = ({kind} *)p[{count + k}];" for k, kind in enumerate(kinds)]
        lines += declared

        def room(name: str, size: int, dtype: str, kind: str) -> None:
            nonlocal scratch
            lines.append(f"{kind} *const {name} = ({kind} *)(w + {scratch});")
            scratch += -(-max(size, 1) * np.dtype(dtype).itemsize // ALIGN) * ALIGN

        for stack in [value for _, value in (*self.hoisted, *self.stacks)]:
            names[stack] = f"h{stack.id}"
            room(names[stack], stack.size, stack.dtype, stack.stored)
        for i in kept:
            if i < self.carries:
                room(f"c{i}", values[kept.index(i)].size, self.outs[i].dtype, kinds[i])
        for gemm in self.before:
            lines += products.text(gemm, names.__getitem__)
        starts = [f"q{i}" for i in range(self.carries)]
        for i, value in enumerate(self.inputs[: self.carries]):
            shape = tuple(value.spec.shape)
            if value.loose or not same_strides(shape, value.strides, compact(shape)):
                starts[i] = f"d{i}"
                room(starts[i], math.prod(shape), value.spec.dtype, self.values[i].stored)
                lines += _copied(value, f"q{i}", starts[i])
        for i in kept:
            if i < self.carries:
                carry = self.values[i]
                lines.append(f"const {carry.stored} *m{carry.base.id} = {starts[i]};")
        for j in range(self.carries + self.columns, count):
            v = self.values[j]
            lines.append(f"const {v.base.stored} *const m{v.base.id} = q{j};")
        lines.append(f"for (i64 at = 0; at < {length}; at++) {{")
        row = f"{length - 1} - at" if self.reverse else "at"
        lines.append(f"const i64 row = {row};")
        for j in range(self.carries, self.carries + self.columns):
            v = self.values[j]
            step = self.inputs[j].strides[0]
            lines.append(f"const {v.stored} *const m{v.base.id} = q{j} + row * {step};")
        for base, stack in self.hoisted:
            lines.append(
                f"const {base.stored} *const m{base.id} = {names[stack]} + row * {base.size};"
            )
        for i, v in zip(kept, values, strict=False):
            where = f"o{i} + row * {v.size}" if i >= self.carries else (
                f"({length - 1} - at) & 1 ? c{i} : o{i}")  # fmt: skip
            lines.append(f"{v.stored} *const m{v.base.id} = {where};")
        for (_, stack), v in zip(self.stacks, values[len(kept) :], strict=True):
            lines.append(f"{v.stored} *const m{v.base.id} = {names[stack]} + row * {v.size};")
        lines += inside
        for i, v in zip(kept, values, strict=False):
            if i < self.carries:
                lines.append(f"m{self.values[i].base.id} = m{v.base.id};")
        lines.append("}")
        for i, gemm in self.after:
            size = math.prod(self.outs[i].shape)
            lines.append(f"memcpy(o{i}, {starts[i]}, {size} * sizeof({kinds[i]}));")
            names[gemm.out] = f"o{i}"
            lines += products.text(gemm, names.__getitem__)
        needs = frozenset(name for prim in unit.prims if isinstance(prim, FunctionCall)
                          for name in prim.needs)  # fmt: skip
        return Body(tuple(lines), scratch, needs, False)


def _copied(operand: Operand, source: str, target: str) -> list[str]:
    """C that copies a carry into dense memory."""
    unit = Unit()
    v = unit.input(operand.spec, None if operand.loose else operand.strides, operand.loose)
    unit.outputs = [v]
    kernel.settle(unit)
    memory = Memory({v: source, unit.outputs[0].base: target}, unit.count)
    return kernel.staged(schedule(unit), unit.outputs, memory)
