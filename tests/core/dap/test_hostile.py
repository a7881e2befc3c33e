"""Messages that no editor sends: the adapter refuses them, and answers the next ones."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from nodescope.dap.framing import Channel
from tests import forked
from tests.core.dap.editors import WAIT_S

PROGRAM = "import numpy as np, nodescope as ns\nnp.exp(ns.tensor([1.0]))\n"
WRONG = [
    ("setBreakpoints", {}),
    ("setBreakpoints", {"source": 3}),
    ("setBreakpoints", {"source": {}, "breakpoints": [{"line": "x"}]}),
    ("setFunctionBreakpoints", {"breakpoints": 7}),
    ("setDataBreakpoints", {"breakpoints": [None]}),
    ("stackTrace", {}),
    ("scopes", {"frameId": "first"}),
    ("variables", {"variablesReference": -1}),
    ("variables", {"variablesReference": 10**30}),
    ("setVariable", {"variablesReference": 1, "name": [], "value": None}),
    ("evaluate", {"expression": "().__class__", "context": "repl"}),
    ("evaluate", {"expression": "9**9**9"}),
    ("completions", {"text": "x"}),
    ("nodescope", {}),
    ("launch", {"program": "script.py"}),
]


def test_wrong_requests_are_refused_one_by_one(tmp_path):
    (tmp_path / "script.py").write_text(PROGRAM)
    process = forked.Popen(
        [sys.executable, "-m", "nodescope", "dap"],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    channel = Channel(process.stdout, process.stdin)

    def until(**wanted: object) -> dict[str, object]:
        while message := channel.read():
            if all(message.get(key) == item for key, item in wanted.items()):
                return message
        raise AssertionError(f"no {wanted}")

    try:
        for arguments in ([], "x", 3):
            seq = channel.send({"type": "request", "command": "launch", "arguments": arguments})
            assert until(request_seq=seq)["message"] == "launch: arguments must be an object"
        channel.send({"type": "nonsense"})
        launch = {"program": "script.py", "cwd": str(tmp_path), "stopOnEntry": True}
        seq = channel.request("launch", launch)
        assert until(request_seq=seq)["success"]
        until(event="initialized")
        channel.request("configurationDone", {})
        until(event="stopped")
        for command, arguments in WRONG:
            answer = until(request_seq=channel.request(command, arguments))
            if command != "setBreakpoints" or "breakpoints" not in arguments:
                assert not answer["success"], (command, arguments, answer)
                assert answer["message"]
        assert until(request_seq=channel.request("threads", {}))["success"]
        seq = channel.request("disconnect", {"terminateDebuggee": True})
        assert until(request_seq=seq)["success"]
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait(WAIT_S)
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\r\n",
        b"Content-Length: 5\r\n\r\n{}",
        b"Content-Length: 99999999999\r\n\r\n{}",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 2\r\n\r\n{]",
        b"Content-Length: x\r\n\r\n{}",
        b"GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"Host: x\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2" + b" " * 300 + b"\r\n\r\n{}",
        b"\xff" * 500,
    ],
)
def test_anything_but_a_message_ends_the_conversation(content):
    assert Channel(io.BytesIO(content), io.BytesIO()).read() is None


def test_messages_are_read_as_they_were_sent():
    sent = io.BytesIO()
    writer = Channel(io.BytesIO(), sent)
    assert writer.request("é", {"a": [1, None]}) == 1
    writer.event("x")
    reader = Channel(io.BytesIO(sent.getvalue()), io.BytesIO())
    first = {"seq": 1, "type": "request", "command": "é", "arguments": {"a": [1, None]}}
    assert reader.read() == first
    assert reader.read() == {"seq": 2, "type": "event", "event": "x"}
    assert reader.read() is None
