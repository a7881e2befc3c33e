"""``nodescope export``: the graph of a recording in another format."""

from __future__ import annotations

import argparse

from nodescope.errors import RecordingError
from nodescope.telling import say, show


def export_recording(options: argparse.Namespace) -> int:
    """Write the graph of a recording in another format."""
    if not options.recording.is_file():
        raise RecordingError(f"no recording {str(options.recording)!r}")
    from nodescope.export.isolated import Limits, export_isolated

    export_isolated(
        options.recording,
        options.output,
        engine=options.engine,
        theme=options.theme,
        expand="all" if options.all else "fit" if options.depth is None else options.depth,
        scope=options.scope,
        step=options.step,
        format=options.format,
        limits=Limits(seconds=options.time_limit),
        tell=say,
    )
    show(f"wrote {options.output}")
    return 0
