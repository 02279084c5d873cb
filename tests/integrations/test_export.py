"""ONNX files against the models that they were written from."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gatel0rd import __version__
from gatel0rd.integrations.onnx import export_onnx
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.fitted import FittedModel, Scaling
from gatel0rd.nn.config import CellConfig

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

OBSERVED, ACTED, H, T, B = 3, 2, 6, 7, 5
CELLS = {
    "gatel0rd": CellConfig(name="gatel0rd", hidden_size=H),
    "lstm": CellConfig(name="lstm", hidden_size=H),
    "gru": CellConfig(name="gru", hidden_size=H),
    "elman": CellConfig(name="elman", hidden_size=H),
    "clockwork": CellConfig(name="clockwork", hidden_size=H),
    "two lstms": CellConfig(name="lstm", hidden_size=H, num_layers=2),
    "two gatel0rds": CellConfig(name="gatel0rd", hidden_size=H, num_layers=2, output_gate=False),
    "two clockworks": CellConfig(name="clockwork", hidden_size=H, num_layers=2),
    "deep gatel0rd": CellConfig(name="gatel0rd", hidden_size=H, net_layers=2),
    "sigmoid gate": CellConfig(name="gatel0rd", hidden_size=H, gate="sigmoid"),
    "heaviside gate": CellConfig(name="gatel0rd", hidden_size=H, gate="heaviside"),
}
each_cell = pytest.mark.parametrize("cell", CELLS)


def fitted_model(cell: str = "gatel0rd", *, actions: int = ACTED, **options) -> FittedModel:
    config = WorldModelConfig(
        observation_size=OBSERVED, action_size=actions, cell=CELLS[cell], feature_size=4, residual_scale=0.5, **options
    )
    model = WorldModel(config)
    model.reset_parameters(torch.Generator().manual_seed(3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # states that move, gates of both kinds
    return FittedModel(
        model=model,
        observation_names=("north", "east", "height"),
        action_names=("push", "turn")[:actions],
        observation_scaling=Scaling((0.5, -2.0, 10.0), (2.0, 0.25, 3.0)),
        action_scaling=Scaling((-1.0, 0.3)[:actions], (0.5, 1.5)[:actions]),
    )


def data(fitted: FittedModel, steps: int = T, batch: int = B) -> dict[str, np.ndarray]:
    """Sequences in the data's units; no actions if the model has none."""
    generator = np.random.default_rng(11)
    made = {}
    for name, scaling in (("observations", fitted.observation_scaling), ("actions", fitted.action_scaling)):
        size = len(scaling.offset)
        if size:
            drawn = generator.normal(size=(steps, batch, size)).astype(np.float32)
            made[name] = scaling.inverse_transform(drawn).astype(np.float32)  # which is what ONNX takes
    return made


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def evaluate(path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    return dict(zip(names, opened.run(names, inputs), strict=True))


def sequence(directory, inputs: dict[str, np.ndarray], real_steps: int) -> dict[str, np.ndarray]:
    return evaluate(directory / "sequence.onnx", {**inputs, "real_steps": np.array(real_steps, np.int64)})


def expected_sequence(fitted: FittedModel, inputs: dict[str, np.ndarray], real_steps: int) -> dict[str, np.ndarray]:
    """What :meth:`FittedModel.run` says, of every sequence; it leaves out the last input."""
    courses = [
        fitted.run(*(values[:, index] for values in inputs.values()), real_steps=real_steps)
        for index in range(inputs["observations"].shape[1])
    ]
    found = {name: [getattr(course, name) for course in courses] for name in ("predictions", "latents", "gates")}
    return {name: np.stack(values, 1) for name, values in found.items() if values[0] is not None}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], **options) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name], expected[name], err_msg=name, **({"rtol": 0, "atol": 1e-5} | options))


def model_inputs(fitted: FittedModel, inputs: dict[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    observations = inputs["observations"]
    actions = inputs.get("actions", np.zeros((*observations.shape[:2], 0), np.float32))
    return (
        torch.from_numpy(fitted.observation_scaling.transform(observations)),
        torch.from_numpy(fitted.action_scaling.transform(actions)),
    )


def now(inputs: dict[str, np.ndarray], time: int) -> dict[str, np.ndarray]:
    """One time step of sequences, as ``step.onnx`` takes it."""
    return {name.removesuffix("s"): values[time] for name, values in inputs.items()}


@each_cell
def test_sequence_is_what_the_model_says(cell, tmp_path):
    fitted = fitted_model(cell)
    paths = export_onnx(fitted, tmp_path / "new" / "onnx")
    assert [path.name for path in paths] == ["step.onnx", "initial.onnx", "sequence.onnx"]
    assert sorted((tmp_path / "new" / "onnx").iterdir()) == sorted(paths)
    inputs = data(fitted)
    for real_steps in (1, 3, T):
        found = sequence(paths[0].parent, inputs, real_steps)
        assert_same(
            {name: values[:-1] for name, values in found.items()}, expected_sequence(fitted, inputs, real_steps)
        )


@each_cell
def test_step_is_the_models_step(cell, tmp_path):
    fitted = fitted_model(cell)
    export_onnx(fitted, tmp_path)
    inputs = data(fitted)
    observations, actions = model_inputs(fitted, inputs)
    with torch.no_grad():
        state = fitted.model.initial(observations, actions)
        found = evaluate(tmp_path / "initial.onnx", {name: values[:1] for name, values in inputs.items()})
        assert_same(found, {f"state_{index}": part.numpy() for index, part in enumerate(state)})
        for time in range(T):
            states = {f"state_{index}": part.numpy() for index, part in enumerate(state)}
            found = evaluate(tmp_path / "step.onnx", {**now(inputs, time), **states})
            prediction, state, gates = fitted.model.step(state, observations[time], actions[time])
            expected = {"prediction": fitted.observation_scaling.inverse_transform(prediction.numpy())}
            expected |= {f"next_state_{index}": part.numpy() for index, part in enumerate(state)}
            expected["latents"] = fitted.model.core.latents(state).numpy()
            assert_same(found, expected if gates is None else {**expected, "gates": gates.numpy()})


def stepped(directory, inputs: dict[str, np.ndarray], real_steps: int, init_steps: int = 1) -> dict[str, np.ndarray]:
    """A whole sequence by ``initial.onnx`` and ``step.onnx`` alone."""
    state = evaluate(directory / "initial.onnx", {name: values[:init_steps] for name, values in inputs.items()})
    columns: dict[str, list[np.ndarray]] = {"predictions": [], "latents": [], "gates": []}
    for time in range(len(inputs["observations"])):
        given = now(inputs, time)
        if time >= real_steps:
            given["observation"] = columns["predictions"][-1]
        found = evaluate(directory / "step.onnx", {**given, **state})
        state = {name.removeprefix("next_"): part for name, part in found.items() if name.startswith("next_")}
        columns["predictions"].append(found["prediction"])
        for name in ("latents", "gates"):
            if name in found:
                columns[name].append(found[name])
    return {name: np.stack(values) for name, values in columns.items() if values}


@each_cell
def test_stepping_is_the_sequence(cell, tmp_path):
    fitted = fitted_model(cell)
    export_onnx(fitted, tmp_path)
    for steps, batch in ((T, B), (11, 1)):
        inputs = data(fitted, steps, batch)
        for real_steps in (3, steps):
            assert_same(stepped(tmp_path, inputs, real_steps), sequence(tmp_path, inputs, real_steps))


@pytest.mark.parametrize("steps, batch", [(2, 1), (29, 4), (3, 17)])
def test_batch_and_time_are_free(steps, batch, tmp_path):
    fitted = fitted_model("two clockworks")
    export_onnx(fitted, tmp_path)
    inputs = data(fitted, steps, batch)
    found = sequence(tmp_path, inputs, 2)
    assert len(found["predictions"]) == steps
    assert_same({name: values[:-1] for name, values in found.items()}, expected_sequence(fitted, inputs, 2))


@each_cell
def test_without_actions(cell, tmp_path):
    fitted = fitted_model(cell, actions=0)
    export_onnx(fitted, tmp_path)
    assert "action" not in [given.name for given in session(tmp_path / "step.onnx").get_inputs()]
    inputs = data(fitted)
    assert list(inputs) == ["observations"]
    found = sequence(tmp_path, inputs, 2)
    assert_same({name: values[:-1] for name, values in found.items()}, expected_sequence(fitted, inputs, 2))
    assert_same(stepped(tmp_path, inputs, 2), found)


def test_first_inputs_are_always_real(tmp_path):
    fitted = fitted_model("two lstms", init_steps=2)
    export_onnx(fitted, tmp_path)
    inputs = data(fitted)
    for real_steps in (0, 1, 2):
        found = sequence(tmp_path, inputs, real_steps)
        assert_same({name: values[:-1] for name, values in found.items()}, expected_sequence(fitted, inputs, 1))
        assert_same(stepped(tmp_path, inputs, 2, init_steps=2), found)


@pytest.mark.parametrize("cell", ["gatel0rd", "two lstms", "clockwork"])
def test_without_f_init_the_start_is_zero(cell, tmp_path):
    fitted = fitted_model(cell, init_layers=0, init_steps=3)
    export_onnx(fitted, tmp_path)
    inputs = data(fitted)
    start = evaluate(tmp_path / "initial.onnx", {name: values[:3] for name, values in inputs.items()})
    assert [part.shape for part in start.values()] == [(B, size) for size in fitted.model.core.state_sizes]
    assert not any(part.any() for part in start.values())
    found = sequence(tmp_path, inputs, 4)
    assert_same({name: values[:-1] for name, values in found.items()}, expected_sequence(fitted, inputs, 4))


@pytest.mark.parametrize("cell", ["gatel0rd", "deep gatel0rd", "two gatel0rds", "heaviside gate"])
def test_closed_gates_leave_the_state_as_it_is(cell, tmp_path):
    fitted = fitted_model(cell)
    export_onnx(fitted, tmp_path)
    inputs = data(fitted, batch=64)
    state = evaluate(tmp_path / "initial.onnx", {name: values[:1] for name, values in inputs.items()})
    found = evaluate(tmp_path / "step.onnx", {**now(inputs, 0), **state})
    before, after = (
        np.concatenate([values[f"{prefix}state_{index}"] for index in range(len(state))], axis=-1)
        for prefix, values in (("", state), ("next_", found))
    )
    closed = found["gates"] == 0
    assert closed.any() and not closed.all()
    np.testing.assert_array_equal(after[closed], before[closed])
    assert (after[~closed] != before[~closed]).all()


def test_large_offsets_keep_what_varies(tmp_path):
    fitted = fitted_model()
    offset = (123456.789, -2.0, 10.0)
    fitted = FittedModel(**{**vars(fitted), "observation_scaling": Scaling(offset, (0.7, 0.25, 3.0))})
    export_onnx(fitted, tmp_path)
    inputs = data(fitted)
    found, expected = sequence(tmp_path, inputs, T), expected_sequence(fitted, inputs, T)
    np.testing.assert_allclose(found["latents"][:-1], expected["latents"], rtol=0, atol=1e-5)


def test_files_say_what_they_are(tmp_path):
    fitted = fitted_model("gru")
    for path in export_onnx(fitted, tmp_path):
        about = session(path).get_modelmeta()
        assert "north, east, height" in about.description and "push, turn" in about.description
        assert about.producer_name == "gatel0rd"
        properties = about.custom_metadata_map
        assert properties["gatel0rd.version"] == __version__
        assert properties["gatel0rd.cell"] == "gru"
        assert json.loads(properties["gatel0rd.observations"]) == ["north", "east", "height"]
        assert json.loads(properties["gatel0rd.actions"]) == ["push", "turn"]
        assert f"{properties['gatel0rd.kind']}.onnx" == path.name
    shapes = {given.name: given.shape for given in session(tmp_path / "sequence.onnx").get_inputs()}
    assert shapes == {
        "observations": ["time", "batch", OBSERVED],
        "actions": ["time", "batch", ACTED],
        "real_steps": [],
    }
    names = [given.name for given in session(tmp_path / "step.onnx").get_outputs()]
    assert names == ["prediction", "next_state_0", "latents"]
    outputs = {given.name: given.shape for given in session(tmp_path / "sequence.onnx").get_outputs()}
    assert outputs == {"predictions": ["time", "batch", OBSERVED], "latents": ["time", "batch", H]}


def test_export_leaves_the_model_alone(tmp_path):
    fitted = fitted_model("clockwork")
    before = {name: tensor.clone() for name, tensor in fitted.model.state_dict().items()}
    first = [path.read_bytes() for path in export_onnx(fitted, tmp_path)]
    assert first == [path.read_bytes() for path in export_onnx(fitted, tmp_path)]
    assert all(torch.equal(before[name], tensor) for name, tensor in fitted.model.state_dict().items())


def test_what_cannot_be_exported(tmp_path):
    fitted = fitted_model()
    scaling = Scaling((0.0, 0.0, 0.0), (1.0, 1e-60, 1.0))
    with pytest.raises(ValueError, match=r"column east of the observations has offset 0\.0 and scale 1e-60"):
        export_onnx(FittedModel(**{**vars(fitted), "observation_scaling": scaling}), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; expected a directory"):
        export_onnx(fitted, tmp_path / "file")
    fitted.model.double()
    with pytest.raises(ValueError, match=r"torch\.float64; ONNX files are written for torch\.float32"):
        export_onnx(fitted, tmp_path)
    assert not list(tmp_path.glob("*.onnx"))
