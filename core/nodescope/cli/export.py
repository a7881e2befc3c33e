"""``nodescope export``: the graph of a recording in another format."""

from __future__ import annotations

import argparse

from nodescope.console_output import say, show


def export_recording(options: argparse.Namespace) -> int:
    """Write the graph of a recording, or of a graph file, in another format."""
    from nodescope.cli.graph_file import as_recording
    from nodescope.export.isolated import Limits, export_isolated

    with as_recording(options.recording) as recording:
        export_isolated(
            recording,
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
