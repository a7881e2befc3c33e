"""Ops that contain graphs: ``cond``, ``while_loop`` and ``scan``.

A body is a closed graph: every outside value that its function uses is one of its inputs. The
engine traces and differentiates these ops, and provides the rules for it (`give_rules`).

Invariant: running and inferring need no engine, so that a recording's nodes can be rerun without
it.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph, TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.plan import Plan


@dataclass(frozen=True, eq=False)
class Rules:
    """The parts of an op with bodies that only the engine can provide. See
    `nodescope.ops.op.Op`.
    """

    vjp: Callable[..., Any]
    inline: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    samples: Callable[[np.random.Generator], Iterable[Sample]]


_rules: dict[str, Rules] = {}


def give_rules(op: str, rules: Rules) -> Op:
    """Set how an op is traced and differentiated; return the op."""
    _rules[op] = rules
    return _OPS[op]


def _control_op(name: str, **fields: Any) -> Op:
    """Register an op with any number of inputs and outputs, and one rule for all."""

    def vjp(*args: Any, **attrs: Any) -> Any:
        return _rules[name].vjp(*args, **attrs)

    def inline(inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return _rules[name].inline(inputs, attrs)

    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        return _rules[name].samples(rng)

    return register(
        Op(name=name, family="control", variadic=True, joint=True, outputs=0, vjp=(vjp,),
           inline=inline, samples=samples, **fields)
    )  # fmt: skip


# Running bodies

_plans: OrderedDict[int, tuple[Graph, Plan]] = OrderedDict()
_MOST = 256


def plan_of(graph: Graph) -> Plan:
    """The graph's plan, cached."""
    known = _plans.get(id(graph))
    if known is None:
        known = _plans[id(graph)] = (graph, Plan(graph, constants_of(graph)))
        while len(_plans) > _MOST:
            _plans.popitem(last=False)
    return known[1]


def run_body(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """A body's outputs."""
    return plan_of(graph).run(arrays)


def constants_of(graph: Graph) -> dict[int, Array]:
    """Arrays of a body's constants by value id."""
    if not graph.constants:
        return {}
    specs = {value.id: value.tensor for value in graph.values}
    arrays = {}
    for node in graph.nodes:
        if node.op == "constant":
            spec = specs[node.outputs[0]]
            elements = base64.b64decode(node.attrs["elements"])
            flat = np.frombuffer(elements, as_dtype(spec.dtype))
            arrays[node.outputs[0]] = flat.reshape(spec.shape)
    return arrays


# The ops


def _cond_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    if not isinstance(specs[0], TensorSpec) or specs[0].shape:
        raise ShapeError("cond: the condition must be a scalar")
    graph: Graph = attrs["then"]
    known = {value.id: value.tensor for value in graph.values}
    for spec, value in zip(specs[1:], graph.inputs, strict=True):
        if spec != known[value]:
            raise DtypeError(f"cond: the branch takes {known[value]}, not {spec}")
    return tuple(known[value] for value in graph.outputs)


def _cond_impl(pred: Array, *operands: Array, then: Graph, otherwise: Graph) -> tuple[Array, ...]:
    return tuple(run_body(then if bool(pred) else otherwise, operands))


def _while_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    return tuple(specs[: attrs["carries"]])  # type: ignore[arg-type]


def _while_impl(*arrays: Array, condition: Graph, body: Graph, carries: int) -> tuple[Array, ...]:
    carry, around = list(arrays[:carries]), arrays[carries:]
    while bool(run_body(condition, (*carry, *around))[0]):
        carry = run_body(body, (*carry, *around))
    return tuple(carry)


def _scan_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    known = {value.id: value.tensor for value in attrs["body"].values}
    outputs = [known[value] for value in attrs["body"].outputs]
    carries, length = attrs["carries"], attrs["length"]
    stacked = [TensorSpec((length, *spec.shape), spec.dtype) for spec in outputs[carries:]]
    return (*outputs[:carries], *stacked)


def _scan_impl(
    *arrays: Array,
    body: Graph,
    carries: int,
    columns: int,
    length: int,
    reverse: bool,
    kept: int,
    derivative: object,
) -> tuple[Array, ...]:
    carry = list(arrays[:carries])
    along, around = arrays[carries : carries + columns], arrays[carries + columns :]
    known = {value.id: value.tensor for value in body.values}
    stacks = [
        np.empty((length, *known[value].shape), known[value].dtype)
        for value in body.outputs[carries:]
    ]
    run = plan_of(body).run
    for i in range(length - 1, -1, -1) if reverse else range(length):
        results = run((*carry, *(column[i] for column in along), *around))
        carry = results[:carries]
        for stack, row in zip(stacks, results[carries:], strict=True):
            stack[i] = row
    return (*carry, *stacks)


_OPS = {
    op.name: op
    for op in (
        _control_op("cond", ports=("pred",), infer=_cond_infer, impl=_cond_impl),
        _control_op("while_loop", infer=_while_infer, impl=_while_impl, smooth=False),
        _control_op("scan", infer=_scan_infer, impl=_scan_impl),
    )
}
