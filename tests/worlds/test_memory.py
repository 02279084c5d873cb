"""What is to be remembered, and the two environments that ask for it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from gatel0rd.worlds.memory import LENGTHS, chain_id, maze_id
from gatel0rd.worlds.memory.env import MemoryChain, TMaze
from gatel0rd.worlds.memory.sizes import SIZES
from gatel0rd.worlds.memory.tasks import TASKS

T, B = 23, 5


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", TASKS)
def test_targets_are_the_last_values_that_a_flag_marked(name):
    task, sizes = TASKS[name], SIZES[name]
    inputs, targets, writes = task.sample(T, B, generator())
    assert inputs.shape == (T, B, sizes.input_size) and targets.shape == (T, B, sizes.slots)
    shown = inputs[..., : sizes.slots * sizes.value_size].unflatten(-1, (sizes.slots, sizes.value_size))
    flags = inputs[..., sizes.slots * sizes.value_size :]
    assert torch.equal(flags.any(-1), writes) and flags[0].all()
    held = torch.zeros(B, sizes.slots)
    for t in range(T):
        for b in range(B):
            for slot in range(sizes.slots):
                if flags[t, b, slot]:
                    value = shown[t, b, slot]
                    held[b, slot] = value.argmax() if name == "symbol" else value[0]
        assert torch.equal(targets[t], held)
    between = shown[flags == 0]
    assert 0.7 < between.std() < 1.3  # noise at every other step, as large as the values


@pytest.mark.parametrize("name", TASKS)
def test_a_stretch_continues_what_was_held(name):
    task = TASKS[name]
    held = task.sample(T, B, generator()).targets[-1]
    inputs, targets, writes = task.sample(T, B, generator(1), whole=10**9, held=held)
    assert not writes.any() and (targets == held).all() and not inputs[..., -SIZES[name].slots :].any()


def test_bits_are_switched_as_often_in_a_long_sequence_as_in_a_short_one():
    for whole in (50, 500):
        flags = TASKS["bits"].sample(whole, 200, generator()).inputs[..., -3:]
        assert flags[1:].sum(0).mean() == pytest.approx(5, abs=0.3)
    assert not TASKS["symbol"].sample(T, B, generator()).writes[1:].any()


def test_losses_and_right_answers():
    symbols = torch.tensor([[2.0], [0.0]])
    certain = 20 * torch.eye(4)[[2, 1]]
    assert TASKS["symbol"].is_right(certain, symbols).tolist() == [True, False]
    assert float(TASKS["symbol"].loss(certain[None, :1], symbols[None, :1])) == pytest.approx(0, abs=1e-6)
    bits = torch.tensor([[1.0, -1, 1], [1, 1, 1]])
    assert TASKS["bits"].is_right(torch.tensor([[3.0, -2, 1], [3, -2, 1]]), bits).tolist() == [True, False]
    assert float(TASKS["bits"].loss(30 * bits[None], bits[None])) == pytest.approx(0, abs=1e-6)
    numbers = torch.tensor([[0.5], [0.5]])
    assert TASKS["number"].is_right(torch.tensor([[0.55], [0.61]]), numbers).tolist() == [True, False]
    assert float(TASKS["number"].loss(torch.tensor([[[0.7]]]), numbers[None, :1])) == pytest.approx(0.04)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_environments_are_made_by_gymnasium_in_all_lengths(length):
    for id in (chain_id(length), maze_id(length)):
        env = gymnasium.make(id)
        assert env.unwrapped.length == length and env.spec.max_episode_steps == 4 * length


def play(env, seed, last):
    """The reward, and the steps until it came; ``last(cue)`` is the action at the end, before that it is 0."""
    seen, _ = env.reset(seed=seed)
    assert seen[1] == 1 and seen[0] in (-1, 1)
    cue = int(seen[0] > 0)
    for steps in range(1, 1000):
        seen, reward, ended, _, _ = env.step(np.int64(last(cue) if seen[2] else 0))
        assert seen[1] == 0
        if ended:
            return reward, steps
    raise AssertionError("the episode never ended")


@pytest.mark.parametrize(("env", "answer"), [(MemoryChain(7), lambda cue: cue), (TMaze(7), lambda cue: 1 + cue)])
def test_who_remembers_the_cue_is_rewarded(env, answer):
    outcomes = [play(env, seed, answer) for seed in range(20)]
    assert set(outcomes) == {(1.0, 8)}
    always = [play(env, seed, lambda cue: answer(1))[0] for seed in range(20)]
    assert 0 < sum(always) < 20


def test_turning_in_the_corridor_does_nothing():
    env = TMaze(3)
    env.reset(seed=0)
    for action in (1, 2, 0, 1):
        seen, reward, ended, _, _ = env.step(np.int64(action))
        assert not ended and reward == 0 and seen[2] == 0
    assert env.position == 1
    with pytest.raises(ValueError, match="length is 0; expected at least 1 step"):
        TMaze(0)
