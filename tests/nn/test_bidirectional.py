"""A layer that reads from both ends is two layers, one of them on the reversed sequence."""

from __future__ import annotations

import copy

import pytest
import torch
from shapes import INPUT, OUTPUT, B, H, T
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from gatel0rd import GateL0RD


def make(**options):
    torch.manual_seed(0)
    return GateL0RD(INPUT, H, OUTPUT, num_layers=2, bidirectional=True, dtype=torch.float64, **options).eval()


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_both_directions_are_layers_of_their_own(engine):
    rnn, x = make(engine=engine), torch.randn(T, B, INPUT, dtype=torch.float64)
    h0 = torch.randn(4, B, H, dtype=torch.float64)
    outputs, h_n, gates = rnn(x, h0, return_gates=True)
    assert outputs.shape == (T, B, 2 * OUTPUT) and h_n.shape == (4, B, H) and gates.shape == (T, B, 4 * H)
    given = x
    for k in range(2):
        runs = []
        for direction, stack in enumerate((rnn.stack, rnn.backward_stack)):
            one = GateL0RD(given.shape[-1], H, OUTPUT, dtype=torch.float64, engine="torch").eval()
            one.stack.layers[0] = stack.layers[k]
            index = 2 * k + direction
            read = given.flip(0) if direction else given
            found, last, opened = one(read, h0[index : index + 1], return_gates=True)
            torch.testing.assert_close(h_n[index], last[0])
            torch.testing.assert_close(gates[..., index * H : (index + 1) * H], opened.flip(0) if direction else opened)
            runs.append(found.flip(0) if direction else found)
        given = torch.cat(runs, dim=-1)
    torch.testing.assert_close(outputs, given)


def test_sequences_of_other_lengths_are_reversed_from_their_own_end():
    rnn = make()
    sequences = [torch.randn(length, INPUT, dtype=torch.float64) for length in (4, 7, 1, 5)]
    packed, h_n = rnn(pack_sequence(sequences, enforce_sorted=False))
    padded, _ = pad_packed_sequence(packed)
    for index, sequence in enumerate(sequences):
        alone, last = rnn(sequence)
        torch.testing.assert_close(padded[: len(sequence), index], alone)
        torch.testing.assert_close(h_n[:, index], last)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_sequences_may_begin_anywhere_and_have_gaps(engine):
    rnn = make(mask_means="valid", engine=engine)
    x, h0 = torch.randn(T, B, INPUT, dtype=torch.float64), torch.randn(4, B, H, dtype=torch.float64)
    valid = torch.ones(T, B, dtype=torch.bool)
    valid[:3, 0] = valid[5:, 1] = valid[2:4, 2] = valid[:5, 3] = valid[::2, 3] = False  # at the front, the end, inside
    outputs, h_n, gates = rnn(x, h0, valid, return_gates=True)
    for index in range(B):
        steps = valid[:, index]
        alone = rnn(x[steps, index], h0[:, index], return_gates=True)
        for ours, theirs in zip((outputs[steps, index], h_n[:, index], gates[steps, index]), alone, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_training_copies_and_errors():
    rnn, x = make().train(), torch.randn(B, T, INPUT, dtype=torch.float64)
    rnn.batch_first = True
    other = copy.deepcopy(rnn)
    first, second = (layer(x, generator=torch.Generator().manual_seed(1))[0] for layer in (rnn, other))
    assert torch.equal(first, second) and first.shape == (B, T, 2 * OUTPUT)
    first.sum().backward()
    assert all(parameter.grad is not None for parameter in rnn.parameters())
    starts = make(mask_means="starts")
    with pytest.raises(ValueError, match="a mask of episode starts was given to a bidirectional layer"):
        starts(x.transpose(0, 1), None, torch.zeros(T, B, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"hx has shape \(2, 5, 2\); expected \(4, 5, 2\)"):
        starts(x.transpose(0, 1), torch.zeros(2, B, H, dtype=torch.float64))
