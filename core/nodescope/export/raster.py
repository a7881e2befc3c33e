"""PNG and PDF: the SVG picture, painted by a Chromium without a window.

Only Chromium uses the fonts embedded in the file and writes PDF with selectable text. It is not a
dependency: any Chromium, Chrome or Edge on the machine is used.

Invariant: the browser gets one file that refers to nothing, in a profile that is then deleted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from nodescope.errors import ExportError
from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.page import html_of
from nodescope.export.svg import render_svg
from nodescope.record.recording import Recording

VARIABLE: Final = "NODESCOPE_CHROMIUM"
_NAMES: Final = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
    "microsoft-edge", "headless_shell", "chromium-headless-shell",
)  # fmt: skip
_BUNDLED: Final = (
    "chromium_headless_shell-*/chrome-linux*/headless_shell", "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/Chromium.app/Contents/MacOS/Chromium",
)  # fmt: skip
_SIZE: Final = re.compile(r"<svg\b[^>]*?\bwidth=\"([\d.]+)(?:pt|px)?\"[^>]*?\bheight=\"([\d.]+)")
# Beyond these sizes, Chromium leaves a picture blank.
_LONGEST_PX: Final = 16_000
_MOST_PX: Final = 120_000_000
_LONGEST_S: Final = 100.0
_LONGEST_PDF_PX: Final = 19_000  # a page of a PDF is at most 200 inches long


@exporter("png", suffix=".png")
def render_png(recording: Recording, options: ExportOptions) -> bytes:
    """PNG at twice the size of the SVG, or as much of that as a picture can have."""
    return _painted(recording, options, "png")


@exporter("pdf", suffix=".pdf")
def render_pdf(recording: Recording, options: ExportOptions) -> bytes:
    """PDF of one page, as large as the picture, with selectable text."""
    return _painted(recording, options, "pdf")


def browser() -> str:
    """The path of a Chromium.

    Raises:
        ExportError: There is none.
    """
    chosen = os.environ.get(VARIABLE)
    for name in (chosen,) if chosen else _NAMES:
        if path := shutil.which(name):
            return path
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or "~/.cache/ms-playwright")
    for pattern in () if chosen else _BUNDLED:
        for bundled in sorted(cache.expanduser().glob(pattern), reverse=True):
            return str(bundled)
    raise ExportError(
        f"there is no browser {chosen!r}" if chosen else "PNG and PDF need Chromium or Chrome",
        hint=f"apt-get install chromium, or name one by {VARIABLE}; SVG and HTML need none",
    )


def _painted(recording: Recording, options: ExportOptions, kind: str) -> bytes:
    program = browser()  # before the drawing, which can take long
    _, title = graph_and_title(recording, options)
    svg = render_svg(recording, options)
    size = _SIZE.search(svg[:20_000].decode(errors="replace"))
    if size is None:
        raise ExportError("the picture does not say how large it is")
    points = 4 / 3 if b'pt"' in svg[: size.end() + 4] else 1.0
    width, height = (max(1.0, float(length) * points) for length in size.groups())
    if kind == "pdf":
        scale = min(1.0, _LONGEST_PDF_PX / width, _LONGEST_PDF_PX / height)
    else:
        scale = min(2.0, _LONGEST_PX / width, _LONGEST_PX / height,
                    (_MOST_PX / (width * height)) ** 0.5)  # fmt: skip
    # Scale the picture instead of enlarging the window: for a window as large as a whole graph,
    # Chromium takes minutes.
    width, height = width * scale, height * scale
    # One pixel more than the picture, so that rounding does not begin a second page.
    page_size = (int(width) + 1, int(height) + 1)
    more = (
        f"html,body{{overflow:hidden}}svg{{width:{width:.2f}px;height:{height:.2f}px}}"
        f"@page{{size:{page_size[0]}px {page_size[1]}px;margin:0}}*{{print-color-adjust:exact}}"
    )
    with tempfile.TemporaryDirectory(prefix="nodescope-") as name:
        folder = Path(name)
        arguments = (
            ["--no-pdf-header-footer"]
            if kind == "pdf"
            else [f"--window-size={page_size[0]},{page_size[1]}"]
        )
        page = folder / "graph.html"
        page.write_bytes(html_of(svg, title, options, more=more))
        out = folder / f"graph.{kind}"
        goal = f"--print-to-pdf={out}" if kind == "pdf" else f"--screenshot={out}"
        _run(program, folder, [*arguments, goal, page.as_uri()])
        try:
            return out.read_bytes()
        except OSError:
            raise ExportError(
                f"{Path(program).name} painted nothing", hint=f"name another one by {VARIABLE}"
            ) from None


def _run(program: str, folder: Path, arguments: list[str]) -> None:
    # Chromium refuses its sandbox to root; the file it opens is nodescope's own, without a script.
    as_root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    command = [
        program, "--headless", *as_root, "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--disable-extensions", "--disable-background-networking", "--disable-sync",
        "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}", *arguments,
    ]  # fmt: skip
    try:
        # Chromium stays in the exporting process's group, so it ends with that process.
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=True, cwd=folder, timeout=_LONGEST_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ExportError(
            f"{Path(program).name} has not painted the picture in {_LONGEST_S:g} s",
            hint="--depth 1 or --scope PATH draw less; SVG and HTML need no browser",
        ) from None
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "strerror", None) or f"status {getattr(error, 'returncode', '?')}"
        raise ExportError(
            f"{Path(program).name} cannot paint the picture: {reason}",
            hint=f"name another one by {VARIABLE}; SVG and HTML need none",
        ) from None
