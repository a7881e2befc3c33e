"""The runner: one call of a graph whose partitions are actors.

Segments are submitted in order, each with object references for the values that it receives: Ray
starts a segment once these are available, and values go from actor to actor. Only feeds and the
graph's outputs pass through this process.

Invariant: a call ends within the executor's time-out, with its results or with an error. State that
outlives a call exists only in this process, so that a call can be repeated.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nodescope.engine.codegen.backend import Kernel, took
from nodescope.engine.execution.elsewhere import Lane, Ran
from nodescope.engine.execution.placement import Placement
from nodescope.engine.execution.segments import Segment
from nodescope.engine.on_ray.options import RayOptions
from nodescope.engine.on_ray.pool import Member, Pool, ray_module
from nodescope.engine.on_ray.worker import How, Report
from nodescope.errors import WorkerError
from nodescope.ir.graph import Node
from nodescope.ir.provenance import MemoryReport
from nodescope.ops.op import Array
from nodescope.passes.pipeline import Lowered

_AGAIN: Final = "RayExecutor(restarts=1) runs the call again"
_graphs = itertools.count(1)


class _Submitted:
    """One segment of a running call."""

    def __init__(self, segment: Segment, member: Member, refs: Sequence[Any]) -> None:
        self.segment, self.member = segment, member
        self.report, *self.sent = refs


class RayRunner:
    """See `RemoteRunner`.

    Args:
        options: The executor's settings.
        pool: Its actors.
        lowered: The graph.
        placement, segments: Its partitions and segments.
        backend: The back end that runs each segment.
        name: The function's name.
    """

    source = ""
    memory: MemoryReport | None = None

    def __init__(
        self, options: RayOptions, pool: Pool, lowered: Lowered, placement: Placement,
        segments: Sequence[Segment], backend: str, name: str,
    ) -> None:  # fmt: skip
        self._options, self.placement, self.segments = options, placement, tuple(segments)
        self._pool, self._backend, self._name = pool, backend, name
        self._graph, self._arrays = lowered.graph, lowered.arrays
        self._number = next(_graphs)
        self._calls = itertools.count(1)
        self._by_id = {node.id: node for node in lowered.graph.nodes}
        self._place = {node.id: i for i, node in enumerate(lowered.graph.nodes)}
        self.kernels: Mapping[int, Kernel] = {
            node.id: self._kernel(node, len(node.outputs))
            for segment in self.segments
            for node in segment.nodes
        }
        self._at = {node: i for i, node in enumerate(
            n.id for n in lowered.graph.nodes if n.id in self.kernels)}  # fmt: skip
        weakref.finalize(self, _forgotten, self._pool, self._number)

    # As a runner

    def run(self, feeds: Sequence[Any]) -> list[Array]:
        """See `Runner.run`."""
        return self._again(lambda: self._call(list(feeds), "plain", None))

    def run_timed(self, feeds: Sequence[Any], stamps: Array) -> list[Array]:
        """See `Runner.run_timed`."""
        ran: list[Ran] = []
        outputs = self.run_reported(feeds, arrays=False, ran=ran)
        for item in ran:
            at = self._at[item.node]
            stamps[2 * at : 2 * at + 2] = item.start_ns, item.end_ns
        return outputs

    def run_reported(self, feeds: Sequence[Any], *, arrays: bool, ran: list[Ran]) -> list[Array]:
        """See `RemoteRunner.run_reported`."""
        how: How = "arrays" if arrays else "times"

        def call() -> list[Array]:
            ran.clear()
            return self._call(list(feeds), how, ran)

        try:
            return self._again(call)
        finally:
            ran.sort(key=lambda item: self._place[item.node])

    def lane_of(self, node: int) -> Lane:
        """See `RemoteRunner.lane_of`."""
        return self._member(self.placement.part_of[node]).lane

    # A call

    def _again(self, call: Callable[[], list[Array]]) -> list[Array]:
        """Run a call; if a worker fails, repeat it up to ``restarts`` times."""
        for left in range(self._options.restarts, -1, -1):
            try:
                return call()
            except WorkerError as error:
                if not left or not error.part:
                    raise
        raise AssertionError

    def _member(self, part: int) -> Member:
        """The actor of a partition, with its segments loaded."""
        member = self._pool.member(self.placement.parts[part])
        with member.lock:  # later callers submit after the load
            if self._number not in member.loaded:
                part_segments = {i: s for i, s in enumerate(self.segments) if s.part == part}
                member.actor.load.remote(self._number, part_segments, self._backend)
                member.loaded.add(self._number)
        return member

    def _call(self, feeds: list[Any], how: How, ran: list[Ran] | None) -> list[Array]:
        ray = ray_module()
        number = next(self._calls)
        values: dict[int, Any] = dict(zip(self._graph.inputs, feeds, strict=True))
        refs: dict[int, Any] = {}
        submitted: list[_Submitted] = []
        try:
            for i, segment in enumerate(self.segments):
                member = self._member(segment.part)
                given = [values[value] for value in segment.fed]
                given += [refs[value] for value in segment.received]
                method = member.actor.run.options(num_returns=1 + len(segment.sent))
                result = method.remote(self._number, number, i, how, *given)
                item = _Submitted(segment, member, result if isinstance(result, list) else [result])
                submitted.append(item)
                refs.update(zip(segment.sent, item.sent, strict=True))
            gathered = [value for value in dict.fromkeys(self._graph.outputs) if value in refs]
            waited = [*(item.report for item in submitted), *(refs[value] for value in gathered)]
            answers = ray.get(waited, timeout=self._options.timeout_s)
        except WorkerError:
            raise
        except Exception as error:
            raise self._explained(submitted, error, ran) from error
        if ran is not None:
            for item, report in zip(submitted, answers, strict=False):
                _report(item, report, ran)
        arrays = dict(zip(gathered, map(_own, answers[len(submitted) :]), strict=True))
        known = {**self._arrays, **values, **arrays}
        return [known[value] for value in self._graph.outputs]

    def _explained(
        self, submitted: Sequence[_Submitted], error: Exception, ran: list[Ran] | None
    ) -> Exception:
        """The error that a call raises: the program's own, or one that names the partition and its
        nodes.
        """
        ray = ray_module()
        reports = [item.report for item in submitted]
        late = isinstance(error, ray.exceptions.GetTimeoutError)
        ended = set()
        if reports:  # segments that need a dead worker fail at once, and the others end
            limit = 0 if late else self._options.timeout_s
            ended = set(ray.wait(reports, num_returns=len(reports), timeout=limit)[0])
        stuck: _Submitted | None = None
        first: Exception | None = None
        for item in submitted:
            if item.report not in ended:
                stuck = stuck or item
                continue
            try:
                report = ray.get(item.report, timeout=self._options.timeout_s)
            except ray.exceptions.RayTaskError as raised:
                cause = raised.cause
                own = isinstance(cause, Exception) and not isinstance(
                    cause, ray.exceptions.RayError
                )
                if own and stuck is None and first is None:
                    first = cause  # later segments fail because its values are missing
                elif first is None:
                    stuck = stuck or item
            except Exception:
                stuck = stuck or item
            else:
                if ran is not None:
                    _report(item, report, ran)
        if first is not None:
            return first
        if stuck is not None and late:
            for part in {item.member.part for item in submitted if item.report not in ended}:
                self._pool.lose(part)
            return self._error(
                stuck.member, stuck.segment.nodes,
                f"has not ended {_words(stuck.segment.nodes)} within {self._options.timeout_s:g} s",
                "timeout_s= of RayExecutor is the limit of a call",
            )  # fmt: skip
        if stuck is not None:
            return self._lost(stuck)
        return WorkerError(f"{self._name}: {type(error).__name__}: {error}")

    def _lost(self, item: _Submitted) -> WorkerError:
        self._pool.lose(item.member.part)
        nodes = item.segment.nodes
        return self._error(item.member, nodes, f"died while it ran {_words(nodes)}", _AGAIN)

    def _error(self, member: Member, nodes: Sequence[Node], what: str, hint: str) -> WorkerError:
        source = next((node.source for node in nodes if node.source is not None), None)
        place = member.place and f" on {member.place}"
        return WorkerError(
            f"{self._name}: {member.part} (pid {member.pid}{place}) {what}",
            source=str(source or ""), hint=hint, part=member.part,
            node=nodes[0].id if nodes else 0,
        )  # fmt: skip

    # Node by node

    def _kernel(self, node: Node, count: int) -> Kernel:
        part = self.placement.part_of[node.id]

        def kernel(*operands: Any) -> tuple[Array, ...]:
            ray = ray_module()
            member = self._member(part)
            method = member.actor.kernel.options(num_returns=1 + count)
            refs = method.remote(self._number, node.id, *operands)
            refs = refs if isinstance(refs, list) else [refs]
            try:
                times, *outputs = ray.get(refs, timeout=self._options.timeout_s)
            except ray.exceptions.RayTaskError as raised:
                cause = raised.cause
                if isinstance(cause, Exception):
                    raise cause from None
                raise
            except ray.exceptions.GetTimeoutError:
                self._pool.lose(member.part)
                what = f"has not ended {_words([node])} within {self._options.timeout_s:g} s"
                raise self._error(member, [node], what, "see timeout_s= of RayExecutor") from None
            except ray.exceptions.RayActorError:
                self._pool.lose(member.part)
                what = f"died while it ran {_words([node])}"
                raise self._error(member, [node], what, _AGAIN) from None
            took.span = _here(member, times)
            return tuple(map(_own, outputs))

        return kernel


def _report(item: _Submitted, report: Any, ran: list[Ran]) -> None:
    report = Report(*report)
    assert report.times is not None
    for i, node in enumerate(item.segment.nodes):
        start, end = _here(item.member, report.times[i])
        outputs = report.outputs[i] if report.outputs else ()
        ran.append(Ran(node.id, item.member.lane, start, end, outputs))


def _here(member: Member, times: Array) -> tuple[int, int]:
    """Times of a worker by this process's clock."""
    return int(times[0]) - member.offset_ns, int(times[1]) - member.offset_ns


def _own(array: Any) -> Array:
    """A copy of an array in this process's memory: arrays of the object store are read-only."""
    return np.array(array, order="K", copy=True)


def _words(nodes: Sequence[Node]) -> str:
    if len(nodes) == 1:
        return repr(nodes[0].name)
    return f"{len(nodes)} nodes from {nodes[0].name!r} to {nodes[-1].name!r}"


def _forgotten(pool: Pool, number: int) -> None:
    with contextlib.suppress(Exception):
        pool.forget(number)
