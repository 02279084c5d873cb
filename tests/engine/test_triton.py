"""The GPU kernels without a GPU: in Triton's interpreter, and compiled for targets that are not here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gatel0rd import GateL0RD, GateL0RDCell
from gatel0rd.engine import gpu
from gatel0rd.nn import gated_layer_gpu

HERE = Path(__file__).parent


needs_triton = pytest.mark.skipif(not gpu.has_triton(), reason="Triton is not installed (extra gpu)")


@needs_triton
@pytest.mark.slow
def test_kernels_in_the_interpreter():
    """All tests of interpreted_triton*.py, whose process has the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    files = [str(HERE / name) for name in ("interpreted_triton.py", "interpreted_triton_options.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parent.parent)
    assert run.returncode == 0, run.stdout[-4000:]


@needs_triton
@pytest.mark.slow
def test_kernels_compile_for_gpus_that_are_not_here(tmp_path):
    """For NVIDIA and AMD, in tiles and resident, within the shared memory of each, and multiplying as they are told."""
    script = (
        "from gatel0rd.engine.triton.offline import *\n"
        "PRODUCTS = dict(sm_80='tf32', sm_90='tf32', gfx942='xf32')\n"
        "for target in TARGETS:\n"
        "    exact = 'f32' if target == 'gfx942' else 'fma'\n"
        "    for hidden, work, dtype, precision, products in (\n"
        "        (64, 'forward', 'fp32', 'ieee', exact),\n"
        "        (512, 'backward', 'fp32', 'tf32', PRODUCTS[target]),\n"
        "        (1, 'backward', 'fp32', 'ieee', exact),\n"
        "        (64, 'forward, draws noise', 'fp32', 'tf32', PRODUCTS[target]),\n"
        "        (512, 'recompute', 'bf16', 'ieee', 'bf16'),\n"
        "    ):\n"
        "        kernel = compile_kernel(target, work, hidden, dtype, precision)\n"
        "        assert kernel.products == products, kernel\n"
        "        assert 0 < kernel.shared_memory <= SHARED_MEMORY[target], kernel\n"
        "        assert kernel.registers > 0 and kernel.spilled_bytes <= 512, kernel\n"
        "        print(kernel)\n"
    )
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.count("CompiledKernel") == 15


@needs_triton
def test_kernels_are_compiled_once_for_all_lengths():
    """Triton would make a constant of T = 1 or B = 1, and others for multiples of 16."""
    from gatel0rd.engine.triton import kernels

    names = ("forward_resident", "forward_tiled", "backward_resident", "backward_tiled", "recompute", "draw_noise")
    parameters = [one for name in names for one in getattr(kernels, name).params if one.name in ("steps", "batch")]
    assert len(parameters) == 10 and all(one.do_not_specialize for one in parameters)


@needs_triton
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("hidden", [6, 70])
def test_fake_cuda_tensors_through_kernels_need_no_data(hidden, masked, recompute, monkeypatch):
    """While training, with noise that kernels draw: no operation asks for numbers."""
    used = []

    def has_kernel(*case):
        used.append(case)
        return True

    monkeypatch.setattr(gated_layer_gpu, "_has_kernel", has_kernel)
    rnn = GateL0RD(3, hidden, num_layers=2, mask_means="valid", device="meta", recompute=recompute)
    cell = GateL0RDCell(3, hidden, device="meta")
    with FakeTensorMode(allow_non_fake_inputs=False):
        for module in (*rnn.modules(), *cell.modules()):
            for name, parameter in module._parameters.items():
                module._parameters[name] = torch.empty(parameter.shape, device="cuda")
        x, mask = torch.empty(7, 5, 3, device="cuda"), torch.empty(7, 5, dtype=torch.bool, device="cuda")
        outputs, h_n, gates = rnn(x, None, mask if masked else None, return_gates=True)
        assert {one.device.type for one in (outputs, h_n, gates)} == {"cuda"}
        assert outputs.shape == (7, 5, hidden) and h_n.shape == (2, 5, hidden) and gates.shape == (7, 5, 2 * hidden)
        assert cell(x.select(0, 0))[1].shape == (5, hidden)
    assert [case[-4:] for case in used] == 2 * [(False, masked, True, recompute)]


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
