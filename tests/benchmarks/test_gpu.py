"""The script for people with a GPU runs here, too."""

from __future__ import annotations

import pytest
import torch

from benchmarks.gpu import main


def test_the_script_prints_a_table(capsys):
    main(["--device", "cpu", "--sizes", "4", "--steps", "3", "--seconds", "0.001"])
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[-3].startswith("| H | T | kernels | PyTorch | step by step | nn.GRU | nn.LSTM |")
    hidden, steps, kernels, *times, difference = lines[-1].strip("| ").split(" | ")
    assert (hidden, steps, kernels) == ("4", "3", "-")
    assert all(float(time) > 0 for time in times) and float(difference) < 1e-5


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "sees no CUDA or ROCm device; --device cpu" in capsys.readouterr().err
