"""Reverse mode: from a tensor back along its edges, newest operation first.

Rules run directly on arrays if nothing observes and no second derivative is needed, otherwise
traced, so that their operations are nodes and have edges. Both do the same arithmetic in the same
order.

Invariant: bit-identical gradients either way; no recursion, however long the program.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope import native, ops
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.hooks import HOOKED, hooks_of
from nodescope.engine.autodiff.tape_slow_paths import arrive, blame, inputs_then, known, used_twice
from nodescope.engine.run import function
from nodescope.engine.source import where
from nodescope.engine.tensor import (
    FREED,
    LEAF,
    NO_ATTRS,
    PICK,
    Bundle,
    Edge,
    Tensor,
    alias,
    next_seq,
    operand,
    settled,
    written_at,
)
from nodescope.errors import NodescopeError
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
        call = function(ops.get(name), operand, NO_ATTRS)
        setattr(self, name, call)
        return call


TRACED = _Traced()

Ends = dict[int, tuple[Tensor, Any]]
"""Tensors reached, with their cotangents, by ``id``."""

Then = Callable[[Ends, Any, Any], None]
"""Called with the leaves; with the observer and its function that places gradients, or None; and
with its part of the native core, or None."""

Reached = tuple[dict[int, Any], dict[int, Tensor], list[tuple[Any, Any]], set[int]]
"""A pull on its way: cotangents by ``id`` of their tensor, the leaves among them, the heap of the
others, and the leaves whose cotangent is a sum that is referenced only here."""


def pull(
    root: Tensor,
    ct: Any,
    *,
    traced: bool,
    create_graph: bool,
    keep: bool,
    targets: dict[int, Tensor] | None = None,
    passed: dict[int, Tensor] | None = None,
    skip: dict[int, Any] | None = None,
    conjugate: bool = True,
    then: Then | None = None,
) -> Ends:
    """Carry ``ct`` from ``root`` back to the leaves.

    Args:
        root: Where to start.
        ct: Its cotangent: an array, or if ``traced`` a tensor, or None for ones.
        traced: Whether to run rules as nodes.
        create_graph: Whether to put them on the tape.
        keep: Whether to leave the tape usable.
        targets: Further tensors to stop at, by ``id``.
        passed: Tensors whose cotangents are returned as well, without stopping, by ``id``.
        skip: Tensors that no cotangent need flow to, by ``id``.
        conjugate: Whether to return cotangents of complex tensors in PyTorch's convention, steepest
            ascent; on the tape they are unconjugated.
        then: If ``traced``: called with the result while operations still belong to this pass.

    Returns:
        Leaves (or targets) that were reached, with their cotangents, in order of first arrival.
    """
    try:
        root = settled(root)
        whole = not (targets or passed or skip or root.edge is LEAF or root.edge is FREED)
        if not traced:
            if _native is not None and whole:
                ends = _native.pull(root, ct, keep, None, None)
            else:
                ends = _pull(root, ct, ops.RAW, None, keep, targets, passed, skip)
            return _finished(ops.RAW, ends, None, passed, conjugate)
        tracer = dispatch_mode.observer()
        with dispatch_mode.recording(create_graph):
            if tracer is None:
                ct = TRACED.ones_like(root) if ct is None else ct
                ends = _traced(root, ct, None, None, keep, targets, passed, skip, whole)
                ends = _finished(TRACED, ends, None, passed, conjugate)
                if then is not None:
                    then(ends, None, None)
                return ends
            with tracer.backward() as differentiate:
                differentiate(root)
                ct = TRACED.ones_like(root) if ct is None else ct
                observed, calls = (tracer, differentiate), _calls_of(tracer)
                ends = _traced(root, ct, observed, calls, keep, targets, passed, skip, whole)
                ends = _finished(TRACED, ends, observed, passed, conjugate)
                if then is not None:
                    then(ends, observed, calls)
                return ends
    except NodescopeError as error:  # raised by a rule, or by an op within one
        error.source = error.source or where()
        raise


def _traced(
    root: Tensor,
    ct: Any,
    observed: Any,
    calls: Any,
    keep: bool,
    targets: dict[int, Tensor] | None,
    passed: dict[int, Tensor] | None,
    skip: dict[int, Any] | None,
    whole: bool,
) -> Ends:
    """`_pull` with tensors, in the native core if it can do the ``whole`` pass."""
    if whole and _native_traced is not None and (observed is None or calls is not None):
        return _native_traced.pull(root, ct, keep, calls, observed)  # type: ignore[no-any-return]
    return _pull(root, ct, TRACED, observed, keep, targets, passed, skip)


def _calls_of(observer: Any) -> Any:
    """The observer's part of the native core; None if it is to see the pass in Python."""
    tracer = dispatch_mode.tracer()  # None: a graph is built
    return tracer.counted_calls() if tracer is observer and _native_traced is not None else None


def store_all(
    ends: Ends, seen: dict[int, Any], calls: Any, store: Callable[[Tensor, Any], None]
) -> None:
    """Make the cotangents of a traced pass the gradients of their leaves.

    Args:
        ends: The leaves and their cotangents.
        seen: As in `separate`.
        calls: As passed to ``then`` of `pull`.
        store: Does it for one leaf; called for all that the native core leaves.
    """
    if calls is not None:
        _native_traced.leaves(ends, seen, calls, store)
    else:
        for leaf, ct in ends.values():
            store(leaf, ct)


def _finished(
    F: Any, ends: Ends, observed: Any, passed: dict[int, Tensor] | None, conjugate: bool
) -> Ends:
    """Cotangents in the requested convention, after the hooks of leaves and targets."""
    for key, (tensor, ct) in ends.items():
        hooks = hooks_of(tensor)
        turned = conjugate and tensor.data.dtype.kind == "c"
        if hooks is None and not turned:
            continue
        if observed is not None:
            observed[1](tensor)
        if hooks is not None and not (passed and key in passed):  # those hooks ran on the way
            ct = hooks.run(F, tensor, ct)
        ends[key] = (tensor, F.conjugate(ct) if turned else ct)
    return ends


def _pull(
    root: Tensor,
    ct: Any,
    F: Any,
    observed: Any,
    keep: bool,
    targets: dict[int, Tensor] | None,
    passed: dict[int, Tensor] | None,
    skip: dict[int, Any] | None,
    reached: Reached | None = None,
) -> Ends:
    # One long function for speed: it runs once per tensor on the tape, and shares its locals.
    raw = F is ops.RAW
    add = F.add
    cts: dict[int, Any] = {id(root): ct}
    ends: dict[int, Tensor] = {}
    notes: Ends = {}
    heap: list[tuple[Any, Any]] = []
    sums: set[int] = set()
    edge: Edge | None = root.edge
    # Newest first. Usually only one tensor waits and bypasses the heap; seq is unique, so the heap
    # never compares tensors.
    only: Any = root
    if reached is not None:
        cts, ends, heap, sums = reached
        only = None
    elif edge is FREED:
        raise used_twice()
    elif edge is LEAF or (targets and id(root) in targets):
        return {id(root): (root, ct)}
    assert edge is not None
    waiting, take = cts.get, cts.pop
    push, pop = heapq.heappush, heapq.heappop
    # Locals: this loop is the engine's hottest.
    kind, leaf, freed, array, several = Tensor, LEAF, FREED, np.ndarray, Bundle
    multiply, by_right, by_left = F.multiply, times_right, times_left
    written = written_at
    op: Any = None  # an op without rules has no edge, except PICK and ops that unfold
    tensor: Any = root
    try:
        while True:
            if only is not None:
                tensor, only = only, None
            elif heap:
                tensor = pop(heap)[1]
            else:
                break
            ct = take(id(tensor))
            if passed is not None and id(tensor) in passed:
                notes[id(tensor)] = (tensor, ct)
            args: Any
            seq, op, inputs, attrs = tensor.edge
            if seq < written[0]:
                inputs = inputs_then(seq, op, inputs)
            rules = op.vjp
            if rules is None:
                if op is not PICK:
                    if observed is not None:
                        observed[1](tensor)
                        if op is HOOKED:
                            observed[0].pair(tensor, ct)
                    arrived = attrs["unfold"](F, tensor, ct)
                    if op is HOOKED and id(tensor) in notes:
                        notes[id(tensor)] = (tensor, arrived[0][1])
                    for target, part in arrived:
                        arrive(target, part, add, cts, ends, heap, targets)
                    if not keep:
                        tensor.edge = freed
                    continue
                # One of several outputs of an op, whose cotangents wait for one another.
                if observed is not None:
                    observed[0].pair(tensor, ct)
                bundle, port = inputs[0], attrs["port"]
                parts = waiting(id(bundle))
                if parts is None:
                    if bundle.edge is freed:
                        raise used_twice()
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
                    args = [value.data if value.__class__ is kind else value for value in inputs]
            else:
                out, args = tensor, inputs
                if observed is not None:
                    observed[1](tensor)
                    if tensor.__class__ is kind:
                        observed[0].pair(tensor, ct)
            if op.special:
                if tensor.__class__ is several:
                    out = tensor.data if raw else tensor.tensors()
                    if not op.partial:
                        ct = tuple(
                            F.zeros_like(output) if part is None else part
                            for part, output in zip(ct, out, strict=True)
                        )
                if op.joint:
                    all_cts = rules[0](F, ct, out, *args, **attrs)
                    rules = [functools.partial(known, ct_) for ct_ in all_cts]
                    if op.partial:  # each output is used up separately
                        tensor = Bundle((), tensor.edge, ())
                elif op.variadic:
                    rules = [functools.partial(rules[0], port=port) for port in range(len(inputs))]
            for value, rule in zip(inputs, rules):  # noqa: B905 (a rule per input; strict costs time)
                if value.__class__ is not kind or (edge := value.edge) is None:
                    continue
                if skip is not None and id(value) in skip:
                    continue
                if rule is same:
                    part = ct
                elif rule is None:
                    continue
                elif pair:
                    if rule is by_right:
                        part = multiply(ct, right)
                    elif rule is by_left:
                        part = multiply(ct, left)
                    else:
                        part = rule(F, ct, out, left, right)
                elif attrs:
                    part = rule(F, ct, out, *args, **attrs)
                else:
                    part = rule(F, ct, out, *args)
                if part is None:
                    continue
                like = value.data
                if part.shape != like.shape:
                    part = unbroadcast(F, part, like)
                dtype = like.dtype
                if part.dtype is not dtype and part.dtype != dtype:
                    if part.dtype.kind == "c" and dtype.kind != "c":
                        part = F.real(part)
                    part = F.astype(part, dtype=dtype.name)
                key = id(value)
                before = waiting(key)
                if before is not None:
                    if edge is leaf and raw:
                        if key in sums:
                            add(before, part, before)
                            continue
                        # The sum is referenced only here, so the next cotangent is added in place.
                        total = cts[key] = add(before, part)
                        if total.__class__ is array:
                            sums.add(key)
                    else:
                        cts[key] = add(before, part)
                    continue
                cts[key] = part
                if edge is leaf or (targets is not None and key in targets):
                    ends[key] = value
                elif edge is freed:
                    raise used_twice()
                elif heap:
                    push(heap, (-edge[0], value))
                elif only is None:
                    only = value
                else:
                    push(heap, (-only.edge[0], only))
                    push(heap, (-edge[0], value))
                    only = None
            if not keep:
                tensor.edge = freed
    except Exception as error:
        blame(error, tensor, op)
        raise
    return notes | {key: (tensor, cts[key]) for key, tensor in ends.items()}


def _fitted(F: Any, part: Any, like: Any) -> Any:
    """An array's cotangent in its shape and dtype."""
    if part.shape != like.shape:
        part = unbroadcast(F, part, like)
    if part.dtype != like.dtype:
        if part.dtype.kind == "c" and like.dtype.kind != "c":
            part = F.real(part)
        part = F.astype(part, dtype=like.dtype.name)
    return part


def _native_pull(F: Any) -> Any:
    """The native core's part; None without a core, or if it cannot read tensors and arrays."""
    if native.Pull is None:
        return None

    def continued(
        cts: dict[int, Any], ends: dict[int, Tensor], waiting: list[Any], sums: set[int],
        keep: bool, observed: Any,
    ) -> Ends:  # fmt: skip
        """Go on with a pull that the core has begun, when it reaches an op that it leaves."""
        heap = [(-tensor.edge[0], tensor) for tensor in waiting]
        heapq.heapify(heap)
        reached = (cts, ends, heap, sums)
        return _pull(waiting[0], None, F, observed, keep, None, None, None, reached)

    given = (
        Tensor, np.ndarray, LEAF, FREED, F, F.add, F.multiply, same, times_right, times_left,
        written_at, _fitted, continued, used_twice, blame, ops.is_registered, Bundle, PICK,
        F.zeros_like, inputs_then,
    )  # fmt: skip
    view = np.zeros((2, 3, 4), np.float32)[:, ::2]
    try:
        return native.Pull(given, object.__new__(Tensor), object.__new__(Bundle), view, F is TRACED)
    except TypeError:
        return None


_native = _native_pull(ops.RAW)
_native_traced = _native_pull(TRACED)


def alias_of(tensor: Tensor) -> Tensor:
    """A tensor for the same value, whose edge leads to ``tensor``."""
    tensor = settled(tensor)
    edge: Edge = (next_seq(), ALIAS, (tensor,), NO_ATTRS) if tensor.edge is not None else LEAF
    return alias(tensor, edge)


def held(cts: Sequence[Any]) -> dict[int, Any]:
    """The initial ``seen`` for `separate`: cotangents that the user may hold."""
    holders = [*cts, *(ct.data for ct in cts if ct.__class__ is Tensor)]
    return {id(holder): holder for holder in holders if holder is not None}


def separate(gradient: Any, seen: dict[int, Any]) -> Any:
    """A gradient that shares no memory with others: rules pass on cotangents and views of them.

    Args:
        gradient: An array or a tensor.
        seen: Arrays and tensors already in use, by ``id``; extended.
    """
    if gradient.__class__ is not Tensor:
        if gradient.base is not None or id(gradient) in seen:
            gradient = gradient.copy(order="K")
        seen[id(gradient)] = gradient
        return gradient
    data = gradient.data
    known = data.__class__ is np.ndarray
    if id(gradient) in seen or id(data) in seen or (known and data.base is not None):
        before = gradient
        gradient = alias(before)
        if before.edge is not None:
            gradient.edge = (next_seq(), ALIAS, (before,), NO_ATTRS)
        if known:
            dispatch_mode.move(gradient, data.copy(order="K"))
    seen[id(gradient)] = gradient
    seen[id(gradient.data)] = gradient.data
    return gradient


JOIN = Op(
    name="join",
    family="layout",
    infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
    impl=lambda *arrays: arrays[0],
    vjp=(lambda F, ct, out, *inputs: ct,),
    variadic=True,
    joint=True,
)
"""Several tensors combined into one root. Not a node."""


def pull_many(
    roots: Sequence[Tensor],
    cts: Sequence[Any],
    *,
    traced: bool,
    create_graph: bool,
    keep: bool,
    targets: dict[int, Tensor] | None = None,
    passed: dict[int, Tensor] | None = None,
    skip: dict[int, Any] | None = None,
    conjugate: bool = True,
) -> Ends:
    """`pull` from several roots at once; each needs a cotangent."""
    pairs = [(root, ct) for root, ct in zip(roots, cts, strict=True) if root.edge is not None]
    if not pairs:
        return {}
    tensors = tuple(settled(root) for root, _ in pairs)
    edge: Edge = (next_seq(), JOIN, tensors, NO_ATTRS)
    root: Any = Bundle(tuple(tensor.data for tensor in tensors), edge, (0,) * len(tensors))
    return pull(
        root,
        tuple(ct for _, ct in pairs),
        traced=traced,
        create_graph=create_graph,
        keep=keep,
        targets=targets,
        passed=passed,
        skip=skip,
        conjugate=conjugate,
    )
