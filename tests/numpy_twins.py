"""The cells once more, in float64 NumPy, written from the equations and sharing no code with the library."""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def mlp(weights, prefix, x, last_tanh):
    layer = 0
    while f"{prefix}.{layer}.weight" in weights:
        x = x @ weights[f"{prefix}.{layer}.weight"].T + weights[f"{prefix}.{layer}.bias"]
        layer += 2
        if last_tanh or f"{prefix}.{layer}.weight" in weights:
            x = np.tanh(x)
    return x


GATES = {
    "retanh": lambda s: np.maximum(0, np.tanh(s)),
    "sigmoid": sigmoid,
    "heaviside": lambda s: (s > 0).astype(float),
}


def gatel0rd(weights, x, state, noise, gate="retanh"):
    (h,) = state
    xh = np.concatenate([x, h], axis=1)
    opening = GATES[gate](mlp(weights, "gate_net", xh, False) + noise)
    h = h + opening * (mlp(weights, "recommendation_net", xh, True) - h)
    xh = np.concatenate([x, h], axis=1)
    y = np.tanh(xh @ weights["output_net.weight"].T + weights["output_net.bias"])
    if "output_gate_net.weight" in weights:
        y = y * sigmoid(xh @ weights["output_gate_net.weight"].T + weights["output_gate_net.bias"])
    return y, (h,), opening


def elman(weights, x, state, noise):
    (h,) = state
    h = np.tanh(x @ weights["weight_ih"].T + weights["bias_ih"] + h @ weights["weight_hh"].T + weights["bias_hh"])
    return h, (h,), None


def gru(weights, x, state, noise):
    (h,) = state
    size = h.shape[1]
    i = x @ weights["weight_ih"].T + weights["bias_ih"]
    j = h @ weights["weight_hh"].T + weights["bias_hh"]
    r = sigmoid(i[:, :size] + j[:, :size])
    z = sigmoid(i[:, size : 2 * size] + j[:, size : 2 * size])
    n = np.tanh(i[:, 2 * size :] + r * j[:, 2 * size :])
    h = (1 - z) * n + z * h
    return h, (h,), None


def lstm(weights, x, state, noise):
    h, c = state
    size = h.shape[1]
    a = x @ weights["weight_ih"].T + weights["bias_ih"] + h @ weights["weight_hh"].T + weights["bias_hh"]
    i, f, g, o = (a[:, k * size : (k + 1) * size] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h, (h, c), None


def clockwork(weights, x, state, noise):
    """Eight units in modules of 3, 3 and 2 with periods 1, 4 and 8, unit by unit."""
    h, clock = state
    periods = [1, 1, 1, 4, 4, 4, 8, 8]
    new = h.copy()
    for row in range(len(h)):
        for unit, period in enumerate(periods):
            if int(clock[row, 0]) % period:
                continue
            total = x[row] @ weights["weight_ih"][unit] + weights["bias_ih"][unit] + weights["bias_hh"][unit]
            for source, source_period in enumerate(periods):
                if source_period >= period:
                    total += weights["weight_hh"][unit, source] * h[row, source]
            new[row, unit] = np.tanh(total)
    return new, (new, clock + 1), None
