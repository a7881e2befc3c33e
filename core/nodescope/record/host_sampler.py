"""Sampler: checks where the program's threads are while they run no node, every few milliseconds;
with the native core, in a program of one thread, only once no node has run for some milliseconds.

The time between nodes is the program's own: Python, other libraries, waiting. The sampler
attributes it to the user's line. A sample counts only next to another sample of the same line with
no record in between, so short gaps are not reported.

Invariant: no frame of the program outlives the call that reads it, not even for a moment: the
engine counts references, and a frame holds its locals. Nothing is written to, and no lock is held.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import CodeType
from typing import Final, NamedTuple

from nodescope import native
from nodescope.events import HostKind, HostSpan
from nodescope.interactive import cell_name, is_interactive
from nodescope.origins import OURS, origin
from nodescope.thread_frames import stack_of

INTERVAL_S: Final = 0.008
# The interval while steps run unobserved, when only long waits for data are named. Each wake-up
# takes the interpreter's lock, and a processor's caches, from the program.
RESTING_INTERVAL_S: Final = 0.05
_NAP_NS: Final = int(RESTING_INTERVAL_S * 1e9)
# The native core waits until it has noted no node for some slices of time: before, there is nothing
# to see. A second sample follows after another slice, so that gaps of three slices and more are
# named.
_SLICE_US: Final = int(INTERVAL_S / 2 * 1e6)
_LEAST_SLICES: Final = 2
# After so many slices, even if nodes ran in each of them, the sampler looks whether the program has
# another thread by now, or rests.
_MOST_SLICES: Final = 60
_LEAST_SAMPLES: Final = 2
_MOST_BLUR_NS: Final = int(INTERVAL_S * 1e9)
# A thread that was running or ready for less than this share of a stretch counts as waiting.
_BUSY: Final = 0.25
_DEPTH: Final = 64
_CALLED: Final = re.compile(r"[A-Za-z_][\w.]*(?=\()")
_IMPORT: Final = "import"
# Functions of `engine.static` whose time is covered by a `HostSpan` of kind ``compiling``.
_COMPILING: Final = frozenset({"_traced", "_prepare"})
_SEEN: Final = attrgetter("f_code", "f_lineno", "f_lasti")
_CODE: Final = attrgetter("f_code")

Frames = list[tuple[CodeType, int, int]]
"""Code, line and instruction of each frame of a thread, innermost first."""


class HostPlace(NamedTuple):
    """The place where a thread is, with the call in the user's line: its code and instruction."""

    kind: HostKind
    file: str = ""
    line: int = 0
    function: str = ""
    code: CodeType | None = None
    instruction: int = 0

    @property
    def within(self) -> tuple[str, str, str]:
        """The user function that consecutive samples must share."""
        return self.kind, self.file, self.function


class _Stretch:
    """Consecutive samples in one function, with no node run between them."""

    __slots__ = (
        "busy_ns",
        "first_ns",
        "last_ns",
        "other",
        "places",
        "processor_ns",
        "seq",
        "start_ns",
        "step",
    )

    def __init__(
        self,
        place: HostPlace,
        start_ns: int,
        now_ns: int,
        seq: int,
        step: int,
        processor: int | None,
    ) -> None:
        self.places = [place]
        self.seq, self.step = seq, step
        self.processor_ns = self.busy_ns = processor  # of the thread, at the first and last sample
        self.start_ns, self.first_ns, self.last_ns = start_ns, now_ns, now_ns
        self.other: tuple[HostPlace, int] | None = (
            None  # the last sample in another function, and its time
        )


class Sampler:
    """Samples where the program is between nodes, on a thread of its own.

    Args:
        emit: Takes each `HostSpan`.
        now_ns: The clock of the run.
        seq: A number that changes whenever a node has run and was noted, or an event told of it.
        progress: Gives a function that returns a number that changes whenever a node has run of
            which no event tells yet, and -1 while one runs of which no frame tells; or None.
        step: The training step, and whether it is observed.
        threads: Threads that have run nodes; those that have ended are removed.
        frames: Reads the frames of a thread, if not by `frames_of`.
        processor: Reads how long a thread has been running or ready to run.
    """

    def __init__(
        self,
        emit: Callable[[HostSpan], None],
        *,
        now_ns: Callable[[], int],
        seq: Callable[[], int],
        step: Callable[[], tuple[int, bool]],
        threads: set[int],
        progress: Callable[[], Callable[[], int] | None] = lambda: None,
        frames: Callable[[int], Frames] | None = None,
        processor: Callable[[int], int | None] | None = None,
    ) -> None:
        self._emit, self._now_ns, self._seq, self._step = emit, now_ns, seq, step
        self._threads, self._progress = threads, progress
        self._frames = frames if frames is not None else frames_of
        self._is_ours = runs_nodescope if frames is None else lambda ident: False
        self._processor = processor if processor is not None else active_ns
        self._main = threading.main_thread().ident or 0
        self._stretches: dict[int, _Stretch] = {}
        self._before_ns = now_ns()
        self._running = 0
        self._ended = self._resting = self._naps = False
        self._paused_ns = 0  # for how long the core has noted no node; 0 if that is not known
        self._woken_ns = -_NAP_NS  # when it was last woken from a nap
        # Released when the program is observed again, or has ended. A lock takes much less time
        # than an event, and there are many samples in the life of a program.
        self._soon = threading.Lock()
        self._soon.acquire()
        self._pauses = None if native.Pauses is None else native.Pauses()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start sampling, until `stop`; if no thread can be started, nothing is sampled."""
        thread = threading.Thread(target=self._work, name="nodescope-sampler", daemon=True)
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Stop sampling, and emit open stretches. May be called again."""
        self._ended = True
        self._wake()
        if self._pauses is not None:
            self._pauses.end()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(1.0)
        for ident, stretch in tuple(self._stretches.items()):
            self._close(ident, stretch.last_ns)

    def rest(self, resting: bool) -> None:
        """Sample rarely from now on, or often again."""
        self._resting = resting
        if self._naps and not resting:
            # A program may begin and end its loops every few milliseconds: then a nap lasts.
            now = self._now_ns()
            if now - self._woken_ns >= _NAP_NS:
                self._woken_ns, self._naps = now, False
                self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is awake already
            self._soon.release()

    def forked(self) -> None:
        """Handle a fork in the child, where the sampling thread does not exist."""
        self._thread = None

    def _work(self) -> None:
        while self._waited():
            try:
                self.look()
            except Exception:  # a failed sample is not worth an error
                return

    def _waited(self) -> bool:
        """Wait for the next sample; return whether one is to be taken."""
        while not self._ended:
            self._naps = self._resting
            several = len(self._threads) > 1  # while one runs nodes, another one may pause
            if self._pauses is None or several or self._naps or self._stretches:
                interval = INTERVAL_S / 2 if self._paused_ns else INTERVAL_S
                self._paused_ns = 0
                is_woken = self._soon.acquire(
                    timeout=RESTING_INTERVAL_S if self._naps else interval
                )
                if is_woken and not self._ended:
                    self._soon.acquire(timeout=INTERVAL_S)
                break
            slices = (_SLICE_US, _LEAST_SLICES, _MOST_SLICES)
            self._paused_ns = self._pauses.wait(self._now_ns(), *slices)
            self._soon.acquire(blocking=False)  # a nap had ended when it was to be woken from it
            if self._paused_ns:  # before, there is nothing to see
                break
        return not self._ended

    def look(self) -> None:
        """Take one sample of each thread."""
        now, seq = self._now_ns(), self._ran()
        if seq < 0 and len(self._threads) < 2:  # its thread is the one that runs the node
            for ident in (*self._stretches,):
                self._close(ident, now)
            self._before_ns = now
            return
        step, observed = self._step()
        for ident in (self._main, *(self._threads - {self._main})):
            place = self._place(ident, observed=observed)
            stretch = self._stretches.get(ident)
            if stretch is not None and not self._goes_on(ident, stretch, place, now, seq):
                self._close(ident, now)
                if stretch.other is not None and place is not None and seq == stretch.seq:
                    stretch = self._open(ident, stretch.other[0], now, seq, step)
                    self._goes_on(ident, stretch, place, now, seq)
                else:
                    stretch = None
            if stretch is None and place is not None:
                self._open(ident, place, now, seq, step)
        self._before_ns = now

    def _ran(self) -> int:
        """A number that changes whenever a node has run, negative while one runs that no frame
        shows.
        """
        progress = self._progress()
        count = 0 if progress is None else progress()
        if count < 0:
            self._running -= 1
            return self._running
        return (self._seq() << 32) + count

    def _open(self, ident: int, place: HostPlace, now: int, seq: int, step: int) -> _Stretch:
        # A stretch begins and ends between two samples; a late sample tells little about when. The
        # core knows when the node before it ended.
        start = now - min((now - self._before_ns) // 2, _MOST_BLUR_NS)
        if self._paused_ns:
            start = max(now - self._paused_ns, self._before_ns)
        stretch = self._stretches[ident] = _Stretch(
            place, start, now, seq, step, self._processor(ident)
        )
        return stretch

    def _goes_on(
        self, ident: int, stretch: _Stretch, place: HostPlace | None, now: int, seq: int
    ) -> bool:
        """Extend a stretch by a sample, if the sample belongs to it."""
        if place is None:
            return False
        latest = stretch.places[-1]
        # `seq` also counts nodes of other threads. If there are any, only an unchanged instruction
        # shows that this thread has run no node.
        if seq != stretch.seq and (len(self._threads) < 2 or place != latest):
            return False
        if place.within == latest.within:
            stretch.places.append(place)
            stretch.other = None
        elif stretch.other is None or stretch.other[0].within != place.within:
            stretch.other = (place, now)  # a single sample elsewhere is a call that returns
        else:
            return False
        stretch.last_ns, stretch.busy_ns = now, self._processor(ident)
        return True

    def _place(self, ident: int, *, observed: bool) -> HostPlace | None:
        if self._is_ours(ident):
            return None
        frames = self._frames(ident)
        if frames:
            return place_of(frames, observed=observed, main=ident == self._main)
        if ident == self._main:
            return HostPlace("input", "", 0, "") if is_interactive() else None
        self._threads.discard(ident)
        return None

    def _close(self, ident: int, now_ns: int) -> None:
        """Close a stretch that ended between its last sample and now."""
        stretch = self._stretches.pop(ident)
        last_ns = stretch.last_ns
        if len(stretch.places) < _LEAST_SAMPLES:
            return
        place = Counter(stretch.places).most_common(1)[0][0]
        kind, function = place.kind, place.function
        call = called(place)
        if call == "input":
            kind = "input"
        elif kind != "input" and stretch.processor_ns is not None:
            busy = stretch.busy_ns
            lasted = last_ns - stretch.first_ns
            if busy is not None and busy - stretch.processor_ns < _BUSY * lasted:
                kind = "waiting"
        if kind == "waiting" or len(set(stretch.places)) == 1:
            function = call or function  # in a loop, the line's own calls mean little
        start, end = stretch.start_ns, last_ns + min((now_ns - last_ns) // 2, _MOST_BLUR_NS)
        self._emit(
            HostSpan(
                kind, ident, stretch.step, start, end, cell_name(place.file), place.line, function
            )
        )


def frames_of(ident: int) -> Frames:
    """The frames of a thread, innermost first; none if it runs no Python or has ended."""
    return stack_of(ident, _DEPTH, _SEEN)


def runs_nodescope(ident: int) -> bool:
    """Whether a thread runs nodescope's own code, such as a node, so that it has no place.

    In a training loop, it does so in most samples. No line is looked up for them.
    """
    codes = stack_of(ident, _DEPTH, _CODE)
    if not codes or origin(codes[0].co_filename) != OURS:
        return False
    return not any(map(_imports, codes))


def place_of(frames: Frames, *, observed: bool, main: bool) -> HostPlace | None:
    """The place of a thread with these frames; None while it runs a node or nodescope's own code.

    Args:
        frames: As from `frames_of`.
        observed: Whether nodes are observed now. If not, only the code that produces the items of
            `ns.steps` is named.
        main: Whether it is the main thread, which may be at a prompt.
    """
    library = ""
    if any(map(_compiles, frames)) or not (observed or any(map(_fetches, frames))):
        return None
    for code, line, instruction in frames:
        owner = origin(code.co_filename)
        if owner == OURS and library != _IMPORT:
            # The same holds for a `steps` that fetches from native code: its own span covers it.
            if not any(_imports(code) for code, _, _ in frames):
                return None
            library = _IMPORT
        if owner:
            library = library or owner
            continue
        line = line or code.co_firstlineno  # clean-up instructions have no position
        if library:
            return HostPlace("library", code.co_filename, line, library)
        return HostPlace("python", code.co_filename, line, code.co_qualname, code, instruction)
    return HostPlace("input") if main and is_interactive() else None


def _fetches(frame: tuple[CodeType, int, int]) -> bool:
    """Whether a frame is `ns.steps` itself, which is on the stack only while it fetches an item."""
    code = frame[0]
    return code.co_name == "steps" and origin(code.co_filename) == OURS


def _compiles(frame: tuple[CodeType, int, int]) -> bool:
    """Whether a frame traces a function or compiles a graph, which has its own span."""
    code = frame[0]
    return code.co_name in _COMPILING and origin(code.co_filename) == OURS


def _imports(code: CodeType) -> bool:
    """Whether code imports a module."""
    return code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib")


def called(place: HostPlace) -> str:
    """The native function that the user's line calls at a place, as written: ``time.sleep``."""
    if place.code is None:
        return ""
    return _called(place.code, place.instruction)


@lru_cache(maxsize=1024)
def _called(code: CodeType, instruction: int) -> str:
    position = next(islice(code.co_positions(), instruction // 2, None), None)
    if position is None:
        return ""
    line, last, first, end = position
    if line is None or first is None or end is None:
        return ""
    text = linecache.getline(code.co_filename, line).encode()
    match = _CALLED.match(text[first : end if last == line else None].decode("utf-8", "replace"))
    return match.group() if match is not None else ""


def active_ns(ident: int) -> int | None:
    """How long a thread of this process has been running or ready to run.

    On a busy machine a computing thread is ready most of the time and seldom runs; the program does
    not wait then. None where the system does not report it.
    """
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    number = getattr(thread, "native_id", None)
    if number is None or not sys.platform.startswith("linux"):
        return None
    if native.active_ns is not None:
        return native.active_ns(number)
    try:
        # The clock of a thread is addressed by its number, which is refused once the thread has
        # ended; addressing it by identifier would then read freed memory.
        running = time.clock_gettime_ns((~number << 3) | 6)
    except OSError:
        return None
    return running + _ready_ns(number)


def _ready_ns(number: int) -> int:
    """How long a thread was ready without a processor; 0 where the system does not report it."""
    try:
        with open(f"/proc/self/task/{number}/schedstat", "rb", buffering=0) as statistics:
            return int(statistics.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
