"""Row idioms: softmax and its logarithm, class losses, layer norm, attention.

Invariant: idioms are found by structure, over the last axes only; members are exactly the nodes of
the formula.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodescope.ir.graph import Node
from nodescope.ops.index import Port
from nodescope.passes.fusing.finder import Finder, Operand
from nodescope.passes.fusing.roles import Shape, rows_of


@dataclass(frozen=True, slots=True)
class IdiomMatch:
    """An idiom in a draft.

    Attributes:
        name: The `pattern` of the kernel.
        nodes: Its members, in any order, possibly repeated.
        source: Its input.
    """

    name: str
    nodes: tuple[Node, ...]
    source: int


def softmax(at: Finder, node: Node) -> IdiomMatch | None:
    """``e / sum(e)`` with ``e = exp(x - max(x))``."""
    above, below = at.args(node)
    total = at.reduced(below, "sum")
    if total is None or not total.kept or total.source != above or len(total.axes) != 1:
        return None
    raised = at.by(above, "exp")
    shifted = _shifted(at, raised.inputs[0], total.axes) if raised is not None else None
    if raised is None or shifted is None or not at.trailing(total):
        return None
    return IdiomMatch("softmax", (*shifted.nodes, raised, *total.nodes, node), shifted.source)


def _shifted(at: Finder, value: Operand, along: Shape) -> IdiomMatch | None:
    """``x - max(x)`` along these axes."""
    node = at.by(value, "subtract")
    if node is None:
        return None
    x, top = at.args(node)
    most = at.reduced(top, "max")
    if most is None or not most.kept or most.source != x or most.axes != along:
        return None
    return IdiomMatch("", (*most.nodes, node), most.source)


def _log_total(at: Finder, value: Operand, shifted: int | None) -> IdiomMatch | None:
    """``log(sum(exp(z)))`` over the last axis; ``source`` is z, which is ``shifted`` if given."""
    around, inner = at.bare(value)
    log = at.by(inner, "log")
    total = at.reduced(log.inputs[0], "sum") if log is not None else None
    if log is None or total is None or len(total.axes) != 1 or not at.trailing(total):
        return None
    raised = at.by(total.source, "exp")
    if raised is None or (shifted is not None and raised.inputs[0] != shifted):
        return None
    nodes = (raised, *total.nodes, log, *around)
    return IdiomMatch("", nodes, raised.inputs[0])


def log_softmax(at: Finder, node: Node) -> IdiomMatch | None:
    """``z - log(sum(exp(z)))`` with ``z = x - max(x)``."""
    z, log = at.args(node)
    if not isinstance(z, int):
        return None
    total = _log_total(at, log, z)
    shape = at.shape(z)
    last = (len(shape) - 1,)
    shifted = _shifted(at, z, last)
    if total is None or shifted is None or at.shape(log) != rows_of(shape, last):
        return None
    return IdiomMatch("log_softmax", (*shifted.nodes, *total.nodes, node), shifted.source)


def logsumexp(at: Finder, node: Node) -> IdiomMatch | None:
    """``log(sum(exp(x - max(x)))) + max(x)``."""
    for log, top in at.either(node):
        total = _log_total(at, log, None)
        if total is None:
            continue
        last = (len(at.shape(total.source)) - 1,)
        shifted = _shifted(at, total.source, last)
        most = at.reduced(top, "max")
        if shifted is None or most is None or at.shape(top) != at.shape(log):
            continue
        if most.source == shifted.source and most.axes == last:
            nodes = (*shifted.nodes, *total.nodes, *most.nodes, node)
            return IdiomMatch("logsumexp", nodes, shifted.source)
    return None


def cross_entropy(at: Finder, node: Node) -> IdiomMatch | None:
    """The mean or sum of ``log(sum(exp(z))) - z[range, labels]``, or of minus a log-softmax's."""
    sign = None
    if node.op == "negative":
        sign = node
        reduction = at.by(node.inputs[0], "mean", "sum")
        if reduction is None:
            return None
        node = reduction
    (value,) = node.inputs
    if len(at.shape(value)) != 1 or at.shape(node.outputs[0]) not in ((), (1,)):
        return None
    outer = (node,) if sign is None else (node, sign)
    producer = at.by(value, "subtract") if sign is None else None
    if producer is not None:
        log, right = at.args(producer)
        picked = _picked(at, right)
        total = _log_total(at, log, picked.source) if picked is not None else None
        shifted = _shifted(at, picked.source, (1,)) if picked is not None else None
        if picked is None or total is None or shifted is None or at.bare(log)[0]:
            return None
        return IdiomMatch(
            "cross_entropy",
            (*shifted.nodes, *total.nodes, *picked.nodes, producer, *outer),
            shifted.source,
        )
    if sign is None:
        producer = at.by(value, "negative")
        if producer is None:
            return None
        value, outer = producer.inputs[0], (producer, *outer)
    picked = _picked(at, value)
    logs = at.by(picked.source, "subtract", "log_softmax") if picked is not None else None
    if picked is None or logs is None:
        return None
    if logs.op == "subtract":
        found_logs = log_softmax(at, logs)
        if found_logs is None:
            return None
        return IdiomMatch(
            "cross_entropy", (*found_logs.nodes, *picked.nodes, *outer), found_logs.source
        )
    if logs.attrs["axis"] not in (1, -1):
        return None
    return IdiomMatch("cross_entropy", (logs, *picked.nodes, *outer), logs.inputs[0])


def _picked(at: Finder, value: Operand) -> IdiomMatch | None:
    """``z[range(n), labels]`` of z with two axes."""
    node = at.by(value, "getitem")
    if node is None or len(node.inputs) != 3 or len(node.attrs["index"]) != 2:
        return None
    z, rows, labels = node.inputs
    shape = at.shape(z)
    if len(shape) != 2 or not at.is_range(rows) or at.shape(rows) != shape[:1]:
        return None
    if at.shape(labels) != shape[:1] or at.spec(labels).dtype == "bool":
        return None
    if node.attrs["index"] != (Port(0), Port(1)):
        return None
    return IdiomMatch("", (node,), z)


def layer_norm(at: Finder, node: Node) -> IdiomMatch | None:
    """``(x - mean) / sqrt(variance + eps)``, with the inverse root as a factor or a divisor."""
    for centred, root in at.either(node) if node.op == "multiply" else (at.args(node),):
        scale = _root(at, root, node.op == "multiply")
        centre = at.by(centred, "subtract")
        if scale is None or centre is None:
            continue
        inner, variance = scale
        x, middle = at.args(centre)
        mean = at.mean(middle)
        if mean is None or not mean.kept or mean.source != x or not at.trailing(mean):
            continue
        spread = _variance(at, variance, mean.source, centred, mean.axes)
        if spread is not None and at.shape(root) == at.shape(middle):
            nodes = (*mean.nodes, centre, *spread, *inner, node)
            return _scaled(at, IdiomMatch("layer_norm", nodes, mean.source), node, len(mean.axes))
    return None


def _root(at: Finder, value: Operand, inverse: bool) -> tuple[tuple[Node, ...], Operand] | None:
    """``sqrt(v + eps)`` or its inverse: the nodes, and v."""
    nodes: tuple[Node, ...] = ()
    if inverse:
        power = at.by(value, "power")
        over = at.by(value, "divide", "reciprocal")
        if power is not None and at.number(at.args(power)[1]) == -0.5:
            return _with_eps(at, (power,), at.args(power)[0])
        if over is None:
            return None
        if over.op == "divide" and at.number(at.args(over)[0]) != 1:
            return None
        nodes, value = (over,), at.args(over)[-1]
    root = at.by(value, "sqrt", "power")
    if root is None or (root.op == "power" and at.number(at.args(root)[1]) != 0.5):
        return None
    return _with_eps(at, (root, *nodes), at.args(root)[0])


def _with_eps(
    at: Finder, nodes: tuple[Node, ...], value: Operand
) -> tuple[tuple[Node, ...], Operand] | None:
    node = at.by(value, "add")
    if node is None:
        return None
    for variance, eps in at.either(node):
        if at.is_scalar(eps) and isinstance(variance, int) and at.draft.producer(variance):
            return (node, *nodes), variance
    return None


def _variance(
    at: Finder, value: Operand, x: int, centred: Operand, along: Shape
) -> tuple[Node, ...] | None:
    """The nodes of ``mean((x - mean(x)) ** 2)`` along these axes, or of ``var(x)``."""
    whole = at.reduced(value, "var")
    if whole is not None:
        same = whole.source == x and whole.axes == along and not whole.nodes[0].attrs["ddof"]
        return whole.nodes if same else None
    mean = at.mean(value)
    if mean is None or mean.axes != along:
        return None
    squares = at.by(mean.source, "square", "multiply", "power")
    if squares is None:
        return None
    args = at.args(squares)
    twice = {
        "square": args == (centred,),
        "multiply": args == (centred, centred),
        "power": args[0] == centred and at.number(args[-1]) == 2,
    }
    return (squares, *mean.nodes) if twice[squares.op] else None


def _scaled(at: Finder, match: IdiomMatch, node: Node, count: int) -> IdiomMatch:
    """The idiom extended by the weight and the bias that follow, if intermediate values have no
    other users.
    """
    nodes, shape = list(match.nodes), at.shape(match.source)
    for op in ("multiply", "add"):
        following = at.draft.only_user(node.outputs[0])
        if following is None or following.op != op or following.phase != node.phase:
            break
        operands = [arg for arg in at.args(following) if arg != node.outputs[0]]
        if len(operands) != 1 or not isinstance(operands[0], int):
            break
        shape_of_other = at.shape(operands[0])
        if shape_of_other[-count:] != shape[-count:] or any(
            n != 1 for n in shape_of_other[:-count]
        ):
            break
        nodes.append(following)
        node = following
    return IdiomMatch(match.name, tuple(nodes), match.source)


def attention(at: Finder, node: Node) -> IdiomMatch | None:
    """``softmax(q @ kT) @ v``, optionally with a factor and a mask before the softmax."""
    weights, _ = at.args(node)
    nodes: tuple[Node, ...]
    whole = at.by(weights, "softmax", "divide")
    if whole is None or len(at.shape(weights)) < 2:
        return None
    if whole.op == "softmax":
        if whole.attrs["axis"] not in (-1, len(at.shape(weights)) - 1):
            return None
        nodes, value = (whole,), whole.inputs[0]
    else:
        written = softmax(at, whole)
        if written is None:
            return None
        nodes, value = written.nodes, written.source
    for _ in range(2):
        step = _scale_or_mask(at, value)
        if step is not None:
            nodes, value = (*nodes, step[0]), step[1]
    product = at.by(value, "matmul")
    if product is None:
        return None
    q, k = product.inputs
    before: list[Node] = []
    scaled = at.by(q, "multiply", "divide")
    if scaled is not None and _scale_or_mask(at, q) is not None:
        before.append(scaled)
    turned = at.by(k, "transpose", "swapaxes")
    if turned is not None and at.alone(k, product):
        before.append(turned)
    return IdiomMatch("attention", (*before, product, *nodes, node), q)


def _scale_or_mask(at: Finder, value: Operand) -> tuple[Node, int] | None:
    """A factor, or a mask that selects or is added: the node, and its operand."""
    node = at.by(value, "multiply", "divide", "where", "add")
    if node is None:
        return None
    args = at.args(node)
    if node.op == "where":
        chosen = args[1:] if at.is_scalar(args[2]) else args[:0:-1]
        inner, other = chosen
        fits = isinstance(inner, int) and at.is_scalar(other) and not at.is_scalar(inner)
        return (node, inner) if fits and isinstance(inner, int) else None
    for inner, other in at.either(node) if node.op != "divide" else (args,):
        if not isinstance(inner, int) or at.shape(inner) != at.shape(value):
            continue
        if at.is_scalar(other) if node.op != "add" else at.by(inner, "matmul", "multiply"):
            return node, inner
    return None
