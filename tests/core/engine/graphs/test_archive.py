"""Archives of saved graphs and programs: what is no such file is refused, whatever it holds."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.errors import GraphError
from tests.depth import examples

Members = dict[str, bytes]
Change = Callable[[Members], Any]
READERS = {"graph": ns.Graph.load, "program": ns.Program.load}
X = np.arange(6.0).reshape(2, 3)


def graph_file(path: Path) -> Path:
    with ns.Graph().as_default() as g:
        w = ns.variable(np.ones((3, 2), np.float32), name="w")
        low = ns.constant(np.array([1, 2, 3]).astype(ns.bfloat16), name="low")
        ns.identity(low, name="same")
        g.add_to_collection("ends", ns.identity(np.tanh(w), name="y"))
        g.add_to_collection("ends", 3.5)
        init = ns.global_variables_initializer()
        session = ns.Session(g)
        session.run(init)
    g.save(path, session)
    return path


def program_file(path: Path) -> Path:
    w = ns.parameter(np.ones((3, 2)), name="w")
    half = ns.tensor(np.array([1, 2, 3]).astype(ns.bfloat16))
    opt = ns.optim.SGD([w], lr=0.1)

    @ns.compile
    def step(x: Any) -> Any:
        loss = (np.tanh(x @ w) ** 2).sum()
        loss.backward()
        opt.step()
        return {"loss": loss, "all": (x, half, [None, "text", float("inf")])}

    step.graph(X).save(path)
    return path


FILES = {"graph": graph_file, "program": program_file}


@pytest.fixture(scope="module", params=["graph", "program"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def good(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FILES[kind](tmp_path_factory.mktemp("good") / "file")


def rewritten(good: Path, path: Path, change: Change, **options: Any) -> Path:
    with zipfile.ZipFile(good) as archive:
        members = {item: archive.read(item) for item in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, kind: str, message: str) -> None:
    for load in (READERS[kind], ns.load_graph):
        with pytest.raises(GraphError, match=message) as error:
            load(path)
        assert str(path) in error.value.message
        assert error.value.source.startswith(f"{__file__}:")


def meta(**changes: Any) -> Change:
    def change(members: Members) -> None:
        members["meta.json"] = json.dumps({**json.loads(members["meta.json"]), **changes}).encode()

    return change


def about(**changes: Any) -> Change:
    def change(members: Members) -> None:
        result = json.loads(members["meta.json"])
        result["about"].update(changes)
        members["meta.json"] = json.dumps(result).encode()

    return change


def first_array(members: Members) -> str:
    return next(member for member in members if member.startswith("arrays/"))


def npy(make: Callable[[], Any], *, pickle: bool = False) -> Change:
    def change(members: Members) -> None:
        buffer = io.BytesIO()
        np.save(buffer, make(), allow_pickle=pickle)
        members[first_array(members)] = buffer.getvalue()

    return change


def header(text: str) -> Change:
    """An .npy member with a header of its own and no elements."""

    def change(members: Members) -> None:
        raw = text.encode() + b"\n"
        members[first_array(members)] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw

    return change


def replaced(member: str, data: bytes) -> Change:
    return lambda members: members.update({member: data})


def without(member: str) -> Change:
    return lambda members: members.pop(member)


def deep(members: Members) -> None:
    members["meta.json"] = b'{"kind": ' + b"[" * 200_000


def renamed(members: Members) -> None:
    members["arrays/../../x.npy"] = members.pop(first_array(members))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("meta.json"), r"meta\.json: it is missing"),
        (without("graph.txt"), r"graph\.txt: it is missing"),
        (lambda members: members.pop(first_array(members)), r"arrays/\d+\.npy: it is missing"),
        (renamed, r"'arrays/\.\./\.\./x\.npy', which no saved (graph|program) does"),
        (replaced("../evil", b""), r"it holds '\.\./evil', which no saved"),
        (replaced("/evil.py", b""), r"it holds '/evil\.py', which no saved"),
        (replaced("arrays/", b""), "it holds 'arrays/', which no saved"),
        (replaced("arrays/+1.npy", b""), r"it holds 'arrays/\+1\.npy'"),
        (meta(format=99), r"meta\.json: it has format 99; this nodescope reads up to 1.*newer"),
        (meta(format="1"), "'1' is not a format version"),
        (meta(format=True), "True is not a format version"),
        (meta(format=0), "0 is not a format version"),
        (meta(kind="notebook"), "it does not describe a saved graph or program"),
        (meta(kind=None), "it does not describe a saved graph or program"),
        (meta(extra=1), "unknown field `extra`"),
        (meta(arrays=[]), r"meta\.json: Expected `object`"),
        (meta(arrays={"one": ["float32", []]}), r"meta\.json: .*int"),
        (meta(arrays={"1": ["float32", [-1]]}), "not what the graph says|holds|it is missing"),
        (meta(about=[]), r"Expected `object`, got `array` - at `\$\.about`"),
        (about(surprise=1), "unknown field `surprise`"),
        (replaced("meta.json", b"[]"), "it does not describe a saved graph"),
        (replaced("meta.json", b"{"), r"meta\.json: "),
        (replaced("meta.json", b"\xff"), r"meta\.json: "),
        (replaced("meta.json", b'{"kind": "graph", "kind": "graph"}'), "contains a name twice"),
        (replaced("meta.json", b'{"format": ' + b"9" * 5000 + b"}"), r"meta\.json: "),
        (deep, r"meta\.json: "),
        (replaced("graph.txt", b""), r"graph\.txt: "),
        (replaced("graph.txt", b"\xff\xfe"), r"graph\.txt: .*utf-8"),
        (replaced("graph.txt", b"import os\nos.abort()\n"), r"graph\.txt: line 1, column"),
        (replaced("graph.txt", b"graph 0 static () -> () {\n}\n"), r"npy: the graph has no value"),
        (npy(lambda: np.array([object()]), pickle=True), r"npy: it holds elements of object"),
        (npy(lambda: np.zeros((7, 7), np.float32)), r"npy: it h(as|olds)"),
        (npy(lambda: np.zeros(3, "M8[s]")), "npy: it holds elements of datetime64"),
        (npy(lambda: np.zeros(3, [("a", "f4")])), "npy: it holds elements of"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 60,)}"), r"npy: "),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (10**15,), }"), r"npy: "),
        (header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**15},), }}"),
         r"npy: it h(as|olds)"),
        (header("__import__('os').abort()"), r"npy: "),
        (header("(" * 3000), r"npy: "),
    ],
)  # fmt: skip
def test_what_does_not_belong_is_refused(
    good: Path, kind: str, tmp_path: Path, change: Change, message: str
) -> None:
    refused(rewritten(good, tmp_path / "bad", change), kind, message)


def lengthened(members: Members) -> None:
    members[first_array(members)] += b"\0"


def shortened(members: Members) -> None:
    name = first_array(members)
    members[name] = members[name][:-1]


@pytest.mark.parametrize("change", [lengthened, shortened])
def test_arrays_have_exactly_their_bytes(
    good: Path, kind: str, tmp_path: Path, change: Change
) -> None:
    refused(rewritten(good, tmp_path / "bad", change), kind, r"npy: \d+ bytes do not match")


def declared(dtype: str, shape: list[int]) -> Change:
    """The first array is another one, and meta.json says so; the graph does not."""

    def change(members: Members) -> None:
        name = first_array(members)
        result = json.loads(members["meta.json"])
        result["arrays"][name.removeprefix("arrays/").removesuffix(".npy")] = [dtype, shape]
        members["meta.json"] = json.dumps(result).encode()

    return change


def test_arrays_are_what_the_graph_says(good: Path, kind: str, tmp_path: Path) -> None:
    for change in (declared("int8", [3]), declared("float32", [10**12]), declared("O", [])):
        refused(rewritten(good, tmp_path / "bad", change), kind, "not what the graph says")


def test_compressed_members_are_refused(good: Path, kind: str, tmp_path: Path) -> None:
    path = rewritten(good, tmp_path / "bad", lambda _: None, compression=zipfile.ZIP_DEFLATED)
    refused(path, kind, "'meta.json' is compressed or encrypted")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_one_name_are_refused(good: Path, kind: str, tmp_path: Path) -> None:
    path = rewritten(good, tmp_path / "bad", lambda _: None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("graph.txt", "graph 0 static () -> () {\n}\n")
    refused(path, kind, r"it contains 'graph\.txt' twice")


def directory(raw: bytes, at: int, value: int) -> bytes:
    """The first entry of the zip's directory with another 32-bit field."""
    start = raw.index(b"PK\x01\x02") + at
    return raw[:start] + struct.pack("<I", value) + raw[start + 4 :]


def test_sizes_that_are_not_true_are_refused(good: Path, kind: str, tmp_path: Path) -> None:
    path, raw = tmp_path / "bad", good.read_bytes()
    for at, message in ((24, "larger than the file|larger than 256 MiB"), (20, "larger than the")):
        path.write_bytes(directory(raw, at, 0xFFFF_FFF0))
        refused(path, kind, message)
    path.write_bytes(directory(raw, 42, 0xFFFF_FFF0))  # The offset of the member.
    refused(path, kind, "is damaged|cannot be read")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + b"\0" * 40, b"PK\x05\x06"])
def test_other_files_are_refused(kind: str, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(path, kind, "is not a saved graph or program, or is damaged")
    refused(tmp_path / "absent", kind, "there is no file")
    refused(tmp_path, kind, "is not a saved graph or program")


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_cut_files_are_refused(good: Path, kind: str, tmp_path: Path, data: st.DataObject) -> None:
    raw = good.read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(GraphError):
        ns.load_graph(path)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_bytes_are_refused_or_change_nothing(
    good: Path, kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    raw = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "changed"
    path.write_bytes(raw)
    try:
        result = ns.load_graph(path)
    except GraphError:
        return
    assert str(result) == str(ns.load_graph(good))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["kind", "keys", "children", "value", "argument", "static", "1", "2"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_other_json_is_refused_or_makes_what_runs(
    good: Path, kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    with zipfile.ZipFile(good) as archive:
        fields = sorted(json.loads(archive.read("meta.json"))["about"])
    change = about(**{data.draw(st.sampled_from(fields)): data.draw(JSON)})
    try:
        result = ns.load_graph(rewritten(good, tmp_path / "bad", change))
    except GraphError:
        return
    if isinstance(result, ns.Program):
        result(*[X] * len(result._arguments))
    else:
        ns.Session(result).run("same:0")


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_other_text_is_refused_or_makes_what_was_checked(
    good: Path, kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    with zipfile.ZipFile(good) as archive:
        words = archive.read("graph.txt").decode().split(" ")
    i, j = data.draw(st.integers(0, len(words) - 1)), data.draw(st.integers(0, len(words) - 1))
    words[i] = data.draw(st.sampled_from([words[j], "", "None", "%0", "axis=nan", "9" * 20]))
    change = replaced("graph.txt", " ".join(words).encode())
    try:
        result = ns.load_graph(rewritten(good, tmp_path / "bad", change))
    except GraphError:
        return
    assert isinstance(result, ns.Graph | ns.Program)


# Kinds


def test_load_graph_reads_both_and_the_readers_name_each_other(tmp_path: Path) -> None:
    graph, program = graph_file(tmp_path / "g"), program_file(tmp_path / "p")
    assert isinstance(ns.load_graph(graph), ns.Graph)
    assert isinstance(ns.load_graph(os.fspath(program)), ns.Program)
    with pytest.raises(GraphError, match=r"is a saved program, not a saved graph.*"
                       r"nodescope\.Program\.load, or with nodescope\.load_graph"):  # fmt: skip
        ns.Graph.load(program)
    with pytest.raises(GraphError, match=r"is a saved graph, not a saved program.*"
                       r"nodescope\.Graph\.load, or with nodescope\.load_graph"):  # fmt: skip
        ns.Program.load(graph)


def test_layouts_and_bits_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal((3, 4)).T,
        rng.standard_normal((4, 6))[::-1, ::2],
        np.array([np.nan, -0.0, np.inf]),
        np.zeros((0, 3), np.complex64),
        np.array(7, np.int8),
        rng.standard_normal((2, 3)).astype(ns.bfloat16).T,
    ]
    tensors = [ns.tensor(array) for array in arrays]
    program = ns.compile(lambda x: (x, *tensors)).graph(X)
    program.save(tmp_path / "p")
    for first, other in zip(ns.load_graph(tmp_path / "p")(X)[1:], arrays, strict=True):
        assert (first.dtype, first.shape) == (other.dtype, other.shape)
        assert first.data.tobytes() == other.tobytes()
        if other.flags.f_contiguous:
            assert first.data.flags.f_contiguous


# Programs


def test_a_program_is_called_and_has_its_own_state(tmp_path: Path) -> None:
    w = ns.parameter(np.ones(3), name="w")

    @ns.compile
    def step(x: Any) -> Any:
        ns.assign(w, x)
        return w, w * 2

    program = step.graph(np.zeros(3))
    with ns.no_grad():
        w += 5  # In place, after the program was made: the program keeps the old state.
    assert [array.tolist() for array in program.state.values()] == [[1, 1, 1]]
    x = np.array([1.0, 2, 3])
    now, _ = program(x)
    assert now.tolist() == [1, 2, 3]
    x[:] = 9
    now += 100
    assert [array.tolist() for array in program.state.values()] == [[1, 2, 3]]
    program.save(tmp_path / "p")
    again = ns.Program.load(tmp_path / "p")
    assert [array.tolist() for array in again.state.values()] == [[1, 2, 3]]
    assert again(x)[0].tolist() == [9, 9, 9]
    assert again(x)[1].tolist() == program.run(x)[1].tolist() == [18, 18, 18]


@pytest.mark.parametrize("make", [
    lambda w: ns.optim.Adam([w], lr=0.1),
    lambda w: ns.optim.AdamW([w], lr=0.1, betas=(0.5, 0.75)),
    lambda w: ns.optim.SGD([w], lr=0.1, momentum=0.5, weight_decay=0.01),
])  # fmt: skip
def test_a_training_step_continues_as_the_function_does(tmp_path: Path, make: Any) -> None:
    w = ns.parameter(np.linspace(-1, 1, 3), name="w")
    opt = make(w)

    @ns.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (np.tanh(x @ w) ** 2).sum()
        loss.backward()
        opt.step()
        return loss

    step(X)
    program = step.graph(X)
    for _ in range(2):
        assert program(X).item() == step(X).item()
    program.save(tmp_path / "p")
    again = ns.load_graph(tmp_path / "p")
    for _ in range(3):
        expected = step(X).item()
        assert program(X).item() == again(X).item() == expected
    assert opt.steps == 6


def test_optimizers_of_others_are_followed_but_not_saved(tmp_path: Path) -> None:
    class Slowing(ns.optim.SGD):
        def rates(self) -> dict[str, float]:
            return {"lr": self.lr / self.steps} if self.steps else {"lr": self.lr}

    w = ns.parameter(np.ones(3), name="w")
    opt = Slowing([w], lr=0.5)

    @ns.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        (x * w).sum().backward()
        opt.step()
        return w * 1

    program = step.graph(np.ones(3))
    for _ in range(3):
        assert program(np.ones(3)).tolist() == step(np.ones(3)).tolist()
    with pytest.raises(GraphError, match="the steps of the optimizer Slowing"):
        program.save(tmp_path / "p")


def test_what_is_written_is_returned_as_it_is_afterwards() -> None:
    never_read = ns.parameter(np.zeros(3), name="never_read")
    as_it_is = ns.parameter(np.full(3, 4.0), name="as_it_is")

    @ns.compile
    def step(x: Any) -> Any:
        ns.assign(never_read, x * 2)
        return x, never_read, as_it_is, as_it_is + 1

    x = np.array([1.0, 2, 3])
    program = step.graph(x)
    for _ in range(2):
        result = program(x)
        assert result[0] is x
        assert [array.tolist() for array in result[1:]] == [[2, 4, 6], [4, 4, 4], [5, 5, 5]]
        result[2].data[:] = 0


def test_what_json_would_change_is_not_saved(tmp_path: Path) -> None:
    for odd in (object(), b"bytes", 1j, range(3), np.dtype("f4")):
        program = ns.compile(lambda x, odd=odd: {"x": x, "odd": odd}).graph(X)
        with pytest.raises(GraphError, match=f"it is a .*{type(odd).__name__}") as error:
            program.save(tmp_path / "p")
        assert "return tensors" in error.value.hint
    with pytest.raises(GraphError, match="a key of a result is not a plain value"):
        ns.compile(lambda x: {(1, 2): x}).graph(X).save(tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(GraphError, match="not a regular file"):
            ns.load_graph(odd)
