"""RunInfo of a recording, from its row and documents.

Invariant: pure; a run that ended before it recorded its name gets one here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from nodescope.console_output import printable
from nodescope.events import LEVELS, FrameworkAttached
from nodescope.ir.capabilities import ENGINE, Capabilities, Framework
from nodescope.protocol import RunInfo

_argv = msgspec.json.Decoder(list[str]).decode
_attached = msgspec.msgpack.Decoder(FrameworkAttached).decode
_capabilities = msgspec.msgpack.Decoder(Capabilities).decode


def run_info(
    path: Path,
    note: str,
    row: tuple[Any, ...] | None,
    attached: Iterable[tuple[bytes]] = (),
) -> RunInfo:
    """The run, in state ``recorded``.

    Args:
        path: Path of the recording.
        note: Description of the file's faults.
        row: The row of table ``run``; in schema 1, its last column is the end time of the run.
        attached: One document per framework; earlier recordings have none, only the first
            framework's columns in ``row``.

    Raises:
        msgspec.MsgspecError: The row is damaged.
    """
    place = printable(str(path.absolute()))
    if row is None:
        # The run ended before it recorded its name. The same file gets the same id each time.
        digest = hashlib.blake2b(place.encode("utf-8", "replace"), digest_size=8).hexdigest()
        name = printable(path.stem)
        return RunInfo(digest, name, state="recorded", recording=place, trouble=printable(note))
    run_id, name, argv, pid, started, level, writer, status, error, _end, *more = row
    framework, version, capabilities = more or ("nodescope", writer, None)
    known = ENGINE if capabilities is None else _capabilities(capabilities)
    frameworks = {f.dialect: f for f in (_attached(data).framework for (data,) in attached)}
    return RunInfo(
        id=run_id,
        name=name,
        argv=tuple(_argv(argv)),
        pid=pid,
        started_unix_ns=started,
        level=level if level in LEVELS else "summary",
        state="recorded",
        recording=place,
        status=status,
        error=error,
        trouble=printable(note),
        frameworks=tuple(frameworks.values()) or (Framework(framework, version, known),),
    )
