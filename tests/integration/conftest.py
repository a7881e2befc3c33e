"""Fixtures: commands that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.processes import Program
from tests.server.support import Live, Page

Start = Callable[..., Program]
Open = Callable[[Live], Page]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start ``nodescope ARGS`` in an empty folder; ``text`` becomes ``script.py`` there.

    With ``plain``, start ``python ARGS``. Waiting servers leave their address in this folder only.
    """
    started: list[Program] = []

    def begin(*args: str, text: str = "", folder: Path = tmp_path, plain: bool = False) -> Program:
        if text:
            (folder / "script.py").write_text(text)
        place = str(tmp_path / "runtime")
        started.append(Program(folder, *args, plain=plain, XDG_RUNTIME_DIR=place))
        return started[-1]

    yield begin
    for item in started:
        if item.process.poll() is None:
            item.process.kill()
        item.end()


@pytest.fixture
def new_page() -> Iterator[Open]:
    """Open a page of a server."""
    opened: list[Page] = []

    def make(live: Live) -> Page:
        opened.append(Page(live))
        return opened[-1]

    yield make
    for item in opened:
        item.close()
