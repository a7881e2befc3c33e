"""Accounts: what recording each node costs, and what was left out of it.

Invariant: every execution is counted once, at the level at which it was recorded or left out. The
recorder changes an account under its lock.
"""

from __future__ import annotations

from typing import Any, Final

from nodescope.events import Level
from nodescope.record.governor.decisions import EVERY, Load, Rung, ladder
from nodescope.record.rows import LeftOut

RECORD_BYTES: Final = 320
"""The weight of an execution in the recorder's queue."""

_ARRAY_BYTES: Final = 160
_WITH_VALUES: Final = ("values", "summary")


class Account:
    """Cost and omissions of one node, or of the nodes that have run only once."""

    __slots__ = (
        "by_hand", "every", "key", "left_out", "level", "n", "name", "nbytes", "node", "outputs",
        "per_run", "rung", "rungs", "runs", "seen", "shared", "skipped", "spent_ns", "tracing_ns",
    )  # fmt: skip

    def __init__(
        self, node: int, name: str, ceiling: Level, *, outputs: int, rung: int, by_hand: bool,
        tracing_ns: float = 0.0,
    ) -> None:  # fmt: skip
        self.node, self.name, self.by_hand = node, name, by_hand
        self.key: Any = node
        self.tracing_ns = tracing_ns  # of one execution, by the price list
        self.shared = False
        self.rungs = ladder(ceiling)
        # Since the run began, by rung: executions and their outputs.
        self.runs = [0] * len(self.rungs)
        self.outputs = [0] * len(self.rungs)
        self.left_out = 0
        self.skipped = 0  # of these, since the last row
        self.per_run = outputs
        self.rung = rung
        self.n = self.seen = 0  # executions on this rung; those of earlier windows
        # In this window.
        self.nbytes = self.spent_ns = 0
        self.place(rung)

    def place(self, rung: int) -> None:
        """Move to a rung."""
        self.runs[self.rung] += self.n
        self.outputs[self.rung] += self.n * self.per_run
        self.n = self.seen = 0
        name = self.rungs[rung]
        self.rung = rung
        self.every = 0 if name == "counted" else EVERY if name == "thinned" else 1
        self.level: Level = "timing" if name == "counted" or name == "thinned" else name

    @property
    def ceiling(self) -> Level:
        """The requested level."""
        top = self.rungs[0]
        assert top != "thinned"
        assert top != "counted"
        return top

    def load(self, *, whole: bool = False) -> Load:
        """The window that ends here; another one begins. ``whole``: no execution is left out."""
        runs = self.n - self.seen
        rungs = self.rungs
        if whole:
            rungs = rungs[: self.least_whole() + 1]
        load = Load(
            self.key, self.name, rungs, self.rung, runs, runs * self.per_run, self.nbytes,
            self.spent_ns, self.by_hand,
        )  # fmt: skip
        self.seen = self.n
        self.nbytes = self.spent_ns = 0
        return load

    def least_whole(self) -> int:
        """The lowest rung on which each execution is recorded."""
        return sum(rung not in ("thinned", "counted") for rung in self.rungs) - 1

    def missing(self) -> LeftOut:
        """The omissions so far."""
        runs, outputs = list(self.runs), list(self.outputs)
        runs[self.rung] += self.n
        outputs[self.rung] += self.n * self.per_run
        below = outputs[1:]
        top: Rung = self.rungs[0]
        return LeftOut(
            node=self.node,
            name=self.name,
            level=top,
            now=self.rungs[self.rung],
            runs=sum(runs),
            executions=self.left_out,
            summaries=sum(below[1 if top == "values" else 0 :]) if top in _WITH_VALUES else 0,
            arrays=sum(below) if top == "values" else 0,
        )


def weight(load: Load) -> int:
    """Approximate weight of the executions in the queue."""
    rung = load.rungs[load.rung]
    if rung == "counted":
        return 0
    if rung == "thinned":
        return RECORD_BYTES * load.runs // EVERY
    if rung == "timing" or rung == "graph":
        return RECORD_BYTES * load.runs
    return RECORD_BYTES * load.runs + _ARRAY_BYTES * load.outputs + load.nbytes
