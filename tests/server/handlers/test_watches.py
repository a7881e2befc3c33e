"""Rules and watches over the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodescope.debug.watch import all_rules
from nodescope.debug.watch.watch import parse_watch
from nodescope_server import wire
from nodescope_server.handlers import watches
from nodescope_server.wire import watch_messages
from tests.core.debug.replay.programs import recorded, training
from tests.core.debug.why import programs
from tests.server.support import Live, Page


def open_run(live: Live, page: Page, path: Path) -> str:
    asyncio.run(live.app.runs.open(path))
    (info,) = live.app.runs.infos()
    page.subscribe(info.id)
    return info.id


def test_all_rules_and_what_is_recommended(live: Live, page: Page, tmp_path: Path) -> None:
    run = open_run(live, page, recorded(tmp_path / "r.nscope", training))
    result = page.ask(watch_messages.GetRules(run))
    assert isinstance(result, watch_messages.RuleList)
    assert {rule.name for rule in result.rules} == {all_rule.name for all_rule in all_rules()}
    vanishing = next(rule for rule in result.rules if rule.name == "gradient_vanishing")
    assert (vanishing.origin, vanishing.aliases[0]) == ("MindInsight", "GV")
    assert vanishing.asked == "gradients of weights"
    assert all(parameter.choice for parameter in vanishing.parameters)
    texts = [rule.text for rule in result.rules]
    assert [text for text in texts if "..." in text] == [
        "similar_across_runs(other_trial=...) -> stop"
    ]
    for text in texts:
        if "..." not in text:
            parse_watch(text)
    assert result.recommended[0].text == "operator_overflow -> stop"
    reasons = {item.text: item.reason for item in result.recommended}
    assert reasons["weight_overflow -> stop"].startswith("it has 2 parameters")


@pytest.mark.parametrize(
    ("text", "texts", "fault"),
    [
        ("NaN on op:log->log", ("nan on op:log -> log",), ""),
        ("nan; inf -> mark", ("nan -> stop", "inf -> mark"), ""),
        ("nan; innf", (), "no watch rule named 'innf'; did you mean 'inf'? (column 6)"),
        ("  ", (), "expected a rule name (column 1)"),
    ],
)
def test_a_watch_is_read(
    live: Live, page: Page, tmp_path: Path, text: str, texts: tuple[str, ...], fault: str
) -> None:
    run = open_run(live, page, recorded(tmp_path / "r.nscope", lambda: None))
    assert page.ask(watch_messages.ReadWatch(run, text)) == watch_messages.WatchRead(texts, fault)


def test_watches_are_evaluated_on_a_recording(live: Live, page: Page, tmp_path: Path) -> None:
    run = open_run(live, page, recorded(tmp_path / "r.nscope", programs.log_of_a_negative))
    result = page.ask(watch_messages.AskWatch(run, "operator_overflow; nan on scope:nowhere"))
    assert isinstance(result, watch_messages.WatchAnswer)
    assert [hit.name for hit in result.hits][:1] == ["loss/log"]
    assert (result.total, result.fault) == (len(result.hits), "")
    assert result.caveats == ("nan on scope:nowhere: no value in the recording matches it",)
    state = page.ask(wire.GetState(run, result.hits[0].seq))
    assert state.step == result.hits[0].step
    wrong = page.ask(watch_messages.AskWatch(run, "nan on"))
    assert wrong.fault.endswith("(column 7)")
    assert wrong.hits == ()


def test_an_evaluation_that_takes_too_long_is_left_and_reported(
    live: Live, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "PATIENCE_S", -1.0)
    run = open_run(live, page, recorded(tmp_path / "r.nscope", programs.log_of_a_negative))
    result = page.ask(watch_messages.AskWatch(run, "nan"))
    assert (result.total, result.caveats[-1]) == (
        0, "not evaluated from step 1 on: time limit reached",
    )  # fmt: skip
