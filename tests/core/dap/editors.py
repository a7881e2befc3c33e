"""An editor: debugpy's client side of the Debug Adapter Protocol, connected to our adapter.

Invariant: each message of both sides is valid by the protocol's JSON schema; every wait has a
limit; every started process ends with the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from functools import lru_cache
from importlib.metadata import files
from pathlib import Path
from typing import Any

import jsonschema
from debugpy.common.messaging import JsonIOStream, JsonMessageChannel, MessageHandlers

from tests import forked

WAIT_S = 60.0
Body = dict[str, Any]


@lru_cache
def schema() -> Body:
    """The protocol's schema, as shipped with debugpy."""
    (path,) = [file for file in files("debugpy") or () if file.name == "debugProtocol.json"]
    return json.loads(Path(path.locate()).read_text())


@lru_cache
def validator(definition: str) -> Any:
    assert definition in schema()["definitions"], f"the protocol knows no {definition}"
    return jsonschema.Draft4Validator({**schema(), "$ref": f"#/definitions/{definition}"})


def check(message: Body) -> None:
    """Refuse an invalid message."""
    name = str(message.get("command") or message.get("event"))
    head = name[0].upper() + name[1:]
    if message["type"] == "response" and not message["success"]:
        validator("ErrorResponse").validate(message)
    else:
        validator(f"{head}{message['type'].capitalize()}").validate(message)


class Checked(JsonIOStream):
    """A stream that validates each message."""

    faults: list[str]

    def read_json(self, decoder: Any = None) -> Any:
        message = super().read_json(decoder)
        try:
            check(json.loads(json.dumps(message, default=dict)))
        except (AssertionError, jsonschema.ValidationError) as error:
            self.faults.append(f"{message}: {error}")
        return message

    def write_json(self, value: Any, encoder: Any = None) -> None:
        check(json.loads(json.dumps(value)))
        super().write_json(value, encoder)


class Editor:
    """A session with the adapter, on its standard streams or, with a port, on a socket."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        if port is None:
            self.process = forked.Popen(
                [sys.executable, "-m", "nodescope", "dap"],
                cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self._stream = Checked.from_process(self.process)
        else:
            self._stream = Checked.from_socket(
                socket.create_connection(("127.0.0.1", port), WAIT_S)
            )
        self._stream.faults = []
        self._news = threading.Condition()
        self._events: list[tuple[str, Body]] = []
        self._read = [0, 0]  # How far events, and how far output events, have been read.
        self.closed = threading.Event()
        self._channel = JsonMessageChannel(
            self._stream, MessageHandlers(event=self._event, disconnect=self._disconnected)
        )
        self._channel.start()

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._kill_program()  # It would run forever.
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait(WAIT_S)
        else:
            self._channel.close()
        assert self.closed.wait(WAIT_S)
        if self.process is not None:
            self._channel.close()
        if kind is None:
            assert not self._stream.faults, self._stream.faults

    def _kill_program(self) -> None:
        with self._news:
            programs = [body["systemProcessId"] for name, body in self._events if name == "process"]
        for program in programs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)

    def _event(self, event: Any) -> None:
        with self._news:
            self._events.append((event.event, json.loads(json.dumps(event.body, default=dict))))
            self._news.notify_all()

    def _disconnected(self) -> None:
        self.closed.set()

    # ------------------------------------------------------------ talking

    def send(self, command: str, **arguments: Any) -> queue.Queue[Any]:
        """Send a request; return the queue that receives its answer."""
        answer: queue.Queue[Any] = queue.Queue()
        request = self._channel.send_request(command, arguments or None)
        request.on_response(lambda response: answer.put(response.body))
        return answer

    def ask(self, command: str, **arguments: Any) -> Body:
        """Send a request, and return its answer."""
        body = self.send(command, **arguments).get(timeout=WAIT_S)
        assert not isinstance(body, Exception), f"{command}: {body}"
        return body

    def refused(self, command: str, **arguments: Any) -> str:
        """Send a request that is refused, and return the reason."""
        body = self.send(command, **arguments).get(timeout=WAIT_S)
        assert isinstance(body, Exception), f"{command} was taken: {body}"
        return str(body)

    def event(self, name: str, **wanted: Any) -> Body:
        """Wait for the next event with a name, after the last one that was waited for.

        A program's output arrives independently, earlier or later than its other events.
        """
        kinds = name == "output"

        def position() -> int | None:
            for place in range(self._read[kinds], len(self._events)):
                kind, body = self._events[place]
                if kind == name and all(body.get(key) == item for key, item in wanted.items()):
                    return place
            return None

        with self._news:
            assert self._news.wait_for(lambda: position() is not None, WAIT_S), (name, self._events)
            place = position()
            assert place is not None
            self._read[kinds] = place + 1
            return self._events[place][1]

    def happened(self) -> list[str]:
        """The names of all events so far, except output."""
        with self._news:
            return [name for name, _ in self._events if name != "output"]

    def output(self, category: str) -> str:
        """All output so far."""
        with self._news:
            return "".join(body["output"] for name, body in self._events
                           if name == "output" and body["category"] == category)  # fmt: skip

    # ------------------------------------------------------------ sessions

    def initialize(self, **more: Any) -> Body:
        """Initialize the session."""
        return self.ask("initialize", adapterID="nodescope", clientID="test", linesStartAt1=True,
                        columnsStartAt1=True, pathFormat="path", **more)  # fmt: skip

    def launch(self, program: str, *, name: str = "script.py", **more: Any) -> None:
        """Write and launch a program; it waits to be configured."""
        (self.folder / name).write_text(program)
        self.initialize()
        self.ask("launch", program=name, cwd=str(self.folder), **more)
        self.event("initialized")

    def configured(self) -> None:
        """Let the program run."""
        self.ask("configurationDone")

    def top(self) -> Body:
        """The innermost frame at the stop."""
        return self.frames()[0]

    def frames(self) -> list[Body]:
        """All frames of the thread that stopped last."""
        with self._news:
            thread = [body for name, body in self._events if name == "stopped"][-1]["threadId"]
        return self.ask("stackTrace", threadId=thread)["stackFrames"]

    def scope(self, name: str, frame: int = 1) -> int:
        """The reference of a scope."""
        scopes = self.ask("scopes", frameId=frame)["scopes"]
        (results,) = [scope["variablesReference"] for scope in scopes if scope["name"] == name]
        return results

    def variables(self, reference: int, **more: Any) -> dict[str, Body]:
        """The variables that a reference expands to, by name."""
        result = self.ask("variables", variablesReference=reference, **more)["variables"]
        return {item["name"]: item for item in result}

    def value(self, expression: str, context: str = "watch") -> str:
        """The value of an expression."""
        return self.ask("evaluate", expression=expression, context=context)["result"]


def listening(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """An adapter on a port, and the port."""
    process = forked.Popen(
        [sys.executable, "-m", "nodescope", "dap", "--port", "0"],
        cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "debug adapter on 127.0.0.1:" in line, line
    return process, int(line.rpartition(":")[2])
