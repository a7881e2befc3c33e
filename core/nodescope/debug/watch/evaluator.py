"""Evaluator: which watch applies to which value, and what it finds; the same live and recorded.

It receives nodes, gradients and executions, in the order of the run. A value whose role in the
program becomes known only later in its first step (a gradient before `GradientComputed`, a loss
before its backward pass) waits, with its statistics, until then or until the step ends.

Invariant: an error in a rule disables its watch and nothing else. Data held from earlier moments
stays within `hold_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from nodescope.debug.watch.graph_studies import Studies, study
from nodescope.debug.watch.hits import hit_of
from nodescope.debug.watch.observation import (
    ContentSource,
    Excused,
    Inapplicable,
    MissingData,
    NotYet,
    ObservedContent,
    Sight,
    Target,
)
from nodescope.debug.watch.outcome import WatchOutcome
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Look, Need, Rule, WatchError
from nodescope.debug.watch.watch import Hit, Selection, Watch, checked, describe, selection
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node, Value
from nodescope.ops.traits import traits_of

HOLD_BYTES: Final = 256 << 20
_MAX_WAITING: Final = 10_000


class _Entry:
    """A watch with its state."""

    __slots__ = ("about", "active", "chosen", "gradients", "judged", "look", "outcome", "rule",
                 "settings", "streaks", "studies", "values")  # fmt: skip

    def __init__(self, watch: Watch, rule: Rule) -> None:
        self.rule = rule
        self.outcome = WatchOutcome(watch)
        self.active = watch.enabled  # until it fails
        self.settings = rule.settings(watch.params)
        self.look: Look = rule.begin(self.settings)
        self.studies = Studies(rule.study(self.settings)) if rule.study is not None else None
        self.chosen: Selection = selection(watch.select)
        named = rule.selects(self.settings) if rule.selects is not None else ()
        self.about: tuple[Selection, ...] = tuple(map(selection, named))
        self.gradients = bool({"gradients", "weight_gradients"} & set(rule.applies))
        self.streaks: dict[int, int] = {}
        self.values: set[int] = set()
        self.judged: set[int] = set()

    def decided(self, value: int) -> None:
        """Note a verdict on a value."""
        self.outcome.judged += 1
        self.judged.add(value)
        self.forgive(value)

    def forgive(self, value: int) -> None:
        """Withdraw the reasons for which a value was not judged before, or was excused."""
        self.outcome.early.pop(value, None)
        self.outcome.excused.pop(value, None)

    def too_early(self, value: int, name: str, reason: str) -> None:
        """Note that a value was not seen often enough yet."""
        if value not in self.judged:
            self.outcome.early[value] = (name, reason)

    def covers(self, part: _Part, graph: ProgramGraph) -> bool:
        """Whether the watch applies to a value, as far as its roles are known."""
        node, rule, chosen = part.node, self.rule, self.chosen
        exact = chosen.exact and chosen.covers(node)
        if rule.ops and node.op not in rule.ops and not exact:
            return False
        if rule.concerns is not None and not (exact or rule.concerns(node, graph)):
            return False
        if not self.outcome.watch.select and any(selected.covers(node) for selected in self.about):
            return True
        # A gradient is also selected by the name of the value that it belongs to.
        named = chosen.covers(node) or (
            self.gradients and any(chosen.covers(owner) for owner in part.owners)
        )
        if not named:
            return False
        if not part.roles.isdisjoint(rule.applies):
            return True
        return chosen.exact and (not self.gradients or "gradients" in part.roles)

    def may_cover(self, node: Node, roles: frozenset[Target]) -> bool:
        """Whether the watch would apply to a value that turns out to have one of these roles."""
        named = self.chosen.exact and self.gradients and "gradients" in roles
        if roles.isdisjoint(self.rule.applies) and not named:
            return False
        return not self.rule.ops or node.op in self.rule.ops


class _Part:
    """A value, as far as it is known.

    Attributes:
        entries: The watches that apply to it.
        waits: Whether a role may become known later in the step. Until then, the value's statistics
            are held, and with ``waits_whole`` its array.
        whole, statistics: Whether its array or its statistics are held until the next step.
        held: Whether any of these are, for whatever reason.
        settled: Whether its first step is over, so that its roles are final.
    """

    __slots__ = (
        "entries", "held", "node", "owners", "port", "roles", "settled", "statistics", "value",
        "waits", "waits_whole", "whole",
    )  # fmt: skip

    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self.port = port
        self.value = node.outputs[port]
        self.roles: frozenset[Target] = frozenset()
        self.owners: tuple[Node, ...] = ()
        self.entries: tuple[_Entry, ...] = ()
        self.waits = self.waits_whole = self.whole = self.statistics = self.settled = False
        self.held = False

    @property
    def owner(self) -> str:
        return self.owners[-1].name if self.owners else ""


class WatchEvaluator:
    """Evaluates watches on executions. Not thread-safe by itself.

    Args:
        watches: The watches; those without an id get one.
        on_fault: Called with one line about a watch that was disabled.
        hold_bytes: Limit of copied values, which are held until the next step.

    Attributes:
        covered: Ids of the nodes that watches cover. Executions of others need not be reported.
        graph: The program's graph so far, for rules about it.

    Raises:
        WatchError: A watch is invalid.
    """

    def __init__(
        self,
        watches: Iterable[Watch],
        *,
        on_fault: Callable[[str], None] = lambda text: None,
        hold_bytes: int = HOLD_BYTES,
    ) -> None:
        self._on_fault = on_fault
        self._room = hold_bytes
        self._entries: list[_Entry] = []
        self._by_op: dict[str, list[_Entry]] = {}
        self._parts: dict[int, _Part] = {}
        self._pairs: dict[int, int] = {}  # by value: its gradient
        self._owned: dict[int, dict[int, None]] = {}  # by gradient: the values it belongs to
        self._losses: set[int] = set()  # values at which backward passes began
        self._wanted: set[int] = set()  # values whose gradients are held
        # By value: its latest sight, and the one of the previous step.
        self._last: dict[int, tuple[Sight, Sight | None]] = {}
        self._waiting: set[int] = set()
        self.graph = ProgramGraph()
        self._written: set[int] = set()  # values that nodes write to
        self.covered: set[int] = set()
        self.replace(watches)

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The watches, in order, with the ids that they have."""
        return tuple(entry.outcome.watch for entry in self._entries)

    @property
    def outcomes(self) -> tuple[WatchOutcome, ...]:
        """The results of each watch so far."""
        for entry in self._entries:
            entry.outcome.values = len(entry.values)
        return tuple(entry.outcome for entry in self._entries)

    def ongoing(self, watch: int) -> frozenset[int]:
        """The values that a watch, by its id, hit in its last evaluation."""
        return frozenset(
            value for entry in self._entries if entry.outcome.watch.id == watch
            for value in entry.streaks
        )  # fmt: skip

    def losses(self) -> tuple[Node, ...]:
        """The nodes that rules regard as losses; those where backward passes began come first."""
        parts = [part for part in self._parts.values() if "losses" in part.roles]
        began = self._losses
        parts.sort(key=lambda part: part.value not in began)
        return tuple({part.node.id: part.node for part in parts if part.port == 0}.values())

    def values_of(self, role: Target) -> frozenset[int]:
        """The values that have a role, as far as is known."""
        return frozenset(value for value, part in self._parts.items() if role in part.roles)

    @property
    def waits(self) -> bool:
        """Whether a watch may still apply to a value of this step."""
        return bool(self._waiting)

    def replace(self, watches: Iterable[Watch]) -> None:
        """Replace the whole set. An unchanged watch keeps its state.

        Raises:
            WatchError: One is invalid; nothing is changed.
        """
        current = {entry.outcome.watch.id: entry for entry in self._entries}
        pairs = [checked(candidate) for candidate in watches]
        free = max([0, *current, *(watch.id for watch, _ in pairs)]) + 1
        entries: dict[int, _Entry] = {}
        for watch, rule in pairs:
            if watch.id <= 0:
                watch = msgspec.structs.replace(watch, id=free)
                free += 1
            if watch.id in entries:
                raise WatchError(f"two watches have the id {watch.id}")
            previous = current.get(watch.id)
            unchanged = (
                previous is not None
                and previous.outcome.watch == watch
                and not previous.outcome.fault
            )
            entries[watch.id] = (
                previous if previous is not None and unchanged else _Entry(watch, rule)
            )
        self._entries = list(entries.values())
        self._by_op.clear()
        self._plan_all()

    def wants(self, node: Node) -> bool:
        """Whether a watch names this node or its kind; for kernels, which may cover it."""
        part = _Part(node, 0) if node.outputs else None
        roles = (_roles(part, loss=False) if part is not None else frozenset()) - {"values"}
        for entry in self._entries:
            if entry.active and (
                not entry.rule.ops or node.op in entry.rule.ops or entry.chosen.exact
            ):
                if entry.outcome.watch.select and entry.chosen.covers(node):
                    return True
                if any(selected.covers(node) for selected in entry.about):
                    return True
                if not entry.outcome.watch.select and not roles.isdisjoint(entry.rule.applies):
                    return True
        return False

    # ------------------------------------------------------------ the graph

    def knows(self, node: Node) -> bool:
        """Whether this node is defined."""
        return all(value in self._parts for value in node.outputs)

    def define(self, nodes: Iterable[Node], values: Iterable[Value] = ()) -> None:
        """Take in new nodes, or new definitions of known ones; and of their values."""
        self.graph.tell(values)
        for node in nodes:
            self.graph.define(node)
            self._written.update(node.inputs[port] for _, port in node.writes)
            for port, value in enumerate(node.outputs):
                part = self._parts.get(value)
                if part is None:
                    part = self._parts[value] = _Part(node, port)
                part.node = node
                self._plan(part)
            for value in self.graph.kept_by(node):
                if value in self._parts:
                    self._plan(self._parts[value])

    def paired(self, value: int, gradient: int) -> list[Hit]:
        """Note that ``gradient`` is the gradient of ``value`` from now on; return new hits."""
        before = self._pairs.get(value)
        if before == gradient:
            return []
        self._pairs[value] = gradient
        self._owned.setdefault(gradient, {})[value] = None
        if before is not None:
            self._owned[before].pop(value, None)
            if before in self._parts:
                self._plan(self._parts[before])
        part, of = self._parts.get(gradient), self._parts.get(value)
        if part is None:
            self.graph.paired(value, gradient, begins=False)
            return []
        hits = self._learned(part)
        # A backward pass begins with a gradient that is not computed from another one.
        seed = _is_seed(part.node)
        # Other values have the same gradient because an op, such as an addition, passed it on.
        begins = seed and of is not None and self._losses.isdisjoint(self._owned[gradient])
        self.graph.paired(value, gradient, begins=begins)
        if begins and of is not None:
            self._losses.add(value)
            hits += self._learned(of)
        return hits

    def _learned(self, part: _Part) -> list[Hit]:
        """After a value's roles changed, evaluate the newly applying watches on its held sight."""
        before = part.entries
        self._plan(part)
        if part.value not in self._waiting or part.value not in self._last:
            return []
        sight, earlier = self._last[part.value]
        fresh = tuple(entry for entry in part.entries if entry not in before)
        sight.roles, sight.owner, sight.before = part.roles, part.owner, earlier
        hits = self._ask(fresh, sight)
        sight.before = None
        return hits

    def _plan_all(self) -> None:
        self.covered.clear()
        self._wanted.clear()
        for entry in self._entries:
            entry.values.clear()
        for part in self._parts.values():
            self._plan(part)

    def _plan(self, part: _Part) -> None:
        """Determine the watches of a value, and how much of it is held."""
        node = part.node
        owned = self._owned.get(part.value, {})
        part.owners = tuple(self._parts[value].node for value in owned if value in self._parts)
        part.roles = _roles(part, loss=part.value in self._losses)
        active = self._active_for(node.op)
        part.entries = tuple(entry for entry in active if entry.covers(part, self.graph))
        needs: set[Need] = set()
        for entry in part.entries:
            entry.values.add(part.value)
            needs |= entry.rule.needs
        if "gradient" in needs and part.value not in self._wanted:
            self._wanted.add(part.value)
            gradient = self._parts.get(self._pairs.get(part.value, 0))
            if gradient is not None:
                self._plan(gradient)
        needs_gradient = not self._wanted.isdisjoint(owned)
        part.whole = needs_gradient or "previous_values" in needs
        part.statistics = "previous_summary" in needs
        later = _LATER.get("leaf" if node.is_leaf else node.phase, frozenset())
        later = frozenset() if part.settled else later - part.roles
        may = [entry for entry in active if later and entry.may_cover(node, later)]
        part.waits = bool(may)
        part.waits_whole = any("values" in entry.rule.needs for entry in may)
        part.held = part.whole or part.statistics or part.waits
        if part.entries or part.waits or needs_gradient:
            self.covered.add(node.id)

    def _active_for(self, op: str) -> list[_Entry]:
        """The watches whose rules take this op, or that name a node."""
        entries = self._by_op.get(op)
        if entries is None:
            entries = self._by_op[op] = [
                entry for entry in self._entries
                if not entry.rule.ops or op in entry.rule.ops or entry.chosen.exact
            ]  # fmt: skip
        return [entry for entry in entries if entry.active]

    # ------------------------------------------------------------ what runs

    def finished(
        self,
        node: Node,
        step: int,
        seq: int,
        time_ns: int,
        outputs: Callable[[int], ContentSource | None],
        inputs: Callable[[], tuple[ObservedContent, ...]],
        only: Collection[int] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """Evaluate the watches on a node that has run; return their hits.

        Args:
            outputs: Returns the source of the value at an output port.
            inputs: Returns the inputs of the node.
            only: Ids of the watches to evaluate; None for all.
            attrs: The attributes of this execution, if they differ from the node's.
        """
        hits: list[Hit] = []
        for port, value in enumerate(node.outputs):
            part = self._parts.get(value)
            if part is None or not (part.entries or part.held):
                continue
            before = None
            if part.held and (last := self._last.get(value)) is not None:
                # If the node runs again in a step, ``before`` remains that of the previous step.
                before = last[1] if last[0].step == step else last[0]
            sight = Sight(
                node,
                value,
                port,
                step,
                seq,
                outputs(port),
                roles=part.roles,
                time_ns=time_ns,
                owner=part.owner,
                inputs=inputs,
                before=before,
                gradient=self._gradient_of,
                written=value in self._written,
                graph=self.graph,
                attrs=attrs,
            )
            entries = part.entries
            if only is not None:
                entries = tuple([entry for entry in entries if entry.outcome.watch.id in only])
            if entries:
                hits += self._ask(entries, sight)
            if part.held:
                self._hold(part, sight, before)
            else:
                self._forget(value)
        return hits

    def step_finished(self) -> None:
        """End a training step: the roles of its values are final."""
        for value in self._waiting:
            part = self._parts[value]
            part.settled = True
            self._plan(part)
            if not part.held:
                self._forget(value)
            if not (part.entries or part.whole):
                outputs = [self._parts[output] for output in part.node.outputs]
                if not any(output.entries or output.held for output in outputs):
                    self.covered.discard(part.node.id)
        self._waiting.clear()

    @property
    def follows(self) -> bool:
        """Whether graph rules still need to know which nodes run, in `ProgramGraph.ran`."""
        return any(
            entry.studies and entry.studies.young and entry.active for entry in self._entries
        )

    def study(self, step: int, seq: int, *, over: bool = False) -> list[Hit]:
        """Evaluate the graph rules at the end of a step or of the run; return their hits."""
        hits = study(self._entries, self.graph, step, seq, over=over, fault=self._disable)
        self.graph.ran.clear()
        return hits

    def _gradient_of(self, value: int) -> ObservedContent | None:
        last = self._last.get(self._pairs.get(value, 0))
        return last[0] if last is not None else None

    def _hold(self, part: _Part, sight: Sight, before: Sight | None) -> None:
        """Keep the part of a sight that is needed later, and release the rest."""
        value = sight.value
        waits = part.waits and (value in self._waiting or len(self._waiting) < _MAX_WAITING)
        if waits:
            self._waiting.add(value)
        last = self._last.get(value)
        if last is not None:
            self._room += last[0].drop()
        keeps_whole = part.whole or (waits and (part.waits_whole or _broken(sight)))
        self._room -= sight.hold(
            whole=keeps_whole,
            statistics=part.statistics or waits,
            room=self._room,
        )
        self._last[value] = (sight, before)

    def _forget(self, value: int) -> None:
        last = self._last.pop(value, None)
        if last is not None:
            self._room += last[0].drop()

    # ------------------------------------------------------------ asking

    def _ask(self, entries: tuple[_Entry, ...], sight: Sight) -> list[Hit]:
        if not entries:
            return []
        with np.errstate(all="ignore"):
            return self._ask_each(entries, sight)

    def _ask_each(self, entries: tuple[_Entry, ...], sight: Sight) -> list[Hit]:
        hits: list[Hit] = []
        value = sight.value
        for entry in entries:
            if not entry.active:
                continue
            outcome = entry.outcome
            outcome.looked += 1
            try:
                finding = entry.look(sight)
            except MissingData as reason:
                if isinstance(reason, Inapplicable):
                    outcome.inapplicable = str(reason)
                    outcome.early.pop(value, None)  # more steps would not help
                elif isinstance(reason, NotYet):
                    if value not in entry.judged:
                        entry.too_early(value, sight.name, str(reason))
                elif isinstance(reason, Excused):
                    entry.decided(value)
                    outcome.excused[value] = sight.name, str(reason)
                else:
                    outcome.early.pop(value, None)
                    outcome.unasked[str(reason)] += 1
                entry.streaks.pop(value, None)
                continue
            except RecursionError:
                raise  # the program used up the stack; the rule is not at fault
            except Exception as error:
                self._disable(entry, sight.name, sight.step, error)
                continue
            if finding is None:
                if entry.streaks:
                    entry.streaks.pop(value, None)
                outcome.judged += 1
                entry.judged.add(value)
                if outcome.early or outcome.excused:
                    entry.forgive(value)
                continue
            streak = entry.streaks[value] = entry.streaks.get(value, 0) + 1
            patience = outcome.watch.patience
            if streak < patience:
                entry.too_early(value, sight.name, f"needs {patience} in a row, had {streak}")
                continue
            entry.decided(value)
            outcome.hits += 1
            at, words = (sight.step, sight.seq), (finding.text, finding.actual)
            hits.append(
                hit_of(outcome.watch, entry.settings, sight.node, sight.port, sight.name, at, words,
                       streak)
            )  # fmt: skip
        return hits

    def _disable(self, entry: _Entry, name: str, step: int, error: Exception) -> None:
        expected = isinstance(error, NodescopeError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        entry.outcome.fault = f"it failed on {name} in step {step}: {reason}"
        entry.active = False
        self._on_fault(f"watch {describe(entry.outcome.watch)} was disabled: {entry.outcome.fault}")


# Roles that a value may get within its first step.
_LATER: Final[dict[str, frozenset[Target]]] = {
    "leaf": frozenset({"gradients", "weight_gradients"}),
    "backward": frozenset({"gradients", "weight_gradients"}),
    "recompute": frozenset({"gradients", "weight_gradients"}),
    "forward": frozenset({"losses"}),
}


def _is_seed(node: Node) -> bool:
    """Whether a backward pass begins with a node's result: a given gradient, or ones."""
    begins = node.is_leaf or "begins" in traits_of(node.op).effects
    return node.phase == "backward" and begins


def _roles(part: _Part, *, loss: bool) -> frozenset[Target]:
    """The roles of a value, by its node and the gradients known so far."""
    node = part.node
    roles: set[Target] = {"values"}
    if node.is_weight:
        roles.add("weights")
    if node.role == "input" and node.phase == "forward":
        roles.add("inputs")
    if part.port == 0 and node.phase == "forward":
        if node.family == "activation":
            roles.add("activations")
        if node.family == "loss":
            roles.add("losses")
    if loss:
        roles.add("losses")
    if part.owners:
        roles.add("gradients")
        if any(owner.role == "parameter" for owner in part.owners):
            roles.add("weight_gradients")
    return frozenset(roles)


def _broken(sight: Sight) -> bool:
    """Whether a sight has NaN or Inf, whose positions are reported."""
    try:
        return bool(sight.summary.nan_count or sight.summary.inf_count)
    except MissingData:
        return False
