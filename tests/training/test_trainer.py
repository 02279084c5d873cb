from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gatel0rd.engine import EngineUnavailableError
from gatel0rd.engine.random import draw_feed, draw_noise
from gatel0rd.files import FileError, load_arrays
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.training import (
    NativeStepper,
    TorchStepper,
    Trainer,
    TrainingError,
    evaluate,
    make_stepper,
    stratified_order,
    time_first,
)
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.training.steps import MOST_SKIPPED, SequenceBatch, train_on_batches
from gatel0rd.training.trainer import evenly_spaced
from gatel0rd.worlds.data import generate

MODEL = WorldModelConfig(observation_size=4, action_size=2)
CONFIG = TrainConfig(epochs=6, batch_size=32, sampling_decay=0.7, sampling_minimum=0.02, evaluate_every=2)
RECIPE = DataRecipe(scenario="rrc", policy="time", split="train", sequences=64, steps=12)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return generate(RECIPE)


def trainer(data, directory, *, model=MODEL, config=CONFIG, seed=0, **options) -> Trainer:
    return Trainer(model, config, data, {"test": data}, seed=seed, directory=directory, **options)


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def without_time(history):
    return [{name: value for name, value in metrics.items() if name != "seconds"} for metrics in history]


def assert_same(first: Trainer, second: Trainer) -> None:
    assert all(
        torch.equal(tensor, second.model.state_dict()[name]) for name, tensor in first.model.state_dict().items()
    )
    assert without_time(first.history) == without_time(second.history)
    ours, theirs = (load_arrays(t.checkpoint_path, kind="checkpoint")[0] for t in (first, second))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    lines = [t.metrics_path.read_text().splitlines() for t in (first, second)]
    assert [without_time([json.loads(line)]) for line in lines[0]] == [
        without_time([json.loads(line)]) for line in lines[1]
    ]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", ["gatel0rd", "lstm", "clockwork"])
def test_same_seed_same_result_and_other_seed_another(name, data, tmp_path):
    model = replace(MODEL, cell=CellConfig(name=name))
    runs = [trainer(data, tmp_path / str(k), model=model, seed=seed) for k, seed in enumerate((0, 0, 1))]
    for run in runs:
        run.run()
    assert_same(runs[0], runs[1])
    assert any(not torch.equal(runs[2].model.state_dict()[key], value) for key, value in weights(runs[0]).items())


def test_training_lowers_the_error(data, tmp_path):
    run = trainer(data, tmp_path, config=replace(CONFIG, epochs=40))
    run.run()
    errors = [metrics["evaluation"]["test"]["error"] for metrics in run.history if "evaluation" in metrics]
    assert errors[-1] < 0.2 * errors[0]
    assert [metrics["epoch"] for metrics in run.history] == list(range(41))


class Stop(Exception):
    pass


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("stop_after", [1, 3, 5])
def test_interrupted_anywhere_and_resumed_equals_uninterrupted(stop_after, engine, data, tmp_path):
    whole = trainer(data, tmp_path / "whole", engine=engine)
    whole.run()
    directory = tmp_path / "parts"

    def interrupt(metrics):
        if metrics["epoch"] == stop_after:
            raise Stop

    with pytest.raises(Stop):
        # a checkpoint every second epoch, so that the last one may be older than the last line of metrics
        part = trainer(data, directory, checkpoint_seconds=1e9, engine=engine)
        train_unit = part.train_unit

        def train_and_save():
            if part.epoch and part.epoch % 2 == 0:
                part.save_checkpoint()
            return train_unit()

        part.train_unit = train_and_save
        part.run(interrupt)
    with (directory / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 99, "lo')  # what a kill in the middle of a line leaves
    resumed = trainer(data, directory, engine=engine)
    assert resumed.epoch == 2 * ((stop_after - 1) // 2)
    resumed.run()
    assert_same(whole, resumed)


KILLED = """
import sys, pathlib
from test_trainer import *
trainer(generate(RECIPE), pathlib.Path(sys.argv[1]), checkpoint_seconds=0.0).run(
    lambda metrics: metrics["epoch"] == 3 and __import__("os").kill(__import__("os").getpid(), 9))
"""


def test_snapshots_are_evenly_spaced_and_end_with_the_model():
    assert evenly_spaced([0, 100, 200, 300, 400], 2) == [200, 400]
    assert evenly_spaced([0, 1, 2, 3, 4], 10) == [1, 2, 3, 4]
    assert evenly_spaced([0, 7], 3) == [7] and evenly_spaced([0, 1, 2], 0) == []


def test_killed_for_real_and_resumed_equals_uninterrupted(data, tmp_path):
    whole = trainer(data, tmp_path / "whole")
    whole.run()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed")],
        cwd=Path(__file__).parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert killed.returncode == -9
    resumed = trainer(data, tmp_path / "killed")
    assert 0 < resumed.epoch < CONFIG.epochs
    resumed.run()
    assert_same(whole, resumed)


def test_a_finished_run_has_nothing_left_to_do(data, tmp_path):
    trainer(data, tmp_path).run()
    again = trainer(data, tmp_path)
    before = weights(again)
    again.run(lambda metrics: pytest.fail("trained on"))
    assert all(torch.equal(before[name], tensor) for name, tensor in again.model.state_dict().items())


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"config": replace(CONFIG, learning_rate=0.1)},
        {"model": replace(MODEL, cell=CellConfig(name="gru"))},
    ],
)
def test_a_checkpoint_of_another_run_is_an_error(change, data, tmp_path):
    trainer(data, tmp_path).run()
    with pytest.raises(FileError, match=r"was written by a run with another model.*use another directory"):
        trainer(data, tmp_path, **change)


def test_a_checkpoint_of_other_data_or_without_metrics_is_an_error(data, tmp_path):
    run = trainer(data, tmp_path)
    run.run()
    with pytest.raises(FileError, match="seed or data; use another directory"):
        trainer(generate(replace(RECIPE, seed=1)), tmp_path)
    run.metrics_path.unlink()
    with pytest.raises(
        FileError, match=r"is missing, but its checkpoint is there; delete .* to train again from the beginning"
    ):
        trainer(data, tmp_path)


def test_a_damaged_checkpoint_is_an_error(data, tmp_path):
    run = trainer(data, tmp_path)
    run.run()
    content = run.checkpoint_path.read_bytes()
    run.checkpoint_path.write_bytes(content[:-40])
    with pytest.raises(FileError, match="is truncated or not a checkpoint file"):
        trainer(data, tmp_path)


def steppers(data, *, model=MODEL, config=CONFIG, engines=("native", "torch"), dtype=torch.float64):
    """The same model with each engine, on the same data."""
    made = []
    for engine in engines:
        world = WorldModel(model, engine=engine, dtype=dtype)
        world.reset_parameters(torch.Generator().manual_seed(0))
        observations, actions = (tensor.to(dtype) for tensor in time_first(data, model))
        made.append((world, make_stepper(world, config, observations, actions, seed=7, engine=engine)))
    return made


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("teacher_forcing", [False, True])
@pytest.mark.parametrize("penalty", ["l0", "l1", "l2"])
@pytest.mark.parametrize("name", ["gatel0rd", "elman", "gru", "lstm", "clockwork"])
def test_compiled_steps_equal_pytorchs(name, penalty, teacher_forcing, data):
    """Three steps of each engine with the same noise and masks: the same losses and weights."""
    if name != "gatel0rd" and penalty != "l0":
        return
    cell = CellConfig(name=name, num_layers=2, gate="sigmoid" if penalty != "l0" else "retanh")
    config = replace(CONFIG, penalty=penalty, teacher_forcing=teacher_forcing, sparsity_weight=0.1)
    (ours, native), (theirs, plain) = steppers(data, model=replace(MODEL, cell=cell, init_steps=2), config=config)
    assert isinstance(native, NativeStepper) and isinstance(plain, TorchStepper)
    index = torch.tensor([3, 60, 8, 21, 22, 40, 9, 1, 0, 33, 12])
    steps, batch, size = 11, len(index), ours.core.noise_size
    for counter in range(3):
        terms = native.step(index, probability=0.4, counter=counter, generator=torch.Generator())
        feed = None if teacher_forcing else draw_feed((steps, batch), 0.4, seed=7, counter=counter)
        noise = None
        if size:
            noise = draw_noise((steps, batch, size), 0.1, seed=7, counter=counter, dtype=torch.float64)
        losses = plain.losses(index, feed, noise)
        total = losses.total(0.1)
        plain.update(total)
        assert terms["loss"] == pytest.approx(total.item(), rel=1e-10)
        assert terms["task_loss"] == pytest.approx(losses.task.item(), rel=1e-10)
        if size:
            assert terms["penalty"] == pytest.approx(losses.penalty.item(), rel=1e-10)
            assert terms["open_rate"] == pytest.approx(losses.open_rate.item(), rel=1e-10)
        for (key, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=key)


def test_errors_of_some_steps_count_less_with_both_engines(data):
    config, weights = replace(CONFIG, teacher_forcing=True), torch.tensor([0.0, 0.25, *[1.0] * 8, 3.0])
    model, found = replace(MODEL, cell=CellConfig(name="gru")), []
    for engine in ("native", "torch"):
        world = WorldModel(model, engine=engine, dtype=torch.float64)
        world.reset_parameters(torch.Generator().manual_seed(0))
        tensors = [tensor.double() for tensor in time_first(data, MODEL)]
        stepper = make_stepper(world, config, *tensors, seed=7, engine=engine, step_weights=weights)
        index = torch.tensor([5, 17, 30])
        with torch.no_grad():
            predicted = world(tensors[0][:-1, index], tensors[1][:-1, index]).predictions
        errors = (predicted - tensors[0][1:, index]).square().mean(dim=(1, 2))
        for steps in (11, 4):  # a part of the sequences' steps, with the same weights
            terms = stepper.step(index, probability=1.0, counter=0, generator=torch.Generator(), steps=steps)
            if steps == 11:
                assert terms["task_loss"] == pytest.approx((weights.double() * errors).mean().item(), rel=1e-9)
        found.append(terms["task_loss"])
    assert found[0] == pytest.approx(found[1], rel=1e-8)


def test_a_penalty_that_is_no_sum_is_computed_outside_the_program(data):
    config = replace(CONFIG, penalty="squared_mean")
    ((_, stepper),) = steppers(data, config=config, engines=("auto",), dtype=torch.float32)
    assert isinstance(stepper, TorchStepper)
    with pytest.raises(EngineUnavailableError, match="the penalty 'squared_mean', which is not a sum"):
        steppers(data, config=config, engines=("native",))
    terms = stepper.step(torch.arange(8), probability=0.5, counter=0, generator=torch.Generator().manual_seed(0))
    assert 0 < terms["penalty"] < 1


def test_frozen_parameters_stay_as_they_are(data):
    for engine in ("auto", "torch"):
        world = WorldModel(MODEL)
        world.post.requires_grad_(False)
        before = world.post[0].weight.clone()
        stepper = make_stepper(world, CONFIG, *time_first(data, MODEL), seed=0, engine=engine)
        stepper.step(torch.arange(8), probability=0.5, counter=0, generator=torch.Generator().manual_seed(0))
        assert torch.equal(world.post[0].weight, before)
    with pytest.raises(EngineUnavailableError, match="frozen parameters"):
        make_stepper(world, CONFIG, *time_first(data, MODEL), seed=0, engine="native")


def test_batches_are_taken_by_any_valid_index(data):
    ((world, stepper),) = steppers(data, engines=("native",))
    twin = copy.deepcopy(world)
    other = make_stepper(twin, CONFIG, *(t.double() for t in time_first(data, MODEL)), seed=7, engine="native")
    index = torch.arange(64)
    keywords = {"probability": 0.5, "counter": 0, "generator": torch.Generator()}
    assert stepper.step(index[::2], **keywords) == other.step(index[::2].clone(), **keywords)
    with pytest.raises(IndexError, match="the batch names sequences 0 to 64 of 64"):
        stepper.step(torch.arange(65), **keywords)
    world.load_state_dict(twin.state_dict(), assign=True)
    with pytest.raises(RuntimeError, match="parameters were replaced after training began"):
        stepper.step(index, **keywords)


def test_teacher_forcing_feeds_what_full_sampling_feeds(data):
    forced, sampled = (
        steppers(data, config=replace(CONFIG, teacher_forcing=flag), engines=("native",))[0][1]
        for flag in (True, False)
    )
    index = torch.arange(20)
    terms = [s.step(index, probability=1.0, counter=0, generator=torch.Generator()) for s in (forced, sampled)]
    assert terms[0] == terms[1]


def test_sampling_probabilities_follow_the_schedule(data, tmp_path):
    run = trainer(data, tmp_path)
    run.run()
    found = [metrics["sampling_probability"] for metrics in run.history[1:]]
    assert found == pytest.approx([0.7**epoch for epoch in range(6)])


def test_loss_is_task_plus_weighted_penalty(data):
    ((model, stepper),) = steppers(data, engines=("torch",))
    observations, actions = (tensor.double() for tensor in time_first(data, MODEL))
    losses = stepper.losses(torch.arange(64), None, None)
    predictions, _, gates, _ = model(observations[:-1], actions[:-1])
    assert losses.task == (predictions - observations[1:]).square().mean()
    assert losses.penalty == (gates > 0).double().mean()
    assert losses.total(0.25) == losses.task + 0.25 * losses.penalty


def test_a_loss_that_is_not_a_number_stops_training(data, tmp_path):
    run = trainer(data, tmp_path)
    with torch.no_grad():
        run.model.post[0].bias.fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"the loss became nan in epoch 1; lower the learning rate"):
        run.run()


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_gradient_that_is_too_large_for_its_precision_changes_nothing(engine, data):
    model = WorldModel(replace(MODEL, cell=CellConfig(gate="heaviside")))
    model.reset_parameters(torch.Generator().manual_seed(0))
    stepper = make_stepper(model, CONFIG, *time_first(data, MODEL), seed=0, engine=engine)
    plain = copy.deepcopy(model.state_dict())
    gate_weights = model.core.layers[0].gate_net[0].weight
    with torch.no_grad():
        gate_weights.mul_(1e8)  # binary gates pass it on unchanged: it is a power of it after some time steps
    before = copy.deepcopy(model.state_dict())
    words = {"probability": 1.0, "generator": torch.Generator().manual_seed(0)}
    terms = stepper.step(torch.arange(64), counter=0, **words)
    assert terms["skipped"] == 1 and np.isfinite(terms["loss"])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert stepper.read_optimizer().steps == 0
    few = [SequenceBatch(torch.arange(2))] * MOST_SKIPPED
    with pytest.raises(TrainingError, match=r"no gradient was finite in 100 updates up to epoch 3; lower the learning"):
        train_on_batches(stepper, few, first_counter=0, place="epoch 3", learning_rate=0.1, **words)
    stepper.skipped = 0

    def mend_after_the_first():
        yield few[0]
        with torch.no_grad():
            gate_weights.copy_(plain["core.layers.0.gate_net.0.weight"])
        yield few[0]

    terms = train_on_batches(
        stepper, mend_after_the_first(), first_counter=0, place="epoch 4", learning_rate=0.1, **words
    )
    assert terms["skipped"] == 0.5 and stepper.skipped == 0 and stepper.read_optimizer().steps == 1
    assert not torch.equal(gate_weights, plain["core.layers.0.gate_net.0.weight"])


def test_a_gradient_whose_square_is_too_large_is_clipped_all_the_same(data):
    found = []
    for engine in ("torch", "native"):
        model = WorldModel(replace(MODEL, cell=CellConfig(gate="heaviside", noise_std=0.0)))
        model.reset_parameters(torch.Generator().manual_seed(0))
        with torch.no_grad():
            model.core.layers[0].gate_net[0].weight.mul_(5e3)
        stepper = make_stepper(model, CONFIG, *time_first(data, MODEL), seed=0, engine=engine)
        before = model.post[0].weight.clone()
        words = {"probability": 1.0, "counter": 0, "generator": torch.Generator().manual_seed(0)}
        assert "skipped" not in stepper.step(torch.arange(64), **words)
        state = stepper.read_optimizer()
        norm = torch.cat([mean.flatten() for mean in state.exp_avg.values()]).double().norm()
        assert norm == pytest.approx(0.1 * CONFIG.clip_norm, rel=1e-3)  # Adam's mean is a tenth of the first gradient
        found.append(model.post[0].weight - before)
    torch.testing.assert_close(*found)


def test_data_that_does_not_fit_the_model_is_an_error(data, tmp_path):
    with pytest.raises(ValueError, match=r"observations of rrc-time-train-.* have 4 columns; the model has 5"):
        trainer(data, tmp_path, model=replace(MODEL, observation_size=5))


def test_evaluation_is_free_running_and_in_chunks(data, tmp_path, monkeypatch):
    run = trainer(data, tmp_path)
    observations, actions = time_first(data, MODEL)
    whole = evaluate(run.model, observations, actions)
    rollout = run.model.free_run(observations[:-1], actions[:-1])
    expected = (rollout.predictions - observations[1:]).double().square().mean().item()
    assert whole["error"] == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr("gatel0rd.training.evaluation.SEQUENCES_AT_ONCE", 24)
    parts = evaluate(run.model, observations, actions)
    assert parts == pytest.approx(whole, rel=1e-6)


def test_stratified_batches_hold_their_share():
    strata = torch.tensor([0] * 48 + [1] * 16 + [2] * 32)
    order = stratified_order(strata, torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == list(range(96))
    for batch in order.split(12):
        assert torch.bincount(strata[batch]).tolist() == [6, 2, 4]
    assert not torch.equal(order, stratified_order(strata, torch.Generator().manual_seed(1)))
