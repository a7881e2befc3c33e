"""Settings of Ray for tests: import before Ray starts.

A program that names no cluster joins the newest one that is noted in Ray's folder, even another
process's. So each test process has a folder of its own: no program joins a cluster that another
test process ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

FOLDER = tempfile.mkdtemp(prefix="ray-")
"""Where Ray writes, for this process and for the programs that it starts; removed at exit."""

os.environ["RAY_TMPDIR"] = FOLDER
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
