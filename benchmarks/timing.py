"""Timing of two things against each other, in turns, so that a busy machine slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians(candidates: Mapping[str, Callable[[], object]], *, repeats: int = 15, warmup: int = 3) -> dict[str, float]:
    """Median milliseconds of each candidate; candidates take turns in every round."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(warmup + repeats):
        for name, run in candidates.items():
            began = time.perf_counter()
            run()
            if round_number >= warmup:
                times[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in times.items()}
