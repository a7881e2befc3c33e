"""``nodescope docs``: the guides that come with the package, printed as written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from nodescope.console_output import show
from nodescope.errors import UsageError
from nodescope.registry import did_you_mean

_PACKAGE: Final = Path(__file__).resolve().parents[1]
# In the wheel, and in the source tree.
_PLACES: Final = (_PACKAGE / "_docs", _PACKAGE.parents[1] / "docs")


def docs(options: argparse.Namespace) -> int:
    """Print the named guide, or the list of all guides."""
    guides = {path.stem: path for place in _PLACES for path in sorted(place.glob("*.md"))}
    if not guides:
        raise UsageError("the guides are not installed; reinstall nodescope")
    if options.guide is None:
        width = max(map(len, guides))
        for name, path in sorted(guides.items()):
            show(f"{name:{width}}  {_title(path)}")
        show("\nnodescope docs NAME prints one of them")
        return 0
    if options.guide not in guides:
        hint = did_you_mean(options.guide, guides) or "nodescope docs lists them"
        raise UsageError(f"there is no guide {options.guide!r}", hint=hint)
    show(guides[options.guide].read_text(encoding="utf-8"), end="")
    return 0


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").lstrip("# ").strip()
