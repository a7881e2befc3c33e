"""Rosenblatt's perceptron on whole numbers: one example at a time, until nothing is wrong."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(54)
x = rng.integers(-9, 10, (40, 3))
side = np.where(x @ [2, -1, 1] > 0, 1, -1)
x, side = x[np.abs(x @ [2, -1, 1]) > 2], side[np.abs(x @ [2, -1, 1]) > 2]

w = ns.tensor(np.zeros(3, np.int64), name="w")
wrong_in_pass = []
for _ in ns.steps(range(12)):
    wrong = 0
    for row, answer in zip(x, side, strict=True):
        sign = np.sign(np.sum(ns.tensor(row) * w))
        if sign.item() != answer:
            w = w + answer * ns.tensor(row)
            wrong += 1
    wrong_in_pass.append(wrong)
print("weights", w.tolist(), "wrong", wrong_in_pass)
print(f"wrong at the end {wrong_in_pass[-1]}")
