"""First pictures of graphs: reading them, and comparing them with references.

`python -m tests.e2e.first_pictures` prints what each graph shows in windows of several sizes;
`--renew` writes the references, `--shots FOLDER` takes screenshots in both themes.

A reference lists the boxes and their positions, in px of the drawing, which are the same on every
machine. Screenshots differ with the system's fonts and with Chromium's version.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.e2e import chromium
from tests.e2e.graphs import GRAPHS
from tests.e2e.pictures import running
from tests.e2e.waiting import eventually, settled

REFERENCES: Final = Path(__file__).resolve().parents[1] / "golden" / "first_pictures"
SIZES: Final = (
    ViewportSize(width=1280, height=720),
    ViewportSize(width=1600, height=1000),
    ViewportSize(width=2560, height=1440),
)
READABLE_PX: Final = 9.0
_LONGEST: Final = 60
_SVG: Final = "{http://www.w3.org/2000/svg}"

THERE = """
() => {
  const { store } = window.__nodescope;
  const count = store.model()?.graph.count;
  return count === 0 || (count > 0 && store.first.there());
}
"""

DRAWN = """
() => {
  const { store, view } = window.__nodescope;
  const host = document.querySelector('.graph-host');
  const boxes = [];
  const add = (name, item) => {
    const at = view.boundsOf(item);
    if (at) boxes.push([name, at.x, at.y, at.width, at.height]);
  };
  for (const path of store.tree()?.scopes.keys() ?? []) {
    if (path !== '') add(`${path}/`, { kind: 'scope', path });
  }
  for (const node of store.model()?.graph.nodes ?? []) {
    if (node) add(node.name, { kind: 'node', id: node.id });
  }
  return {
    boxes,
    window: [host.clientWidth, host.clientHeight],
    svg: view.toSvg('screen', { title: '', fonts: '' }),
    nodes: store.model()?.graph.count ?? 0,
  };
}
"""


@dataclass(frozen=True)
class Rect:
    """A part of the screen, in px."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Rect, by: float = 1.0) -> bool:
        """Whether both overlap by more than ``by`` px."""
        return (
            min(self.right, other.right) - max(self.left, other.left) > by
            and min(self.bottom, other.bottom) - max(self.top, other.top) > by
        )

    def contains(self, other: Rect, by: float = 1.0) -> bool:
        """Whether the other lies inside, except for ``by`` px."""
        return (
            self.left <= other.left + by
            and self.top <= other.top + by
            and self.right >= other.right - by
            and self.bottom >= other.bottom - by
        )


@dataclass(frozen=True)
class Text:
    """A text on the screen; ``size`` is its font size."""

    text: str
    size: float
    rect: Rect
    name: bool


@dataclass(frozen=True)
class Picture:
    """The visible part of a graph: boxes by name, and all texts in them and beside them."""

    boxes: list[tuple[str, Rect]]
    texts: list[Text]
    zoom: float
    window: tuple[float, float]

    @property
    def labels(self) -> list[str]:
        """The names that are visible."""
        return [item.text for item in self.texts if item.name and item.size > READABLE_PX - 0.01]

    @property
    def used(self) -> float:
        """The share of the window that the drawing's bounding box takes."""
        if not self.boxes:
            return 0.0
        rects = [rect for _, rect in self.boxes]
        width = max(rect.right for rect in rects) - min(rect.left for rect in rects)
        height = max(rect.bottom for rect in rects) - min(rect.top for rect in rects)
        return width * height / (self.window[0] * self.window[1])

    def collisions(self) -> list[str]:
        """Boxes that overlap without nesting, and texts that overlap."""
        overlaps = []
        for k, (name, rect) in enumerate(self.boxes):
            for other, at in self.boxes[k + 1 :]:
                inside = rect.contains(at) or at.contains(rect)
                if rect.overlaps(at) and not inside:
                    overlaps.append(f"box {name} and box {other}")
        for k, text in enumerate(self.texts):
            overlaps.extend(
                f"{text.text!r} and {beside.text!r}"
                for beside in self.texts[k + 1 :]
                if text.rect.overlaps(beside.rect)
            )
        return overlaps

    def lines(self) -> list[str]:
        """Each box and its position in the drawing."""
        if not self.boxes:
            return []
        left = min(rect.left for _, rect in self.boxes)
        top = min(rect.top for _, rect in self.boxes)

        def px(length: float) -> int:
            return round(length / self.zoom)

        return [
            f"{px(rect.left - left):5d} {px(rect.top - top):5d}"
            f" {px(rect.right - rect.left):5d} {px(rect.bottom - rect.top):5d}  {name[:_LONGEST]}"
            for name, rect in self.boxes
        ]


def read(page: Page) -> Picture:
    """Wait for the picture of a page, and read it."""
    eventually(page, THERE, True)
    settled(page)
    drawn: dict[str, Any] = page.evaluate(DRAWN)
    svg = ElementTree.fromstring(drawn["svg"])
    x0, y0, width, _ = (float(part) for part in svg.attrib["viewBox"].split())
    zoom = float(svg.attrib["width"]) / width
    boxes = [(name, Rect(x, y, x + w, y + h)) for name, x, y, w, h in drawn["boxes"]]
    window = (drawn["window"][0], drawn["window"][1])
    texts = [_text(item, (x0, y0), zoom) for item in svg.iter(f"{_SVG}text")]
    return Picture(boxes, texts, zoom, window)


def _text(item: ElementTree.Element, corner: tuple[float, float], zoom: float) -> Text:
    size = float(item.attrib["font-size"])
    length = float(item.attrib.get("textLength", 0))
    back = {"end": length, "middle": length / 2}.get(item.attrib.get("text-anchor", ""), 0.0)
    left = float(item.attrib["x"]) - back - corner[0]
    line = float(item.attrib["y"]) - corner[1]
    rect = Rect(
        left * zoom, (line - 0.75 * size) * zoom, (left + length) * zoom, (line + 0.1 * size) * zoom
    )
    return Text(item.text or "", size * zoom, rect, item.attrib.get("class") != "m")


def reference(name: str) -> Path:
    """The file of a graph's reference."""
    return REFERENCES / f"{name}.txt"


def written(pictures: dict[str, Picture]) -> str:
    """The text of a reference: the boxes and their positions, by window."""
    return "".join(
        f"{size}\n" + "".join(f"{line}\n" for line in picture.lines())
        for size, picture in pictures.items()
    )


def title(size: ViewportSize) -> str:
    """The name of a window in a reference."""
    return f"{size['width']}x{size['height']}"


def _show(browser: Browser, make: Callable[[Path], Path], options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder))
        with running("open", "--port", "0", str(path), folder=folder) as address:
            page = browser.new_page(reduced_motion="reduce", color_scheme="dark")
            pictures: dict[str, Picture] = {}
            for size in SIZES:
                page.set_viewport_size(size)
                page.goto("about:blank")
                page.goto(address.split("?")[0] if pictures else address)
                picture = pictures[title(size)] = read(page)
                print(
                    f"{make.__name__:15} {title(size):10} zoom {picture.zoom:.2f}"
                    f"  {len(picture.labels):3d} labels  {100 * picture.used:3.0f} % of the window"
                    f"  {len(picture.collisions())} collisions",
                    flush=True,
                )
                for theme in ("light", "dark") if options.shots else ():
                    page.emulate_media(color_scheme=theme)
                    if page.evaluate("document.documentElement.dataset.theme") != theme:
                        page.get_by_test_id("theme").click()
                    settled(page)
                    page.screenshot(
                        path=options.shots / f"{make.__name__}-{title(size)}-{theme}.png"
                    )
            page.close()
    if options.renew:
        reference(make.__name__).write_text(written(pictures))


def main() -> None:
    """Print what the first pictures show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", help="without any, all")
    parser.add_argument("--renew", action="store_true", help="write the references")
    parser.add_argument("--shots", type=Path, help="a folder for screenshots")
    options = parser.parse_args()
    REFERENCES.mkdir(exist_ok=True)
    if options.shots:
        options.shots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=list(chromium.FLAGS)
        )
        for make in GRAPHS:
            if not options.graphs or make.__name__ in options.graphs:
                _show(browser, make, options)
        browser.close()


if __name__ == "__main__":
    main()
