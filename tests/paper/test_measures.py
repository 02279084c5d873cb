"""What records say about gates and events, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.paper import measures
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.events import onsets
from gatel0rd.worlds.shepherd.events import measure_reappearance


def times(*rows: str) -> np.ndarray:
    return np.array([[letter == "x" for letter in row] for row in rows])


def test_onsets_and_widening():
    assert np.array_equal(onsets(times("..xx.x", "xx...x")), times("..x..x", ".....x"))
    assert np.array_equal(measures.widen(times("x....x..", "........"), 1), times("xx..xxx.", "........"))
    assert np.array_equal(measures.widen(times("x.......", "......x."), 3), times("xxxx....", "...xxxxx"))


def test_open_gates_and_events_by_hand():
    is_open = times("x..xx..", "......x")  # inputs 0 to 6
    contacts = times("....x...", "x.......")  # observations 0 to 7
    drops = times("........", ".......x")
    match = measures.event_match(is_open, {"contact": contacts, "drop": drops}, np.ones((2, 8), dtype=bool))
    assert match["open_times"] == pytest.approx(4 / 14) and match["openings_per_sequence"] == 1.5
    contact, drop, either = (match["events"][kind] for kind in ("contact", "drop", "any"))
    assert [entry["count"] for entry in (contact, drop, either)] == [2, 1, 3]
    assert contact["1"] == {
        "precision": pytest.approx(2 / 4),  # inputs 3 and 4 of the first sequence
        "opening_precision": pytest.approx(1 / 3),  # the opening at 3, not those at 0 and 6
        "precision_by_chance": pytest.approx(5 / 14),  # inputs 3, 4, 5 and 0, 1
        "recall": 0.5,
        "recall_by_chance": pytest.approx(8 / 14),  # inputs 0 to 5, and 5, 6
    }
    assert drop["1"]["precision"] == pytest.approx(1 / 4) and drop["1"]["recall"] == 1
    assert either["1"]["precision"] == pytest.approx(3 / 4) and either["1"]["recall"] == pytest.approx(2 / 3)
    assert contact["3"]["precision"] == pytest.approx(2 / 4)  # the first input is four steps away
    assert contact["3"]["precision_by_chance"] == pytest.approx(10 / 14)  # inputs 1 to 6, and 0 to 3


def test_inputs_that_are_left_out_count_nowhere():
    counted = times("xxx.", "xxxx")
    match = measures.event_match(times("..x", "x.."), {"contact": times(".x..", "....")}, counted)
    assert match["open_times"] == pytest.approx(2 / 6)
    less = measures.event_match(times("..x", "x.."), {"contact": times(".x..", "....")}, times("xx..", "xxxx"))
    assert less["open_times"] == pytest.approx(1 / 5)
    assert less["events"]["contact"]["1"]["recall"] == 0 and match["events"]["contact"]["1"]["recall"] == 1


def test_nothing_open_has_no_precision_and_no_event_has_no_recall():
    everywhere = np.ones((1, 4), dtype=bool)
    match = measures.event_match(times("..."), {"contact": times(".x..")}, everywhere)["events"]["contact"]["1"]
    assert match["precision"] is None and match["opening_precision"] is None and match["recall"] == 0
    other = measures.event_match(times("x.."), {"contact": times("....")}, everywhere)["events"]["contact"]["1"]
    assert other["recall"] is None and other["precision"] == 0


def test_changes_of_latent_states_are_counted_in_sequences_with_and_without_an_event():
    """Four sequences of eight inputs and three dimensions; the first two have the event, the last one is over."""
    changed = np.zeros((5, 8, 3), dtype=bool)
    changed[0, 4, 0] = changed[0, 7, 1] = True  # one dimension at the event at 3, another one four steps after it
    changed[1, 0, 0] = changed[1, 1, :] = True  # all of them, at the event at 0
    changed[2, 2, 2] = True
    changed[4, 5, 0] = True  # after the end
    event = np.stack([np.arange(9) == 3, np.arange(9) == 0, *np.zeros((3, 9), dtype=bool)])
    counted = np.ones((5, 9), dtype=bool)
    counted[4] = False
    found = measures.latent_measures(changed, event, counted)
    assert found["with"] == {
        "sequences": 2,
        "dimensions": 2.5,
        "dimensions_near_event": 2.0,  # one and three
        "unchanged": 0.0,
        "changed_share": pytest.approx(5 / (2 * 7 * 3)),  # the change at the very first input has no step before it
    }
    assert found["without"] == {
        "sequences": 2,
        "dimensions": 0.5,
        "dimensions_near_event": None,
        "unchanged": 0.5,
        "changed_share": pytest.approx(1 / (2 * 7 * 3)),
    }
    alone = measures.latent_measures(changed[:2], event[:2], counted[:2])["without"]
    assert alone.pop("sequences") == 0 and set(alone.values()) == {None}


@pytest.mark.parametrize("cell", ["gatel0rd", "gru"])
def test_latent_states_change_where_gates_are_open_or_where_they_differ(cell, monkeypatch):
    recipe = DataRecipe(scenario="rrc", policy="time", split="test", sequences=5, steps=7)
    generator = np.random.default_rng(0)
    data = Dataset(
        recipe=recipe,
        observations=generator.uniform(-1, 1, (5, 7, 4)).astype(np.float32),
        actions=generator.uniform(-1, 1, (5, 7, 2)).astype(np.float32),
        strata=np.zeros(5, dtype=np.int64),
        labels={"onset": np.array([2, -1, 4, -1, -1])},
    )
    config = WorldModelConfig(observation_size=4, action_size=2, cell=CellConfig(name=cell, hidden_size=3))
    model = WorldModel(config).eval()
    changed = measures.changed_dimensions(model, data)
    (rollout,) = measures.rollouts(model, data, free=True)
    differ = (rollout.latents[1:] != rollout.latents[:-1]).numpy().swapaxes(0, 1)  # [N, T-2, D]
    assert changed.shape == (5, 6, 3) and np.array_equal(changed[:, 1:], differ)
    found = measures.measure(recipe.scenario, model, {"test": data})["latents"]["control"]
    assert (found["with"]["sequences"], found["without"]["sequences"]) == (2, 3)
    assert found["without"]["changed_share"] == pytest.approx(differ[[1, 3, 4]].mean())
    monkeypatch.setattr(type(registry.get("rrc")), "memory_event", "applause")
    with pytest.raises(ValueError, match="memory_event 'applause'; expected one of its events: control"):
        measures.measure_latents(registry.get("rrc"), model, data)


class Remembers(SimpleNamespace):
    """A stand-in that predicts what it is told to, whatever is fed in."""

    def forward(self, observations, actions):
        assert observations.shape[0] == self.predictions.shape[0]
        start = self.done
        self.done += observations.shape[1]
        return SimpleNamespace(predictions=self.predictions[:, start : self.done], gates=None)


def test_reappearance_is_the_error_of_the_sheeps_x_one_step_ahead(monkeypatch):
    monkeypatch.setattr("gatel0rd.training.evaluation.SEQUENCES_AT_ONCE", 2)
    recipe = DataRecipe(scenario="shepherd", policy="random", split="test", sequences=3, steps=4)
    observations = np.zeros((3, 4, 7), dtype=np.float32)
    observations[0, 2, 4], observations[1, 3, 4] = 0.5, -0.25
    data = Dataset(
        recipe=recipe,
        observations=observations,
        actions=np.zeros((3, 4, 3), dtype=np.float32),
        strata=np.zeros(3, dtype=np.int64),
        labels={"reappearance": np.array([2, 3, -1])},
    )
    predictions = torch.full((3, 3, 7), 99.0)  # [T-1, N, 7]: anything but the right place is far off
    predictions[1, 0, 4], predictions[2, 1, 4] = 0.7, -0.25
    config = WorldModelConfig(observation_size=7, action_size=3)
    found = measure_reappearance(Remembers(config=config, predictions=predictions, done=0), data)
    assert found == {"reappearance": pytest.approx(0.2**2 / 2)}


@pytest.mark.parametrize("cell", ["gatel0rd", "gru"])
def test_examples_hold_one_free_running_sequence(cell):
    recipe = DataRecipe(scenario="billiard", policy="shots", split="test", sequences=2, steps=6)
    generator = np.random.default_rng(0)
    data = Dataset(
        recipe=recipe,
        observations=generator.uniform(-1, 1, (2, 6, 2)).astype(np.float32),
        actions=np.zeros((2, 6, 0), dtype=np.float32),
        strata=np.zeros(2, dtype=np.int64),
        labels={"cushion": times("..x...", "......"), "pocketed": times("....xx", "......")},
    )
    model = WorldModel(WorldModelConfig(observation_size=2, action_size=0, cell=CellConfig(name=cell), init_steps=2))
    content = measures.example(model.eval(), data, 0)
    assert content["events"] == {"cushion contact": [2], "drop": [4]}
    assert content["start"] == data.observations[0, 0].tolist() and content["given"] == 2
    assert np.array_equal(np.float32(content["observations"]), data.observations[0, 1:])
    state = model.initial(torch.from_numpy(data.observations[[0]]).transpose(0, 1), torch.zeros(6, 1, 0))
    fed, latents = torch.from_numpy(data.observations[[0], 0]), model.core.latents(state)
    for t in range(5):
        prediction = model.step(state, fed, torch.zeros(1, 0))
        np.testing.assert_allclose(content["predictions"][t], prediction.observation[0].detach(), atol=1e-5)
        moved = model.core.latents(prediction.state) - latents
        np.testing.assert_allclose(content["latents"][t], moved[0].detach(), atol=1e-5)
        state = prediction.state
        fed = torch.from_numpy(data.observations[[0], 1]) if t == 0 else prediction.observation
    assert (content["gates"] is None) == (cell == "gru")
