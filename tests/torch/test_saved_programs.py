"""Saved programs: opened by ``nodescope open``, and refused if they hold more than data."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nodescope as ns
from nodescope.cli import main
from nodescope.errors import GraphError
from nodescope.record.recording import Recording
from tests.torch.observing import nodes_of
from tests.torch.static_programs import Net, batch


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "net.pt2"
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Net().eval(), batch()), path)
    return path


def changed(saved: Path, path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """A copy whose members went through a function of their names within the archive."""
    with zipfile.ZipFile(saved) as given, zipfile.ZipFile(path, "w") as archive:
        for member in given.infolist():
            part = member.filename.partition("/")[2]
            archive.writestr(member.filename, change(part, given.read(member)))
    return path


def in_graph(change: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def apply(part: str, data: bytes) -> bytes:
        if not part.startswith("models/"):
            return data
        document = json.loads(data)
        change(document)
        return json.dumps(document).encode()

    return apply


def first_target(name: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        document["graph_module"]["graph"]["nodes"][0]["target"] = name

    return change


def range_of(symbol: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        document["range_constraints"][symbol] = {"min_val": 2, "max_val": 9}

    return change


def size_of(expression: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        tensors = document["graph_module"]["graph"]["tensor_values"]
        meta = next(iter(tensors.values()))
        meta["sizes"][0] = {"as_expr": {"expr_str": expression, "hint": {"as_int": 3}}}

    return change


def containers(kind: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        signature["in_spec"] = signature["in_spec"].replace("builtins.dict", kind)

    return change


class Harmful:
    def __reduce__(self) -> Any:
        return (print, ("unpickled",))


HARMFUL = {
    "torch.hub.load": in_graph(first_target("torch.hub.load")),
    "os.system": in_graph(first_target("os.system")),
    "torch.ops.aten.from_file.default": in_graph(first_target("torch.ops.aten.from_file.default")),
    "torch.ops.mine.run.default": in_graph(first_target("torch.ops.mine.run.default")),
    "no arithmetic: an attribute": in_graph(size_of("s0.__class__")),
    "no arithmetic: a call": in_graph(size_of("exec('1')")),
    "no arithmetic: too large": in_graph(size_of("9**9**9")),
    "no arithmetic: a symbol": in_graph(size_of("Symbol('print(1)', integer=True)")),
    "no arithmetic: in a range": in_graph(range_of("print")),
    "objects of collections.defaultdict": in_graph(containers("collections.defaultdict")),
    "contains pickled objects": lambda part, data: (
        pickle.dumps(Harmful()) if part.startswith("data/sample_inputs") else data
    ),
}


@pytest.mark.parametrize("what", HARMFUL)
def test_what_is_more_than_data_is_refused(
    saved: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(saved, tmp_path / "net.pt2", HARMFUL[what])
    with pytest.raises(GraphError, match=what.partition(":")[0].replace(".", r"\.")) as refused:
        ns.torch.load(path)
    assert "--trust" in refused.value.hint
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("data/aotinductor/model/model.so", "compiled code"),
        ("data/constants/custom_obj_0", "a pickled object, custom_obj_0"),
        ("models/MODEL.json", "several members of one name"),
    ],
)
def test_members_other_than_data_are_refused(
    saved: Path, tmp_path: Path, name: str, said: str
) -> None:
    path = changed(saved, tmp_path / "net.pt2", lambda part, data: data)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"net/{name}", b"{}")
    with pytest.raises(GraphError, match=said):
        ns.torch.load(path)


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 1000])
def test_anything_but_an_archive_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(data)
    with pytest.raises(GraphError, match="no archive of"):
        ns.torch.load(path)


def test_a_saved_program_is_what_was_saved(saved: Path) -> None:
    torch.manual_seed(0)
    model = Net().eval()
    program = ns.torch.load(saved)
    assert torch.equal(program.run(*batch()), model(*batch()))
    names = {node.name: node for node in program.graph.nodes}
    node = names["Net/blocks/1/scaled_dot_product_attention/scaled_dot_product_attention"]
    assert node.source is not None
    assert node.source.file.endswith("static_programs.py")


def test_sizes_that_are_symbols_are_loaded(tmp_path: Path) -> None:
    size = torch.export.Dim("size", min=2, max=64)
    x = torch.ones(3, 4)
    exported = torch.export.export(nn.Flatten(0), (x,), dynamic_shapes=({0: size},))
    torch.export.save(exported, tmp_path / "flat.pt2")
    program = ns.torch.load(tmp_path / "flat.pt2")
    assert program.run(torch.ones(7, 4)).shape == (28,)
    assert program.graph.values[0].spec.shape == (None, 4)


def test_a_saved_program_is_opened_and_stepped_in_the_terminal(saved: Path, tmp_path: Path) -> None:
    commands, path = tmp_path / "commands", tmp_path / "run.nscope"
    commands.write_text("where\nn\nn\np\nrb\nb op:softmax_backward\nc\nc\n")
    ended = subprocess.run(
        [sys.executable, "-m", "nodescope", "open", str(saved), "--joint", "--cli",
         "-x", str(commands), "--record", str(path)],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Before the first node: Net/embedding/embedding" in ended.stderr
    assert "the inputs are those that the program was saved with" in ended.stderr
    with Recording.open(path) as run:
        nodes = nodes_of(run)
        assert {node.phase for node in nodes.values()} == {"forward", "backward"}
        assert run.run().name == "net.pt2"


def test_a_folder_with_a_saved_program_is_not_imported_from(saved: Path, tmp_path: Path) -> None:
    for name in ("sympy", "networkx", "jinja2"):
        (tmp_path / f"{name}.py").write_text("print('imported')")
    path = changed(saved, tmp_path / "net.pt2", lambda part, data: data)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "nodescope", "open", str(path), "--cli", "--no-run",
         "-x", "/dev/null", "--record", str(tmp_path / "run.nscope")],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "imported" not in ended.stdout
    with Recording.open(tmp_path / "run.nscope") as run:
        assert len(run.nodes()) > 30
        assert not run.executions()


def test_a_program_run_as_a_script_gets_advice(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(saved)]) == 2
    assert "nodescope open" in capsys.readouterr().err


def test_with_trust_it_is_opened_whatever_it_holds(saved: Path, tmp_path: Path) -> None:
    """What is more than data is PyTorch's to load."""

    class Arguments:
        def __reduce__(self) -> Any:
            return (eval, ("print('unpickled') or {}",))

    def swap(part: str, data: bytes) -> bytes:
        if not part.startswith("data/sample_inputs"):
            return data
        args, _ = torch.load(io.BytesIO(data), weights_only=False)
        written = io.BytesIO()
        torch.save((args, Arguments()), written)
        return written.getvalue()

    path = changed(saved, tmp_path / "net.pt2", swap)
    with pytest.raises(GraphError, match="pickled"):
        ns.torch.load(path)
    commands = tmp_path / "commands"
    commands.write_text("c\n")
    ended = subprocess.run(
        [sys.executable, "-m", "nodescope", "open", str(path), "--trust", "--cli", "-x",
         str(commands), "--record", str(tmp_path / "run.nscope")],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "unpickled" in ended.stdout
    with Recording.open(tmp_path / "run.nscope") as run:
        assert len(run.executions()) > 30
