"""Project settings: breakpoints and watches, in ``.nodescope/breakpoints.json`` beside the script.

One file for all scripts of a folder, each breakpoint and watch in its command-line syntax, so that
people can read, edit and commit it.

Invariant: an unreadable file is never overwritten but renamed; a file that cannot be written costs
one line of output and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from nodescope.debug.breakpoints.syntax import describe, parse_breakpoint
from nodescope.debug.watch.watch import describe as describe_watch
from nodescope.debug.watch.watch import parse_watch
from nodescope.errors import NodescopeError
from nodescope.plain_files import read_plain
from nodescope.protocol import Breakpoint

FOLDER: Final = ".nodescope"
VARIABLE: Final = "NODESCOPE_PROJECT"
_FILE: Final = "breakpoints.json"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
_MAX_EACH: Final = 1000  # limit of breakpoints or watches of a script

_Kind = Literal["breakpoints", "watches"]
_KINDS: Final[tuple[_Kind, ...]] = ("breakpoints", "watches")
_Known = dict[_Kind, dict[str, list[Any]]]


class ProjectSettings:
    """The saved breakpoints and watches of a script.

    Args:
        script: Its path. ``NODESCOPE_PROJECT`` names another folder than the one beside it;
            ``none`` saves nothing.
        waits: Whether a program that reaches a saved breakpoint waits for the first page.
    """

    def __init__(self, script: Path, *, waits: bool = True) -> None:
        self.waits = waits
        folder = os.environ.get(VARIABLE, "")
        self._off = folder == "none"
        self.path = (Path(folder) if folder else script.absolute().parent / FOLDER) / _FILE
        self._name = script.name

    def load(self) -> tuple[tuple[Breakpoint, ...], list[str]]:
        """The breakpoints, and a message for each that is no longer understood."""
        if self._off:
            return (), []
        saved, fault = self._read()
        breakpoints: list[Breakpoint] = []
        messages = [fault] if fault else []
        for spec in saved["breakpoints"].get(self._name, ()):
            try:
                breakpoints.append(parse_breakpoint(str(spec)))
            except NodescopeError as error:
                messages.append(f"a breakpoint of {self.path} was skipped: {error}")
        return tuple(breakpoints), messages

    def load_watches(self) -> tuple[tuple[str, ...], list[str]]:
        """The watches as text, and a message for each that is no longer understood."""
        if self._off:
            return (), []
        saved, fault = self._read()
        watches: list[str] = []
        messages = [fault] if fault else []
        for text in saved["watches"].get(self._name, ()):
            try:
                watches.append(describe_watch(parse_watch(str(text))))
            except NodescopeError as error:
                messages.append(f"a watch of {self.path} was skipped: {error}")
        return tuple(watches), messages

    def save(self, breakpoints: Iterable[Breakpoint]) -> str:
        """Save exactly these breakpoints; return why that failed, or ``""``."""
        return self._save("breakpoints", [describe(breakpoint) for breakpoint in breakpoints])

    def save_watches(self, texts: Iterable[str]) -> str:
        """Save exactly these watches; return why that failed, or ``""``."""
        return self._save("watches", list(texts))

    def _save(self, kind: _Kind, texts: list[str]) -> str:
        if self._off:
            return ""
        saved, fault = self._read()
        if not texts and self._name not in saved[kind]:
            return ""
        try:
            if fault:
                os.replace(self.path, self.path.with_suffix(".damaged"))
            if texts:
                saved[kind][self._name] = texts
            else:
                del saved[kind][self._name]
            self._write(saved)
        except OSError as error:
            return f"{kind} are not saved: {self.path}: {error.strerror or error}"
        return f"{fault}; it was renamed to {self.path.stem}.damaged" if fault else ""

    def _read(self) -> tuple[_Known, str]:
        none: _Known = {kind: {} for kind in _KINDS}
        try:
            content = json.loads(read_plain(self.path, _MAX_BYTES))
            if content["version"] != _VERSION:
                raise ValueError
            scripts_by_kind = {kind: content.get(kind, {}) for kind in _KINDS}
            return {
                kind: {str(k): v[:_MAX_EACH] for k, v in scripts.items() if isinstance(v, list)}
                for kind, scripts in scripts_by_kind.items()
            }, ""
        except (FileNotFoundError, NotADirectoryError):
            return none, ""
        except OSError as error:
            return none, f"{self.path} cannot be read: {error.strerror or error}"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return none, f"{self.path} contains no breakpoints that this version can read"

    def _write(self, saved: _Known) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        sections = {
            kind: scripts for kind, scripts in saved.items() if scripts or kind == "breakpoints"
        }
        text = json.dumps({"version": _VERSION, **sections}, indent=1) + "\n"
        handle, name = tempfile.mkstemp(prefix=".breakpoints-", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
