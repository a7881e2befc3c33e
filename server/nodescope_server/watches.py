"""Rules and watches for the page: what there is, what suits, what they say to a recording.

Invariant: answered from registry and recording alone; what a rule finds there sets nothing.
"""

from __future__ import annotations

from nodescope.debug.watch import all_rules
from nodescope.debug.watch.document import ORIGINS
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.retro import Asking
from nodescope.debug.watch.rule import TARGETS, Rule, Setting, WatchError
from nodescope.debug.watch.watch import Watch, checked, describe, parse_watches
from nodescope.record.recording import Recording
from nodescope_server import wire_watch as wire
from nodescope_server.reasons import PATIENCE_S
from nodescope_server.runs import Run

MOST_HITS = 200


async def rules(run: Run) -> wire.RuleList:
    """Answer `wire.GetRules`."""

    def ask(recording: Recording) -> tuple[wire.RecommendedWatch, ...]:
        about = {rule.name: rule.about for rule in all_rules()}
        return tuple(
            wire.RecommendedWatch(describe(each.watch), about[each.watch.rule], each.reason)
            for each in recommend_for(recording)
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

    def asked(recording: Recording) -> wire.WatchAnswer:
        asking = Asking(recording, watches, patience_s=PATIENCE_S)
        found: list[wire.WatchHit] = []
        total = 0
        for hit in asking:
            total += 1
            if len(found) < MOST_HITS:
                found.append(wire.WatchHit(hit.node, hit.node_name, hit.step, hit.seq, hit.text))
        coverage = asking.coverage()
        return wire.WatchAnswer(
            tuple(found), total, sum(each.looked for each in coverage.asked),
            tuple(coverage.words()),
        )  # fmt: skip

    return await run.study.call(asked)


def _parsed(text: str) -> tuple[Watch, ...]:
    found = parse_watches(text)
    if not found:
        raise WatchError("a rule's name is missing here", column=0)
    return found


def _fault(error: WatchError) -> str:
    return f"{error} (column {error.column + 1})" if error.column >= 0 else str(error)


def _by_origin(rule: Rule) -> tuple[int, str]:
    known = rule.origin in ORIGINS
    return (ORIGINS.index(rule.origin) if known else len(ORIGINS), rule.name)


def _rule(rule: Rule) -> wire.RuleInfo:
    asked = "; ".join(TARGETS[each] for each in rule.applies)
    if rule.ops:
        asked += f": {', '.join(sorted(rule.ops))}"
    parameters = tuple(
        wire.RuleParameter(
            each.name, each.about, _written(each.default), each.unit, each.required,
            each.name in rule.any_of,
        )
        for each in rule.parameters
    )  # fmt: skip
    whole = not rule.needs.isdisjoint(("values", "previous_values"))
    return wire.RuleInfo(
        rule.name, rule.about, asked, rule.origin, rule.aliases, parameters, _start(rule), whole
    )


def _start(rule: Rule) -> str:
    """A watch of this rule to begin with: what must be set is as in an example."""
    needed = {each.name for each in rule.parameters if each.required} | set(rule.any_of)
    example: dict[str, Setting] = dict(rule.examples[0].params) if rule.examples else {}
    some: dict[str, Setting] = {
        name: _round(each) for name, each in example.items() if name in needed
    }
    texts: dict[str, Setting] = {each.name: "..." for each in rule.parameters if each.required}
    for params in ({}, some, example):
        try:
            return describe(checked(Watch(rule.name, params=params))[0])
        except WatchError:
            continue
    return describe(Watch(rule.name, params=texts))  # only the person can know


def _round(setting: Setting) -> Setting:
    return float(f"{setting:.1g}") if isinstance(setting, float) else setting


def _written(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
