"""Shared by all tests."""

from __future__ import annotations

import os
from collections import Counter

import pytest
import torch

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def pytest_terminal_summary(terminalreporter):
    """One line for each reason to skip tests, however many are skipped for it."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason}")
