"""Fixtures: a server with its programs and pages, which all end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.support import Live, Page, Program, serving


@pytest.fixture
def live() -> Iterator[Live]:
    with serving(lost_after_s=0.05) as running:
        yield running


@pytest.fixture
def new_program(live: Live, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Make numbered programs, connected to the server unless ``connected=False``."""
    programs: list[Program] = []

    def make(number: int = 1, *, connected: bool = True, **options: object) -> Program:
        program = Program(live, tmp_path, number=number, **options)  # type: ignore[arg-type]
        programs.append(program)
        if connected:
            program.connect()
        return program

    yield make
    for item in programs:
        item.recorder.close()
        if item.socket is not None:
            item.socket.close()


@pytest.fixture
def program(new_program: Callable[..., Program]) -> Program:
    return new_program()


@pytest.fixture
def new_page(live: Live) -> Iterator[Callable[[], Page]]:
    pages: list[Page] = []

    def make() -> Page:
        pages.append(Page(live))
        return pages[-1]

    yield make
    for item in pages:
        item.close()


@pytest.fixture
def page(new_page: Callable[[], Page]) -> Page:
    return new_page()
