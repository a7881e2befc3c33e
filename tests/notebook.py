"""A notebook without its page: a real Jupyter kernel, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager


def isolated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels work in a folder, and keep their files there."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        place = folder / name.lower()
        place.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(place))
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/first model.ipynb")
    monkeypatch.chdir(folder)


class Kernel:
    """A Jupyter kernel and the client of its notebook."""

    def __init__(self) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel()
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def cell(self, code: str) -> str:
        """Run a cell. Returns what it prints, shows and raises."""
        shown: list[str] = []

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "execute_result":
                shown.append(content["data"]["text/plain"])
            elif message["msg_type"] == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")

        self._client.execute_interactive(code, timeout=60, output_hook=take)
        return "\n".join(shown)

    def end(self) -> None:
        """Shut the kernel down, as closing the notebook does, and wait for it."""
        if self._manager.has_kernel:
            self._client.stop_channels()
            self._manager.shutdown_kernel()
