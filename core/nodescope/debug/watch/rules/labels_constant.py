"""Labels that are all of one class in the whole run, although classes are to be distinguished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps
from nodescope.debug.watch.target_comparisons import comparing, takes_two_forward
from nodescope.ir.graph import Node

_CLASSES: Final = frozenset({"cross_entropy", "nll_loss"})
_BINARY: Final = frozenset({"bce", "bce_with_logits"})
_OPS: Final = _CLASSES | _BINARY
# Ops that join scores of the right answer with those of alternatives; the label is then constant.
_JOINS: Final = frozenset({"concatenate", "stack"})


def _begin(settings: Settings) -> Look:
    examples, steps = settings["examples"], settings["num_steps"]
    kinds: set[float] = set()  # classes over all losses: a discriminator has one class per loss
    seen = total = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, total
        node, graph = sight.node, sight.graph
        if len(kinds) > 1 or len(sight.inputs) != 2:
            raise Inapplicable("labels are of several classes")
        labels = sight.inputs[1].array
        if node.op in _CLASSES and labels.dtype.kind not in "iu":
            kinds.update((0.0, 1.0))
            raise Inapplicable("labels are not class numbers")
        distinct = np.unique(labels)
        kinds.update(map(float, distinct[:2]))
        seen += 1
        total += labels.size
        if len(kinds) != 1:
            return None
        if total < examples or seen < steps:
            raise needs_steps(steps, seen)
        if not graph.reaches_loss(node) or _joined(graph, node.inputs[0]):
            return None
        given = graph.given(node.inputs[1])
        name = given.name if given is not None else "its labels"
        line = f" (line {given.source.line})" if given is not None and given.source else ""
        return Finding(
            f"all of {total} labels of {name}{line} are of class {next(iter(kinds)):g}: there is "
            "nothing to distinguish; are labels rounded to whole numbers, or never set?",
            {"class": next(iter(kinds)), "labels": total},
        )

    return look


def _joined(graph: ProgramGraph, value: int) -> bool:
    """Whether scores are joined from columns, such as right answers and alternatives."""
    for _ in range(4):
        maker = graph.maker(value)
        if maker is None:
            return False
        if maker.op in _JOINS:
            return True
        if len(maker.inputs) != 1:
            return False
        value = maker.inputs[0]
    return False


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _OPS, "has labels, which must contain several classes")


register(
    Rule(
        "labels_constant",
        "all labels of the run are of one class",
        _begin,
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("examples", 200, "number of labels required", low=2),
            count("num_steps", 10, "number of steps required", unit="steps", low=1),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=takes_two_forward,
    )
)
