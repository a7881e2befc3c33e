"""Parts of the command line that need no process."""

from __future__ import annotations

import argparse
import io
import stat
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nodescope.api import Run
from nodescope.cli import server_process
from nodescope.cli.grammar import parser, port, size
from nodescope.cli.run import Starting, kept_by
from nodescope.cli.script import MAX_LINE, Tee
from nodescope.debug.breakpoints.syntax import describe, parse_breakpoint
from nodescope.errors import BreakpointError, ConditionError, LinkError
from nodescope.events import Level
from nodescope.link.address import Address
from nodescope.protocol import Breakpoint


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4096", 4096), ("256M", 256 << 20), ("1.5g", 3 << 29), ("2 GiB", 2 << 30), ("8KB", 8 << 10)],
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "M", "-1M", "1X", "1e9"])
def test_bad_sizes(text):
    with pytest.raises(argparse.ArgumentTypeError):
        size(text)


@pytest.mark.parametrize("text", ["", "-1", "65536", "x"])
def test_bad_ports(text):
    with pytest.raises(argparse.ArgumentTypeError):
        port(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("loss/mean", Breakpoint("node", "loss/mean")),
        ("node:loss/mean", Breakpoint("node", "loss/mean")),
        ("*/matmul*", Breakpoint("glob", "*/matmul*")),
        ("glob:*/matmul*", Breakpoint("glob", "*/matmul*")),
        ("op:log if isnan(value).any()",
         Breakpoint("op", "log", condition="isnan(value).any()")),
        ("scope:hidden_1/", Breakpoint("scope", "hidden_1")),
        (" op : log  if  step > 3 ", Breakpoint("op", "log", condition="step > 3")),
    ],
)  # fmt: skip
def test_breakpoint_specs(spec, expected):
    assert parse_breakpoint(spec) == expected
    assert parse_breakpoint(describe(expected)) == expected


@pytest.mark.parametrize("spec", ["", "op:", "what:x", "op:log if", "if step > 1", "node: "])
def test_bad_breakpoint_specs(spec):
    with pytest.raises((BreakpointError, ConditionError)):
        parse_breakpoint(spec)


def test_options_after_the_script_are_the_scripts():
    options = parser().parse_args(["run", "--level", "values", "a.py", "--level", "x", "--exit"])
    assert options.level == "values"
    assert options.args == ["--level", "x", "--exit"]
    assert not options.exit


def test_tee_writes_through_and_hands_on_lines():
    stream, lines = io.StringIO(), []
    tee = Tee(stream, lines.append)
    for text in ("a", "b\nc\n\n", "10%\r20%\r", "30%\n", "rest"):
        assert tee.write(text) == len(text)
    assert stream.getvalue() == "ab\nc\n\n10%\r20%\r30%\nrest"
    assert lines == ["ab", "c", "", "30%"]
    tee.finish()
    assert lines[-1] == "rest"
    assert tee.isatty() is False
    tee.writelines(["x\n", "y\n"])
    assert lines[-2:] == ["x", "y"]


def test_tee_bounds_lines_without_end():
    lines: list[str] = []
    tee = Tee(io.StringIO(), lines.append)
    for _ in range(100):
        tee.write("x" * 1000)
    tee.finish()
    assert sum(map(len, lines)) <= MAX_LINE + 1


@pytest.mark.parametrize(
    ("level", "limit", "expected"),
    [
        (None, None, ("summary", 2.0, True, False)),
        (None, 3.0, ("summary", 3.0, True, True)),
        (None, 0.0, ("values", None, False, True)),
        ("values", None, ("values", None, False, True)),
        ("values", 3.0, ("values", 3.0, True, True)),
        ("summary", 3.0, ("summary", 3.0, False, True)),
        ("timing", 0.0, ("timing", None, False, True)),
    ],
)
def test_what_is_kept_by_level_and_limit(
    level: Level | None, limit: float | None, expected: tuple[object, ...]
) -> None:
    kept = kept_by(level, limit)
    assert tuple(kept[item] for item in ("level", "max_slowdown", "newest", "explicit")) == expected


@pytest.mark.parametrize("text", ["1", "0.5", "-2", "nan", "inf", "fast"])
def test_a_slowdown_is_above_one_or_no_limit(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert parser().parse_args(["run", "--max-slowdown", "0", "x.py"]).max_slowdown == 0
    with pytest.raises(SystemExit):
        parser().parse_args(["run", f"--max-slowdown={text}", "x.py"])
    assert "a number above 1, or 0 for no limit" in capsys.readouterr().err


@pytest.mark.one_in(2)
@pytest.mark.parametrize("tells", [True, False])
def test_what_a_browser_is_given_is_not_secret(monkeypatch, capfd, tells):
    addresses: list[str] = []
    monkeypatch.setattr("webbrowser.open", addresses.append)
    monkeypatch.setenv("HEADLESS", "0")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(server_process, "can_tell", lambda: tells)
    started = server_process.Server(0)
    try:
        started.show(browser=True, place="#run=1")
        assert f"nodescope: open {started.url}#run=1" in capfd.readouterr().err
        assert started.url.partition("token=")[2] not in addresses[0]
        if not tells:
            page = Path(urlsplit(addresses[0]).path)
            assert f"{started.url}#run=1" in page.read_text()
            assert stat.S_IMODE(page.stat().st_mode) == 0o600
            assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    finally:
        started.stop()
    if not tells:
        assert not page.parent.exists()


class _Slow:
    """A server that cannot be reached before the program has run."""

    address = Address("ws://127.0.0.1:1/link", "token")

    def __init__(self, port: int, *, later: bool, error: str = "") -> None:
        assert later
        self.ran, self.error = threading.Event(), error
        self.did: list[str] = []

    def reach(self) -> None:
        assert self.ran.wait(60)
        if self.error:
            raise LinkError(self.error)
        self.did.append("reached")

    def show(self, *, browser: bool, stream: object) -> None:
        self.did.append("shown")

    def keep(self) -> None:
        self.did.append("kept")

    def stop(self) -> None:
        self.did.append("stopped")


@pytest.mark.parametrize(
    ("error", "did"), [("", ["reached", "shown", "kept"]), ("it is broken", ["stopped"])]
)
def test_a_program_that_waits_for_no_page_does_not_wait_for_the_server(
    error: str, did: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    observed = Run(tmp_path / "r.nscope", debugger=True)
    monkeypatch.setattr(observed, "connect", lambda address, timeout_s: None)
    monkeypatch.setattr(
        "nodescope.cli.run.Server",
        lambda port, *, later, background: _Slow(port, later=later, error=error),
    )
    starting = Starting(observed, argparse.Namespace(port=0, no_browser=True))
    server = starting.leave()
    assert isinstance(server, _Slow)
    starting._left = False
    server.ran.set()  # The program has run.
    assert starting.wait() is (None if error else server)
    assert server.did == did
    assert ("the program runs without a page" in capfd.readouterr().err) == bool(error)
    assert observed.gate is not None
    assert (observed.gate.info.phase == "detached") == bool(error)
    observed.finish()


def test_a_server_that_does_not_start_after_the_end_of_the_program_is_reported_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    observed = Run(tmp_path / "r.nscope", debugger=True)
    monkeypatch.setattr(
        "nodescope.cli.run.Server",
        lambda port, *, later, background: _Slow(port, later=later, error="broken"),
    )
    starting = Starting(observed, argparse.Namespace(port=0, no_browser=True))
    observed.start()
    observed.end()
    starting._server.ran.set()  # type: ignore[attr-defined]
    assert starting.wait() is None
    observed.finish()
    said = capfd.readouterr().err
    assert "the program runs without a page" in said
    assert "Traceback" not in said
