"""Faults in how a program trains: losses, gradients, updates, layers."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, Broken

TRAINING: Final = (
    Broken(
        "house_prices",
        "(n,1) minus (n,) in the loss",
        mend=(('name="houses"))\n    loss', 'name="houses"))[:, 0]\n    loss'),),
        goal="error < 0.01",
        lines=("loss = np.mean((guess",),
        nodes=("subtract",),
        about=(LOSS, "broadcast"),
        words=r"(?i)broadcast|120.{1,3}120|\(120, 1\)",
    ),
    Broken(
        "flowers",
        "softmax before cross-entropy",
        mend=(
            (
                "nn.softmax(self.out(np.tanh(self.hidden(x))))",
                "self.out(np.tanh(self.hidden(x)))",
            ),
        ),
        goal="loss < 0.3",
        lines=("return nn.softmax", "loss = nn.cross_entropy"),
        about=(LOSS,),
        words=r"(?i)softmax|probabilit|logits",
    ),
    Broken(
        "sparse_signal",
        "a penalty that is not added to the loss",
        mend=(("loss = 0.5 * fit", "loss = 0.5 * fit + penalty"),),
        goal="unused sensors' weight < 0.3",
        lines=("penalty = strength",),
        nodes=("penalty/.*",),
    ),
    Broken(
        "rain_gauge",
        "a mean divided by n again",
        mend=(("axis=0) / n", "axis=0)"),),
        goal="loss < 0.01",
        lines=("gradient = 2",),
        about=(LOSS,),
        words=r"(?i)mean|divide|small|200",
    ),
    Broken(
        "pendulum_net",
        "gradients are never zeroed",
        mend=(
            (
                "    loss.backward()\n",
                "    for parameter in parameters:\n        parameter.grad = None\n"
                "    loss.backward()\n",
            ),
        ),
        goal="loss < 0.01",
        lines=("loss.backward()", "ns.assign(parameter"),
        about=(
            LOSS,
            "(accumulat|zero_grad|not zeroed|carried)",
            "^gradient",
            "^weight_change_too_large",
        ),
        words=r"(?i)accumulat|zeroed|zero_grad|carried|added|(earlier|previous) step",
    ),
    Broken(
        "twin_photos",
        "codes rebuilt from .numpy(): the encoder gets no gradient",
        mend=(
            (
                'ns.tensor(codes[0].numpy() - codes[1].numpy(), name="difference")',
                "codes[0] - codes[1]",
            ),
        ),
        goal="loss < 0.2",
        lines=("difference = ns.tensor",),
        nodes=("difference",),
        about=(
            "(project|encoder).*(no gradient|gradient path|unchanged|not changed|never)",
            "^weight_(not_changed|frozen) .*project",
            LOSS,
        ),
    ),
    Broken(
        "tower",
        "one block used as four layers",
        mend=(("[Block(size)] * depth", "[Block(size) for _ in range(depth)]"),),
        goal="parameters > 400",
        lines=("self.blocks =", "self.inner = nn.Linear", "x + 0.5", "x = block(x)"),
        nodes=("(tower/|train/)?blocks.*",),
        words=r"(?i)shared|same (object|module|weight|layer|parameter)"
        r"|used (by|as|in|\d|several|four|more)|times",
    ),
    Broken(
        "tabular_norm",
        "layer norm over the batch axis",
        mend=(
            ("np.mean(h, axis=0", "np.mean(h, axis=-1"),
            ("np.mean(centred**2, axis=0", "np.mean(centred**2, axis=-1"),
        ),
        goal="right > 0.85",
        lines=("centred = h -", "spread = np.sqrt", "return centred / spread"),
        nodes=(".*norm/.*",),
    ),
)
