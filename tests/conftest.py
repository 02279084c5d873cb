"""Shared by all tests. Sizes are distinct everywhere, so that a swapped axis fails."""

from __future__ import annotations

import os
from collections import Counter

import pytest
import torch

from gatel0rd.worlds import registry

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
torch.set_num_threads(1)

T, B, INPUT, H, OUTPUT = 7, 5, 3, 2, 4


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def known_worlds(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_worlds", dict(registry._worlds))
    monkeypatch.setattr(registry, "_loaded", set(registry._loaded))


def pytest_terminal_summary(terminalreporter):
    """One line for each reason to skip tests, however many are skipped for it."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason}")
