"""Idioms: groups of nodes with a known structure become named kernels.

`fusing.rows` and `fusing.products` match idioms, one function each; the table below says where each
is searched for, and its name becomes the kernel's `pattern`. A back end may have a specialised loop
for a name; the body contains the original nodes and defines the kernel's meaning. For NumPy no
kernels are made here, since it would run their nodes one by one anyway; a note lists the matches.

Invariant: no result changes; a kernel's nodes belong to one phase (except for ``matmul_sgd``) and
one device, and are pure, except for the assignments of an update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from nodescope.console_output import shape_words
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.fusing import products, rows
from nodescope.passes.fusing.clusters import Clusters
from nodescope.passes.fusing.finder import Finder
from nodescope.passes.fusing.kernel import given_out, make_kernel, taken, too_large
from nodescope.passes.fusing.roles import C_DTYPES
from nodescope.passes.fusing.rows import IdiomMatch


@dataclass(frozen=True, slots=True)
class Idiom:
    """An idiom to search for.

    Attributes:
        ops: The possible ops of its last node.
        find: The function from that node to the idiom, or None.
        mixed: Whether its nodes may be of several phases.
        assigns: Whether its nodes may assign.
        note: Why it gets a note and no kernel; else ``""``.
    """

    ops: tuple[str, ...]
    find: Callable[[Finder, Node], IdiomMatch | None]
    mixed: bool = False
    assigns: bool = False
    note: str = ""


IDIOMS = (
    Idiom(("matmul",), rows.attention),
    Idiom(
        ("mean", "sum", "negative"),
        rows.cross_entropy,
        note="selecting labels with index arrays has no C loop; the rows before it have",
    ),
    Idiom(("divide",), rows.softmax),
    Idiom(("subtract",), rows.log_softmax),
    Idiom(("add",), rows.logsumexp),
    Idiom(("divide", "multiply"), rows.layer_norm),
    Idiom(("relu", "tanh", "sigmoid", "gelu", "maximum"), products.layer),
    Idiom(("add",), products.layer),
    Idiom(("assign",), products.update, mixed=True, assigns=True),
)
"""In the order of search: a node belongs to the first idiom that takes it."""

RULES = tuple(
    Rule(name, help)
    for name, help in (
        ("attention", "softmax(q @ k.T * scale + mask) @ v, as one kernel"),
        ("softmax", "exp(x - max(x)) / sum(exp(x - max(x))), as one kernel"),
        ("log_softmax", "z - log(sum(exp(z))) with z = x - max(x), as one kernel"),
        ("logsumexp", "log(sum(exp(x - max(x)))) + max(x), as one kernel"),
        ("layer_norm", "(x - mean(x)) / sqrt(variance + eps) * weight + bias, as one kernel"),
        *((f"matmul_bias_{activation}", f"{activation}(x @ w + b), as one kernel")
          for activation in products.ACTIVATIONS),
        ("matmul_bias", "x @ w + b, as one kernel"),
        ("sgd", "p - gradient * rate, assigned, as one kernel"),
        ("momentum", "v * momentum + gradient, and p - v * rate, assigned, as one kernel"),
        ("adam", "both moments and the step computed from them, assigned, as one kernel"),
        ("matmul_sgd", "p - (x.T @ d) * rate, assigned, as one kernel"),
    )
)  # fmt: skip


@graph_pass("patterns", stage=60, help="find layers, attention, losses and updates", rules=RULES)
def find_idioms(draft: Draft) -> None:
    """Build kernels of known idioms."""
    at, clusters = Finder(draft), Clusters(draft)
    by_op: dict[str, list[Node]] = {}
    for node in clusters.nodes:
        by_op.setdefault(node.op, []).append(node)
    claimed: set[int] = set()
    kernels: list[tuple[IdiomMatch, list[int]]] = []
    left: Counter[str] = Counter()
    for idiom in IDIOMS:
        if idiom.assigns and any(traits_of(op).state == "reads" for op in by_op):
            continue  # the values read depend on when they are written
        for op in idiom.ops:
            for node in by_op.get(op, ()):
                if node.id in claimed:
                    continue
                match = idiom.find(at, node)
                if match is None or any(n.id in claimed for n in match.nodes):
                    continue
                if idiom.note and draft.options.backend == "c":
                    draft.note(f"{match.name} at {node.name} is not fused: {idiom.note}")
                    continue
                if draft.options.backend != "c":
                    left[match.name] += 1
                    claimed.update(n.id for n in match.nodes)
                    continue
                positions = sorted({clusters.index[n.id] for n in match.nodes})
                members = [clusters.nodes[i] for i in positions]
                reason = _refused(draft, idiom, match, members) or _between(clusters, positions)
                if reason:
                    draft.note(f"{match.name} at {node.name} is not fused: {reason}")
                    continue
                clusters.join(positions)
                claimed.update(member.id for member in members)
                kernels.append((match, positions))
    for match, positions in sorted(kernels, key=lambda item: item[1][-1]):
        members = [clusters.nodes[i] for i in positions]
        mixed = "optimizer" if match.name == "matmul_sgd" else ""
        make_kernel(draft, members, match.name, phase=mixed)
    for name, count in left.items():
        draft.note(f"{name}: found {count}×; NumPy runs the separate nodes just as fast")


def _refused(draft: Draft, idiom: Idiom, match: IdiomMatch, members: list[Node]) -> str:
    phases = sorted({node.phase for node in members})
    if len(phases) > 1 and not (idiom.mixed and match.name.startswith("matmul_")):
        return f"phases differ: {' and '.join(phases)}"
    if "recompute" in phases:
        return "recomputed nodes are not fused, so that they run late"
    if len({node.device for node in members}) > 1:
        return "devices differ"
    if match.name == "matmul_sgd" and phases != ["backward", "optimizer"]:
        return f"phases are {' and '.join(phases)}"
    produced = {value for node in members for value in node.outputs}
    out = given_out(draft, members)
    for node in members:
        if traits_of(node.op).state == "replaces":
            if node.inputs[1] in out or node.inputs[1] not in produced:
                return f"{node.name} outputs a value that other nodes share"
            if node.control_inputs or draft.waiting(node.id):
                return f"{node.name} has control dependencies"
        elif not draft.is_pure(node):
            return f"{node.name} has a side effect"
        for value in (*node.inputs, *node.outputs):
            spec = draft.spec(value)
            if spec.dtype not in C_DTYPES:
                return f"{node.name} works on {spec.dtype}, which has no C type"
            if 0 in spec.shape:
                return (
                    f"{node.name} works on shape {shape_words(spec.shape)}, which has no elements"
                )
    return too_large(len(members), len(taken(members)), len(out))


def _between(clusters: Clusters, positions: list[int]) -> str:
    outside = clusters.apart(positions)
    if outside is None:
        return ""
    return f"{clusters.nodes[outside].name} lies between its nodes"
