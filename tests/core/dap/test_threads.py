"""Programs with several threads in an editor: which threads stop, continue and are reported."""

from __future__ import annotations

from tests.core.dap.editors import Body, Editor

# Two workers that compute in separate scopes, in no particular order.
WORKERS = """\
import threading
import numpy as np
import nodescope as ns

x = ns.tensor(np.ones(2), name="x")

def work(op, scope):
    for _ in range(4):
        with ns.name_scope(scope):
            op(x)

workers = [threading.Thread(target=work, args=each, name=each[1])
           for each in ((np.exp, "left"), (np.tanh, "right"))]
for each in workers:
    each.start()
for each in workers:
    each.join()
print("done", flush=True)
"""
# A worker that waits for the main thread between two nodes.
WAITING = """\
import threading
import numpy as np
import nodescope as ns

x = ns.tensor(np.ones(2), name="x")
passed, go = threading.Event(), threading.Event()

def work():
    np.exp(x)
    passed.set()
    go.wait()
    np.tanh(x)

worker = threading.Thread(target=work, name="worker")
worker.start()
np.sqrt(x)
passed.wait()
np.log(x)
go.set()
worker.join()
"""


def names(editor: Editor) -> dict[str, int]:
    """The threads, by name."""
    return {item["name"]: item["id"] for item in editor.ask("threads")["threads"]}


def top(editor: Editor, thread: int) -> Body:
    return editor.ask("stackTrace", threadId=thread)["stackFrames"][0]


def test_no_stop_is_lost_and_each_is_reported_by_its_thread(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(WORKERS)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:exp"}, {"name": "op:tanh"}])
        editor.configured()
        met = []
        for _ in range(8):
            stop = editor.event("stopped")
            assert stop["allThreadsStopped"]
            threads = names(editor)
            assert set(threads) >= {"MainThread"}
            met.append(next(name for name in threads if threads[name] == stop["threadId"]))
            node = top(editor, stop["threadId"])["name"]
            assert node.startswith(f"{met[-1]}/")
            assert editor.ask("continue", threadId=stop["threadId"])["allThreadsContinued"]
        assert sorted(met) == ["left"] * 4 + ["right"] * 4
        editor.event("terminated")
        assert editor.output("stdout") == "done\n"


def both_stand(editor: Editor) -> tuple[int, int]:
    """Two threads at nodes: one has stopped, and the other is held at its next node."""
    stop = editor.event("stopped")
    first = stop["threadId"]
    threads = names(editor)
    (other,) = [threads[name] for name in ("left", "right") if threads.get(name) != first]
    return first, other


BARRIER = WORKERS.replace(
    "    for _ in range(4):\n", "    ready.wait()\n    for _ in range(4):\n"
).replace("def work", "ready = threading.Barrier(2)\n\ndef work")


def test_one_thread_continues_alone_while_the_other_is_held(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(BARRIER)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:exp"}, {"name": "op:tanh"}])
        editor.configured()
        first, other = both_stand(editor)
        for _ in range(3):  # Only its own four nodes, none of the other thread's.
            answer = editor.ask("continue", threadId=first, singleThread=True)
            assert not answer["allThreadsContinued"]
            assert editor.event("stopped")["threadId"] == first
        # The end of the thread pauses the others. Before that, the other thread is released and
        # stops at its node.
        editor.ask("continue", threadId=other, singleThread=True)
        assert editor.event("stopped")["threadId"] == other
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        editor.ask("continue", threadId=other)
        editor.event("terminated")
        assert editor.output("stdout") == "done\n"


def test_another_thread_steps_and_its_frames_are_shown(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(BARRIER)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:exp"}, {"name": "op:tanh"}])
        editor.configured()
        first, other = both_stand(editor)
        frames = editor.ask("stackTrace", threadId=other)["stackFrames"]
        assert any("work" in frame["name"] or "held here" in frame["name"] for frame in frames)
        ids = [frame["id"] for frame in frames]
        ids += [item["id"] for item in editor.ask("stackTrace", threadId=first)["stackFrames"]]
        assert len(set(ids)) == len(ids)
        assert editor.ask("scopes", frameId=ids[0])["scopes"] == []
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        for _ in range(3):
            editor.ask("next", threadId=other, singleThread=True)
            assert editor.event("stopped")["threadId"] == other
        assert "no thread 99" in editor.refused("next", threadId=99)
        editor.ask("continue", threadId=first)
        editor.event("terminated")


def test_second_pause_releases_other_threads_when_lone_thread_waits_for_them(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(WAITING)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:exp"}, {"name": "op:sqrt"}])
        editor.configured()
        stops = [editor.event("stopped")["threadId"]]
        editor.ask("continue", threadId=stops[0])
        stops.append(editor.event("stopped")["threadId"])
        worker, main = names(editor)["worker"], names(editor)["MainThread"]
        assert sorted(stops) == sorted((worker, main))
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        # The worker waits for the main thread.
        editor.ask("continue", threadId=worker, singleThread=True)
        editor.ask("pause", threadId=worker)
        # The second pause lets the other threads reach a node too.
        editor.ask("pause", threadId=worker)
        assert editor.event("stopped")["reason"] == "pause"
        editor.ask("continue", threadId=main)
        editor.event("terminated")


def test_the_end_of_a_lone_thread_pauses_the_others(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(BARRIER)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:exp"}, {"name": "op:tanh"}])
        editor.configured()
        first, _ = both_stand(editor)
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        editor.ask("continue", threadId=first, singleThread=True)
        stop = editor.event("stopped")
        assert stop["description"] == "Stopped: the thread that was stepping alone has ended"
        assert stop["threadId"] != first
        assert ("thread", {"reason": "exited", "threadId": first}) in editor._events
        editor.ask("continue", threadId=stop["threadId"])
        editor.event("terminated")
        assert editor.output("stdout") == "done\n"


def test_threads_are_reported_as_they_come_and_go(tmp_path):
    with Editor(tmp_path) as editor:
        editor.launch(WORKERS)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "left/exp"}])
        editor.configured()
        number = editor.event("stopped")["threadId"]
        assert ("thread", {"reason": "started", "threadId": number}) in editor._events
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        editor.ask("disconnect", terminateDebuggee=False)
