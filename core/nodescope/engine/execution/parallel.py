"""Parallel: runs ready nodes at the same time, where the cost model says that it pays.

Calls are joined into tasks (chains, and calls too short to be handed over), and the schedule of the
tasks is simulated. If it is clearly shorter, threads are tried, and kept if they are really faster:
the machine may be busy, and the model wrong (`Trial`).

Invariant: results are bit-equal to those of running the calls in order: each call is the same impl
on the same arrays, and calls that touch the same variable stay in order.
"""

from __future__ import annotations

import contextvars
import heapq
import itertools
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nodescope.engine.execution.cost import alone, nanoseconds
from nodescope.engine.execution.executor import Effects, run_call
from nodescope.ops.calls import Scalar
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan

HANDOVER_NS = 60_000.0
"""Cost of waking another thread, and of being woken by it."""
SHORTEST_NS = 150_000.0
"""Tasks shorter than this are joined with a predecessor or successor."""
GAIN = 0.8
"""Threads are tried if the schedule takes at most this fraction of the time in order."""

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def cores() -> int:
    """The number of threads that may compute."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


class Schedule:
    """A plan's calls as tasks.

    Args:
        plan: The plan to run.
        chains: Positions of calls that must stay in order for reasons other than values, such as
            reads and updates of one variable.

    Attributes:
        tasks: Positions of the calls of each task, in order.
        pays: Whether threads are worth trying.
        in_order_ns, side_by_side_ns: The estimates.
    """

    def __init__(self, plan: Plan, chains: Sequence[Sequence[int]] = ()) -> None:
        self.plan = plan
        before = dependencies(plan, chains)
        specs = {value.id: value.tensor for value in plan.graph.values}
        costs = [nanoseconds(call, specs) for call in plan.calls]
        exclusive = [alone(call) for call in plan.calls]
        self.tasks, owner = _joined(before, costs, exclusive)
        self.before = [
            {owner[predecessor] for i in task for predecessor in before[i]} - {number}
            for number, task in enumerate(self.tasks)
        ]
        self.after: list[list[int]] = [[] for _ in self.tasks]
        for number, needs in enumerate(self.before):
            for need in needs:
                self.after[need].append(number)
        self.costs = [sum(costs[i] for i in task) for task in self.tasks]
        self.alone = [any(exclusive[i] for i in task) for task in self.tasks]
        self.in_order_ns = sum(costs)
        self.side_by_side_ns = self._simulated(min(cores(), 4))
        self.pays = self.side_by_side_ns <= GAIN * self.in_order_ns
        self.uses: dict[int, int] = {}
        for call in plan.calls:
            for value in {argument for argument in call.args if isinstance(argument, int)}:
                self.uses[value] = self.uses.get(value, 0) + 1

    def _simulated(self, workers: int) -> float:
        """The simulated duration of the tasks on a number of threads."""
        if workers < 2:
            return float("inf")
        waiting = [len(predecessors) for predecessors in self.before]
        ready = [i for i, count in enumerate(waiting) if not count]
        running: list[tuple[float, int]] = []
        now = 0.0
        while ready or running:
            while ready and len(running) < workers:
                if running and any(self.alone[t] for _, t in running):
                    break
                if running and self.alone[ready[0]]:
                    break
                task = heapq.heappop(ready)
                heapq.heappush(running, (now + self.costs[task] + HANDOVER_NS, task))
            now, done = heapq.heappop(running)
            for successor in self.after[done]:
                waiting[successor] -= 1
                if not waiting[successor]:
                    heapq.heappush(ready, successor)
        return now

    def run(self, feeds: Sequence[Array], effects: Effects) -> list[Array]:
        """Run the tasks on threads; return the plan's outputs.

        Raises:
            A node's exception, with its name; of several, the first in order. Tasks that have not
            begun by then do not run.
        """
        run = _Run(self, feeds, effects)
        pool = _threads()
        for _ in range(min(cores(), len(self.tasks)) - 1):
            pool.submit(contextvars.copy_context().run, run.work)  # keeps np.errstate
        run.work()
        return run.result()


class Trial:
    """The decision whether a program uses threads: both ways are tried in turn, then the faster is
    kept.

    Args:
        schedule: The program's schedule.
    """

    ROUNDS = 3

    def __init__(self, schedule: Schedule) -> None:
        self._decided = None if schedule.pays else False
        self._took: dict[bool, list[int]] = {True: [], False: []}

    def threads(self) -> bool:
        """Whether the next run is to use threads."""
        if self._decided is not None:
            return self._decided
        return len(self._took[True]) <= len(self._took[False])

    def took(self, threads: bool, nanoseconds: int) -> None:
        """Note the duration of a run."""
        if self._decided is not None:
            return
        self._took[threads].append(nanoseconds)
        shared, other = self._took[True], self._took[False]
        if min(len(shared), len(other)) >= self.ROUNDS:
            # The fastest of each: other load on the machine only makes runs slower.
            self._decided = min(shared) < 0.95 * min(other)


def dependencies(plan: Plan, chains: Sequence[Sequence[int]] = ()) -> list[set[int]]:
    """For each call, the positions of the calls that it must run after."""
    position = {call.node.id: i for i, call in enumerate(plan.calls)}
    maker = {value: i for i, call in enumerate(plan.calls) for value in call.node.outputs}
    fed = set(plan.fed)
    # Users of a leaf wait for everything that the leaf waits for.
    through: dict[int, set[int]] = {}
    for node in plan.nodes:
        waits: set[int] = set()
        for control in node.control_inputs:
            waits |= {position[control]} if control in position else through.get(control, set())
        through[node.id] = waits
    needs_of = []
    for call in plan.calls:
        needs = set(through[call.node.id])
        for value in call.args:
            if isinstance(value, Scalar) or value in fed:
                continue
            if value in maker:
                needs.add(maker[value])
            else:
                leaf = plan.producer(value)
                needs |= through.get(leaf.id, set()) if leaf is not None else set()
        needs_of.append(needs)
    for chain in chains:
        for earlier, other in itertools.pairwise(chain):
            needs_of[other].add(earlier)
    return needs_of


def _joined(
    before: list[set[int]], costs: list[float], exclusive: list[bool]
) -> tuple[list[list[int]], list[int]]:
    """Calls as tasks: a call that waits for a single task joins it, to continue a chain or if it is
    short.
    """
    tasks: list[list[int]] = []
    owner: list[int] = []
    cost: list[float] = []
    users = [0] * len(before)
    for needs in before:
        for need in needs:
            users[need] += 1
    for i, needs in enumerate(before):
        target = max((owner[need] for need in needs), default=None)
        if target is not None:
            last = tasks[target][-1]
            chain = last in needs and users[last] == 1
            short = costs[i] < SHORTEST_NS / 4
            # Without dependencies from elsewhere, no cycle of tasks can arise.
            inside = all(owner[need] == target for need in needs)
            if inside and (chain or short) and exclusive[i] == exclusive[last]:
                tasks[target].append(i)
                owner.append(target)
                cost[target] += costs[i]
                continue
        tasks.append([i])
        owner.append(len(tasks) - 1)
        cost.append(costs[i])
    return tasks, owner


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(cores() - 1, 1), thread_name_prefix="nodescope run")
        return _pool


class _Run:
    """One execution of a schedule, shared by several threads."""

    def __init__(self, schedule: Schedule, feeds: Sequence[Array], effects: Effects) -> None:
        self.schedule = schedule
        self.effects = effects
        plan = schedule.plan
        self.values: dict[int, Any] = dict(plan.constants)
        self.values.update(zip(plan.fed, feeds, strict=True))
        self.fed = set(plan.fed)
        self.keep = {*plan.outputs, *plan.constants, *plan.fed}
        self.uses = dict(schedule.uses)
        self.waiting = [len(predecessors) for predecessors in schedule.before]
        self.ready = [i for i, count in enumerate(self.waiting) if not count]
        self.left = len(schedule.tasks)
        self.running = 0
        self.busy_alone = False
        self.errors: dict[int, BaseException] = {}
        self.changed = threading.Condition()

    def work(self) -> None:
        """Run tasks until there are no more. Called by every thread of the run."""
        while (task := self._next()) is not None:
            try:
                self._calls(self.schedule.tasks[task])
            except BaseException as error:
                self._done(task, error)
            else:
                self._done(task, None)

    def _next(self) -> int | None:
        with self.changed:
            while True:
                if self.errors or not self.left:
                    return None
                if self.ready and not self.busy_alone:
                    wants = self.schedule.alone[self.ready[0]]
                    if not (wants and self.running):
                        self.running += 1
                        self.busy_alone = wants
                        return heapq.heappop(self.ready)
                self.changed.wait()

    def _calls(self, positions: Sequence[int]) -> None:
        calls, values = self.schedule.plan.calls, self.values
        for position in positions:
            call = calls[position]
            args = [
                argument.value if isinstance(argument, Scalar) else values.get(argument)
                for argument in call.args
            ]
            outputs = run_call(call, args, self.effects)
            del args
            for value, output in zip(call.node.outputs, outputs, strict=True):
                if value not in self.fed and (value in self.keep or self.uses.get(value)):
                    values[value] = output
            del outputs
            with self.changed:
                for value in {argument for argument in call.args if isinstance(argument, int)}:
                    self.uses[value] -= 1
                    if not self.uses[value] and value not in self.keep:
                        values.pop(value, None)

    def _done(self, task: int, error: BaseException | None) -> None:
        with self.changed:
            self.running -= 1
            self.left -= 1
            if self.schedule.alone[task]:
                self.busy_alone = False
            if error is not None:
                self.errors[task] = error
            else:
                for successor in self.schedule.after[task]:
                    self.waiting[successor] -= 1
                    if not self.waiting[successor]:
                        heapq.heappush(self.ready, successor)
            self.changed.notify_all()

    def result(self) -> list[Array]:
        """Wait until no thread runs tasks; return the outputs, or raise the first error."""
        with self.changed:
            self.changed.wait_for(lambda: not self.running)
        if self.errors:
            raise self.errors[min(self.errors)]
        return [self.values[value] for value in self.schedule.plan.outputs]
