"""Export: the graph of a recording in other formats, one file per format.

A format is a function `(recording, out, options)` under `exporter`; other packages add theirs by
the entry point group ``nodescope.exporter``, naming a module that registers on import.

Invariant: the recording is only read, and the target is written whole or not at all.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from nodescope.errors import ExportError
from nodescope.export.folding import Expand
from nodescope.export.words import visible
from nodescope.ir.graph import Graph
from nodescope.plugins import plugins
from nodescope.record.graphs import end_of, graph_of
from nodescope.record.recording import Recording
from nodescope.registry import Registry, did_you_mean

Engine = Literal["page", "dot"]
Theme = Literal["light", "dark"]
FORMATS: Final = ("dot", "svg", "mermaid", "model_explorer", "trace", "table", "page", "raster")
"""The modules of nodescope's own formats."""


class ExportOptions(NamedTuple):
    """How to draw the graph.

    Attributes:
        engine: The layout engine: the page's own code, or Graphviz.
        expand: The number of levels of open scopes, or their paths; ``"fit"`` opens what fits, as
            the page does at first, ``"all"`` opens every scope.
        scope: Only the contents of this scope are drawn; ``""``: everything.
        step: The graph is drawn as of the end of this training step; None: its latest state.
    """

    engine: Engine = "page"
    theme: Theme = "light"
    expand: Expand = "fit"
    scope: str = ""
    step: int | None = None


Render = Callable[[Recording, ExportOptions], bytes]


class Exporter(NamedTuple):
    """A format: its file suffix, with the dot, and the function that makes the file's content."""

    suffix: str
    render: Render


exporters: Registry[Exporter] = Registry("export format")


def exporter(name: str, *, suffix: str) -> Callable[[Render], Render]:
    """Register a function as the exporter of a format."""

    def register(render: Render) -> Render:
        exporters.add(name, Exporter(suffix, render))
        return render

    return register


def export(
    recording_path: str | Path,
    out_path: str | Path,
    *,
    engine: Engine | None = None,
    theme: Theme = "light",
    expand: Expand = "fit",
    scope: str = "",
    step: int | None = None,
    format: str | None = None,
) -> Path:
    """Write the graph of a recording; the suffix of ``out_path`` or ``format`` names the format.

    The other arguments are those of `ExportOptions`.

    Raises:
        ExportError: The format, the scope or the step is unknown, a requirement is missing, or the
            target cannot be written.
        RecordingError: The recording cannot be read.
    """
    out = Path(out_path)
    chosen = _choose(out, format)
    if engine not in (None, "page", "dot"):
        raise ExportError(f"no engine {engine!r}", hint="page or dot")
    with Recording.open(recording_path) as recording:
        options = ExportOptions(engine or "page", theme, expand, scope, step)
        content = chosen.render(recording, options)
    _write(out, content)
    return out


def graph_and_title(recording: Recording, options: ExportOptions) -> tuple[Graph, str]:
    """The graph to draw, and the picture's title: the program, and the moment shown.

    Raises:
        ExportError: The step does not exist.
    """
    title, step, steps = visible(recording.run().name), options.step, recording.step_table
    if step is None:
        last = steps.last()
        return graph_of(recording), f"{title}, last state" + (f" (step {last:,})" if last else "")
    if not steps.has(step):
        known = (
            f"steps {steps.first():,} to {steps.last():,} are" if steps.count(1) else "no step is"
        )
        raise ExportError(f"no step {step:,}", hint=f"{known} recorded")
    return graph_of(recording, end_of(recording, step)), f"{title}, end of step {step:,}"


def _choose(out: Path, name: str | None) -> Exporter:
    _load()
    if name is not None:
        if name not in exporters:
            hint = did_you_mean(name, exporters) or f"one of {', '.join(exporters)}"
            raise ExportError(f"no export format named {name!r}", hint=hint)
        return exporters.get(name)
    by_suffix = {exporters.get(name).suffix: exporters.get(name) for name in exporters}
    # The longest first: `.trace.json` is more than `.json`.
    suffixes = sorted(by_suffix, key=len, reverse=True)
    for ending in suffixes:
        if out.name.lower().endswith(ending):
            return by_suffix[ending]
    suffix = out.suffix.lower()
    hint = did_you_mean(suffix, suffixes) or f"use one of {', '.join(suffixes)}, or --format"
    kind = f"suffix {suffix!r}" if suffix else "file without a suffix"
    raise ExportError(f"no export format for the {kind} of {out.name!r}", hint=hint)


def _load() -> None:
    for name in FORMATS:
        importlib.import_module(f"nodescope.export.{name}")
    for entry in plugins("nodescope.exporter"):
        try:
            entry.load()
        except Exception as error:
            raise ExportError(f"the exporter {entry.name!r} cannot be loaded: {error}") from error


def _write(out: Path, content: bytes) -> None:
    part = ""
    try:
        handle, part = tempfile.mkstemp(prefix=f".{out.name[:40]}.", dir=out.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, out)
    except OSError as error:
        if part:
            Path(part).unlink(missing_ok=True)
        raise ExportError(f"cannot write {out}: {error.strerror or error}") from error
