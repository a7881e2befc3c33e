"""Less common requests of editors, and the capabilities that announce them."""

from __future__ import annotations

import base64

import numpy as np

from nodescope.dap import adapter, capabilities, debuggee
from tests.core.dap.editors import Editor, schema

TRAIN = """\
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((3, 2)), name="w")
for batch in ns.steps([np.full((4, 3), float(k)) for k in (1, 2, 3)]):
    with ns.name_scope("model"):
        with ns.name_scope("layer"):
            hidden = ns.tensor(batch, name="batch") @ w
        with ns.name_scope("loss"):
            loss = np.mean(np.square(hidden))
    loss.backward()
print("trained", float(loss.numpy()))
"""
# Every adapter must support these requests, whatever it announces.
BASE = {
    "initialize", "launch", "attach", "disconnect", "setBreakpoints", "setExceptionBreakpoints",
    "threads", "stackTrace", "scopes", "variables", "evaluate", "source", "continue", "next",
    "stepIn", "stepOut", "pause",
}  # fmt: skip


def test_capabilities_are_the_handled_requests():
    capabilities_listed = {name for name, value in capabilities.CAPABILITIES.items() if value}
    announced = capabilities.ANNOUNCED
    assert set(announced) <= capabilities_listed
    assert set(capabilities.CAPABILITIES) <= set(
        schema()["definitions"]["Capabilities"]["properties"]
    )
    named = {name for name in capabilities_listed if name.endswith("Request")}
    assert named <= set(announced)
    handled = set(adapter.HANDLED) | set(debuggee.HANDLED)
    requests = {name for names in announced.values() for name in names}
    assert handled == BASE | requests
    for request in requests:
        head = request[0].upper() + request[1:]
        assert f"{head}Request" in schema()["definitions"]


def test_stepping_into_a_scope_that_is_chosen(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "model/layer/matmul"}])
        editor.configured()
        editor.event("stopped")
        editor.ask("continue", threadId=1)  # After this, the scopes of a step are known.
        editor.event("stopped")
        _, layer, model = editor.frames()[:3]
        assert (layer["name"], model["name"]) == ("model/layer", "model")
        targets = editor.ask("stepInTargets", frameId=model["id"])["targets"]
        assert [target["label"] for target in targets] == ["model/layer", "model/loss"]
        assert "earlier stop" in editor.refused("stepIn", threadId=1, targetId=9)
        editor.ask("stepIn", threadId=1, targetId=targets[1]["id"])
        editor.event("stopped")
        assert editor.top()["name"] == "model/loss/square, step 2"


def test_expressions_are_set_and_memory_is_read(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:matmul"}])
        editor.configured()
        editor.event("stopped")
        result = editor.ask("setExpression", expression="value[1, 0]", value="8")
        assert result["value"] == "8"
        assert editor.ask("setExpression", expression="value[0]", value="*= 2")["value"].startswith(
            "float64 (2,) [6, 6]"
        )
        assert "not a number" in editor.refused("setExpression", expression="value", value="x")
        whole = editor.ask("evaluate", expression="value", context="watch")
        memory = editor.ask("readMemory", memoryReference=whole["memoryReference"], count=1000)
        numbers = np.frombuffer(base64.b64decode(memory["data"]))
        assert numbers.tolist() == [6, 6, 8, 3, 3, 3, 3, 3]
        part = editor.ask("readMemory", memoryReference=whole["memoryReference"], offset=16,
                          count=8)  # fmt: skip
        assert np.frombuffer(base64.b64decode(part["data"])).tolist() == [8]
        before = editor.ask("readMemory", memoryReference=whole["memoryReference"], offset=-8,
                            count=8)  # fmt: skip
        assert before["unreadableBytes"] == 8
        copied = editor.ask("evaluate", expression="value[1]", context="clipboard")["result"]
        assert copied == "[8. 3.]"
        for wrong in ("", "1.99", "x", "0.1"):
            assert "earlier stop" in editor.refused("readMemory", memoryReference=wrong, count=1)
        editor.ask("next", threadId=1)
        editor.event("stopped")
        assert "earlier stop" in editor.refused(
            "readMemory", memoryReference=whole["memoryReference"], count=8
        )


def test_the_console_takes_the_terminals_commands(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(TRAIN)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:square"}])
        editor.configured()
        editor.event("stopped")
        assert editor.value("step", "repl") == "1"
        assert editor.value("step * 2", "repl") == "2"
        assert "no command" not in editor.value("help", "repl")
        assert "breakpoint 2: op:mean" in editor.value("b op:mean [once]", "repl")
        editor.value("c", "repl")
        assert editor.event("stopped")["hitBreakpointIds"] == [2]
        assert editor.value("rb", "repl").startswith("Back at model/loss/square")
        editor.event("stopped")
        assert editor.top()["name"] == "model/loss/square, step 1 (recorded)"
        editor.value("now", "repl")
        editor.event("stopped")
        assert editor.top()["name"] == "model/loss/mean, step 1"
        # The editor's breakpoints do not replace those set in the console.
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        assert "op:mean" in editor.value("b", "repl")
        assert "mean" in editor.value("why", "repl")


def test_nan_and_inf_stop_where_they_are_made(tmp_path):
    program = (
        "import numpy as np, nodescope as ns\n"
        "x = ns.tensor(np.array([1.0, -1.0]))\n"
        "with ns.name_scope('loss'):\n"
        "    y = np.log(x)\n"
        "np.sqrt(np.exp(y))\n"
        "with ns.name_scope('other'):\n"
        "    np.log(x)\n"
    )
    with Editor(tmp_path) as editor:
        editor.launch(program)
        answers = editor.ask("setExceptionBreakpoints", filters=["node", "nan", "all"],
                             filterOptions=[{"filterId": "nan", "condition": "opp:x"}])  # fmt: skip
        verified = [item["verified"] for item in answers["breakpoints"]]
        assert verified == [True, True, False, False]
        assert answers["breakpoints"][2]["message"] == "no filter 'all'; there are 'node' and 'nan'"
        editor.configured()
        stop = editor.event("stopped")
        assert stop["reason"] == "exception"
        assert editor.top()["name"] == "loss/log, step 0"
        info = editor.ask("exceptionInfo", threadId=stop["threadId"])
        assert "NaN" in info["description"]
        editor.ask("setExceptionBreakpoints", filters=[],
                   filterOptions=[{"filterId": "nan", "condition": "scope:nowhere"}])  # fmt: skip
        editor.ask("continue", threadId=1)
        editor.event("terminated")
