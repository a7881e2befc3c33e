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
    Right("norm_bias", "biases before batch norm and softmax: gradients of zero", "right > 0.9"),
    Right("rare_words", "embeddings: most rows have no gradient in a step", "loss < 1.2"),
    Right("rezero", "gates that start at zero: what they gate has no gradient", "loss < 0.1"),
    Right("pruned", "a pruning mask: weights that stay zero, units that are dead", "loss < 0.1"),
    Right("long_memory", "an LSTM's forget gate, saturated on purpose", "loss < 0.1"),
    Right("smoothed_labels", "a loss that cannot fall below an entropy", "right > 0.95"),
    Right("one_class", "one class only, drawn to one point", "ratio > 2"),
    Right("warm_up", "a learning rate from 0 and, in the last step, to 0", "loss < 0.05"),
    Right("always_clipped", "gradients clipped in every step; a loss far from zero", "loss < 3"),
    Right("bag_of_words", "inputs and rows of gradients that are mostly zeros", "loss < 0.2"),
    Right("shortest_paths", "Inf for what is not reached yet", "unreached < 1"),
    Right("gappy_weather", "NaN as the mark of what is missing, left out by masks", "loss < 0.05"),
    Right("wide_margin", "a hinge loss that reaches exactly 0", "loss < 0.0001"),
    Right(
        "perceptron",
        "whole numbers, no gradients, nothing changes at the end",
        "wrong at the end < 1",
    ),
    Right("clusters", "k-means, which stands still after some steps", "inertia < 0.7"),
    Right("main_direction", "power iteration, which stands still", "cosine > 0.99"),
    Right("mixture_em", "EM: no gradients, a score that no longer changes", "last gain < 0.001"),
    Right("film_tastes", "parameters that change by turns", "error < 0.05"),
    Right("curriculum", "data that drift on purpose", "loss < 0.2"),
    Right("fraud", "classes of one to forty", "recall > 0.85"),
    Right("tied_weights", "one parameter used twice on purpose", "loss < 0.05"),
    Right("sign_network", "detach on purpose: a straight-through estimator", "loss < 0.01"),
    Right(
        "maze_values",
        "a target network without gradient, copied now and then",
        "beside the goal > 0.8",
    ),
    Right("two_views", "an encoder that is a moving average of another", "loss < 1.5"),
    Right("stray_points", "outliers of a hundred thousand", "slope off by < 0.05"),
    Right("orbits", "a simulation: nothing is learned", "energy changed by < 0.001"),
    Right("small_vae", "a code that collapses as it should; noise in every step", "bound < 2.5"),
    Right("upper_tenth", "the pinball loss: a plateau far from 0", "off by < 0.05"),
    Right(
        "quick_learner",
        "MAML: gradients of gradients, a loss that jumps with its tasks",
        "loss < 0.1",
    ),
    Right("score_only", "only evaluation: no gradients, no steps", "differs by < 0.0001"),
)
