"""Faults in the passes and in the modules below them.

Invariant: each replaces real code of `nodescope.passes`; none makes another fault possible.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from nodescope.passes import (
    cse,
    fates,
    fold,
    own,
    patterns,
    pipeline,
    reshape,
    schedule,
    simplify,
    simplify_rules,
    strength,
)
from nodescope.passes.draft import Draft
from nodescope.passes.fusing import kernel
from nodescope.passes.fusing.clusters import Clusters
from nodescope.passes.layouts import Layouts
from tests.conformance.planted import Patch, planted

_replace = msgspec.structs.replace


def _as_if_exact(patch: Patch, *names: str) -> None:
    rules = tuple(
        dataclasses.replace(item, exact=True) if item.name in names else item
        for item in simplify_rules.RULES
    )
    table: dict[str, list[Any]] = {}
    for rule in rules:
        term = patterns.parsed(rule.before)
        assert isinstance(term, tuple)
        table.setdefault(term[0], []).append(rule)
    patch.setattr(simplify, "_rules", lambda: table)
    patch.setattr(simplify, "_candidates", simplify._candidates.__wrapped__)  # empty cache


@planted("add_zero", found_by="passes", help="x + 0 -> x, which keeps -0.0")
def _(patch: Patch) -> None:
    _as_if_exact(patch, "add_zero")


@planted("multiply_zero", found_by="passes", help="x * 0 -> 0, where x may be NaN or infinite")
def _(patch: Patch) -> None:
    _as_if_exact(patch, "multiply_zero")


@planted("subtract_self", found_by="passes", help="x - x -> 0, where x may be infinite")
def _(patch: Patch) -> None:
    _as_if_exact(patch, "subtract_self")


@planted("divide_self", found_by="passes", help="x / x -> 1, where x may be 0")
def _(patch: Patch) -> None:
    _as_if_exact(patch, "divide_self")


@planted("sign_of_zero", found_by="passes", help="rules for 0.0 are used for -0.0")
def _(patch: Patch) -> None:
    patch.setattr(patterns, "same_number", lambda first, other: bool(first == other))


@planted("double_cast", found_by="passes", help="float64 -> float32 -> float64 is dropped")
def _(patch: Patch) -> None:
    patch.setattr(simplify, "direct", lambda first, middle, last: True)


@planted("wrong_axis", found_by="passes", help="flips along different axes undo one another")
def _(patch: Patch) -> None:
    patch.setattr(simplify, "axes", lambda name, axis, ndim: ())


@planted("any_reciprocal", found_by="passes", help="x / 3 -> x * (1 / 3)")
def _(patch: Patch) -> None:
    patch.setattr(strength, "exact_reciprocal", lambda number, dtype: True)


@planted("scalar_side", found_by="passes", help="reciprocal(x) -> x / 1 in place of 1 / x")
def _(patch: Patch) -> None:
    def turned(draft: Any, layouts: Any, node: Any, args: Any) -> None:
        strength._become(draft, "reciprocal", node, "divide", [args[0], patterns.Scalar(1.0)])

    patch.setitem(strength._RULES, "reciprocal", turned)


@planted("wrong_permutation", found_by="passes", help="two transposes composed the wrong way round")
def _(patch: Patch) -> None:
    order_of = reshape.order_of

    def inverse(node: Any, ndim: int) -> tuple[int, ...]:
        return tuple(int(item) for item in np.argsort(order_of(node, ndim)))

    patch.setattr(reshape, "order_of", inverse)


@planted("through_transpose", found_by="passes", help="reshape(transpose(x)) -> reshape(x)")
def _(patch: Patch) -> None:
    patch.setattr(reshape, "_SHAPING", reshape._SHAPING | {"transpose"})


@planted("layouts_forgotten", found_by="passes", help="a copy goes although a sum sees its order")
def _(patch: Patch) -> None:
    patch.setattr(Layouts, "harmless", lambda self, value, kind: True)


def _key_without(patch: Patch, change: Callable[[Any], Any]) -> None:
    key = cse._key
    patch.setattr(cse, "_key", lambda node: key(change(node)))


@planted("cse_attributes", found_by="passes", help="nodes merge whatever their attributes")
def _(patch: Patch) -> None:
    _key_without(patch, lambda node: _replace(node, attrs={}))


@planted("cse_recomputed", found_by="passes", help="what is computed again merges with the first")
def _(patch: Patch) -> None:
    _key_without(patch, lambda node: _replace(node, phase="forward"))


@planted("cse_waiting", found_by="passes", help="a node that waits merges with one that does not")
def _(patch: Patch) -> None:
    _key_without(patch, lambda node: _replace(node, control_inputs=()))


@planted("cse_sign_of_zero", found_by="passes", help="0.0 and -0.0 are the same operand")
def _(patch: Patch) -> None:
    frozen = cse.frozen

    def blind(value: Any) -> Any:
        return frozen(value + 0.0 if type(value) is float else value)

    patch.setattr(cse, "frozen", blind)


@planted("cse_kinds", found_by="passes", help="1, 1.0 and True are the same operand")
def _(patch: Patch) -> None:
    frozen = cse.frozen

    def blind(value: Any) -> Any:
        if type(value) in (bool, int, float):
            return struct.pack("<d", float(value))
        return frozen(value)

    patch.setattr(cse, "frozen", blind)


@planted("cse_turned", found_by="passes", help="x - y and y - x are the same")
def _(patch: Patch) -> None:
    patch.setattr(cse, "_TURNING", cse._TURNING | {"subtract", "divide"})


@planted("cse_outputs", found_by="passes", help="the outputs of merged nodes change places")
def _(patch: Patch) -> None:
    def merge(draft: Draft, rule: str, node: Any, into: Any) -> None:
        values = dict(zip(node.outputs, reversed(into.outputs), strict=True))
        draft.rewrite(rule, "merged", [node], [draft.node(into.id)], values)

    patch.setattr(cse, "_merge", merge)


@planted("fold_precision", found_by="passes", help="constants are computed in float64 and rounded")
def _(patch: Patch) -> None:
    stand_for, call_of = fold._stand_for, fold.call_of

    def wide(draft: Draft, rule: str, node: Any, arrays: list[Any]) -> None:
        operands = [draft.array(value) for value in node.inputs]
        if rule == "constant" and all(array.dtype == np.float32 for array in operands):
            call = call_of(node)
            exact = call.op.impl(*(array.astype("float64") for array in operands), **call.attrs)
            arrays = [np.asarray(exact).astype(arrays[0].dtype)]
        stand_for(draft, rule, node, arrays)

    patch.setattr(fold, "_stand_for", wide)


@planted("fold_dtype", found_by="passes", help="a folded value becomes float64")
def _(patch: Patch) -> None:
    stand_for = fold._stand_for

    def wide(draft: Draft, rule: str, node: Any, arrays: list[Any]) -> None:
        stand_for(draft, rule, node, [array.astype("float64") for array in arrays])

    patch.setattr(fold, "_stand_for", wide)


@planted("dce_output", found_by="passes", help="the producer of a result goes")
def _(patch: Patch) -> None:
    patch.setattr(Draft, "is_used", lambda self, value: bool(self.users(value)))


@planted("dce_waited_for", found_by="passes", help="a node that others wait for goes")
def _(patch: Patch) -> None:
    patch.setattr(Draft, "waiting", lambda self, node: ())


@planted("effects_merge", found_by="passes", help="two assignments of the same become one")
def _(patch: Patch) -> None:
    patch.setattr(Draft, "is_pure", lambda self, node: not node.is_leaf)


@planted("no_order", found_by="passes", help="nodes come out in the order in which they were made")
def _(patch: Patch) -> None:
    def unsorted(self: Draft) -> list[Any]:
        return [self._nodes[node] for node in sorted(self._nodes, reverse=True)]

    patch.setattr(Draft, "_sorted", unsorted)


@planted("schedule_waits", found_by="passes", help="the schedule forgets who waits for whom")
def _(patch: Patch) -> None:
    reorder = Draft.reorder

    def loose(self: Draft, order: list[int]) -> None:
        for node in list(self._nodes.values()):
            if node.control_inputs:
                self._nodes[node.id] = _replace(node, control_inputs=())
        reorder(self, order)

    def always(nodes: Any, spec: Any, outputs: Any) -> Any:
        result = lifetimes(nodes, spec, outputs)
        calls.append(result)
        return result if len(calls) % 2 else dataclasses.replace(result, live=[])

    calls: list[Any] = []
    lifetimes = schedule.lifetimes
    patch.setattr(schedule, "lifetimes", always)
    patch.setattr(Draft, "reorder", loose)


@planted("fusion_cycle", found_by="c passes", help="a kernel needs what needs the kernel")
def _(patch: Patch) -> None:
    patch.setattr(Clusters, "apart", lambda self, clusters: None)


@planted("fusion_output", found_by="c passes", help="a kernel gives out only its last value")
def _(patch: Patch) -> None:
    given_out = kernel.given_out
    patch.setattr(kernel, "given_out", lambda draft, members: given_out(draft, members)[-1:])


@planted("fusion_inputs", found_by="c passes", help="a kernel's inputs in another order")
def _(patch: Patch) -> None:
    body = kernel._body

    def turned(draft: Draft, members: Any, inputs: Any, outputs: Any) -> Any:
        return body(draft, members, tuple(reversed(inputs)), outputs)

    patch.setattr(kernel, "_body", turned)


@planted("fusion_order", found_by="c passes", help="a kernel's nodes in the wrong order")
def _(patch: Patch) -> None:
    body = kernel._body

    def turned(draft: Draft, members: Any, inputs: Any, outputs: Any) -> Any:
        result = body(draft, members, inputs, outputs)
        return _replace(result, nodes=result.nodes[::-1])

    patch.setattr(kernel, "_body", turned)


@planted("not_own", found_by="passes", help="a result is another result's, or an input's, memory")
def _(patch: Patch) -> None:
    patch.setattr(own, "_changed", lambda draft: False)


@planted("stand_in", found_by="passes", help="another value is said to stand for one that is gone")
def _(patch: Patch) -> None:
    follow = fates.Provenance._follow

    def elsewhere(self: Any, value: int) -> int:
        return max(self._made) if value in self._stands else follow(self, value)

    patch.setattr(fates.Provenance, "_follow", elsewhere)


@planted("no_origin", found_by="passes", help="final nodes do not say where they come from")
def _(patch: Patch) -> None:
    patch.setattr(pipeline, "with_origins", lambda graph, origins: graph)


@planted("redirect", found_by="passes", help="one user of a value goes on with the old one")
def _(patch: Patch) -> None:
    users = Draft.users
    patch.setattr(Draft, "users", lambda self, value: users(self, value)[1:])
