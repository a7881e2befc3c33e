"""A table of PyTorch's operators: which are recorded, and give the same result when rerun.

    python -m tests.torch.op_table [--per-op 2] [--every 1] [--step] [--names]

Each sample of PyTorch's own database is recorded, forward and backward, or stepped by a debugger
node by node. Then each recorded node is rerun on its recorded operands, and compared bit for bit.
NODESCOPE_TORCH_TAP=python or native chooses the tap.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nodescope.api import Run
from nodescope.debug.replay import Replay
from nodescope.debug.replay.arrays import difference
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.errors import ReplayError
from nodescope.protocol import StepNode
from nodescope.record.recording import Recording
from tests.adapters.driving import WAIT_S, Debugged, debugged
from tests.torch.op_samples import OpSample, samples

DTYPES = (torch.float32, torch.int64, torch.bfloat16)


class Outcome(NamedTuple):
    """The outcome for one recorded node.

    Attributes:
        sample: The sampled function that it is part of.
        native: The node's operator.
        kind: ``equal``; ``different``; ``refused``, with the reason; ``raised``, with what PyTorch
            said; or ``unseen``: its operands are not recorded.
        text: See ``kind``.
    """

    sample: str
    native: str
    kind: str
    text: str = ""


class Table(NamedTuple):
    """The outcomes of all samples.

    Attributes:
        samples: The number of samples that ran.
        failed: Those that raised without a recording.
        outcomes: One per executed node.
        passed: The nodes at which the debugger should have stopped, but did not.
        stopped: The number of nodes at which it stopped.
    """

    samples: int
    failed: list[str]
    outcomes: list[Outcome]
    passed: list[str]
    stopped: int

    def counts(self) -> Counter[str]:
        """The number of nodes by outcome."""
        return Counter(outcome.kind for outcome in self.outcomes)

    def operators(self, kind: str) -> Counter[str]:
        """The operators with an outcome."""
        return Counter(outcome.native for outcome in self.outcomes if outcome.kind == kind)


def table(given: Iterable[OpSample], batch: int = 60, step: bool = False) -> Table:
    """Record samples, run each node again, and compare.

    Args:
        given: The samples.
        batch: How many of them are recorded in one file.
        step: Whether a debugger stops at each node meanwhile.
    """
    result = Table(0, [], [], [], 0)
    waiting = list(given)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(waiting), batch):
            path = Path(folder) / f"{start}.nscope"
            ran: list[tuple[str, int]] = []
            failed: list[str] = []
            part = waiting[start : start + batch]
            stops: set[int] = set()
            if step:
                begun: list[Debugged] = []
                ready = threading.Event()

                def program(begun: Any = begun, ready: Any = ready, part: Any = part,
                            ran: Any = ran, failed: Any = failed) -> None:  # fmt: skip
                    assert ready.wait(WAIT_S)
                    _run(part, begun[0].run, ran, failed)

                with debugged(path, program, stop_on_entry=True, **_OPTIONS) as stepped:
                    begun.append(stepped)
                    ready.set()
                    while (stop := stepped.stop()) is not None:
                        if stop.when != "before":
                            stops.add(stop.seq)
                        stepped.controller.command(StepNode())
            else:
                run = Run(path, **_OPTIONS)
                run.start()
                try:
                    _run(part, run, ran, failed)
                finally:
                    run.finish()
            with Recording.open(path) as recording:
                outcomes = _outcomes(recording, ran)
                nodes = {row.node.id: row.node for row in recording.nodes()}
                passed = [
                    nodes[row.node].name
                    for row in recording.executions()
                    if step and row.seq not in stops and not nodes[row.node].is_leaf
                ]
            path.unlink()
            result = Table(
                result.samples + len(part), result.failed + failed, result.outcomes + outcomes,
                result.passed + passed, result.stopped + len(stops),
            )  # fmt: skip
    return result


_OPTIONS: dict[str, Any] = {"level": "values", "budget_bytes": 1 << 30}


def _run(
    given: Iterable[OpSample], run: Run, ran: list[tuple[str, int]], failed: list[str]
) -> None:
    for sample in given:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sample.run()
        except Exception:  # The sample needs something that is missing here.
            failed.append(sample.name)
        ran.append((sample.name, run.recorder.last_seq))


def _outcomes(recording: Recording, ran: list[tuple[str, int]]) -> list[Outcome]:
    replay = Replay(recording)
    outcomes = []
    names = iter(ran)
    name, last = next(names)
    for execution in replay.recording.executions(0, replay.last):
        while execution.seq > last:
            name, last = next(names, ("", replay.last + 1))
        node = replay.book.node(execution.node, execution.seq)
        if node.is_leaf or not node.outputs or node.op == "item":
            continue
        replay._ran = 0
        try:
            call = replay.book.call(execution)
            if call.refusal:
                outcomes.append(Outcome(name, node.native, "refused", call.refusal))
                continue
            arrays = [replay.recorded(source) for source in replay.sources(execution)]
            if any(array is None for array in arrays):
                outcomes.append(Outcome(name, node.native, "unseen"))
                continue
            results = replay.run(execution, [array for array in arrays if array is not None])
        except ReplayError as error:
            outcomes.append(Outcome(name, node.native, "raised", error.message))
            continue
        kind, text = "equal", ""
        for value, computed in zip(node.outputs, results, strict=False):
            recorded = replay.recorded(ValueSource(value, execution))
            gap = (
                difference(recorded, computed, node.name, value, execution.seq)
                if recorded is not None
                else None
            )
            if gap is not None:
                kind, text = "different", str(gap)
        outcomes.append(Outcome(name, node.native or node.op, kind, text))
    return outcomes


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-op", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every n-th operator")
    parser.add_argument("--step", action="store_true", help="stop at each node")
    parser.add_argument("--names", action="store_true", help="list what was not equal")
    options = parser.parse_args()
    result = table(samples(DTYPES, options.per_op, (0, options.every)), step=options.step)
    counts = result.counts()
    print(f"{result.samples:,} samples, {len(result.failed):,} raised by themselves")
    operators = {outcome.native for outcome in result.outcomes}
    print(f"{len(result.outcomes):,} recorded nodes of {len(operators):,} operators")
    if options.step:
        print(f"  {'stepped':10}{result.stopped:7,} nodes, {len(result.passed)} passed by")
    for kind in ("equal", "refused", "raised", "different", "unseen"):
        print(f"  {kind:10}{counts[kind]:7,} nodes, {len(result.operators(kind)):4} operators")
    reasons = Counter(
        (outcome.kind, outcome.text.split(": ")[-1] if outcome.kind == "raised" else outcome.text)
        for outcome in result.outcomes
        if outcome.kind in ("refused", "raised")
    )
    for (kind, reason), count in reasons.most_common(25):
        print(f"  {count:6,} {kind}: {reason[:100]}")
    if options.names:
        for outcome in dict.fromkeys(o for o in result.outcomes if o.kind not in ("equal",)):
            if outcome.kind != "refused":
                print(f"{outcome.kind} {outcome.sample}: {outcome.native}: {outcome.text[:160]}")


if __name__ == "__main__":
    main()
