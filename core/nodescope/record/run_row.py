"""What a recording says of its run.

Invariant: pure; a run that died before it said its name has one all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from nodescope.events import LEVELS, FrameworkAttached
from nodescope.ir.capabilities import ENGINE, Capabilities, Framework
from nodescope.protocol import RunInfo
from nodescope.telling import printable

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
        path: Of the recording.
        note: What is wrong with the file.
        row: Of table ``run``; those of schema 1 end with the time at which the run ended.
        attached: Each framework's document; earlier recordings have none, but only the first one's
            columns in ``row``.

    Raises:
        msgspec.MsgspecError: The row is damaged.
    """
    place = printable(str(path.absolute()))
    if row is None:
        # It died before it said its name. The same file gets the same id each time.
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
