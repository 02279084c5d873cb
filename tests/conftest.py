"""Shared by all tests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from gatel0rd.engine import eligibility, instruction_sets, use_instruction_set
from gatel0rd.worlds import registry

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def known_worlds(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_worlds", dict(registry._worlds))
    monkeypatch.setattr(registry, "_loaded", set(registry._loaded))


@pytest.fixture(autouse=True)
def warnings_are_new():
    """A warning that is given once per process is given once per test."""
    eligibility.warn_slow.cache_clear()


def pytest_collection_modifyitems(items):
    """Tests that wait for other processes come first, then other long ones, so that no worker is alone at the end."""
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("cluster", "slow")])


def pytest_terminal_summary(terminalreporter):
    """One line for each reason to skip tests, however many are skipped for it."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(params=instruction_sets())
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """The compiled engine with each instruction set of this machine in turn; GATEL0RD_ISA leaves one of them."""
    with use_instruction_set(request.param):
        yield request.param
