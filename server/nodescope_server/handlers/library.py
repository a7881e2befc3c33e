"""The library: the recordings that can be opened, of this folder and of this user, as the start
page lists them.

A recording's id is generated here and valid only for this server: no path ever comes from a page.

Invariant: listing reads little of each file, in threads, each file once for as long as it does not
change; nothing is opened for writing, and only what nodescope's own runs left can be deleted.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

import msgspec

from nodescope.errors import NodescopeError, UsageError
from nodescope.protocol import RunInfo
from nodescope.record.overview import Glance, glance, outcome_of
from nodescope.record.recent import recent, recordings_of
from nodescope.record.schema import SUFFIX
from nodescope_server.runs.runs import Run, Runs

MOST: Final = 1000
"""The most recordings in the list."""

PATIENCE_S: Final = 0.3
"""The longest wait for files that have not been read yet; the rest comes with the next list."""

_THREADS: Final = 4
_BESIDE: Final = ("-wal", "-shm", "-journal")

Key = tuple[int, int, int]


class UnknownEntryError(NodescopeError, LookupError):
    """There is no recording with this id."""


class Entry(msgspec.Struct, frozen=True):
    """A recording in the list.

    Attributes:
        id: Made by this server; what opens and deletes it.
        run: The id of the run, if it is open here; else ``""``.
        live: Its program is connected to this server.
        here: It lies in the folder that nodescope was started in, or in ``.nodescope/runs`` there.
        folder, file: Where it lies, for a person; ``~`` stands for the home folder.
        ours: It can be deleted: one of nodescope's own runs left it.
        glance: What is shown of it; None if it has not been read yet.
    """

    id: str
    run: str
    live: bool
    here: bool
    folder: str
    file: str
    ours: bool
    glance: Glance | None


class Shelf(msgspec.Struct, frozen=True):
    """What the start page lists.

    Attributes:
        folder: The folder that nodescope was started in, for a person.
        entries: The latest first.
        pending: How many have not been read yet; ask again.
        left_out: How many more there are than are listed.
        waits: Programs can attach to this server by `ns.attach()`.
    """

    folder: str
    entries: tuple[Entry, ...]
    pending: int
    left_out: int
    waits: bool


class _Place:
    """A recording that has been listed."""

    __slots__ = ("future", "glance", "id", "key", "ours", "path")

    def __init__(self, path: Path) -> None:
        self.id = secrets.token_hex(8)
        self.path = path
        self.ours = False
        self.key: Key | None = None
        self.glance: Glance | None = None
        self.future: Future[Glance] | None = None


class RecordingLibrary:
    """Lists, opens and deletes recordings.

    Args:
        runs: The runs that are open.
        folder: Where recordings are looked for, besides those that this user's programs wrote last.
        waits: Whether programs can attach by themselves.
    """

    def __init__(self, runs: Runs, folder: Path | None, *, waits: bool = False) -> None:
        self._runs = runs
        self._folder = None if folder is None else Path(os.path.realpath(folder))
        self._waits = waits
        self._places: dict[str, _Place] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="nodescope-library")

    async def shelf(self) -> Shelf:
        """The list, as far as it can be read in 0.3 s."""
        open_runs = tuple(run.info for run in self._runs.all())
        return await asyncio.to_thread(self._shelf, open_runs)

    async def open(self, entry: str) -> RunInfo:
        """Open a recording, or find the run that it is; the run.

        Raises:
            UnknownEntryError: It was never listed.
            RecordingError: It cannot be read.
        """
        path = self._find(entry).path
        run = self._run_of(path)
        if run is not None:
            return run.info
        return (await self._runs.open(path)).info

    async def delete(self, entry: str) -> None:
        """Delete a recording and what lies beside it.

        Raises:
            UnknownEntryError: It was never listed.
            UsageError: It is not nodescope's own, or its program is running.
        """
        place = self._find(entry)
        run = self._run_of(place.path)
        if run is not None and run.info.state == "live":
            raise UsageError("the program is running; its recording cannot be deleted")
        await asyncio.to_thread(self._check_deletable, place)
        if run is not None:
            await self._runs.drop(run.info.id)
        await asyncio.to_thread(_unlink, place.path)
        self._places.pop(str(place.path), None)

    def close(self) -> None:
        """Read no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ listing

    def _shelf(self, open_runs: tuple[RunInfo, ...]) -> Shelf:
        paths = self._candidates()
        by_path = {str(_one_name(info.recording)): info for info in open_runs if info.recording}
        for path in by_path:
            paths.setdefault(Path(path), False)
        dated = sorted(((_changed(path), path) for path in paths), key=lambda entry: -entry[0])
        dated = [(at, path) for at, path in dated if at]
        listed = [self._place(path, paths[path]) for _, path in dated[:MOST]]
        futures: list[Future[Glance]] = []
        for place in listed:
            key = _key(place.path)
            if place.key != key or place.glance is None:
                if place.future is None or place.key != key:
                    place.key = key
                    place.future = self._pool.submit(glance, place.path)
                futures.append(place.future)
        wait(futures, timeout=PATIENCE_S)
        entries = [self._entry(place, by_path.get(str(place.path))) for place in listed]
        folder = _shown(self._folder) if self._folder is not None else ""
        pending = sum(entry.glance is None for entry in entries)
        return Shelf(folder, tuple(entries), pending, len(dated) - len(listed), self._waits)

    def _candidates(self) -> dict[Path, bool]:
        """Recordings, and whether each is one that nodescope's own runs left."""
        paths = recordings_of(self._folder) if self._folder is not None else {}
        for path in recent():
            if path.suffix == SUFFIX:
                paths[path] = True
        return {_one_name(path): ours for path, ours in paths.items()}

    def _place(self, path: Path, ours: bool) -> _Place:
        place = self._places.get(str(path))
        if place is None:
            place = self._places[str(path)] = _Place(path)
        place.ours = ours
        return place

    def _entry(self, place: _Place, run: RunInfo | None) -> Entry:
        future = place.future
        if future is not None and future.done():
            place.glance, place.future = future.result(), None
        overview = place.glance
        live = run is not None and run.state == "live"
        if run is not None and overview is not None and overview.outcome in ("running", "killed"):
            ended = outcome_of(run.status, run.error, running=live)
            overview = msgspec.structs.replace(
                overview, outcome=ended, status=run.status, error=run.error
            )
        return Entry(
            place.id, run.id if run is not None else "", live, self._is_here(place.path),
            _shown(place.path.parent), place.path.name, place.ours and not live, overview,
        )  # fmt: skip

    def _is_here(self, path: Path) -> bool:
        folder = self._folder
        return folder is not None and path.parent in (folder, folder / ".nodescope" / "runs")

    # ------------------------------------------------------------ one of them

    def _find(self, entry: str) -> _Place:
        for place in tuple(self._places.values()):  # a list may be in the making, in a thread
            if place.id == entry:
                return place
        raise UnknownEntryError("there is no such recording", hint="list them again")

    def _run_of(self, path: Path) -> Run | None:
        real_path = os.path.realpath(path)
        return next(
            (
                run
                for run in self._runs.all()
                if run.info.recording and os.path.realpath(run.info.recording) == real_path
            ),
            None,
        )

    def _check_deletable(self, place: _Place) -> None:
        made_here = self._candidates().get(place.path, False)
        at = place.path.lstat() if place.path.exists() else None
        plain = at is not None and stat.S_ISREG(at.st_mode) and at.st_uid == os.geteuid()
        if not (made_here and plain):
            raise UsageError(
                f"{place.path.name} was not made by nodescope",
                hint="delete it where you keep it",
            )
        if glance(place.path).outcome == "running":
            raise UsageError("a program is still writing this recording")


def _one_name(path: str | Path) -> Path:
    """The path with the links of its folder followed; if the file is a link itself, it stays one.

    So whichever way a program came to its folder, its recording is listed once.
    """
    folder, name = os.path.split(os.path.abspath(path))
    return Path(os.path.realpath(folder)) / name


def _unlink(path: Path) -> None:
    try:
        path.unlink()
        for suffix in _BESIDE:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path.name} cannot be deleted: {error.strerror or error}") from error


def _changed(path: Path) -> int:
    """When a file was last written, in nanoseconds; 0 if it is gone or empty."""
    try:
        at = path.stat()
    except OSError:
        return 0
    return at.st_mtime_ns if at.st_size else 0


def _key(path: Path) -> Key:
    """A fingerprint that changes with the file."""
    sizes = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            at = file.stat()
            sizes.append((at.st_size, at.st_mtime_ns))
        except OSError:
            sizes.append((0, 0))
    return sizes[0][1], sizes[0][0] + sizes[1][0], sizes[1][1]


def _shown(path: Path) -> str:
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)
