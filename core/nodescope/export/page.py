"""HTML: the picture in one file that opens in any browser, without a script.

Invariant: the file refers to nothing outside itself, and its content security policy forbids the
browser to load or run anything.
"""

from __future__ import annotations

from html import escape

from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.svg import render_svg
from nodescope.export.words import visible
from nodescope.record.recording import Recording

POLICY = "default-src 'none'; style-src 'unsafe-inline'; font-src data:"
_GROUNDS = {"light": "#f6f7f8", "dark": "#0e1114"}


@exporter("html", suffix=".html")
def render_html(recording: Recording, options: ExportOptions) -> bytes:
    """HTML text in UTF-8."""
    _, title = graph_and_title(recording, options)
    return html_of(render_svg(recording, options), title, options)


def html_of(svg: bytes, title: str, options: ExportOptions, *, more: str = "") -> bytes:
    """A page with an SVG picture; ``more`` is further CSS."""
    drawing = svg.decode()
    start = drawing.index("<svg")  # after a declaration, which HTML does not have
    name = escape(visible(title))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>html{{color-scheme:{options.theme};"
        f"background:{_GROUNDS[options.theme]}}}body{{margin:0}}svg{{display:block;"
        f"margin:0 auto}}{more}</style>\n</head>\n<body>\n{drawing[start:]}\n</body>\n</html>\n"
    ).encode()
