"""Replay: values of a recorded moment, read or recomputed.

An array that the recording lacks is recomputed from the nearest recorded values, by the `Rerun` of
its node's dialect, on arrays with the original memory layout. Python code between nodes is not
rerun: numbers that Python read from tensors, and decisions based on them, stay as they were.

Invariant: nothing is guessed. A value that cannot be recomputed raises `ReplayError`, which names
the missing data; recomputed values are marked. Work and memory are bounded.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from nodescope.debug.replay.arrays import relaid
from nodescope.debug.replay.branch import Branch, grow
from nodescope.debug.replay.dialects import RecordedCall
from nodescope.debug.replay.execution_index import ExecutionIndex, ValueSource
from nodescope.debug.replay.operand_sources import operand_sources
from nodescope.debug.replay.replay_view import ReplayedValue
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from nodescope.record.summary import whole

MOST_NODES = 200_000
"""The number of nodes that one request may rerun."""
MOST_BYTES = 1 << 30
"""The limit on the total size of recomputed arrays that are held."""


class Replay:
    """The values of one training step of a recording.

    Args:
        recording: The open recording, of a finished run or up to the current stop.
        step: The training step; if None, that of ``seq``, else the last one.
        seq: The moment within the step; its end if None.
        book: An existing index of the same recording; if None, a new one is built.
        patience_s: The time limit from now on; beyond it, every request raises `ReplayError`.

    Attributes:
        branches: By name, in order of creation.
        doubted: Seqs of executions whose known inputs do not reproduce their recorded outputs.

    Raises:
        ReplayError: The step is not in the recording.
    """

    def __init__(
        self,
        recording: Recording,
        step: int | None = None,
        *,
        seq: int | None = None,
        book: ExecutionIndex | None = None,
        patience_s: float = math.inf,
    ) -> None:
        self._patience_s = patience_s
        self._deadline = time.monotonic() + patience_s
        self.book = book or ExecutionIndex(recording)
        self.recording = recording
        if step is None:
            step = self.book.last_step() if seq is None else self.book.step_of(seq)
        self.step = step
        self.first, self.last = self.book.step_range(step)
        if seq is not None:
            self.last = min(self.last, seq)
        self.branches: dict[str, Branch] = {}
        self._made: OrderedDict[int, tuple[Array, ...]] = OrderedDict()
        self._bytes = 0
        self._ran = 0
        self._taken: dict[int, list[ValueSource]] = {}
        self.doubted: set[int] = set()

    # ------------------------------------------------------------ values

    def value(self, value: int, seq: int | None = None) -> ReplayedValue:
        """The array of a value at a moment; the replay's own moment if ``seq`` is None.

        Raises:
            ReplayError: It is not recorded and cannot be recomputed; the message says why.
        """
        moment = self.last if seq is None else seq
        source = self.book.source(value, moment + 1)
        if source is None:
            name = self.book.values.get(value, f"value {value}")
            raise ReplayError(f"{name} has not been computed yet at this point")
        return self.written(source)

    def written(self, source: ValueSource) -> ReplayedValue:
        """The array that an execution wrote. Raises `ReplayError` as `value` does."""
        self._in_time()
        recorded = self.recorded(source)
        if recorded is not None:
            return ReplayedValue(recorded, "recorded", source.seq)
        return ReplayedValue(self._computed(source), "recomputed", source.seq)

    def recorded(self, source: ValueSource) -> Array | None:
        """The recorded array in its original memory layout; None if it was not kept.

        Raises:
            ReplayError: The value was edited, and its new content was not kept.
        """
        seq = source.seq
        array = self.recording.array(source.value, seq)
        if array is None and source.edited:
            name = self.book.values.get(source.value, f"value {source.value}")
            raise ReplayError(f"{name} was changed by hand, and its new value was not kept")
        return None if array is None else relaid(array, self.recording.strides(source.value, seq))

    def inputs(self, execution: Execution) -> tuple[RecordedCall, list[Any]]:
        """An execution as a call of its op, and its operands.

        Raises:
            ReplayError: An operand is not available, or the call cannot be restored.
        """
        sources = self.sources(execution)
        call = self.book.call(execution)
        arrays = [self.written(source).array for source in sources]
        return call, list(call.operands(arrays)) if call.args else arrays

    def sources(self, execution: Execution) -> list[ValueSource]:
        """The sources of an execution's inputs; see `nodescope.debug.replay.operand_sources`.

        Raises:
            ReplayError: The recording has no execution that wrote an input.
        """
        sources = self._taken.get(execution.seq)
        if sources is None:
            sources = self._taken[execution.seq] = operand_sources(self, execution, self._again)
        return sources

    def _again(self, execution: Execution, arrays: Sequence[Array]) -> tuple[Array, ...]:
        self._in_time()
        return self.book.call(execution).run(arrays)

    def executions(self, after: int | None = None) -> list[Execution]:
        """The executions of the step up to the replay's moment, in order."""
        start = self.first - 1 if after is None else after
        executions = self.recording.executions(max(start, 0), self.last)
        return [execution for execution in executions if execution.step == self.step]

    # ------------------------------------------------------------ computing again

    def _computed(self, source: ValueSource) -> Array:
        self._ran = 0
        outputs = self._outputs(source.execution)
        node = self.book.node(source.execution.node, source.execution.seq)
        return outputs[node.outputs.index(source.value)]

    def _outputs(self, target: Execution) -> tuple[Array, ...]:
        """The outputs of an execution, rerun with everything that it needs, without recursion."""
        stack = [target]
        while stack:
            execution = stack[-1]
            if execution.seq in self._made:
                stack.pop()
                continue
            small = self._previewed(execution)
            if small:
                self._keep(execution.seq, small)
                stack.pop()
                continue
            if not self.book.node(execution.node, execution.seq).is_leaf:
                self.book.call(execution).check()  # before searching for its inputs
            waiting = []
            arrays: list[Array] = []
            for source in self._sources(execution):
                array = self.recorded(source)
                if array is None:
                    computed = self._made.get(source.execution.seq)
                    if computed is None:
                        waiting.append(source.execution)
                        continue
                    writer = self.book.node(source.execution.node, source.execution.seq)
                    array = computed[writer.outputs.index(source.value)]
                arrays.append(array)
            if waiting:
                stack.extend(reversed(waiting))
                continue
            self._keep(execution.seq, self.run(execution, arrays))
            stack.pop()
        return self._made[target.seq]

    def _previewed(self, execution: Execution) -> tuple[Array, ...]:
        """A leaf's values if their statistics contain all elements; else ``()``."""
        node = self.book.node(execution.node, execution.seq)
        if not node.is_leaf or node.inputs:
            return ()
        arrays = []
        for value in node.outputs:
            recorded = self.recording.latest_at(value, execution.seq)
            array = whole(recorded.summary) if recorded and recorded.seq == execution.seq else None
            if array is None:
                return ()
            arrays.append(array)
        return tuple(arrays)

    def _sources(self, execution: Execution) -> list[ValueSource]:
        sources = self.sources(execution)
        node = self.book.node(execution.node, execution.seq)
        if not sources and node.is_leaf:
            when = f"in step {execution.step}" if execution.step else "before the first step"
            raise ReplayError(
                f"{node.name} (a {node.op}) is an input here, but its elements {when} were not "
                "kept",
                hint="run with --level values, raise --budget, or name this node with --select",
            )
        for source in sources:
            # Inputs and constants are read once. Any other producer may have run again in a step
            # that was not recorded.
            data = self.book.made_by(source.value)
            stays = data.role in ("input", "constant")
            if not stays and self.book.lost(source, execution.seq):
                name = self.book.values.get(source.value, f"value {source.value}")
                raise ReplayError(
                    f"{node.name}: the value of {name} at that time is unknown; some earlier "
                    "executions were not recorded"
                )
        return sources

    def run(self, execution: Execution, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run an execution's op on arrays, one for each input that is a value.

        Raises:
            ReplayError: The op raised, or a limit on nodes or time was reached.
        """
        node = self.book.node(execution.node, execution.seq)
        if node.is_leaf and len(arrays) == 1:
            return (arrays[0],)
        self._in_time()
        self._ran += 1
        if self._ran > MOST_NODES:
            raise ReplayError(
                f"more than {MOST_NODES:,} nodes would have to be rerun",
                hint="run with --level values, so that more values are recorded",
            )
        return self.book.call(execution).run(arrays)

    def _in_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise ReplayError(
                f"gave up after {self._patience_s:g} s",
                hint="ask for an earlier value, or run with --level values",
            )

    def _keep(self, seq: int, outputs: tuple[Array, ...]) -> None:
        self._made[seq] = outputs
        self._bytes += sum(array.nbytes for array in outputs)
        if self._bytes > MOST_BYTES:
            raise ReplayError(
                f"the recomputed values take more than {MOST_BYTES >> 20} MiB",
                hint="ask for an earlier value, or run with --level values",
            )

    def forget(self) -> None:
        """Release recomputed arrays; branches are kept."""
        self._made.clear()
        self._bytes = 0

    # ------------------------------------------------------------ what if

    def what_if(
        self,
        edits: Mapping[int, Any],
        *,
        name: str | None = None,
        until: int | None = None,
        parent: str | None = None,
    ) -> Branch:
        """Replace values, and rerun everything that depends on them.

        This includes forward, backward and optimizer nodes. Python code is not rerun: numbers that
        it read from tensors, and its decisions, stay as they were.

        Args:
            edits: New arrays by value id, each with the value's shape and a convertible dtype.
            name: The branch's name; ``branch 1`` and so on if None.
            until: The last seq to rerun; the end of the replay if None. In later steps, a parameter
                holds what the branch assigned to it.
            parent: The name of the branch to start from; the recording if None.

        Raises:
            ReplayError: ``name`` is taken, ``parent`` is unknown, or an edit does not fit.
        """
        label = name if name is not None else self._free_name()
        if label in self.branches:
            raise ReplayError(
                f"a branch named {label!r} already exists", hint="choose another name"
            )
        if parent is not None and parent not in self.branches:
            raise ReplayError(
                f"no branch named {parent!r}", hint=f"one of {', '.join(self.branches)}"
            )
        base = self.branches[parent] if parent is not None else None
        self._ran = 0
        branch = grow(self, label, edits, self.last if until is None else until, base)
        self.branches[label] = branch
        return branch

    def drop(self, name: str) -> None:
        """Delete a branch and all branches that start from it. Raises `ReplayError`."""
        if name not in self.branches:
            raise ReplayError(f"no branch named {name!r}")
        dropped = {name}
        for branch in self.branches.values():  # parents come before their children
            if branch.parent in dropped:
                dropped.add(branch.name)
        for branch_name in dropped:
            del self.branches[branch_name]

    def _free_name(self) -> str:
        count = len(self.branches) + 1
        while f"branch {count}" in self.branches:
            count += 1
        return f"branch {count}"
