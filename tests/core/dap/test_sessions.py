"""The adapter with a real client: sessions from launch to end."""

from __future__ import annotations

import os
import select
import signal
import socket

import pytest

from nodescope.dap.capabilities import CAPABILITIES
from tests.core.dap.editors import WAIT_S, Editor, listening, schema

TRAIN = """\
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((3, 2)), name="w")
for batch in ns.steps([np.full((4, 3), float(k)) for k in (1, 2, 3)]):
    with ns.name_scope("loss"):
        loss = np.mean(np.square(ns.tensor(batch, name="batch") @ w))
    loss.backward()
print("trained", float(loss.numpy()))
"""


def test_capabilities_are_of_the_protocol(tmp_path):
    with Editor(tmp_path) as editor:
        capabilities = editor.initialize()
        assert capabilities == CAPABILITIES
        assert set(capabilities) <= set(schema()["definitions"]["Capabilities"]["properties"])
        assert "no program was launched" in editor.refused("threads")
        assert "waits for an editor" in editor.refused("attach", processId=1)
        editor.ask("disconnect")
        assert editor.process.wait(WAIT_S) == 0


def test_stops_steps_and_ends(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN, stopOnEntry=True)
        editor.configured()
        stop = editor.event("stopped")
        assert (stop["reason"], stop["allThreadsStopped"]) == ("entry", True)
        thread = stop["threadId"]
        assert {"id": thread, "name": "MainThread"} in editor.ask("threads")["threads"]
        assert editor.top()["name"] == "loss/matmul, step 1, before it runs"
        names = []
        for command in ("stepIn", "stepIn", "next", "stepOut"):
            editor.ask(command, threadId=thread)
            assert editor.event("stopped")["reason"] == "step"
            names.append(editor.top()["name"])
        assert names[:3] == ["loss/matmul, step 1", "loss/square, step 1", "loss/mean, step 1"]
        assert names[3].startswith("backward/")
        assert editor.ask("continue", threadId=thread)["allThreadsContinued"]
        assert editor.event("exited")["exitCode"] == 0
        editor.event("terminated")
        assert editor.output("stdout") == "trained 81.0\n"
        assert "continued" not in editor.happened()
        assert editor.happened()[-2:] == ["exited", "terminated"]
        assert "has ended" in editor.refused("threads")
        editor.ask("disconnect")
        assert editor.process.wait(WAIT_S) == 0


def test_frames_scopes_and_variables(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "loss/square [step 2]"}])
        editor.configured()
        assert editor.event("stopped")["reason"] == "function breakpoint"
        node, scope = editor.frames()
        script = str(tmp_path / "script.py")
        assert (node["name"], node["line"], node["source"]["path"]) == (
            "loss/square, step 2", 7, script,
        )  # fmt: skip
        assert (scope["name"], scope["line"]) == ("loss", 6)
        frame = node["id"]
        inputs = editor.variables(editor.scope("Inputs", frame))
        matmul = inputs["loss/matmul"]
        assert matmul["type"] == "float64 (4, 2)"
        assert matmul["value"] == "float64 (4, 2), 6 … 6, mean 6"
        assert matmul["evaluateName"] == "inputs[0]"
        assert matmul["indexedVariables"] == 4
        # Variables are paged, and nested by axis.
        rows = editor.variables(matmul["variablesReference"], start=1, count=2, filter="indexed")
        assert list(rows) == ["[1]", "[2]"]
        cells = editor.variables(rows["[2]"]["variablesReference"])
        assert {name: cell["value"] for name, cell in cells.items()} == {"[0]": "6", "[1]": "6"}
        assert cells["[1]"]["evaluateName"] == "inputs[0][2, 1]"
        assert editor.value(cells["[1]"]["evaluateName"]) == "6"
        assert editor.variables(matmul["variablesReference"], filter="named") == {}
        (gradient,) = editor.variables(editor.scope("Gradient", frame)).values()
        assert gradient["value"].endswith("of step 1")
        facts = editor.variables(editor.scope("Node", frame))
        assert facts["op"]["value"] == "square"
        assert facts["step"]["value"] == "2"
        nodes = editor.variables(editor.scope("Nodes", scope["id"]))
        assert nodes["matmul"]["value"] == "float64 (4, 2), 6 … 6, mean 6"
        assert nodes["mean"]["value"] == "float64 scalar 9 of step 1"
        # References are invalid after the stop.
        editor.ask("next", threadId=1)
        editor.event("stopped")
        assert "earlier stop" in editor.refused("variables", variablesReference=1)
        assert "earlier stop" in editor.refused("scopes", frameId=99)


def test_evaluate_completions_and_sources(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "loss/square"}])
        editor.configured()
        editor.event("stopped")
        assert editor.value("max(value) + 1", "hover") == "10"
        assert editor.value("loss/matmul") == "float64 (4, 2), 3 … 3, mean 3"
        assert editor.value("loss/matmul: sum(value)", "repl") == "24"
        whole = editor.ask("evaluate", expression="value", context="watch")
        assert whole["indexedVariables"] == 4
        assert editor.variables(whole["variablesReference"])["[3]"]["evaluateName"] == "value[3]"
        assert "only built-in functions" in editor.refused(
            "evaluate", expression="os.system('x')", context="repl"
        )
        assert editor.value("set value[0] = 5", "repl").startswith("  value loss/square: float64")
        assert editor.value("max(value)") == "9"
        targets = editor.ask("completions", text="max(loss/sq", column=12)["targets"]
        assert targets == [{"label": "loss/square", "start": 4, "length": 7}]
        path = str(tmp_path / "script.py")
        assert {"name": "script.py", "path": path} in editor.ask("loadedSources")["sources"]
        source = editor.ask("source", source={"path": path}, sourceReference=0)
        assert source["content"] == TRAIN
        assert "not known" in editor.refused("source", source={"path": "/etc/passwd"},
                                             sourceReference=0)  # fmt: skip
        assert "is not stopped at an exception" in editor.refused("exceptionInfo", threadId=1)


def test_variables_are_set(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        spots = [{"name": "loss/mean [step 3]"}, {"name": "loss/matmul [step 3]"}]
        editor.ask("setFunctionBreakpoints", breakpoints=spots)
        editor.configured()
        editor.event("stopped")
        outputs = editor.scope("Outputs")
        reference = editor.variables(outputs)["loss/matmul"]["variablesReference"]
        assert editor.ask("setVariable", variablesReference=outputs, name="loss/matmul",
                          value="0")["value"] == "float64 (4, 2), 0 … 0, mean 0"  # fmt: skip
        row = editor.variables(reference, start=1, count=1)["[1]"]["variablesReference"]
        assert editor.ask("setVariable", variablesReference=row, name="[0]",
                          value="8")["value"] == "8"  # fmt: skip
        assert "not a number" in editor.refused("setVariable", variablesReference=row, name="[0]",
                                             value="eight")  # fmt: skip
        facts = editor.scope("Node")
        assert "cannot be changed" in editor.refused("setVariable", variablesReference=facts,
                                                     name="op", value="1")  # fmt: skip
        editor.ask("continue", threadId=1)
        editor.event("stopped")
        assert editor.value("value") == "float64 scalar 8"
        editor.ask("continue", threadId=1)
        editor.event("terminated")
        assert editor.output("stdout") == "trained 8.0\n"


def test_backwards_and_forwards_again(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        spots = [{"name": "loss/mean [step 3]"}, {"name": "op:square", "condition": "step < 3"}]
        editor.ask("setFunctionBreakpoints", breakpoints=spots)
        editor.configured()
        for step in (1, 2):
            editor.event("stopped")
            assert editor.top()["name"] == f"loss/square, step {step}"
            editor.ask("continue", threadId=1)
        editor.event("stopped")
        assert editor.top()["name"] == "loss/mean, step 3"
        editor.ask("stepBack", threadId=1)
        assert editor.event("stopped")["reason"] == "step"
        assert editor.top()["name"] == "loss/square, step 3 (recorded)"
        assert editor.value("max(value)") == "81"
        outputs = editor.scope("Outputs")
        assert "cannot be changed" in editor.refused("setVariable", variablesReference=outputs,
                                                     name="loss/square", value="1")  # fmt: skip
        editor.ask("reverseContinue", threadId=1)
        assert "breakpoint 2" in editor.event("stopped")["description"]
        assert editor.top()["name"] == "loss/square, step 2 (recorded)"
        editor.ask("continue", threadId=1)
        assert "Back at the live stop" in editor.event("stopped")["description"]
        assert editor.top()["name"] == "loss/mean, step 3"
        for _ in range(3):
            editor.ask("reverseContinue", threadId=1)
            editor.event("stopped")
        assert "(recorded)" in editor.top()["name"]
        editor.ask("disconnect", terminateDebuggee=False)
        assert editor.process.wait(WAIT_S) == 0


def test_data_breakpoints(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN, stopOnEntry=True)
        editor.configured()
        editor.event("stopped")
        inputs = editor.scope("Inputs")
        info = editor.ask("dataBreakpointInfo", variablesReference=inputs, name="w")
        assert info["dataId"] is None
        assert "only holds data" in info["description"]
        editor.ask("stepIn", threadId=1)
        editor.event("stopped")
        outputs = editor.scope("Outputs")
        info = editor.ask("dataBreakpointInfo", variablesReference=outputs, name="loss/matmul")
        assert (info["dataId"], info["accessTypes"]) == ("loss/matmul", ["write"])
        (answer,) = editor.ask("setDataBreakpoints", breakpoints=[
            {"dataId": "loss/matmul", "accessType": "write", "condition": "max(value) > 8"}
        ])["breakpoints"]  # fmt: skip
        assert answer["verified"]
        editor.ask("continue", threadId=1)
        stop = editor.event("stopped")
        assert (stop["reason"], stop["hitBreakpointIds"]) == ("data breakpoint", [answer["id"]])
        assert editor.top()["name"] == "loss/matmul, step 3"


def test_lines_conditions_hits_and_log_messages(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        source = {"path": str(tmp_path / "script.py")}
        lines = [
            {"line": 7, "condition": "step == 2", "hitCondition": "2"},
            {"line": 8, "logMessage": "back at step {step}"},
            {"line": 9, "condition": "vlaue > 1"},
        ]
        first, second, third = editor.ask("setBreakpoints", source=source,
                                          breakpoints=lines)["breakpoints"]  # fmt: skip
        assert not first["verified"]
        assert "stays armed" in first["message"]
        assert "did you mean 'value'" in third["message"]
        editor.configured()
        assert editor.event("breakpoint")["breakpoint"] == {
            "id": first["id"], "verified": True, "source": source, "line": 7,
        }  # fmt: skip
        assert editor.event("breakpoint")["breakpoint"]["id"] == second["id"]
        assert editor.event("stopped")["hitBreakpointIds"] == [first["id"]]
        assert editor.top()["name"] == "loss/square, step 2"
        assert "back at step 1" in editor.output("stderr")
        (again,) = editor.ask("setBreakpoints", source=source, breakpoints=lines[:1])["breakpoints"]
        assert again["id"] == first["id"]
        editor.ask("setBreakpoints", source=source, breakpoints=[])
        editor.ask("continue", threadId=1)
        editor.event("terminated")
        assert "back at step 3" not in editor.output("stderr")


def test_functions_that_make_no_sense_are_unverified(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        names = ["opp:log", "loss/maen", "scope:loss", "op:mean [step 2..1]"]
        answers = editor.ask("setFunctionBreakpoints", breakpoints=[
            {"name": name} for name in names
        ])["breakpoints"]  # fmt: skip
        assert "no breakpoint kind" in answers[0]["message"]
        assert "id" in answers[1]
        assert "is empty" in answers[3]["message"]
        editor.configured()
        assert editor.event("stopped")["hitBreakpointIds"] == [answers[2]["id"]]


@pytest.mark.parametrize("filters", [["node"], []])
def test_exceptions(tmp_path, filters):
    failing = "import numpy as np, nodescope as ns\nnp.linalg.inv(ns.tensor(np.zeros((2, 2))))\n"
    with Editor(tmp_path) as editor:
        editor.launch(failing)
        editor.ask("setExceptionBreakpoints", filters=filters)
        editor.configured()
        if filters:
            stop = editor.event("stopped")
            assert stop["reason"] == "exception"
            info = editor.ask("exceptionInfo", threadId=stop["threadId"])
            assert info["exceptionId"] == "MatrixError"
            assert "singular" in info["details"]["message"]
            editor.ask("continue", threadId=stop["threadId"])
        assert editor.event("exited")["exitCode"] == 1
        editor.event("terminated")
        assert "MatrixError: inv: singular matrix" in editor.output("stderr")
        assert "stopped" not in editor.happened() or filters


FOREVER = """\
import os, sys
import numpy as np
import nodescope as ns
x = ns.parameter(np.ones(2), name="x")
print("running", os.getpid(), *sys.argv[1:], os.environ.get("COLOUR"), flush=True)
try:
    while not os.path.exists("stop"):
        np.tanh(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
finally:
    open("ended", "w").close()
"""


def running(editor: Editor) -> int:
    """The process of the program, once it says that it runs."""
    while "running" not in (line := editor.event("output")["output"]):
        pass
    return int(line.split()[1])


def test_pause_and_terminate(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(FOREVER, args=["--lr", "0.1"], env={"COLOUR": "blue"}, level="summary")
        editor.configured()
        running(editor)
        assert "--lr 0.1 blue" in editor.output("stdout")
        assert "is running; pause it first" in editor.refused("stackTrace", threadId=1)
        editor.ask("pause", threadId=1)
        assert editor.event("stopped")["reason"] == "pause"
        editor.ask("terminate")
        assert editor.event("exited")["exitCode"] == 130
        editor.event("terminated")
        assert "interrupted" in editor.output("stdout")


def test_disconnect_ends_or_leaves_the_program(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(FOREVER, stopOnEntry=True)
        editor.configured()
        running(editor)
        editor.event("stopped")
        editor.ask("disconnect", terminateDebuggee=True)
        assert editor.process.wait(WAIT_S) == 0
        assert "exited" in editor.happened()
        assert not (tmp_path / "ended").exists()


def wait_for_end(pid: int) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], WAIT_S)[0], "it still runs"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("ends", [False, True])
def test_a_killed_adapter_leaves_or_ends_the_program(tmp_path, ends):
    with Editor(tmp_path) as editor:
        editor.launch(FOREVER, stopOnEntry=True, terminateOnLoss=ends)
        editor.configured()
        pid = running(editor)
        editor.event("stopped")
        editor.process.kill()
        assert editor.closed.wait(WAIT_S)
        if not ends:
            (tmp_path / "stop").touch()  # The program would run forever.
        wait_for_end(pid)
        assert (tmp_path / "ended").exists()


def test_a_killed_program_ends_the_session(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(FOREVER)
        editor.configured()
        os.kill(running(editor), signal.SIGKILL)
        assert editor.event("exited")["exitCode"] == -signal.SIGKILL
        editor.event("terminated")
        assert "has ended" in editor.refused("pause", threadId=1)


def test_programs_that_do_not_start(tmp_path):
    with Editor(tmp_path) as editor:
        editor.initialize()
        assert "missing required field `program`" in editor.refused("launch", noDebug=False)
        assert "no program 'none.py'" in editor.refused("launch", program="none.py",
                                                        cwd=str(tmp_path))  # fmt: skip
        assert "no folder" in editor.refused("launch", program="a.py", cwd="/no/such")
        assert "Invalid enum value 'all'" in editor.refused("launch", program="a.py", level="all")
        (tmp_path / "wrong.py").write_text("x = (\n")
        refused = editor.refused("launch", program="wrong.py", cwd=str(tmp_path))
        assert "ended with status 1" in refused
        editor.event("terminated")
        assert "was never closed" in editor.output("stderr")


def test_without_debugging_nothing_stops(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN, noDebug=True, stopOnEntry=True)
        editor.event("terminated")
        assert "stopped" not in editor.happened()
        assert editor.output("stdout") == "trained 81.0\n"


def test_on_a_port_one_editor_after_another(tmp_path):
    adapter, port = listening(tmp_path)
    try:
        for _ in range(2):
            with Editor(tmp_path, port=port) as editor:
                editor.launch(TRAIN)
                editor.configured()
                assert editor.event("exited")["exitCode"] == 0
                editor.ask("disconnect")
    finally:
        adapter.terminate()
        adapter.communicate(timeout=WAIT_S)


def test_a_web_page_that_posts_to_the_port_gets_nowhere(tmp_path):
    adapter, port = listening(tmp_path)
    try:
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as page:
            body = b'{"seq":1,"type":"request","command":"initialize","arguments":{}}'
            page.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            page.shutdown(socket.SHUT_WR)
            try:
                answered = page.makefile("rb").read()
            # The adapter closed the connection without reading everything.
            except ConnectionResetError:
                answered = b""
            assert answered == b""
    finally:
        adapter.terminate()
        adapter.communicate(timeout=WAIT_S)
