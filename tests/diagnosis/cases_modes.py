"""Faults between training and evaluation: modes, scales, copies, mixed-up weights."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, Broken

MODES: Final = (
    Broken(
        "radio_signals",
        "eval() in validation and never train() again: batch norm keeps its first statistics",
        mend=(
            (
                "    return float(np.mean(scores",
                "    model.train()\n    return float(np.mean(scores",
            ),
        ),
        goal="accuracy > 0.9",
        lines=("    model.eval()", "self.norm(self.fc1"),
        nodes=(r"norm(_in)?/.*",),
        words=r"(?i)eval|train\(\)",
    ),
    Broken(
        "shared_trunk",
        "the trunk runs under no_grad, though the optimizer has its weights",
        mend=(
            (
                "        with ns.no_grad():\n            return self.trunk(x)",
                "        return self.trunk(x)",
            ),
        ),
        goal="loss < 0.3",
        lines=("with ns.no_grad()", "return self.trunk(x)"),
        nodes=("trunk/.*",),
        words="(?i)no_grad",
    ),
    Broken(
        "flat_prices",
        "predictions are not scaled back before they are compared with prices",
        mend=(
            (
                'name="flats"))[:, 0]\n    wanted',
                'name="flats"))[:, 0] * std + mean\n    wanted',
            ),
        ),
        goal="off by < 20000",
        lines=("guess = model(ns.tensor(test_x", "error = nn.l1_loss", "wanted = ns.tensor(test_y"),
        nodes=("report/.*",),
        words="(?i)scale",
    ),
    Broken(
        "best_weights",
        "the best weights are kept by reference, so the last ones are restored",
        mend=(
            (
                "best, lowest = dict(model.named_parameters()), error",
                "best, lowest = model.state_dict(), error",
            ),
        ),
        goal="restored < 0.05",
        lines=("ns.assign(parameter, best[name])", "best, lowest = dict("),
        words="(?i)itself|copy",
    ),
    Broken(
        "both_players",
        "the judge's optimizer has the generator's weights, too",
        mend=(("[*generator.parameters(), *critic.parameters()]", "critic.parameters()"),),
        goal="away < 0.5",
        lines=("opt_d = ns", "opt_d.step()", "opt_g.step()"),
        words="(?i)two optimizers",
    ),
    Broken(
        "thermometers",
        "the second half of the data is in another unit",
        mend=(("fahrenheit=True)\nmodel", "fahrenheit=False)\nmodel"),),
        goal="error < 0.1",
        lines=("x = ns.tensor((readings[start",),
        nodes=("readings",),
        about=(LOSS,),
        words="(?i)drift",
    ),
)
