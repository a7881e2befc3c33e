"""Breakpoints kept with the project: ``.nodescope/breakpoints.json`` beside the script.

One file for all scripts of a folder, each breakpoint as it is written on the command line, so that
a person can read, change and commit it.

Invariant: a file that cannot be read is never overwritten but put aside; a file that cannot be
written costs the person one line and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from nodescope.debug.spelling import describe, parse_breakpoint
from nodescope.errors import NodescopeError
from nodescope.protocol import Breakpoint

FOLDER: Final = ".nodescope"
VARIABLE: Final = "NODESCOPE_PROJECT"
_FILE: Final = "breakpoints.json"
_VERSION: Final = 1


class Saved:
    """The breakpoints that are kept for one script.

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
        for each in known.get(self._name, ()):
            try:
                found.append(parse_breakpoint(str(each)))
            except NodescopeError as error:
                said.append(f"a breakpoint of {self.path} was left out: {error}")
        return tuple(found), said

    def save(self, breakpoints: Iterable[Breakpoint]) -> str:
        """Keep these and no others; why that was not possible, or ``""``."""
        if self._off:
            return ""
        texts = [describe(each) for each in breakpoints]
        known, fault = self._read()
        if not texts and self._name not in known:
            return ""
        try:
            if fault:
                os.replace(self.path, self.path.with_suffix(".damaged"))
            if texts:
                known[self._name] = texts
            else:
                del known[self._name]
            self._write(known)
        except OSError as error:
            return f"breakpoints are not kept: {self.path}: {error.strerror or error}"
        return f"{fault}; it was put aside as {self.path.stem}.damaged" if fault else ""

    def _read(self) -> tuple[dict[str, Any], str]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            known = content["breakpoints"]
            if content["version"] != _VERSION or not isinstance(known, dict):
                raise ValueError
            return {str(k): v for k, v in known.items() if isinstance(v, list)}, ""
        except (FileNotFoundError, NotADirectoryError):
            return {}, ""
        except OSError as error:
            return {}, f"{self.path} cannot be read: {error.strerror or error}"
        except (ValueError, LookupError, TypeError, RecursionError):
            return {}, f"{self.path} holds no breakpoints of this version"

    def _write(self, known: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "breakpoints": known}, indent=1) + "\n"
        handle, name = tempfile.mkstemp(prefix=".breakpoints-", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
