"""Breakpoints and watches kept with the project: ``.nodescope/breakpoints.json`` beside the script.

One file for all scripts of a folder, each breakpoint and watch as it is written on the command
line, so that a person can read, change and commit it.

Invariant: a file that cannot be read is never overwritten but put aside; a file that cannot be
written costs the person one line and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from nodescope.debug.spelling import describe, parse_breakpoint
from nodescope.debug.watch.watch import describe as describe_watch
from nodescope.debug.watch.watch import parse_watch
from nodescope.errors import NodescopeError
from nodescope.protocol import Breakpoint

FOLDER: Final = ".nodescope"
VARIABLE: Final = "NODESCOPE_PROJECT"
_FILE: Final = "breakpoints.json"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
_MAX_EACH: Final = 1000  # of breakpoints or watches of a script

_Kind = Literal["breakpoints", "watches"]
_KINDS: Final[tuple[_Kind, ...]] = ("breakpoints", "watches")
_Known = dict[_Kind, dict[str, list[Any]]]


class Saved:
    """The breakpoints and watches that are kept for one script.

    Args:
        script: Its path. ``NODESCOPE_PROJECT`` names another folder than the one beside it;
            ``none`` keeps nothing.
    """

    def __init__(self, script: Path) -> None:
        folder = os.environ.get(VARIABLE, "")
        self._off = folder == "none"
        self.path = (Path(folder) if folder else script.absolute().parent / FOLDER) / _FILE
        self._name = script.name

    def load(self) -> tuple[tuple[Breakpoint, ...], list[str]]:
        """The breakpoints, and a line for each that is not understood any more."""
        if self._off:
            return (), []
        known, fault = self._read()
        found: list[Breakpoint] = []
        said = [fault] if fault else []
        for each in known["breakpoints"].get(self._name, ()):
            try:
                found.append(parse_breakpoint(str(each)))
            except NodescopeError as error:
                said.append(f"a breakpoint of {self.path} was left out: {error}")
        return tuple(found), said

    def load_watches(self) -> tuple[tuple[str, ...], list[str]]:
        """The watches as they are written, and a line for each that is not understood any more."""
        if self._off:
            return (), []
        known, fault = self._read()
        found: list[str] = []
        said = [fault] if fault else []
        for each in known["watches"].get(self._name, ()):
            try:
                found.append(describe_watch(parse_watch(str(each))))
            except NodescopeError as error:
                said.append(f"a watch of {self.path} was left out: {error}")
        return tuple(found), said

    def save(self, breakpoints: Iterable[Breakpoint]) -> str:
        """Keep these and no others; why that was not possible, or ``""``."""
        return self._save("breakpoints", [describe(each) for each in breakpoints])

    def save_watches(self, texts: Iterable[str]) -> str:
        """Keep these watches and no others; why that was not possible, or ``""``."""
        return self._save("watches", list(texts))

    def _save(self, kind: _Kind, texts: list[str]) -> str:
        if self._off:
            return ""
        known, fault = self._read()
        if not texts and self._name not in known[kind]:
            return ""
        try:
            if fault:
                os.replace(self.path, self.path.with_suffix(".damaged"))
            if texts:
                known[kind][self._name] = texts
            else:
                del known[kind][self._name]
            self._write(known)
        except OSError as error:
            return f"{kind} are not kept: {self.path}: {error.strerror or error}"
        return f"{fault}; it was put aside as {self.path.stem}.damaged" if fault else ""

    def _read(self) -> tuple[_Known, str]:
        none: _Known = {kind: {} for kind in _KINDS}
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                return none, f"{self.path} is not a file"
            with self.path.open("rb") as file:
                text = file.read(_MAX_BYTES + 1)
            if len(text) > _MAX_BYTES:
                return none, f"{self.path} is larger than {_MAX_BYTES >> 20} MiB"
            content = json.loads(text)
            if content["version"] != _VERSION:
                raise ValueError
            found = {kind: content.get(kind, {}) for kind in _KINDS}
            return {
                kind: {str(k): v[:_MAX_EACH] for k, v in each.items() if isinstance(v, list)}
                for kind, each in found.items()
            }, ""
        except (FileNotFoundError, NotADirectoryError):
            return none, ""
        except OSError as error:
            return none, f"{self.path} cannot be read: {error.strerror or error}"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return none, f"{self.path} holds no breakpoints that this version can read"

    def _write(self, known: _Known) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {kind: each for kind, each in known.items() if each or kind == "breakpoints"}
        text = json.dumps({"version": _VERSION, **kept}, indent=1) + "\n"
        handle, name = tempfile.mkstemp(prefix=".breakpoints-", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
