"""Noise that is correlated in time: power falls with frequency as 1/f^β."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def colored_noise(exponent: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    r"""Gaussian noise with spectrum 1/f^β along the last axis, of unit variance around the mean of each sequence.

    .. math:: \hat z_k = s_k (u_k + i v_k),\quad s_k = \max(f_k, 1/T)^{-β/2},\quad u_k, v_k \sim N(0, 1)

    β = 0 is white noise, 1 pink, 2 Brownian; planners use 2 to 4 to search slow, far-reaching motions.

    Shape: the last entry of ``shape`` is the number of steps.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.planning import colored_noise
        >>> white, slow = (colored_noise(beta, (1000, 30), np.random.default_rng(0)) for beta in (0.0, 3.0))
        >>> bool(np.abs(np.diff(slow)).mean() < np.abs(np.diff(white)).mean() / 2)
        True
    """
    *rest, steps = shape
    if steps < 1:
        raise ValueError(f"shape is {shape}; the last entry is the number of steps, expected at least 1")
    if not np.isfinite(exponent) or exponent < 0:
        raise ValueError(f"exponent is {exponent}; expected a finite number of at least 0")
    if steps == 1:
        return generator.normal(size=shape)
    scales = _scales(exponent, steps)
    spectrum = np.empty((*rest, scales.shape[-1]), dtype=np.complex128)
    for part, scale in zip((spectrum.real, spectrum.imag), scales, strict=True):
        np.multiply(generator.standard_normal(spectrum.shape), scale, out=part)
    noise: Array = np.fft.irfft(spectrum, n=steps, axis=-1)
    return noise


@cache
def marginal_std(exponent: float, steps: int) -> float:
    """Standard deviation of a single number of :func:`colored_noise`, over all sequences; above 1, as means vary."""
    if steps == 1:
        return 1.0
    power = np.square(_scales(exponent, steps)).sum(axis=0)
    power[1 : (steps + 1) // 2] *= 2  # frequencies that have a partner
    return float(np.sqrt(power.sum()) / steps)


@cache
def _scales(exponent: float, steps: int) -> Array:
    """Standard deviations of the spectrum's real and imaginary parts, [2, T // 2 + 1]."""
    scale = np.maximum(np.fft.rfftfreq(steps), 1 / steps) ** (-exponent / 2)
    weight = scale[1:].copy()
    weight[-1] *= (1 + steps % 2) / 2  # with an even number of steps the highest frequency has no partner
    scale /= 2 * np.sqrt(np.sum(weight**2)) / steps
    scales = np.stack([scale, scale])
    for lone in (0, -1) if steps % 2 == 0 else (0,):  # these are real, and carry the variance of both parts
        scales[:, lone] *= np.sqrt(2), 0
    scales.flags.writeable = False
    return scales
