"""Programs that look faulty to a naive rule, and are right."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import Right

RIGHT: Final = (
    Right("spam_filter", "gradients that reach exactly zero: Newton converged", "slope < 1e-9"),
    Right("adapter", "LoRA: a factor starts at zero, a layer never changes", "loss < 0.01"),
    Right("forger", "a GAN: neither loss falls for long", "distance < 1.0"),
    Right("cart", "a policy gradient: noisy, on episodes of many lengths", "return > 0.5"),
    Right("fine_tune", "a body that is frozen on purpose", "accuracy > 0.8"),
    Right("copy_previous", "a causal mask of -inf", "loss < 0.3"),
    Right("tree_purity", "0 log 0, healed by np.where", "purest < 0.3"),
    Right("loss_scaling", "float16 gradients overflow until the scale is found", "loss < 0.02"),
    Right("noisy_line", "a loss that stays at the level of the noise", "slope off by < 0.2"),
    Right("xor", "a tiny network", "right > 0.9"),
)
