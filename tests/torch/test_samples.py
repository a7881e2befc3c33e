"""The samples in PyTorch run plainly and observed, and the broken ones lead to their culprits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "torch"
# With more threads, a busy machine makes them wait for each other.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def run(cwd: Path, *command: str | Path) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, env=ENVIRONMENT, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("sample", "options"),
    [("gpt.py", ("--steps", "12", "--letters", "20")), ("resnet.py", ("--epochs", "1"))],
)
def test_a_sample_gives_the_same_observed(
    tmp_path: Path, sample: str, options: tuple[str, ...]
) -> None:
    plain = run(tmp_path, SAMPLES / sample, *options)
    observed = run(
        tmp_path, "-m", "nodescope", "run", "--no-browser", "--no-stop-on-entry", "--exit",
        SAMPLES / sample, *options,
    )  # fmt: skip
    assert observed.endswith(plain)


def test_a_module_is_run_as_python_does(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "train.py").write_text(
        "import sys, torch\n"
        "from package import __name__ as name\n"
        "torch.manual_seed(0)\n"
        "layer = torch.nn.Linear(3, 2)\n"
        "layer(torch.ones(1, 3)).sum().backward()\n"
        "print(name, __name__, sys.argv[1:], layer.weight.grad.tolist())\n"
    )
    given = ("-m", "package.train", "--epochs", "3")
    plain = run(tmp_path, *given)
    observed = run(
        tmp_path, "-m", "nodescope", "run", "--no-browser", "--no-stop-on-entry", "--exit",
        "--record", tmp_path / "run.nscope", *given,
    )  # fmt: skip
    assert observed.endswith(plain)
    from tests.torch.observing import Recording, nodes_of

    with Recording.open(tmp_path / "run.nscope") as recording:
        assert {"Linear/addmm", "backward/Linear/mm"} <= set(nodes_of(recording))


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (
            "half_overflow.py",
            r"operator_overflow.*\n.*Sequential/0/addmm in step 1 .*produces 72 Inf",
        ),
        (
            "residual_in_place.py",
            r"alias_overwritten.*\n.*Sequential/1/mul_ in step 1 \(residual_in_place.py:23\): "
            r"x and shortcut are one tensor since line 21, .*/add reads shortcut changed",
        ),
        ("wrong_dim.py", r"attention_over_batch.*\n.*Counter/attention/softmax in step 1"),
    ],
)
def test_check_names_the_culprit(tmp_path: Path, sample: str, said: str) -> None:
    output = run(tmp_path, "-m", "nodescope", "check", SAMPLES / "broken" / sample)
    assert re.search(rf"HIT +{said}", output), output


def test_a_residual_that_was_overwritten_is_seen_in_the_graph(tmp_path: Path) -> None:
    script = SAMPLES / "broken" / "residual_in_place.py"
    recording = tmp_path / "run.nscope"
    run(tmp_path, "-m", "nodescope", "run", "--no-browser", "--no-stop-on-entry", "--exit",
        "--record", recording, script)  # fmt: skip
    from tests.torch.observing import Recording, edges_of

    with Recording.open(recording) as opened:
        edges = edges_of(opened)
    # `add` reads the tensor that the branch overwrote, not the original input.
    assert edges["Sequential/1/add"][0] == "Sequential/1/mul_"
