"""The GPU kernels without a GPU: in Triton's interpreter, and compiled for targets that are not here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gatel0rd.engine import gpu

HERE = Path(__file__).parent


needs_triton = pytest.mark.skipif(not gpu.has_triton(), reason="Triton is not installed (extra gpu)")


@needs_triton
@pytest.mark.slow
def test_kernels_in_the_interpreter():
    """All tests of interpreted_triton.py, whose process has the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        str(HERE / "interpreted_triton.py"),
    ]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parent.parent)
    assert run.returncode == 0, run.stdout[-4000:]


@needs_triton
@pytest.mark.slow
def test_kernels_compile_for_gpus_that_are_not_here(tmp_path):
    """For NVIDIA and AMD, in tiles and resident, within the shared memory of each."""
    script = (
        "from gatel0rd.engine.triton.offline import *\n"
        "for target in TARGETS:\n"
        "    for hidden, name in ((64, 'forward'), (512, 'backward')):\n"
        "        kernel = compile_kernel(target, name, hidden)\n"
        "        assert 0 < kernel.shared_memory <= SHARED_MEMORY[target], kernel\n"
        "        assert kernel.registers > 0 and kernel.spilled_bytes <= 512, kernel\n"
        "        print(kernel)\n"
    )
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.count("CompiledKernel") == 6


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (("mps", 8, torch.float32), "not for mps"),
        (("cuda", 513, torch.float32), "the hidden size is 513; there are kernels up to 512"),
        (("cuda", 8, torch.float64), r"of type torch\.float64"),
        (("cuda", 512, torch.bfloat16), "^$"),
    ],
)
def test_reasons_against_kernels(case, reason, monkeypatch):
    if not torch.cuda.is_available():
        assert "sees no CUDA" in gpu.reason_against("cuda", *case[1:])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "has_triton", lambda: True)
    assert re.search(reason, gpu.reason_against(*case))


def test_precision_is_a_switch(monkeypatch):
    assert gpu.precision() == "ieee"
    monkeypatch.setenv("GATEL0RD_PRECISION", "tf32")
    assert gpu.precision() == "tf32"
    monkeypatch.setenv("GATEL0RD_PRECISION", "half")
    with pytest.raises(ValueError, match="GATEL0RD_PRECISION is 'half'; expected one of ieee, tf32"):
        gpu.precision()


def test_without_triton_layers_on_a_gpu_are_pytorchs(monkeypatch):
    gpu.has_triton.cache_clear()
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
    assert gpu.status()["gpu"] == "torch" and "no CUDA" in gpu.status()["gpu_why"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "pip install gatel0rd[gpu]" in gpu.reason_against("cuda", 8, torch.float32)
    assert gpu.status()["gpu"] == "torch" and "not installed" in gpu.status()["gpu_why"]
    gpu.has_triton.cache_clear()
