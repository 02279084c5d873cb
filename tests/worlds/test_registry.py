"""Worlds by name: what is registered, what is refused, and that listing them costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gatel0rd
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import EnvironmentSpec, World, all_worlds, get, names, register, registry, unregister
from gatel0rd.worlds.data import generate
from gatel0rd.worlds.experiments import AgentExperiment

WITH_DATA = ("billiard", "rrc", "shepherd", "fetch", "fetch-diverse")
NAMES = (*WITH_DATA, "minigrid", "memory")


class Nothing(World):
    """A world that offers nothing."""

    name, title = "nothing", "Nothing at all"


def test_the_papers_worlds_are_registered():
    assert names() == NAMES and [world.name for world in all_worlds()] == list(NAMES)
    assert [world.name for world in all_worlds() if world.has_task] == ["rrc", "shepherd", "fetch", "fetch-diverse"]
    assert [world.name for world in all_worlds() if world.has_data] == list(WITH_DATA)
    assert [world.name for world in all_worlds() if world.made_in_parts] == ["fetch", "fetch-diverse"]
    assert [world.name for world in all_worlds() if world.steering] == ["billiard", "rrc", "shepherd"]


@pytest.mark.parametrize("name", WITH_DATA)
def test_what_a_world_says_of_itself_fits_together(name):
    world = get(name)
    scenario = world.scenario
    assert (scenario.name, scenario.title) == (world.name, world.title)
    assert scenario.model.observation_size == len(world.observation_names)
    assert scenario.model.action_size == len(world.action_names)
    assert all(max(thing.columns) < len(world.observation_names) for thing in world.things)
    assert {experiment.id.partition("/")[0] for experiment in world.experiments()} == {name}
    if world.steering is not None:
        assert all(len(action) == len(world.action_names) for action in world.steering.keys.values())
        assert all(toggle.index < len(world.action_names) for toggle in world.steering.toggles.values())


def test_minigrid_has_agents_only():
    world = get("minigrid")
    assert len(world.experiments()) == 9
    assert all(
        isinstance(entry, AgentExperiment) and entry.scenario.title == world.title for entry in world.experiments()
    )
    with pytest.raises(ValueError, match="MiniGrid has no data; its class MiniGridWorld would have to define"):
        generate(DataRecipe(scenario="minigrid", policy="any", split="test", sequences=2, steps=5))


def test_events_that_count_are_labelled():
    for name, sequences in (("rrc", 8), ("billiard", 16), ("shepherd", 8)):
        world = get(name)
        scenario = world.scenario
        (policy, *_) = scenario.evaluations
        data = generate(scenario.recipe(policy, "test", preset="text", sequences=sequences))
        events = world.events(data)
        assert set(world.boundaries) <= set(events) and {world.exact_event} - {None} <= set(events)
        assert all(times.shape == data.observations.shape[:2] for times in events.values())
        assert world.is_over(data).any() == (name == "billiard")
        assert all(0 <= index < sequences for index in world.examples(data).values())


def test_unknown_names_are_errors_with_a_suggestion():
    with pytest.raises(
        ValueError, match=r"there is no world 'shepard' \(did you mean 'shepherd'\?\); there are billiard"
    ):
        get("shepard")
    with pytest.raises(ValueError, match=r"there is no world 'q'; there are .* environment variable GATEL0RD_WORLDS"):
        get("q")
    assert registry.find("q") is None and registry.find(None) is None


def test_a_world_that_offers_nothing_says_so():
    world = register(Nothing())
    assert names() == (*NAMES, "nothing") and world.experiments() == () and not world.has_data
    for ask in (lambda: world.scenario, world.make_environment, world.make_task, lambda: world.draw(None, 9)):
        with pytest.raises(ValueError, match=r"Nothing at all has no .*; its class Nothing would have to define"):
            ask()
    unregister("nothing")
    assert names() == NAMES


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"name": "rrc"}, ValueError, r"there is a world 'rrc' already \(Robot Remote Control\)"),
        ({"name": "My World"}, ValueError, "the world's name is 'My World'; expected lower-case letters"),
        ({"title": ""}, ValueError, "the world 'nothing' has no title"),
        (None, TypeError, "expected an instance of a subclass"),
    ],
)
def test_bad_registrations_are_errors(change, kind, message):
    with pytest.raises(kind, match=message):
        register(Nothing if change is None else type("Changed", (Nothing,), change)())
    assert names() == NAMES


def test_environments_come_and_go_with_their_worlds():
    import gymnasium

    spec = EnvironmentSpec(id="toy/Recall-v3", entry_point="gatel0rd.worlds.recall:Recall", time_limit=7)
    register(type("Other", (Nothing,), {"environment": spec})())
    assert gymnasium.make(spec.id).spec.max_episode_steps == 7 and spec.load() is type(
        gymnasium.make(spec.id).unwrapped
    )
    unregister("nothing")
    assert spec.id not in gymnasium.registry
    assert "gatel0rd/FetchPickAndPlace-v0" in gymnasium.registry


def test_modules_that_are_named_in_the_environment_register_worlds(tmp_path, monkeypatch):
    (tmp_path / "own_worlds.py").write_text(
        "from gatel0rd.worlds import World, register\n"
        "register(type('Own', (World,), {'name': 'own', 'title': 'Own'})())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(registry.VARIABLE, " own_worlds ,")
    assert names() == (*NAMES, "own") == names()
    monkeypatch.setenv(registry.VARIABLE, "no_such_module")
    with pytest.raises(ValueError, match=r"GATEL0RD_WORLDS names 'no_such_module', which cannot be imported \(Module"):
        names()


def names_in_tables(source: str) -> set[str]:
    """Strings that are keys of dictionaries, compared with something, or looked up."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        parts = []
        if isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        found |= {part.value for part in parts if isinstance(part, ast.Constant)}
    return found


def test_no_other_room_has_a_table_of_worlds():
    assert names_in_tables("a = {'x': 1}; b = a['y'] if c == 'z' else 'w'") == {"x", "y", "z"}
    root = Path(gatel0rd.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] != "worlds":
            assert not names_in_tables(path.read_text()) & set(WITH_DATA), path  # minigrid is a package's name too


def test_listing_worlds_imports_nothing_heavy():
    heavy = ["torch", "mujoco", "panda3d", "PIL", "minigrid", "gymnasium_robotics", "matplotlib"]
    code = (
        f"import sys; from gatel0rd.worlds import names; print(len(names()), [m for m in {heavy} if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "7 []\n"
