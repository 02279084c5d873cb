from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import gatel0rd
from gatel0rd.cli.fit_report import describe_fit
from gatel0rd.engine import status
from gatel0rd.files import FileError
from gatel0rd.models.fitted import FittedModel, Scaling, wrap_model
from gatel0rd.models.io import save_fitted
from gatel0rd.recordings import Layout, RecordingError, from_arrays, read_for_model, read_recordings
from gatel0rd.recordings import fitter as fitting
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.fitter import Fitter
from gatel0rd.recordings.windows import batches, split, windows
from gatel0rd.training.windows import window_view

GENERATOR = np.random.default_rng(0)


def switching(count: int = 40, low: int = 30, high: int = 60):
    """A point that moves at a speed that changes now and then: the speed is hidden and has to be remembered."""
    sequences = []
    for _ in range(count):
        length = int(GENERATOR.integers(low, high))
        speed, position, rows = GENERATOR.choice([-1.0, 1.0]), 0.0, []
        for _ in range(length):
            if GENERATOR.random() < 0.03:
                speed = -speed
            position += 0.1 * speed
            rows.append([position, 3.0 + 2 * position])
        sequences.append(np.array(rows, dtype=np.float32))
    return sequences


DATA = from_arrays(switching(), observation_names=["x", "y"])
SMALL = FitConfig(rounds=6, round_updates=4, window=20, features=6, hidden_size=5)


def test_windows_cover_every_step_once():
    lengths = [7, 25, 3, 41]
    data = from_arrays([np.arange(n, dtype=np.float32)[:, None] for n in lengths])
    covered = np.zeros(int(data.lengths.sum()), dtype=int)
    for group in windows(data, 10):
        assert group.steps <= 10
        for start in group.starts:
            covered[start : start + group.steps] += 1  # inputs; the last row of a window is only predicted
    ends = np.cumsum(data.lengths) - 1
    inside = np.ones(len(covered), dtype=bool)
    inside[ends] = False
    assert (covered[inside] <= 1).all() and (covered[~inside] == 0).all()
    assert covered[inside].mean() > 0.97  # a rest of a single step is left out


def test_random_windows_stay_inside_their_sequence():
    data = from_arrays([np.full((n, 1), i, dtype=np.float32) for i, n in enumerate((7, 25, 3, 41))])
    for seed in range(20):
        for group in windows(data, 10, np.random.default_rng(seed)):
            for start in group.starts:
                rows = data.observations[start : start + group.steps + 1]
                assert len(rows) == group.steps + 1 and np.ptp(rows) == 0


def test_a_round_has_as_many_batches_as_it_should_and_is_repeatable():
    config = FitConfig(round_updates=9, batch_size=16, window=10)
    first, again, other = ([b.starts.tolist() for b in batches(DATA, config, number)] for number in (0, 0, 1))
    assert len(first) == 9 and first == again and first != other
    assert all(len(starts) <= 16 for starts in first)


def test_the_window_view_is_the_data():
    values = torch.arange(12.0).view(6, 2)
    view = window_view(values, 3)
    assert view.shape == (4, 6, 2)
    assert torch.equal(view[:, 1], values[1:5])


@pytest.mark.skipif(status()["engine"] != "native", reason="compares the engine with PyTorch")
def test_the_engine_trains_as_pytorch_does(tmp_path, monkeypatch):
    """One round without noise and with real inputs only: the same losses, the same weights."""
    plan_model = fitting.choose_sizes

    def without_noise(*words):
        config = plan_model(*words)
        return replace(config, cell=replace(config.cell, noise_std=0.0))

    monkeypatch.setattr(fitting, "choose_sizes", without_noise)
    config = FitConfig(rounds=2, round_updates=5, window=12, features=4, hidden_size=3, sampling_minimum=1.0)
    native, plain = (Fitter(DATA, config, tmp_path / engine, engine=engine) for engine in ("native", "torch"))
    ours, theirs = native.train_unit(), plain.train_unit()
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    for name, weight in native.model.state_dict().items():
        assert torch.allclose(weight, plain.model.state_dict()[name], atol=2e-5), name


def test_splits_are_by_sequence_and_a_single_one_is_cut():
    train, validation = split(DATA, 0.2, 0)
    assert len(validation) == 8 and not set(train.names) & set(validation.names)
    assert set(train.names) | set(validation.names) == set(DATA.names)
    one = from_arrays([np.arange(100, dtype=np.float32)[:, None]])
    train, validation = split(one, 0.2, 0)
    assert train.lengths.tolist() == [80] and validation.observations[0, 0] == 80
    with pytest.raises(RecordingError, match="one sequence of 20 steps; expected at least 50 steps"):
        split(from_arrays([np.arange(20, dtype=np.float32)[:, None]]), 0.2, 0)


def test_pieces_of_one_recording_stay_together():
    gapped = [np.arange(60, dtype=np.float32)[:, None] for _ in range(10)]
    for array in gapped:
        array[20:30] = np.nan
    pieces = from_arrays(gapped)
    assert len(pieces) == 20 and pieces.origins[:2] == (("0", 0), ("0", 30))
    train, validation = split(pieces, 0.2, 0)
    assert len(validation) == 4 and not {n for n, _ in train.origins} & {n for n, _ in validation.origins}


@pytest.mark.parametrize(
    ("steps", "missing", "train", "validation"),
    [
        (1020, [(5, 15)], [5, 803], [202]),  # the border after five steps is far from 80 %: the long piece is cut
        (1020, [(1005, 1015)], [808], [197, 5]),
        (60, [(20, 30)], [20, 20], [10]),
        (110, [(70, 80)], [70], [30]),  # 70 % is near enough
        (119, [(30, 40), (94, 102)], [30, 54], [17]),  # of two borders the nearer one, which is behind 80 %
        (99, [(9, 18), (27, 36), (45, 54), (63, 72), (81, 90)], [9, 9, 9, 9, 9], [9]),
        (40, [(4, 10)], [4, 20], [10]),  # ten steps at least on either side of a cut
        (25, [(4, 10)], [4], [15]),  # too short to be cut
    ],
)
def test_of_one_recording_in_pieces_about_a_fifth_is_for_validation(steps, missing, train, validation):
    array = np.arange(steps, dtype=np.float32)[:, None]
    for first, last in missing:
        array[first:last] = np.nan
    ours, theirs = split(from_arrays([array]), 0.2, 0)
    assert (ours.lengths.tolist(), theirs.lengths.tolist()) == (train, validation)
    whole = array[~np.isnan(array)]
    np.testing.assert_array_equal(np.concatenate([ours.observations, theirs.observations])[:, 0], whole)
    for part in (ours, theirs):  # every piece says where it is from
        begins = part.observations[part.starts, 0].astype(int).tolist()
        assert [step for _, step in part.origins] == begins


def test_offsets_are_random_even_where_windows_fit_exactly():
    data = from_arrays([np.arange(101, dtype=np.float32)[:, None]])
    starts = {tuple(windows(data, 50, np.random.default_rng(seed))[0].starts) for seed in range(50)}
    assert len(starts) > 20


def test_a_run_needs_the_models_columns(tmp_path):
    fitted = fit(DATA, SMALL, tmp_path)
    with pytest.raises(ValueError, match=r"observations have shape \(9, 1\); expected \[T, 2\] \(x, y\)"):
        fitted.run(np.zeros((9, 1), np.float32))
    with pytest.raises(ValueError, match="there are 1 steps; expected more than 1"):
        fitted.run(np.zeros((1, 2), np.float32))


def test_scaling_is_learned_on_the_training_part_and_kept(tmp_path):
    fitted = fit(DATA, SMALL, tmp_path)
    train, _ = split(DATA, SMALL.validation, SMALL.seed)
    assert fitted.observation_scaling == Scaling.of(train.observations)
    scaled = fitted.observation_scaling.transform(train.observations)
    assert np.allclose(scaled.mean(0), 0, atol=1e-4) and np.allclose(scaled.std(0), 1, atol=1e-3)
    assert np.allclose(fitted.observation_scaling.inverse_transform(scaled), train.observations, atol=1e-4)


@pytest.mark.slow
def test_the_target_is_held_and_the_memory_predicts(tmp_path):
    config = FitConfig(rounds=100, round_updates=25, window=30, gate_rate=0.1, learning_rate=0.005)
    fitted = fit(DATA, config, tmp_path)
    assert fitted.info["open_rate"] == pytest.approx(0.1, rel=0.3)
    assert fitted.info["error"] < 0.9 * fitted.info["persistence_error"]  # turns cannot be foreseen
    assert fitted.info["sparsity_weight"] != config.sparsity_weight


def test_a_killed_fit_resumes_and_ends_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "CHECKPOINT_SECONDS", 0.0)

    class Killed(Exception):
        pass

    def kill(metrics):
        if metrics["round"] == 3:
            raise Killed

    whole = fit(DATA, SMALL, tmp_path / "whole")
    with pytest.raises(Killed):
        fit(DATA, SMALL, tmp_path / "cut", on_round=kill)
    resumed = fit(DATA, SMALL, tmp_path / "cut")
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name])
    lines = [json.loads(line) for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(1, 7))
    with pytest.raises(FileError, match="another data or settings"):
        fit(DATA, replace(SMALL, window=21), tmp_path / "cut")


def test_more_rounds_continue_a_fit(tmp_path):
    """The first rounds stay as they were; an interruption in between changes nothing; fewer rounds are refused."""
    longer = replace(SMALL, rounds=9)
    fit(DATA, SMALL, tmp_path / "fit")
    first = (tmp_path / "fit" / "metrics.jsonl").read_text().splitlines()
    shutil.copytree(tmp_path / "fit", tmp_path / "killed")
    fitted = fit(DATA, longer, tmp_path / "fit")
    lines = (tmp_path / "fit" / "metrics.jsonl").read_text().splitlines()
    assert lines[: len(first)] == first and [json.loads(line)["round"] for line in lines] == list(range(1, 10))
    assert fitted.info["rounds"] == 9 and fitted.info["extended"] == [6]
    assert any("more rounds after 6," in line for line in describe_fit(fitted.info))
    assert not any("more rounds" in line for line in describe_fit({**fitted.info, "extended": [], "held": True}))

    def kill(metrics):
        if metrics["round"] == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(DATA, longer, tmp_path / "killed", on_round=kill)
    resumed = fit(DATA, longer, tmp_path / "killed")
    assert resumed.info["extended"] == [6]
    for name, weight in fitted.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name])
    with pytest.raises(FileError, match="holds a fit of 9 rounds, 6 were asked for"):
        fit(DATA, SMALL, tmp_path / "fit")


def test_two_fits_in_one_directory_exclude_each_other(tmp_path):
    def fit_again(metrics):
        with pytest.raises(FileError, match="in use by another process"):
            fit(DATA, SMALL, tmp_path)

    fit(DATA, replace(SMALL, rounds=1), tmp_path, on_round=fit_again)
    assert fit(DATA, replace(SMALL, rounds=1), tmp_path).info["rounds"] == 1  # the lock is gone


def sines(steps: int) -> np.ndarray:
    return np.sin(np.arange(6)[:, None] + 0.3 * np.arange(steps)).round(3)


def test_a_fit_keeps_the_layout_of_its_data(tmp_path):
    """Other data for the same model is read alike, without the command line."""
    lines = [f"s{who},{-tick},{value},text" for who, row in enumerate(sines(30)) for tick, value in enumerate(row)]
    (tmp_path / "d.csv").write_text("\n".join(["who,tick,level,note", *lines]))
    recordings = read_recordings(tmp_path / "d.csv", Layout(sequence="who", time="tick", ignored=("note",)))
    model = fit(recordings, SMALL, tmp_path / "model")
    assert model.info["layout"]["sequence"] == "who" and model.info["layout"]["wide"] is False
    again = read_for_model(gatel0rd.load(tmp_path / "model"), tmp_path / "d.csv")
    assert again.names == tuple(f"s{who}" for who in range(6))
    assert np.array_equal(again.observations, recordings.observations)
    (tmp_path / "e.csv").write_text("\n".join(["person,moment,level,note", *lines]))
    renamed = read_for_model(model, tmp_path / "e.csv", sequence="person", time="moment")
    assert np.array_equal(renamed.observations, recordings.observations)
    np.savez(tmp_path / "d.npz", observations=sines(30)[:, :, None], observation_names=["level"])
    assert len(read_for_model(model, tmp_path / "d.npz")) == 6  # arrays have no columns of such names


def test_a_fit_keeps_that_its_data_was_wide(tmp_path):
    lines = [",".join(map(str, row)) for row in sines(30)]
    (tmp_path / "d.csv").write_text("\n".join([",".join(f"level_{step}" for step in range(30)), *lines]))
    recordings = read_recordings(tmp_path / "d.csv")
    model = fit(recordings, SMALL, tmp_path / "model")
    assert model.info["layout"]["wide"] is True and model.observation_names == ("level",)
    again = read_for_model(gatel0rd.load(tmp_path / "model"), tmp_path / "d.csv")
    assert len(again) == 6 and np.array_equal(again.observations, recordings.observations)


def test_a_fit_keeps_the_array_that_names_sequences(tmp_path):
    np.savez(tmp_path / "d.npz", observations=sines(30).ravel(), who=np.repeat(list("abcdef"), 30))
    model = fit(read_recordings(tmp_path / "d.npz", Layout(sequence="who")), SMALL, tmp_path / "model")
    assert read_for_model(model, tmp_path / "d.npz").names == tuple("abcdef")
    assert read_for_model(model, tmp_path / "d.npz").layout.sequence == "who"


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
def test_other_cells_are_fitted_too(cell, tmp_path):
    config = FitConfig(cell=cell, rounds=3, round_updates=4, window=20, layers=2)
    fitted = gatel0rd.load(fit(DATA, config, tmp_path) and tmp_path)
    assert fitted.cell == cell and fitted.run(*DATA.sequence(0)).gates is None


def test_a_model_directory_is_whole(tmp_path):
    fitted = fit(DATA, SMALL, tmp_path)
    loaded = gatel0rd.load(tmp_path)
    ours, theirs = (entry.run(*DATA.sequence(3)) for entry in (fitted, loaded))
    assert np.array_equal(ours.predictions, theirs.predictions) and np.array_equal(ours.gates, theirs.gates)
    assert loaded.observation_names == ("x", "y") and loaded.info["error"] == fitted.info["error"]
    length = int(DATA.lengths[3])
    assert ours.predictions.shape == (length - 1, 2) and ours.latents.shape == (length - 1, 5)
    free = loaded.run(*DATA.sequence(3), real_steps=4)
    assert np.allclose(free.predictions[:4], ours.predictions[:4], atol=1e-5)
    assert not np.allclose(free.predictions[4:], ours.predictions[4:])
    again = save_fitted(tmp_path / "copy", loaded)
    assert np.array_equal(gatel0rd.load(again).run(*DATA.sequence(3)).latents, ours.latents)


def test_damaged_and_foreign_directories_are_errors(tmp_path):
    with pytest.raises(FileError, match="expected a directory that `gatel0rd fit`"):
        gatel0rd.load(tmp_path)
    fit(DATA, SMALL, tmp_path)
    description = tmp_path / "model.json"
    good = json.loads(description.read_text())
    del good["sha256"]  # as if somebody had written it by hand
    description.write_text(json.dumps(good | {"observations": ["x"]}))
    with pytest.raises(FileError, match="names 1 observations and 0 actions; the weights beside it have 2 and 0"):
        gatel0rd.load(tmp_path)
    for wrong in (
        {"offset": [0, 0], "scale": [0, 1]},
        {"offset": ["nan", 0], "scale": [1, 1]},
        {"offset": [0], "scale": [1]},
    ):
        description.write_text(json.dumps(good | {"scaling": good["scaling"] | {"observations": wrong}}))
        with pytest.raises(FileError, match="a scaling that is no scaling"):
            gatel0rd.load(tmp_path)
    description.write_text("{")
    with pytest.raises(FileError, match=r"model\.json is damaged"):
        gatel0rd.load(tmp_path)


def test_a_malicious_model_file_is_not_executed(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileError, match="not a model file"):
        gatel0rd.load(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_an_experiments_model_needs_no_scaling():
    from gatel0rd.models import WorldModel
    from gatel0rd.models.config import WorldModelConfig

    model = WorldModel(WorldModelConfig(observation_size=3, action_size=1))
    fitted = wrap_model(model)
    assert fitted.observation_names == ("x0", "x1", "x2") and isinstance(fitted, FittedModel)
    values = GENERATOR.normal(size=(6, 3)).astype(np.float32)
    assert np.array_equal(fitted.observation_scaling.transform(values), values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"gate_rate": 1.5}, "gate_rate is 1.5; expected a share"),
        ({"events": 0.0}, "events is 0.0; expected more than 0"),
        ({"window": 1}, "window is 1; expected at least 2 steps"),
        ({"events": float("nan")}, "events is nan; expected more than 0"),
        ({"sparsity_weight": -1.0}, "sparsity_weight is -1.0; expected 0 or more"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected more than 0"),
        ({"cell": "gru", "events": 2.0}, "events is about gates, which the cell gru does not have"),
        ({"cell": "lstm", "gate_rate": 0.1}, "gate_rate is about gates, which the cell lstm does not have"),
        ({"cell": "elman", "sparsity_weight": 0.0}, "sparsity_weight is about gates, which the cell elman does"),
        ({"rounds": 0}, "rounds is 0; expected at least 1"),
        ({"validation": 0.0}, "validation is 0.0; expected a share"),
    ],
)
def test_wrong_settings_are_errors(words, message):
    with pytest.raises(ValueError, match=message):
        FitConfig(**words)


def test_a_diverging_fit_says_what_to_do(tmp_path):
    wild = from_arrays([1e30 * entry for entry in switching(6)])
    config = FitConfig(rounds=3, round_updates=4, window=20, learning_rate=1e20)
    with pytest.raises(ValueError, match="lower the learning rate"):
        fit(wild, config, tmp_path)
