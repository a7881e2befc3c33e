"""Watch rules and watches for the page: the list, recommendations, and evaluation on a recording.

Invariant: answers come from registry and recording alone; evaluating a rule sets nothing.
"""

from __future__ import annotations

from nodescope.debug.watch import all_rules
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.rule import ORIGINS, TARGETS, Rule, Setting, WatchError
from nodescope.debug.watch.watch import Watch, checked, describe, parse_watches
from nodescope.record.recording import Recording
from nodescope_server.handlers.why import PATIENCE_S
from nodescope_server.runs.runs import Run
from nodescope_server.wire import watch_messages as wire

MOST_HITS = 200


async def rules(run: Run) -> wire.RuleList:
    """Answer `wire.GetRules`."""

    def ask(recording: Recording) -> tuple[wire.RecommendedWatch, ...]:
        descriptions = {rule.name: rule.about for rule in all_rules()}
        return tuple(
            wire.RecommendedWatch(
                describe(entry.watch),
                descriptions[entry.watch.rule],
                entry.reason,
            )
            for entry in recommend_for(recording)
        )

    recommended = await run.study.call(ask) if run.committed else ()
    ordered = sorted(all_rules(), key=_by_origin)
    return wire.RuleList(tuple(map(_rule, ordered)), recommended)


def read(request: wire.ReadWatch) -> wire.WatchRead:
    """Answer `wire.ReadWatch`."""
    try:
        return wire.WatchRead(tuple(map(describe, _parsed(request.text))))
    except WatchError as error:
        return wire.WatchRead((), _fault(error))


async def ask(run: Run, request: wire.AskWatch) -> wire.WatchAnswer:
    """Answer `wire.AskWatch`."""
    try:
        watches = _parsed(request.text)
    except WatchError as error:
        return wire.WatchAnswer(fault=_fault(error))

    def judge(recording: Recording) -> wire.WatchAnswer:
        asking = Asking(recording, watches, patience_s=PATIENCE_S)
        hits: list[wire.WatchHit] = []
        total = 0
        for hit in asking:
            total += 1
            if len(hits) < MOST_HITS:
                hits.append(wire.WatchHit(hit.node, hit.node_name, hit.step, hit.seq, hit.text))
        coverage = asking.coverage()
        return wire.WatchAnswer(
            tuple(hits), total, sum(outcome.looked for outcome in coverage.outcomes),
            tuple(coverage.words()),
        )  # fmt: skip

    return await run.study.call(judge)


def _parsed(text: str) -> tuple[Watch, ...]:
    watches = parse_watches(text)
    if not watches:
        raise WatchError("expected a rule name", column=0)
    return watches


def _fault(error: WatchError) -> str:
    return f"{error} (column {error.column + 1})" if error.column >= 0 else str(error)


def _by_origin(rule: Rule) -> tuple[int, str]:
    is_known = rule.origin in ORIGINS
    return (ORIGINS.index(rule.origin) if is_known else len(ORIGINS), rule.name)


def _rule(rule: Rule) -> wire.RuleInfo:
    applies_to = "; ".join(TARGETS[target] for target in rule.applies)
    if rule.ops:
        applies_to += f": {', '.join(sorted(rule.ops))}"
    parameters = tuple(
        wire.RuleParameter(
            parameter.name, parameter.about, _written(parameter.default), parameter.unit,
            parameter.required, parameter.name in rule.any_of,
        )
        for parameter in rule.parameters
    )  # fmt: skip
    needs_elements = not rule.needs.isdisjoint(("values", "previous_values"))
    return wire.RuleInfo(
        rule.name,
        rule.about,
        applies_to,
        rule.origin,
        rule.aliases,
        parameters,
        _start(rule),
        needs_elements,
    )


def _start(rule: Rule) -> str:
    """A watch of a rule to start from: required parameters are set as in an example."""
    needed = {parameter.name for parameter in rule.parameters if parameter.required} | set(
        rule.any_of
    )
    example: dict[str, Setting] = dict(rule.examples[0].params) if rule.examples else {}
    required_settings: dict[str, Setting] = {
        name: _round(setting) for name, setting in example.items() if name in needed
    }
    texts: dict[str, Setting] = {
        parameter.name: "..." for parameter in rule.parameters if parameter.required
    }
    for params in ({}, required_settings, example):
        try:
            return describe(checked(Watch(rule.name, params=params))[0])
        except WatchError:
            continue
    return describe(Watch(rule.name, params=texts))  # only the user can know these parameters


def _round(setting: Setting) -> Setting:
    return float(f"{setting:.1g}") if isinstance(setting, float) else setting


def _written(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
