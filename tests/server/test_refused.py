"""A system that has no more processes, threads or files: the server says so, and goes on."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import nodescope as ns
from nodescope.protocol import SetValue
from nodescope_server import wire
from nodescope_server.wire import why_messages
from tests.server.http.test_rest import ROUTES
from tests.server.support import Live, Page, serving


def raising(error: Exception) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise error

    return refuse


NO_PROCESS = raising(BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
NO_THREAD = raising(RuntimeError("can't start new thread"))
NO_FILE = raising(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))


def opened(live: Live, folder: Path) -> str:
    """The id of a recording that the server knows, but has not read since."""
    weight = ns.parameter([1.0, 2.0], name="w")
    with ns.record(folder / "run.nscope", level="values"):
        for step in ns.steps(range(3)):
            (weight * float(step)).sum()
    return asyncio.run(live.app.runs.open(folder / "run.nscope")).info.id


def questions(run: str) -> list[Any]:
    return [
        wire.GetState(run, 5),
        wire.GetValue(run, 1),
        why_messages.AskWhy(run, 1),
        why_messages.AskSpread(run, 1),
        why_messages.WhatIf(run, None, SetValue(1, "set", number=0.0)),
        why_messages.GetBranches(run),
    ]


def test_threads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as live:
        run = opened(live, tmp_path)
        page = Page(live)
        with monkeypatch.context() as patched:
            patched.setattr(threading, "_start_new_thread", NO_THREAD)
            for question in questions(run):
                answer = page.ask(question)
                assert isinstance(answer, wire.Failed), question
                assert "refuses another thread" in answer.message
            for route in ROUTES:
                told = live.get(route.format(run=run))
                assert told.status_code == 503 or "/source" in route, (route, told.text)
                if told.status_code == 503:
                    assert "refuses another thread" in told.json()["error"]
        for question in questions(run):
            answer = page.ask(question)
            assert "refuses" not in getattr(answer, "message", ""), answer
        assert live.get(f"/api/runs/{run}/graph").status_code == 200
        page.close()


@pytest.mark.parametrize(
    ("owner", "name", "refusing", "expected"),
    [
        (subprocess.Popen, "__init__", NO_PROCESS, "refuses another process"),
        (tempfile, "mkdtemp", NO_FILE, "refuses another open file"),
        (tempfile, "mkdtemp", raising(OSError(errno.ENOSPC, "No space left")), "No space left"),
    ],
)
def test_an_export_is_refused(
    owner: Any, name: str, refusing: Any, expected: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with serving() as live:
        run = opened(live, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, refusing)
            for kind in ("svg", "dot"):
                told = live.get(f"/api/runs/{run}/export.{kind}")
                assert told.status_code == 409, told.text
                assert expected in told.json()["error"]
        assert live.get(f"/api/runs/{run}/export.dot").status_code == 200
