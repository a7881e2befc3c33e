"""Faults in how a program trains: losses, gradients, updates, layers."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, NAN, Broken

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
    Broken(
        "digits_schedule",
        "a cosine schedule counted in epochs, called for every batch",
        mend=(("cosine(step, EPOCHS)", "cosine(step, len(batches))"),),
        goal="loss < 0.3",
        lines=("optimizer.lr = cosine", "optimizer.step()", "return PEAK"),
        nodes=(r"optimizer/\S*",),
        about=(LOSS, "^weight_not_changed ", "(?i)learning rate|schedule"),
        words=r"(?i)learning rate|schedule|\blr\b|zero",
    ),
    Broken(
        "equal_weights",
        "all units start with equal weights, and stay equal",
        mend=(
            ("np.full((2, 8), 0.5), name", "rng.normal(0, 0.5, (2, 8)), name"),
            ("np.full(8, 0.5), name", "rng.normal(0, 0.5, 8), name"),
        ),
        goal="loss < 0.4",
        lines=("w1 = ns.parameter", "w2 = ns.parameter", "loss = np.mean"),
        nodes=("w1", "w2"),
        about=("^weight_init", "(?i)equal|symmetr|identical", LOSS),
        words="(?i)equal|same|symmetr|identical|initial",
    ),
    Broken(
        "swapped_head",
        "a head that the optimizer does not know",
        mend=(
            ("optimizer = ns.optim.SGD(model, lr=0.05)\n", ""),
            ("# two are rare\n", "# two are rare\noptimizer = ns.optim.SGD(model, lr=0.3)\n"),
        ),
        goal="loss < 0.4",
        lines=("model.head = nn.Linear(16, 2", "optimizer = ns.optim", "model.head.bias"),
        nodes=("head/weight", "head/bias", "weight", "bias"),
        about=("^weight_not_changed", "(?i)head"),
    ),
    Broken(
        "upside_down",
        "the likelihood is made smaller: a sign is missing",
        mend=(("return np.mean(likelihood)", "return -np.mean(likelihood)"),),
        goal="error < 0.3",
        lines=("return np.mean(likelihood)", "ns.assign(log_rate", "likelihood = 2.0"),
        nodes=("log_rate",),
        about=(NAN, LOSS, "(?i)too_large|explod|diverg"),
        words="(?i)sign|exp|falls|decreas|diverg|Inf|unbounded|large",
    ),
    Broken(
        "next_letter",
        "the answers are the inputs: nobody shifted them",
        mend=(
            (
                "inputs, answers = rows[:, :-1], rows[:, :-1]",
                "inputs, answers = rows[:, :-1], rows[:, 1:]",
            ),
        ),
        goal="known pairs > 0.8",
        lines=("inputs, answers =", "loss = nn.cross_entropy", "logits = model(ns.tensor(inputs"),
        nodes=("inputs",),
        about=("(?i)(equal|same as|identical|copy).*input|input.*(equal|same|identical|copy)",),
        words="(?i)equal|same|identical|copy|leak",
    ),
    Broken(
        "crossed_attention",
        "a softmax over the batch instead of the items",
        mend=(("axis=0)\n        answer", "axis=1)\n        answer"),),
        goal="loss < 0.02",
        lines=("share = ns.softmax",),
        nodes=("attention/softmax",),
        about=(LOSS, "(?i)axis"),
        words="(?i)axis|batch|rows",
    ),
    Broken(
        "heavy_decay",
        "a weight decay that outweighs every gradient",
        mend=(("weight_decay=20.0", "weight_decay=0.02"),),
        goal="loss < 0.4",
        lines=("optimizer = ns.optim.AdamW", "optimizer.step()"),
        nodes=(r"optimizer/\S*", r"layer_\d/weight"),
        about=(LOSS, "(?i)decay", "^weight_(too_small|change)", "^gradient_vanish"),
        words="(?i)decay|shrink|shrunk|toward",
    ),
    Broken(
        "old_target",
        "a target network that is never updated",
        mend=(("if update == EVERY * 100:", "if update % EVERY == 0:"),),
        goal="worth of the first room > 0.5",
        lines=("best = np.max", "target = ns.parameter"),
        nodes=("target", "target/.*"),
        about=("^weight_not_changed target", "(?i)target.*(never|constant|unchanged|zero)"),
    ),
    Broken(
        "wrong_momentum",
        "a velocity that already points downhill is subtracted",
        mend=(("place - velocity", "place + velocity"),),
        goal="loss < 0.1",
        lines=("place = place -",),
        nodes=("update/subtract(_1)?", "update/.*"),
        about=(LOSS, "(?i)explod|diverg|too_large|uphill|ascent"),
        words="(?i)sign|uphill|ascent|along|rises|grows|velocity|opposite",
    ),
)
