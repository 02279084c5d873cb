"""Noise that is correlated in time: power falls with frequency as 1/f^β."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def colored_noise(exponent: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    r"""Gaussian noise with spectrum 1/f^β along the last axis, of unit variance around the mean of each sequence.

    .. math:: \hat z_k = s_k (u_k + i v_k),\quad s_k = \max(f_k, 1/T)^{-β/2},\quad u_k, v_k \sim N(0, 1)

    β = 0 is white noise, 1 pink, 2 Brownian; planners use 2 to 4 to search slow, far-reaching motions.

    Shape: the last entry of ``shape`` is the number of steps.
    """
    *rest, steps = shape
    if steps < 1:
        raise ValueError(f"shape is {shape}; the last entry is the number of steps, expected at least 1")
    if not np.isfinite(exponent) or exponent < 0:
        raise ValueError(f"exponent is {exponent}; expected a finite number of at least 0")
    if steps == 1:
        return generator.normal(size=shape)
    frequency = np.fft.rfftfreq(steps)
    scale = np.maximum(frequency, 1 / steps) ** (-exponent / 2)
    weight = scale[1:].copy()
    weight[-1] *= (1 + steps % 2) / 2  # with an even number of steps the highest frequency has no partner
    std = 2 * np.sqrt(np.sum(weight**2)) / steps
    real, imaginary = (generator.standard_normal((*rest, len(frequency))) * scale for _ in range(2))
    for lone in (0, -1) if steps % 2 == 0 else (0,):  # these are real, and carry the variance of both parts
        imaginary[..., lone] = 0
        real[..., lone] *= np.sqrt(2)
    noise: Array = np.fft.irfft(real + 1j * imaginary, n=steps, axis=-1) / std
    return noise
