"""Training in several processes, by PyTorch's own wrappers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "parallel_training.py"


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_gradients_are_those_of_the_whole_batch(kind, tmp_path):
    command = [sys.executable, str(SCRIPT), kind]
    meeting = str(tmp_path / "meeting")
    processes = [
        subprocess.Popen([*command, str(rank), meeting], stderr=subprocess.PIPE, text=True) for rank in range(2)
    ]
    ends = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(ends)[-3000:]
