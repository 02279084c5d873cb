"""TorchRL's GRUModule takes a GateL0RD layer, episodes and all."""

from __future__ import annotations

import itertools

import pytest
import torch
from shapes import INPUT, B, H, T

from gatel0rd import GateL0RD

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def torchrl():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchrl.modules

    return torchrl


@pytest.mark.parametrize("mask_means", ["auto", "valid"])
def test_gru_module_resets_at_episode_starts_and_hands_on_the_right_state(torchrl, mask_means):
    from tensordict import TensorDict

    layers = 2
    rnn = GateL0RD(INPUT, H, num_layers=layers, batch_first=True, mask_means=mask_means).eval()
    module = torchrl.modules.GRUModule(
        gru=rnn, in_keys=["x", "h"], out_keys=["y", ("next", "h")], default_recurrent_mode=True
    )
    x = torch.randn(B, T, INPUT, generator=torch.Generator().manual_seed(0))
    is_init = torch.zeros(B, T, 1, dtype=torch.bool)
    is_init[:, 0] = True
    is_init[1, 3] = is_init[2, 2] = is_init[2, 5] = True
    hidden = torch.zeros(B, T, layers, H)
    result = module(TensorDict({"x": x, "h": hidden, "is_init": is_init}, [B, T]))
    for index, cuts in {0: [], 1: [3], 2: [2, 5], 3: [], 4: []}.items():
        edges = [0, *cuts, T]
        for begin, end in itertools.pairwise(edges):
            alone, h_n = rnn(x[index, begin:end].unsqueeze(0))
            torch.testing.assert_close(result["y"][index, begin:end], alone[0])
            torch.testing.assert_close(result["next", "h"][index, end - 1], h_n[:, 0])


def test_gru_module_steps_as_the_layer_does(torchrl):
    from tensordict import TensorDict

    rnn = GateL0RD(INPUT, H, batch_first=True).eval()
    module = torchrl.modules.GRUModule(gru=rnn, in_keys=["x", "h"], out_keys=["y", ("next", "h")])
    x, h = torch.randn(B, T, INPUT), torch.zeros(B, 1, H)
    outputs = []
    for t in range(T):
        step = module(TensorDict({"x": x[:, t], "h": h, "is_init": torch.zeros(B, 1, dtype=torch.bool)}, [B]))
        outputs.append(step["y"])
        h = step["next", "h"]
    torch.testing.assert_close(torch.stack(outputs, 1), rnn(x)[0])
    primer = module.make_tensordict_primer()
    assert primer.primers["h"].shape[-2:] == (1, H)
