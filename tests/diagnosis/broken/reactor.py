"""The temperature of a cooled reactor, minute by minute."""

import numpy as np

import nodescope as ns

inflow = ns.tensor(np.linspace(280, 320, 16).astype(np.float32), name="inflow")
COOLANT, RATE, DT = 300.0, 0.6, 0.5
temperature = inflow
np.seterr(all="ignore")
for _ in range(400):
    heat = 4.0 * np.exp(-((temperature - 330.0) ** 2) / 400.0)
    cooling = RATE * (COOLANT - temperature)
    temperature = temperature + DT * (heat - cooling)
print(f"hottest {np.nan_to_num(temperature.numpy(), nan=1e9, posinf=1e9).max():.1f}")
