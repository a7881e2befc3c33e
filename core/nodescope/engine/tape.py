"""Reverse mode: from a tensor back along its edges, newest operation first.

Rules run raw on arrays while nobody looks and no second derivative is wanted, else traced, so that
their own operations are nodes and have edges. Both do the same arithmetic in the same order.

Invariant: bit-identical gradients on both roads; no recursion, however long the program.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import modes
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import (
    FREED,
    LEAF,
    NO_ATTRS,
    SMOOTH,
    Bundle,
    Edge,
    Tensor,
    alias,
    make,
    next_seq,
    operand,
)
from nodescope.errors import GradientError, ShapeError
from nodescope.ops.op import Op
from nodescope.ops.rules import same, times_left, times_right, unbroadcast

ALIAS = Op(
    name="alias",
    family="layout",
    infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
    impl=lambda x: x,
    vjp=(lambda F, ct, out, x: ct,),
)
"""Another tensor for the same value, with a history that leads to the first. Not a node."""


class _Traced:
    """Every op as a function of tensors: the ``F`` of rules whose operations are nodes."""

    def __getattr__(self, name: str) -> Any:
        op = ops.get(name)

        def call(*inputs: Any, **attrs: Any) -> Tensor:
            found = tuple(each if each.__class__ is Tensor else operand(each) for each in inputs)
            return apply(op, found, attrs or NO_ATTRS)

        setattr(self, name, call)
        return call


TRACED = _Traced()


def backward(root: Tensor, gradient: Any, *, retain_graph: bool, create_graph: bool) -> None:
    """`Tensor.backward`."""
    if root.edge is None:
        raise GradientError(
            "backward: this tensor was not made from one that wants a gradient",
            source=where(),
            hint="make parameters with nodescope.parameter or tensor(..., requires_grad=True), "
            "and compute outside no_grad",
        )
    traced = create_graph or modes.observer() is not None
    found = pull(
        root,
        start(root, gradient, traced),
        traced=traced,
        create_graph=create_graph,
        keep=retain_graph or create_graph,
    )
    tracer = modes.observer()
    # Adding to what an earlier backward left is part of this one.
    place = contextlib.nullcontext(_nowhere) if tracer is None else tracer.backward()
    with modes.recording(create_graph), place as differentiate:
        for leaf, ct in found.values():
            differentiate(leaf)
            before = leaf.grad
            if traced:
                total = ct if before is None else before + ct
            else:
                total = make(np.asarray(ct if before is None else np.add(before.data, ct)))
            leaf.grad = total
            if tracer is not None:
                tracer.pair(leaf, total)


def _nowhere(tensor: Tensor) -> None:
    """Where an operation stands matters only while somebody looks."""


def start(root: Tensor, gradient: Any, traced: bool) -> Any:
    """The cotangent of ``root``: ones for a scalar, else what the user gave."""
    if root.data.dtype.kind not in SMOOTH:
        raise GradientError(f"backward: {root.dtype} has no gradient", source=where())
    if gradient is None:
        if root.data.dtype.kind == "c":
            raise GradientError(
                f"backward: a {root.dtype} tensor needs a gradient to start from",
                source=where(),
                hint="make it real, as with np.abs or .real, or pass gradient=",
            )
        if root.data.ndim:
            raise GradientError(
                f"backward: a tensor of shape {root.shape} needs a gradient to start from",
                source=where(),
                hint="reduce it to a scalar, or pass gradient=",
            )
        return None if traced else np.ones((), root.dtype)
    given = operand(gradient)
    if given.__class__ is not Tensor:
        given = make(np.asarray(gradient, root.dtype))
    if given.shape != root.shape:
        raise ShapeError(
            f"backward: gradient {given.shape} does not have the tensor's shape {root.shape}",
            source=where(),
        )
    if given.dtype != root.dtype:
        given = given.astype(root.dtype)
    if root.dtype.kind == "c":
        given = np.conjugate(given)
    return given if traced else given.data


def pull(
    root: Tensor,
    ct: Any,
    *,
    traced: bool,
    create_graph: bool,
    keep: bool,
    targets: dict[int, Tensor] | None = None,
) -> dict[int, tuple[Tensor, Any]]:
    """Carry ``ct`` from ``root`` back to the leaves.

    Args:
        root: Where to start.
        ct: Its cotangent, an array or (traced) a tensor; None for ones, traced.
        traced: Run rules as nodes.
        create_graph: Put them on the tape.
        keep: Leave the tape usable.
        targets: Stop here instead of at leaves, by ``id``.

    Returns:
        Leaves (or targets) that were reached, with their cotangents, in order of first arrival.
    """
    if not traced:
        return _pull(root, ct, ops.RAW, None, keep, targets)
    tracer = modes.observer()
    with modes.recording(create_graph):
        if tracer is None:
            ct = TRACED.ones_like(root) if ct is None else ct
            return _pull(root, ct, TRACED, None, keep, targets)
        with tracer.backward() as differentiate:
            differentiate(root)
            ct = TRACED.ones_like(root) if ct is None else ct
            return _pull(root, ct, TRACED, (tracer, differentiate), keep, targets)


def _pull(
    root: Tensor,
    ct: Any,
    F: Any,
    observed: Any,
    keep: bool,
    targets: dict[int, Tensor] | None,
) -> dict[int, tuple[Tensor, Any]]:
    raw = F is ops.RAW
    add = F.add
    cts: dict[int, Any] = {id(root): ct}
    ends: dict[int, Tensor] = {}
    heap: list[tuple[int, Any]] = []
    sums: set[int] = set()
    edge: Edge | None = root.edge
    if edge is FREED:
        raise _used_twice()
    if edge is LEAF or (targets and id(root) in targets):
        return {id(root): (root, F.conjugate(ct) if root.data.dtype.kind == "c" else ct)}
    assert edge is not None
    # Newest first. Mostly only one tensor waits, and it need not go through the heap; seq is
    # unique, so the heap never compares tensors.
    only: Any = root
    waiting, take = cts.get, cts.pop
    push, pop = heapq.heappush, heapq.heappop
    # Locals: this loop is the engine's hottest.
    kind, leaf, freed, array, several = Tensor, LEAF, FREED, np.ndarray, Bundle
    multiply, by_right, by_left = F.multiply, times_right, times_left
    while True:
        if only is not None:
            tensor, only = only, None
        elif heap:
            tensor = pop(heap)[1]
        else:
            break
        ct = take(id(tensor))
        op: Any  # an op with rules, or the tensor would have no edge
        args: Any
        _, op, inputs, attrs = tensor.edge
        rules = op.vjp
        if rules is None:  # one output of an op with several, which wait for each other
            if observed is not None:
                observed[0].pair(tensor, ct)
            bundle, port = inputs[0], attrs["port"]
            parts = waiting(id(bundle))
            if parts is None:
                if bundle.edge is freed:
                    raise _used_twice()
                parts = cts[id(bundle)] = [None] * len(bundle.data)
                push(heap, (-bundle.edge[0], bundle))
            parts[port] = ct if parts[port] is None else add(parts[port], ct)
            if not keep:
                tensor.edge = freed
            continue
        pair = False
        if raw:
            out: Any = tensor.data
            if len(inputs) == 2 and not attrs:  # most ops, unrolled
                pair = True
                args = ()
                left, right = inputs
                if left.__class__ is kind:
                    left = left.data
                if right.__class__ is kind:
                    right = right.data
            else:
                args = [each.data if each.__class__ is kind else each for each in inputs]
        else:
            out, args = tensor, inputs
            if observed is not None:
                observed[1](tensor)
                if tensor.__class__ is kind:
                    observed[0].pair(tensor, ct)
        if tensor.__class__ is several:
            out = tensor.data if raw else tensor.tensors()
            ct = tuple(
                F.zeros_like(each) if part is None else part
                for part, each in zip(ct, out, strict=True)
            )
        if op.variadic:
            if op.joint:
                every = rules[0](F, ct, out, *args, **attrs)
                rules = [functools.partial(_known, each) for each in every]
            else:
                rules = [functools.partial(rules[0], port=port) for port in range(len(inputs))]
        for each, rule in zip(inputs, rules):  # noqa: B905 (a rule per input; strict costs time)
            if each.__class__ is not kind or (edge := each.edge) is None:
                continue
            if rule is same:
                found = ct
            elif rule is None:
                continue
            elif pair:
                if rule is by_right:
                    found = multiply(ct, right)
                elif rule is by_left:
                    found = multiply(ct, left)
                else:
                    found = rule(F, ct, out, left, right)
            elif attrs:
                found = rule(F, ct, out, *args, **attrs)
            else:
                found = rule(F, ct, out, *args)
            if found is None:
                continue
            like = each.data
            if found.shape != like.shape:
                found = unbroadcast(F, found, like)
            dtype = like.dtype
            if found.dtype is not dtype and found.dtype != dtype:
                if found.dtype.kind == "c" and dtype.kind != "c":
                    found = F.real(found)
                found = F.astype(found, dtype=dtype.name)
            key = id(each)
            before = waiting(key)
            if before is not None:
                if edge is leaf and raw:
                    if key in sums:
                        add(before, found, before)
                        continue
                    # Made here and held here alone: the next one is added in place.
                    total = cts[key] = add(before, found)
                    if total.__class__ is array:
                        sums.add(key)
                else:
                    cts[key] = add(before, found)
                continue
            cts[key] = found
            if edge is leaf or (targets is not None and key in targets):
                ends[key] = each
            elif edge is freed:
                raise _used_twice()
            elif heap:
                push(heap, (-edge[0], each))
            elif only is None:
                only = each
            else:
                push(heap, (-only.edge[0], only))
                push(heap, (-edge[0], each))
                only = None
        if not keep:
            tensor.edge = freed
    # Steepest ascent, as users know it from PyTorch: cotangents travel unconjugated.
    return {
        key: (tensor, F.conjugate(cts[key]) if tensor.data.dtype.kind == "c" else cts[key])
        for key, tensor in ends.items()
    }


def _known(found: Any, *_: Any, **__: Any) -> Any:
    """The rule of an input whose cotangent came with the others."""
    return found


def _used_twice() -> GradientError:
    return GradientError(
        "backward: part of this tape was already used and freed",
        source=where(),
        hint="call the first backward with retain_graph=True, or compute the loss again",
    )


def alias_of(tensor: Tensor) -> Tensor:
    """A tensor for the same value, whose edge leads to ``tensor``."""
    edge: Edge = (next_seq(), ALIAS, (tensor,), NO_ATTRS) if tensor.edge is not None else LEAF
    return alias(tensor, edge)


JOIN = Op(
    name="join",
    family="layout",
    infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
    impl=lambda *arrays: arrays[0],
    vjp=(lambda F, ct, out, *inputs: ct,),
    variadic=True,
    joint=True,
)
"""Several tensors as one root. Not a node."""


def pull_many(
    roots: Sequence[Tensor],
    cts: Sequence[Any],
    *,
    traced: bool,
    create_graph: bool,
    keep: bool,
    targets: dict[int, Tensor] | None = None,
) -> dict[int, tuple[Tensor, Any]]:
    """`pull` from several roots at once; each needs a cotangent."""
    pairs = [(root, ct) for root, ct in zip(roots, cts, strict=True) if root.edge is not None]
    if not pairs:
        return {}
    tensors = tuple(root for root, _ in pairs)
    edge: Edge = (next_seq(), JOIN, tensors, NO_ATTRS)
    root: Any = Bundle(tuple(each.data for each in tensors), edge, (0,) * len(tensors))
    return pull(
        root,
        tuple(ct for _, ct in pairs),
        traced=traced,
        create_graph=create_graph,
        keep=keep,
        targets=targets,
    )
