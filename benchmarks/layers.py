"""How long does the layer take, compared with nn.GRU and nn.LSTM, and how does it grow with T, B and H?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

from benchmarks.measure import Comparison, Group, Work
from benchmarks.sizes import BATCH
from gatel0rd.nn.layer import GateL0RD

HIDDEN_SIZES = (8, 16, 64, 128, 256, 512)
LARGE_SIZES = (512, 1024, 2048)


def layer_pass(make: Callable[..., nn.Module], hidden: int = 8, *, steps: int = 50, batch: int = BATCH) -> Work:
    """Forward and backward of a recurrent layer in training mode, and nothing else; GateL0RD draws its gate noise."""
    rnn, x, gradient = make(hidden, hidden), *torch.randn(2, steps, batch, hidden)

    def run() -> None:
        rnn.zero_grad()
        rnn(x)[0].backward(gradient)

    return run


def compare_layers() -> Iterator[Comparison]:
    for hidden in HIDDEN_SIZES:
        for peer in (nn.GRU, nn.LSTM):
            ours, theirs = partial(layer_pass, GateL0RD, hidden), partial(layer_pass, peer, hidden)
            yield Comparison(f"layer/gatel0rd-{hidden}", ours, f"nn.{peer.__name__}", theirs)


def compare_large() -> Iterator[Comparison]:
    """Layers that are larger than most, compared with the same in PyTorch: the engine must not be slower."""
    for hidden in LARGE_SIZES:
        sizes = {"hidden": hidden, "steps": 10, "batch": 64}
        ours = partial(layer_pass, GateL0RD, **sizes)
        yield Comparison(
            f"large/gatel0rd-{hidden}",
            ours,
            "torch path",
            partial(layer_pass, partial(GateL0RD, engine="torch"), **sizes),
        )


def graph_pass(hidden: int, *, compiled: bool) -> Work:
    """Loss and gradients of the layer and a linear head, as one graph of torch.compile or without it."""
    rnn, head = GateL0RD(hidden, hidden), nn.Linear(hidden, hidden)
    x, target = torch.randn(2, 50, BATCH, hidden)

    def measure_loss() -> torch.Tensor:
        return nn.functional.mse_loss(head(rnn(x)[0]), target)

    torch._dynamo.reset()
    loss = torch.compile(measure_loss, fullgraph=True) if compiled else measure_loss

    def run() -> None:
        rnn.zero_grad()
        head.zero_grad()
        loss().backward()

    return run


def compare_graphs() -> Iterator[Comparison]:
    """The layer under torch.compile, compared with the same without."""
    for hidden in (8, 16, 64, 256):
        ours, theirs = (partial(graph_pass, hidden, compiled=compiled) for compiled in (True, False))
        yield Comparison(f"graph/gatel0rd-{hidden}", ours, "eager", theirs)


def compare_growth() -> Iterator[Comparison]:
    """Each size compared with half of it: the ratio is 0.5 where time grows linearly."""
    pairs = {
        **{f"T-{steps}": ({"steps": steps}, {"steps": steps // 2}) for steps in (100, 200, 400, 800, 1600)},
        **{f"B-{batch}": ({"batch": batch}, {"batch": batch // 2}) for batch in (32, 64, 128, 256, 512)},
        **{f"H-{hidden}": ({"hidden": hidden}, {"hidden": hidden // 2}) for hidden in (16, 32, 64, 128, 256)},
    }
    for name, (whole, half) in pairs.items():
        make = partial(layer_pass, GateL0RD)
        yield Comparison(f"growth/{name}", partial(make, **whole), "half of it", partial(make, **half))


GROUPS = (
    Group("layer", compare_layers),
    Group("large", compare_large, (1,)),
    Group("graph", compare_graphs, (1,)),
    Group("growth", compare_growth, (1,)),
)
