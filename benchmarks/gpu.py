"""Layers on a GPU: milliseconds of a forward and backward pass by each path, and how far they are apart.

``python -m benchmarks.gpu`` takes about two minutes on a machine with a CUDA or ROCm device, and prints a table.
``--device cpu`` tries the script out anywhere, without kernels.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatel0rd import GateL0RD
from gatel0rd.engine import gpu
from gatel0rd.nn.unroll import unroll_steps
from gatel0rd.tables import Table

HEADER = ("H", "T", "kernels", "PyTorch", "step by step", "nn.GRU", "nn.LSTM", "kernels against PyTorch")
SIZES = (8, 32, 64, 128, 256, 512)
STEPS = (64, 500)
INPUTS, BATCH, MOST_STEPS_ONE_BY_ONE = 32, 128, 100


def measure(work: Callable[[], object], device: str, seconds: float) -> float:
    """Median milliseconds of one turn, after two turns that compile and fill caches."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    times: list[float] = []
    for turn in range(102):
        wait()
        start = time.perf_counter()
        work()
        wait()
        if turn >= 2:
            times.append(time.perf_counter() - start)
        if sum(times) > seconds and len(times) >= 3:
            break
    return 1000 * statistics.median(times)


def turn(layer: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """A forward and a backward pass."""

    def work() -> Tensor:
        outputs: Tensor = layer(x)[0]
        outputs.square().mean().backward()
        return outputs

    return work


def compare(device: str, hidden: int, steps: int, seconds: float) -> list[str]:
    """One row of the table."""
    torch.manual_seed(0)
    x = torch.randn(steps, BATCH, INPUTS, device=device)
    kernels = GateL0RD(INPUTS, hidden, device=device).eval()
    plain = GateL0RD(INPUTS, hidden, device=device, engine="torch").eval()
    plain.load_state_dict(kernels.state_dict())

    class Stepped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stack = plain.stack

        def forward(self, x: Tensor) -> tuple[Tensor]:
            start = self.stack.initial_state(x.shape[1], x)
            return (unroll_steps(self.stack, x, start, None, None, None).outputs,)

    has_kernel = not gpu.reason_against(device, hidden, x.dtype)
    row = [str(hidden), str(steps)]
    row.append(f"{measure(turn(kernels, x), device, seconds):.2f}" if has_kernel else "-")
    row.append(f"{measure(turn(plain, x), device, seconds):.2f}")
    few = steps <= MOST_STEPS_ONE_BY_ONE
    row.append(f"{measure(turn(Stepped(), x), device, seconds):.2f}" if few else "-")
    for kind in (nn.GRU, nn.LSTM):
        row.append(f"{measure(turn(kind(INPUTS, hidden, device=device), x), device, seconds):.2f}")
    difference = (kernels(x)[0] - plain(x)[0]).abs().max().item()
    return [*row, f"{difference:.1e}"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="Where to run.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="Hidden sizes.")
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, help="Time steps.")
    parser.add_argument("--seconds", type=float, default=1.0, help="Time for each candidate of a row.")
    given = parser.parse_args(arguments)
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA or ROCm device; --device cpu tries the script out")
    name = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, B = {BATCH}, I = {INPUTS}; milliseconds, forward and backward")
    for key, value in gpu.status().items():
        print(f"{key}: {value}")
    rows = [compare(given.device, hidden, steps, given.seconds) for steps in given.steps for hidden in given.sizes]
    print(Table(HEADER, rows).markdown())


if __name__ == "__main__":
    main()
