"""Features that a framework lacks: terminal and editor refuse them in one line, and hide them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodescope.cli.terminal_commands import BY_NAME, Console
from nodescope.dap.debuggee import Debuggee
from nodescope.dap.framing import Channel
from nodescope.debug.controller import Controller
from nodescope.errors import NodescopeError
from nodescope.ir.capabilities import Feature, Framework, has, shortfall
from nodescope.protocol import NextStep, SetValue, StepIn, StepNode
from tests.adapters.cases import ROWS, WEIGHTS, Case
from tests.adapters.driving import WAIT_S, Debugged, debugged
from tests.adapters.foreign import library as lib
from tests.adapters.foreign.adapter import DistantAdapter


@contextmanager
def reduced(
    monkeypatch: pytest.MonkeyPatch, path: Path, program: Any, *breakpoints: str, **lacking: Any
) -> Iterator[Debugged]:
    """A program whose framework has fewer capabilities than the foreign one."""
    full = DistantAdapter().capabilities()
    less = msgspec.structs.replace(full, **lacking)
    monkeypatch.setattr(DistantAdapter, "capabilities", lambda adapter: less)
    with debugged(path, program, *breakpoints) as seen:
        yield seen


def plain_loop() -> Any:
    """Two rounds without scopes or steps."""
    x, w = lib.distant(ROWS), lib.distant(WEIGHTS)
    for _ in range(2):
        x = lib.warp(lib.frobnicate(x, w))
    return x.fetch()


NOTHING = {
    "before": False, "edit": "none", "gradients": False, "scopes": "none", "steps": "none",
    "rerun": "none",
}  # fmt: skip
REFUSED = {
    "set value = 0": "set: distant does not let values be changed; change the value in the program",
    "b before op:warp": "before op:warp: distant cannot stop before a node; "
    "stop after it: leave out 'before'",
    "b scope:layer": "scope:layer: distant does not report scopes; "
    "step node by node, or open scopes with nodescope.name_scope",
    "b op:warp if max(grad) > 1": "op:warp if max(grad) > 1: distant does not report gradients; "
    "look at the outputs of the backward nodes",
    "p grad": "grad: distant does not report gradients; "
    "look at the outputs of the backward nodes",
    "rule gradient_exploding": "gradient_exploding: distant does not report gradients; "
    "look at the outputs of the backward nodes",
    "s": "s: distant does not report scopes; "
    "step node by node, or open scopes with nodescope.name_scope",
    "u": "u: distant does not report scopes; "
    "step node by node, or open scopes with nodescope.name_scope",
    "step": "step: distant does not report training steps; "
    "mark them with nodescope.steps, or run to a node",
    "what-if value = 0": "what-if: distant cannot run recorded nodes again; "
    "change the value in the program, and compare the two runs",
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_the_terminal_refuses_in_one_line(
    distant: Case, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.nscope"
    with reduced(monkeypatch, path, plain_loop, "op:warp", **NOTHING) as seen:
        assert seen.stop() is not None
        said: list[str] = []
        console = Console(seen.controller, said.append)
        assert not console.run(line)
        assert said == [REFUSED[line]]
        assert seen.controller.info.stop is not None
    assert seen.result.any()


COMMANDS: dict[Feature, str] = {
    "edit": "set value = 0", "gradients": "p grad", "scopes": "u", "steps": "step",
    "rerun": "what-if value = 0",
}  # fmt: skip


def test_what_an_adapter_does_not_declare_is_refused(case: Case, tmp_path: Path) -> None:
    lacking = [feature for feature in COMMANDS if not has(case.capabilities, feature)]
    said: list[str] = []
    path = tmp_path / "run.nscope"
    with debugged(path, lambda: case.loop(1), f"op:{case.product}") as seen:
        assert seen.stop() is not None
        console = Console(seen.controller, said.append)
        for feature in lacking:
            console.run(COMMANDS[feature])
        lacks = [shortfall(feature, seen.run.info.frameworks) for feature in lacking]
    assert [line.partition(": ")[2] for line in said] == [
        f"{lack.text}; {lack.hint}" for lack in lacks if lack is not None
    ]
    assert len(said) == len(lacking)


def test_the_terminal_offers_what_there_is(
    distant: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    withheld = ("set", "s", "u", "step", "what-if")
    with reduced(monkeypatch, tmp_path / "r.nscope", plain_loop, "op:warp", **NOTHING) as seen:
        assert seen.stop() is not None
        said: list[str] = []
        console = Console(seen.controller, said.append)
        console.run("help")
        listed = {line.split(",")[0].split(" ")[0] for line in said}
        assert listed.isdisjoint(withheld)
        assert {"n", "o", "c", "b", "p", "why", "rb"} <= listed
        names = console.complete("", "")
        assert set(names).isdisjoint(withheld)
        assert "into" not in names
        assert "scope:" not in console.complete("", "b ")
        assert "grad" not in console.complete("", "p ")
        said.clear()
        console.run("help set")
        assert said == ["set: distant does not let values be changed; "
                        "change the value in the program"]  # fmt: skip


def test_the_terminal_offers_everything_else(distant: Case, tmp_path: Path) -> None:
    with debugged(tmp_path / "run.nscope", distant.train, f"op:{distant.bend}") as seen:
        assert seen.stop() is not None
        names = Console(seen.controller, lambda line: None).complete("", "")
    assert set(BY_NAME) - set(names) == {"what-if"}


def test_scopes_and_steps_of_the_program_itself(
    distant: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.nscope"
    offered = []
    lacking = {"scopes": "none", "steps": "none"}
    with reduced(monkeypatch, path, distant.train, f"op:{distant.bend}", **lacking) as seen:
        for stop in seen.stops():
            names = Console(seen.controller, lambda line: None).complete("", "")
            offered.append((stop.step, {"s", "u"} <= set(names), "step" in names))
    # Steps are known only after the optimizer's first one.
    assert offered == [(0, True, False), (1, True, True), (2, True, True)]


@pytest.mark.parametrize("command", [StepIn(), NextStep(), SetValue(1, "set", 0.0)])
def test_commands_from_elsewhere_are_refused(
    distant: Case, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.nscope"
    with reduced(monkeypatch, path, plain_loop, "op:warp", **NOTHING) as seen:
        assert seen.stop() is not None
        if isinstance(command, SetValue):
            (output,) = seen.controller.outputs()
            command = SetValue(output.value, "set", 0.0)
        with pytest.raises(NodescopeError, match=r"^distant does not .*; .*"):
            seen.run.gate.command(command)
    assert seen.result.any()


def test_a_breakpoint_that_came_first_is_disabled_where_it_would_stop(
    distant: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.nscope"
    breakpoints = ("before op:warp", "op:frobnicate")
    with reduced(monkeypatch, path, plain_loop, *breakpoints, before=False) as seen:
        stops = [(stop.when, stop.node_name) for stop in seen.stops()]
        (before, _) = seen.controller.breakpoints
    assert stops == [("after", "frobnicate"), ("after", "frobnicate_1")]
    assert not before.breakpoint.enabled
    assert before.message == (
        "disabled at warp: distant cannot stop before a node; stop after it: leave out 'before'"
    )


def test_on_entry_it_stops_after_the_first_node(
    distant: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = DistantAdapter().capabilities()
    less = msgspec.structs.replace(full, before=False)
    monkeypatch.setattr(DistantAdapter, "capabilities", lambda adapter: less)
    with debugged(tmp_path / "run.nscope", plain_loop, stop_on_entry=True) as seen:
        stop = seen.stop()
        assert stop is not None
        assert (stop.when, stop.text) == ("after", "After the first node: frobnicate")
        seen.controller.command(StepNode())
        stop = seen.stop()
        assert stop is not None
        assert (stop.when, stop.node_name) == ("after", "warp")


class Client:
    """An editor of a program in this process."""

    def __init__(self, controller: Controller) -> None:
        here, there = socket.socketpair()
        here.settimeout(WAIT_S)
        self._files = [end.makefile(mode) for end in (here, there) for mode in ("rb", "wb")]
        self._channel = Channel(self._files[0], self._files[1], here)
        self._other = Channel(self._files[2], self._files[3], there)
        self._debuggee = Debuggee(controller)
        self.events: list[dict[str, Any]] = []
        self._thread = threading.Thread(
            target=self._debuggee.visit, args=(self._other,), daemon=True
        )
        self._thread.start()
        self.ask("initialize")
        self.ask("configurationDone")

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a request, refused or not."""
        seq = self._channel.request(command, arguments)
        while (message := self._channel.read()) is not None:
            if message["type"] == "response" and message["request_seq"] == seq:
                return message
            self.events.append(message)
        raise AssertionError("the program has left")

    def event(self, name: str) -> dict[str, Any]:
        """The body of the next event of that name."""
        while True:
            for message in self.events:
                if message["event"] == name:
                    self.events.remove(message)
                    return message["body"]
            message = self._channel.read()
            assert message is not None
            self.events.append(message)

    def close(self) -> None:
        """Leave."""
        self._channel.close()
        self._thread.join(WAIT_S)
        self._other.close()
        for file in self._files:
            with contextlib.suppress(OSError):  # Unsent data does not matter.
                file.close()


def test_an_editor_is_offered_what_there_is(
    distant: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.nscope"
    with reduced(monkeypatch, path, plain_loop, "op:warp", **NOTHING) as seen:
        assert seen.stop() is not None
        client = Client(seen.controller)
        assert client.event("capabilities")["capabilities"] == {
            "supportsSetVariable": False, "supportsSetExpression": False,
            "supportsStepInTargetsRequest": False,
        }  # fmt: skip
        refused = client.ask("setExpression", expression="value", value="0")
        assert not refused["success"]
        assert refused["body"]["error"]["format"] == (
            "setExpression: distant does not let values be changed; change the value in the program"
        )
        before, after = client.ask(
            "setFunctionBreakpoints",
            breakpoints=[{"name": "before op:warp"}, {"name": "op:frobnicate"}],
        )["body"]["breakpoints"]
        assert not before["verified"]
        assert before["message"].startswith("distant cannot stop before a node; ")
        assert after["verified"]
        labels = client.ask("completions", text="g", column=2)["body"]["targets"]
        assert "grad" not in {target["label"] for target in labels}
        thread = client.event("stopped")["threadId"]
        (frame, *_) = client.ask("stackTrace", threadId=thread)["body"]["stackFrames"]
        (scope, *_) = client.ask("scopes", frameId=frame["id"])["body"]["scopes"]
        reference = scope["variablesReference"]
        (first, *_) = client.ask("variables", variablesReference=reference)["body"]["variables"]
        assert first["presentationHint"] == {"attributes": ["readOnly"]}
        client.close()
    assert seen.result.any()


def test_an_editor_is_offered_everything_of_a_framework_that_can(
    distant: Case, tmp_path: Path
) -> None:
    with debugged(tmp_path / "run.nscope", lambda: distant.loop(1), "op:warp") as seen:
        assert seen.stop() is not None
        client = Client(seen.controller)
        client.event("stopped")
        changed = client.ask("setExpression", expression="value", value="0")
        assert changed["success"], changed
        assert "capabilities" not in {message["event"] for message in client.events}
        client.close()
    np.testing.assert_array_equal(seen.result, 0)


def test_nothing_is_withheld_while_no_framework_is_known() -> None:
    assert shortfall("edit", ()) is None
    assert shortfall("edit", (Framework("distant"),)) is not None
    assert shortfall("edit", (Framework("distant"),), "another") is None
