"""Idioms with matrix products and with parameters: layers, and optimizers' updates.

Invariant: an update is recognised by its whole formula; with one node more or less, it is not
found.
"""

from __future__ import annotations

from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.passes.fusing.finder import Finder, Operand
from nodescope.passes.fusing.rows import IdiomMatch

ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu")
_FUSIBLE = ("elementwise", "activation", "reduction")


def layer(at: Finder, node: Node) -> IdiomMatch | None:
    """``activation(x @ w + b)``, or only the sum if no elementwise op follows."""
    if node.op == "add":
        users = at.draft.users(node.outputs[0])
        if any(user.family in _FUSIBLE and user.phase == node.phase for user in users):
            return None  # a loop that does more than this sum
        nodes = _biased(at, node.outputs[0])
        return None if nodes is None else IdiomMatch("matmul_bias", nodes[:2], nodes[0].inputs[0])
    name = _activation(at, node)
    if not name:
        return None
    for value in node.inputs:
        nodes = _biased(at, value)
        if nodes is not None:
            return IdiomMatch(f"matmul_bias_{name}", (*nodes[:2], node), nodes[0].inputs[0])
    return None


def _activation(at: Finder, node: Node) -> str:
    if node.op in ACTIVATIONS:
        return node.op
    if node.op == "maximum" and any(at.number(other) == 0 for _, other in at.either(node)):
        return "relu"
    return ""


def _biased(at: Finder, value: int) -> tuple[Node, Node] | None:
    """The product and the sum of ``x @ w + b``; b broadcasts along the last axis."""
    total = at.by(value, "add")
    if total is None:
        return None
    for product, bias in at.either(total):
        node = at.by(product, "matmul")
        if node is None or not isinstance(bias, int) or not isinstance(product, int):
            continue
        shape = at.shape(product)
        bias_shape = at.shape(bias)
        along = bias_shape[-1:] == shape[-1:] and all(n == 1 for n in bias_shape[:-1])
        if len(shape) > 1 and along and len(bias_shape) <= len(shape) and at.alone(product, total):
            return node, total
    return None


# Updates


def update(at: Finder, node: Node) -> IdiomMatch | None:
    """An optimizer's update of a parameter, starting from one of its assignments.

    ``sgd``, ``momentum`` or ``adam``, with weight decay in any of its usual places; ``matmul_sgd``
    if the gradient is a product without other users.
    """
    for find in (_sgd, _momentum, _adam):
        match = find(at, node)
        if match is not None:
            return match
    return None


def _times(at: Finder, value: Operand, factor: Operand) -> Node | None:
    """``value`` times a number."""
    node = at.by(value, "multiply")
    if node is None:
        return None
    fits = any(first == factor and at.is_scalar(other) for first, other in at.either(node))
    return node if fits else None


def _scaled(at: Finder, value: Operand) -> tuple[Node, int] | None:
    """A value times a number: the node, and the value."""
    node = at.by(value, "multiply")
    if node is None:
        return None
    for first, other in at.either(node):
        if isinstance(first, int) and at.is_scalar(other):
            return node, first
    return None


def _decayed(at: Finder, value: int, parameter: int) -> tuple[tuple[Node, ...], int]:
    """The gradient in ``gradient + parameter * decay``, and the nodes of the sum."""
    node = at.by(value, "add")
    if node is not None and node.phase == "optimizer":
        for gradient, decay in at.either(node):
            product = _times(at, decay, parameter)
            if product is not None and isinstance(gradient, int):
                return (product, node), gradient
    return (), value


def _descent(at: Finder, node: Node) -> tuple[tuple[Node, ...], int, int] | None:
    """``assign(p, p - step * rate)``: the nodes, p and the step."""
    parameter, new = node.inputs
    change = at.by(new, "subtract")
    if change is None or at.args(change)[0] != parameter:
        return None
    scaled = _scaled(at, at.args(change)[1])
    return None if scaled is None else ((scaled[0], change, node), parameter, scaled[1])


def _sgd(at: Finder, node: Node) -> IdiomMatch | None:
    descent = _descent(at, node)
    if descent is None:
        return None
    nodes, parameter, step = descent
    if _stored(at, step, node) is not None:
        return None
    decay, gradient = _decayed(at, step, parameter)
    product = at.by(gradient, "matmul")
    if product is not None and not decay and at.alone(gradient, nodes[0]):
        turned = at.by(product.inputs[0], "transpose", "swapaxes")
        shapes = [len(at.shape(value)) for value in product.inputs]
        if turned is not None and shapes == [2, 2]:
            before = (turned,) if at.alone(product.inputs[0], product) else ()
            return IdiomMatch("matmul_sgd", (*before, product, *nodes), product.inputs[1])
    return IdiomMatch("sgd", (*decay, *nodes), gradient)


def _momentum(at: Finder, node: Node) -> IdiomMatch | None:
    descent = _descent(at, node)
    if descent is None:
        return None
    nodes, parameter, velocity = descent
    stored = _stored(at, velocity, node)
    total = at.by(velocity, "add")
    if stored is None or total is None:
        return None
    for kept, gradient in at.either(total):
        slowed = _times(at, kept, stored.inputs[0])
        if slowed is not None and isinstance(gradient, int):
            decay, uphill = _decayed(at, gradient, parameter)
            return IdiomMatch("momentum", (*decay, slowed, total, *nodes, stored), uphill)
    return None


def _adam(at: Finder, node: Node) -> IdiomMatch | None:
    parameter, new = node.inputs
    change = at.by(new, "subtract")
    if change is None:
        return None
    before, share = at.args(change)
    shrunk = () if before == parameter else (_times(at, before, parameter),)
    quotient = at.by(share, "divide")
    if quotient is None or None in shrunk:
        return None
    above, below = at.args(quotient)
    step, floor = _scaled(at, above), at.by(below, "add")
    if floor is None:
        return None
    mean = step[1] if step is not None else above
    nodes = [n for n in shrunk if n is not None]
    nodes += [*((step[0],) if step is not None else ()), floor, quotient, change, node]
    for root, eps in at.either(floor):
        scaled = _scaled(at, root)
        inner = at.by(scaled[1] if scaled is not None else root, "sqrt")
        if inner is None or not at.is_scalar(eps) or not isinstance(mean, int):
            continue
        square = inner.inputs[0]
        first, second = _average(at, mean, node), _average(at, square, node)
        if first is None or second is None:
            continue
        squared = at.by(second[1], "square", "multiply")
        if squared is None or set(at.args(squared)) != {first[1]}:
            continue
        nodes += [*((scaled[0],) if scaled is not None else ()), inner, squared]
        return IdiomMatch("adam", (*nodes, *first[0], *second[0]), first[1])
    return None


def _average(at: Finder, value: int, node: Node) -> tuple[tuple[Node, ...], int] | None:
    """``assign(m, m * decay + g * rest)`` of the value: the nodes, and g."""
    stored, total = _stored(at, value, node), at.by(value, "add")
    if stored is None or total is None:
        return None
    for old, fresh in at.either(total):
        kept, added = _times(at, old, stored.inputs[0]), _scaled(at, fresh)
        if kept is not None and added is not None:
            return (kept, added[0], total, stored), added[1]
    return None


def _stored(at: Finder, value: int, other: Node) -> Node | None:
    """The node that assigns the value to another parameter."""
    for user in at.draft.users(value):
        replaces = traits_of(user.op).state == "replaces"
        if replaces and user.id != other.id and user.inputs[-1] == value:
            return user
    return None
