"""Networks that answer at every step: training that resumes, and long sequences in stretches."""

from __future__ import annotations

import pytest
import torch

from gatel0rd.files import FileError
from gatel0rd.models.config import SequenceModelConfig
from gatel0rd.models.io import ContentKind, identify, load_sequence_model, save_sequence_model
from gatel0rd.models.sequence_model import SequenceModel
from gatel0rd.nn.config import CellConfig
from gatel0rd.training import sequences
from gatel0rd.training.config import SequenceTrainConfig
from gatel0rd.training.sequences import SequenceTrainer, measure_memory
from gatel0rd.worlds.memory.sizes import SIZES
from gatel0rd.worlds.memory.tasks import TASKS

CONFIG = SequenceTrainConfig(epochs=2, steps=7, batch_size=5, sparsity_weight=0.1)


def model_config(task="symbol", cell="gatel0rd", chrono=None):
    sizes = SIZES[task]
    return SequenceModelConfig(
        input_size=sizes.input_size,
        output_size=sizes.output_size,
        cell=CellConfig(name=cell, hidden_size=3),
        chrono_steps=chrono,
    )


def trainer(directory, *, seed=0, task="symbol", **options):
    return SequenceTrainer(TASKS[task], model_config(task), CONFIG, seed=seed, directory=directory, **options)


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_an_interrupted_training_ends_as_if_it_never_was(tmp_path, engine):
    whole = trainer(tmp_path / "whole", engine=engine).run()

    def stop(metrics):
        raise KeyboardInterrupt

    first = trainer(tmp_path / "parts", engine=engine)
    with pytest.raises(KeyboardInterrupt):
        first.run(lambda metrics: first.save_checkpoint() or stop(metrics))
    second = trainer(tmp_path / "parts", engine=engine)
    assert second.completed == 1 and second.history[0]["open_rate"] > 0
    for name, value in second.run().state_dict().items():
        assert torch.equal(value, whole.state_dict()[name]), name
    with pytest.raises(FileError, match="another task, model, configuration or seed"):
        trainer(tmp_path / "parts", seed=1)


def test_the_learning_rate_falls_to_nothing_and_the_price_rises(tmp_path):
    found = trainer(tmp_path)
    assert found._learning_rate(0.0) == 0.005 and found._learning_rate(0.5) == pytest.approx(0.0025)
    assert found._learning_rate(1.0) == pytest.approx(0)
    weights = [found._sparsity_weight(progress) for progress in (0.0, 0.2, 0.35, 0.5, 1.0)]
    assert weights == pytest.approx([0, 0, 0.05, 0.1, 0.1])


@pytest.mark.parametrize("cell", ["gatel0rd", "lstm"])
def test_a_sequence_in_stretches_is_the_sequence(cell, monkeypatch):
    """What a network answers after 60 steps does not depend on how many are run at once."""
    torch.manual_seed(0)
    model = SequenceModel(model_config("bits", cell)).eval()
    inputs = TASKS["bits"].sample(60, 5, torch.Generator().manual_seed(1)).inputs
    with torch.no_grad():
        whole = model(inputs)
        first = model(inputs[:37])
        second = model(inputs[37:], first.state)
    assert torch.allclose(second.answers[-1], whole.answers[-1], atol=1e-6)
    assert (second.gates is None) == (cell == "lstm")
    monkeypatch.setattr(sequences, "ROWS", 5 * 16)
    found = measure_memory(model, TASKS["bits"], steps=60, sequences=5, seed=3)
    assert 0 <= found["accuracy"] <= 1 and found["sequences"] == 5
    assert ("open_times" in found) == (cell == "gatel0rd")


def test_a_network_with_shut_gates_changes_nothing_between_writes():
    """By hand: the gate opens at the flag only, the recommendation is the number, and the head reads it back."""
    model = SequenceModel(model_config("number")).eval()
    (cell,) = model.core.cells
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        cell.gate_net[-1].bias.fill_(-1.0)
        cell.gate_net[-1].weight[:, 1] = 30.0  # the flag
    found = measure_memory(model, TASKS["number"], steps=5000, sequences=16, seed=3)
    assert found["changed"] == found["open_times"] == 0.0
    with torch.no_grad():
        cell.gate_net[-1].bias.fill_(1.0)
        cell.recommendation_net[0].weight[:, 0] = 1.0  # the noise
    found = measure_memory(model, TASKS["number"], steps=50, sequences=16, seed=3)
    assert found["changed"] == found["open_times"] == 1.0


def test_chrono_biases_are_drawn_with_the_weights():
    model = SequenceModel(model_config("number", "gru", chrono=50))
    model.reset_parameters(torch.Generator().manual_seed(0))
    assert (model.core.cells[0].bias_ih[3:6] > 0).all()


def test_networks_are_saved_and_loaded(tmp_path):
    model = SequenceModel(model_config()).eval()
    save_sequence_model(tmp_path / "model.safetensors", model, {"seed": 5})
    assert identify(tmp_path).kind is ContentKind.SEQUENCE_MODEL
    again = load_sequence_model(tmp_path)
    inputs = TASKS["symbol"].sample(9, 5, torch.Generator().manual_seed(0)).inputs
    assert torch.equal(again(inputs).answers, model(inputs).answers)
