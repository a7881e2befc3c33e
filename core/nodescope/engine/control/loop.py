"""while_loop and fori_loop.

Invariant: the carry keeps its structure, shapes and dtypes from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.control.body import (
    check_form,
    check_same,
    evaluate,
    graph_of,
    tensor_of,
    trace,
)
from nodescope.engine.control.branch import cond
from nodescope.engine.control.scan import scan
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, spec_of
from nodescope.engine.trees import Tree, flatten, unflatten
from nodescope.errors import GradientError, ShapeError, UsageError
from nodescope.ops.control import Rules, give_rules
from nodescope.ops.op import Sample


def while_loop(
    cond_fn: Callable[[Tree], Any],
    body_fn: Callable[[Tree], Tree],
    init: Tree,
    *,
    max_steps: int | None = None,
) -> Tree:
    """Repeat ``carry = body_fn(carry)``, from ``init``, as long as ``cond_fn(carry)`` is true.

    Eagerly, a Python loop; in a graph, one node. Differentiating it in a graph needs ``max_steps``,
    so that the backward pass knows how much to keep. (As ``jax.lax.while_loop``.)

    Args:
        cond_fn: Maps the carry to a scalar.
        body_fn: Maps the carry to the next one, of the same structure, shapes and dtypes.
        init: A tree of tensors.
        max_steps: Stop after this many iterations at the latest.

    Raises:
        TraceError: The carry changes its structure, shape or dtype.
    """
    if max_steps is not None and max_steps < 0:
        raise UsageError(f"while_loop: max_steps is {max_steps}", source=where())
    if dispatch_mode.builder() is None:
        return _run(cond_fn, body_fn, init, max_steps)
    if max_steps is not None:
        return _bounded(cond_fn, body_fn, init, max_steps)
    return _record(cond_fn, body_fn, init)


def _run(cond_fn: Any, body_fn: Any, init: Tree, max_steps: int | None) -> Tree:
    leaves, form = flatten(init)
    leaves = [tensor_of(leaf, "while_loop") for leaf in leaves]
    carry = unflatten(form, leaves)
    specs = [spec_of(leaf) for leaf in leaves]
    done = 0
    while max_steps is None or done < max_steps:
        with name_scope("while/condition"):
            going = _scalar(cond_fn(carry))
            if not bool(going):
                break
        with name_scope("while/body"):
            carry = body_fn(carry)
        leaves, after = flatten(carry)
        check_form("while_loop", form, after, "the carry before and after")
        leaves = [tensor_of(leaf, "while_loop") for leaf in leaves]
        check_same("while_loop", specs, [spec_of(leaf) for leaf in leaves], form)
        carry = unflatten(form, leaves)
        done += 1
    return carry


def _scalar(value: Any) -> Tensor:
    tensor = tensor_of(value, "while_loop")
    if tensor.ndim:
        raise ShapeError(
            f"while_loop: the condition must be a scalar, not of shape {tensor.shape}",
            source=where(),
            hint="reduce it with .any() or .all()",
        )
    return tensor


def _bounded(cond_fn: Any, body_fn: Any, init: Tree, max_steps: int) -> Tree:
    def step(carry: Tree, _: None) -> tuple[Tree, None]:
        return cond(_scalar(cond_fn(carry)), body_fn, lambda same: same, carry), None

    return scan(step, init, None, length=max_steps)[0]


def _record(cond_fn: Any, body_fn: Any, init: Tree) -> Tree:
    leaves, form = flatten(init)
    leaves = [tensor_of(leaf, "while_loop") for leaf in leaves]
    test = trace("while_loop", lambda carry: _scalar(cond_fn(carry)), (init,))
    body = trace("while_loop", body_fn, (init,))
    check_form("while_loop", form, body.structure, "the carry before and after")
    check_same(
        "while_loop", [spec_of(e) for e in leaves], [body.spec(v) for v in body.outputs], form
    )
    if test.writes or body.writes:
        raise UsageError(
            "while_loop: its body assigns to a tensor defined outside",
            source=where(),
            hint="carry it through the loop, or give max_steps",
        )
    captures = {id(tensor): tensor for tensor in (*test.captures, *body.captures)}
    around = list(captures.values())
    results: Any = apply(
        WHILE,
        (*leaves, *around),
        {
            "condition": test.graph(around, test.outputs),
            "body": body.graph(around, body.outputs),
            "carries": len(leaves),
        },
    )
    return unflatten(form, results)


def fori_loop(lower: int, upper: int, body_fn: Callable[[Any, Tree], Tree], init: Tree) -> Tree:
    """``carry = body_fn(i, carry)`` for ``i`` from ``lower`` to ``upper - 1``.

    The bounds are Python integers, so the loop can be differentiated. (As ``jax.lax.fori_loop``.)
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if not isinstance(bound, int | np.integer):
            raise UsageError(
                f"fori_loop: {name} must be a Python integer, not {type(bound).__name__}",
                source=where(),
                hint="use while_loop where the number of iterations is computed",
            )
    numbers = np.arange(int(lower), max(int(lower), int(upper)))
    return scan(lambda carry, i: (body_fn(i, carry), None), init, numbers)[0]


def _inline(inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    if dispatch_mode.builder() is not None:
        return apply(WHILE, inputs, attrs)  # type: ignore[return-value]
    carries = attrs["carries"]
    carry, around = list(inputs[:carries]), inputs[carries:]
    while True:
        with name_scope("while/condition"):
            if not bool(evaluate(attrs["condition"], (*carry, *around))[0]):
                return tuple(carry)
        with name_scope("while/body"):
            carry = evaluate(attrs["body"], (*carry, *around))


def _samples(rng: np.random.Generator) -> list[Sample]:
    x = rng.integers(1, 4, (2, 2))
    attrs = {
        "condition": graph_of(lambda x: np.sum(x) < 50, x),
        "body": graph_of(lambda x: x * 2, x),
        "carries": 1,
    }
    return [Sample((x,), attrs), Sample((x + 100,), attrs)]


def _vjp(F: Any, ct: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    raise GradientError(
        "while_loop: the number of iterations is not known, so it cannot be differentiated",
        source=where(),
        hint="give max_steps, use scan, or differentiate eagerly",
    )


WHILE = give_rules("while_loop", Rules(_vjp, _inline, _samples))
