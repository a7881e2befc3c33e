"""Births as hits: how a check reports NaN and Inf, by what they reached.

Invariant: the recording is only read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Final, NamedTuple

from nodescope.debug.watch.births import Birth, births
from nodescope.debug.watch.measures import nonfinite
from nodescope.debug.watch.observation import MissingData, ObservedContent, Sight
from nodescope.debug.watch.offline import RecordedContent
from nodescope.debug.watch.watch import Hit
from nodescope.record.recording import Recording

RULE: Final = "operator_overflow"
_MOST_TOLD: Final = 100
_MOST_NAMED: Final = 3


class NodeBirths(NamedTuple):
    """The harmful births of one node, or the harmless ones.

    Attributes:
        first: The first birth.
        times, last_step: The number of births, and the step of the last one.
    """

    first: Birth
    times: int
    last_step: int


class BirthHits(NamedTuple):
    """The births of a run, by what they reached.

    Attributes:
        harmful: Births that reached something, by node; those that reached a weight or a loss come
            first, in that order.
        harmless: Births whose NaN or Inf was removed again, or not applied.
    """

    harmful: tuple[NodeBirths, ...]
    harmless: tuple[NodeBirths, ...]

    @property
    def first(self) -> Birth | None:
        """The birth that reached a weight or a loss first; None if none did."""
        births = [item.first for item in self.harmful if item.first.reached != "result"]
        return births[0] if births else None

    def note(self) -> str:
        """A sentence about harmless births; ``""`` if there are none."""
        if not self.harmless:
            return ""
        names = ", ".join(item.first.node.name for item in self.harmless[:_MOST_NAMED])
        more = f" and {len(self.harmless) - _MOST_NAMED} more" * (len(self.harmless) > _MOST_NAMED)
        return f"NaN or Inf of {names}{more} reached no weight, loss or result: not counted"


def birth_hits(recording: Recording) -> BirthHits:
    """The births of a run by node. Raises `RecordingError` if the recording is damaged."""
    all_births = births(recording)
    harmful = _by_node(all_births, lambda birth: birth.reached != "")
    harmful.sort(key=lambda item: (item.first.reached == "result", item.first.reached_seq))
    harmless = _by_node(all_births, lambda birth: birth.reached == "")
    harmful_nodes = {item.first.node.id for item in harmful}
    return BirthHits(
        tuple(harmful), tuple(item for item in harmless if item.first.node.id not in harmful_nodes)
    )


def birth_hit(recording: Recording, birth: Birth, watch: int) -> Hit:
    """A birth as a hit of the watch ``watch``."""
    node = birth.node
    actual: dict[str, float | int | bool | str] = {}
    text, port = f"{node.op} produces NaN or Inf", 0
    for place, value in enumerate(node.outputs):
        content = RecordedContent(recording, value, birth.seq, exact=True)
        sight = Sight(node, value, place, birth.step, birth.seq, content)
        try:
            finding = nonfinite(sight, before=f"{node.op} produces ")
        except MissingData:
            continue
        if finding is not None:
            text, port, actual = finding.text, place, dict(finding.actual)
            break
    ranges = list(map(_range, _inputs(recording, birth)))
    if ranges and all(ranges):
        text += f", from finite inputs in {' and '.join(ranges)}"
    source = node.source
    location = f" ({PurePath(source.file).name}:{source.line})" if source is not None else ""
    name = f"{node.name}{f':{port}' if port else ''}"
    return Hit(
        RULE, watch, node.id, node.name, node.outputs[port], port, birth.step, birth.seq, {},
        actual, f"{RULE}: {name} in step {birth.step}{location}: {text}",
    )  # fmt: skip


def _by_node(all_births: list[Birth], chosen: Callable[[Birth], bool]) -> list[NodeBirths]:
    nodes: dict[int, NodeBirths] = {}
    for birth in filter(chosen, all_births):
        known = nodes.get(birth.node.id)
        first = known.first if known is not None else birth
        times = known.times + 1 if known is not None else 1
        nodes[birth.node.id] = NodeBirths(first, times, birth.step)
    return list(nodes.values())[:_MOST_TOLD]


def _inputs(recording: Recording, birth: Birth) -> list[ObservedContent]:
    return [
        ObservedContent(RecordedContent(recording, value, birth.seq)) for value in birth.node.inputs
    ]


def _range(content: ObservedContent) -> str:
    """``[-1, 2]``; ``""`` if an element is not finite, or the range is unknown."""
    try:
        summary = content.summary
    except MissingData:
        return ""
    if summary.nan_count or summary.inf_count or summary.min is None or summary.max is None:
        return ""
    return f"[{summary.min:.6g}, {summary.max:.6g}]"
