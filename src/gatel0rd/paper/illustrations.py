"""The paper's figures that show no result: architectures and worlds, drawn from this code's own models and scenes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gatel0rd.nn.config import CellConfig
from gatel0rd.paper.report import figures
from gatel0rd.paper.report.figures import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MINIGRID = ("DoorKey-8x8", "RedBlueDoors-8x8", "SimpleCrossingS9N3", "LavaCrossingS9N2", "KeyCorridorS3R2")
MEMORY = "MemoryS13Random"


@dataclass(frozen=True, kw_only=True)
class Illustration:
    """A figure of the paper without runs behind it."""

    id: str
    title: str
    artefact: str
    caption: str
    draw: Callable[[], Figure]


def world_model() -> Figure:
    """Fig. 1: the world model and GateL0RD's cell, with the sizes of Robot Remote Control."""
    from gatel0rd.worlds.robot_remote_control.experiments import SCENARIO

    model = SCENARIO.model
    seen, acted, features, hidden = (
        model.observation_size,
        model.action_size,
        model.feature_size,
        model.cell.hidden_size,
    )
    parts = {
        "input": Part((0.0, 1.0), f"observation $o_t$ ({seen})\naction $a_t$ ({acted})", kind="data"),
        "init": Part((0.0, 2.2), f"$f_{{init}}$\n{model.init_layers} layers"),
        "pre": Part((1.3, 1.0), f"$f_{{pre}}$\n{model.pre_layers} layers → {features}"),
        "memory": Part((1.3, 2.2), f"latent state $h_{{t-1}}$ ({hidden})", kind="data"),
        "gate": Part((2.7, 2.2), "gate $g$ (+ noise)\nReTanh $Λ(s_t)$", kind="own"),
        "candidate": Part((2.7, 1.6), "candidate $r$, tanh", kind="own"),
        "output": Part((2.7, 0.7), "output $p$, tanh\n· output gate $o$, sigmoid", kind="own"),
        "new": Part((4.1, 1.9), "$h_t = Λ ⊙ r + (1 - Λ) ⊙ h_{t-1}$", kind="data"),
        "post": Part((4.1, 0.7), f"$f_{{post}}$\n{model.post_layers} layer"),
        "prediction": Part(
            (5.4, 0.7), f"$\\hat o_{{t+1}} = o_t + {model.residual_scale:g} \\cdot Δ$ ({seen})", kind="data"
        ),
    }
    arrows = [
        ("input", "init"),
        ("input", "pre"),
        ("init", "memory"),
        ("memory", "gate"),
        ("memory", "candidate"),
        ("pre", "gate"),
        ("pre", "candidate"),
        ("pre", "output"),
        ("gate", "new"),
        ("candidate", "new"),
        ("new", "output"),
        ("output", "post"),
        ("post", "prediction"),
    ]
    return figures.diagram(parts, arrows, title="World model with GateL0RD")


def agent() -> Figure:
    """Fig. 9: encoder, memory, actor and critic, with the sizes of the experiments."""
    from gatel0rd.training.presets import agent_configs
    from gatel0rd.worlds.minigrid.experiments import DOORKEY

    cell = CellConfig(name="gatel0rd", hidden_size=64)
    config, _ = agent_configs(cell, observation_shape=DOORKEY.observation_shape, actions=DOORKEY.actions)
    width, height, channels = config.observation_shape
    parts = {
        "view": Part((0.0, 1.0), f"view\n{width} × {height} × {channels}", kind="data"),
        "encoder": Part((1.2, 1.0), "convolutions\n16, 32, 64 (2 × 2)"),
        "memory": Part((2.5, 1.0), f"GateL0RD\n$h_t$ ({config.cell.hidden_size})", kind="own"),
        "actor": Part((3.8, 1.5), f"actor\n{config.width} tanh"),
        "critic": Part((3.8, 0.5), f"critic\n{config.width} tanh"),
        "action": Part((5.0, 1.5), f"action, one of {config.actions}", kind="data"),
        "value": Part((5.0, 0.5), "value", kind="data"),
    }
    arrows = [
        ("view", "encoder"),
        ("encoder", "memory"),
        ("memory", "actor"),
        ("memory", "critic"),
        ("actor", "action"),
        ("critic", "value"),
    ]
    return figures.diagram(parts, arrows, title="Agent with GateL0RD")


def rooms_scene() -> Any:
    """Robot Remote Control while the robot is controlled."""
    import numpy as np

    from gatel0rd.worlds.robot_remote_control.env import RobotRemoteControl

    env = RobotRemoteControl(render_mode="rgb_array")
    env.reset(options={"agent": [-0.6, -0.4], "robot": [-0.5, 0.6]})
    for t in range(20):
        env.step(np.array([1.0, 0.81]) if t < 12 else np.array([0.4 * np.cos(t / 3) + 0.5, -0.8]))
    return env.render()


def table_scene() -> Any:
    """Billiard Ball after some cushions."""
    from gatel0rd.worlds.billiard_ball.env import BilliardBall

    env = BilliardBall(render_mode="rgb_array")
    env.reset(options={"position": [-0.7, 0.2], "velocity": [1.0, -0.9]})
    for _ in range(40):
        env.step(None)
    return env.render()


def meadow_scene() -> Any:
    """Shepherd when the gate is about to be opened."""
    import numpy as np

    from gatel0rd.worlds.shepherd.env import Shepherd

    env = Shepherd(render_mode="rgb_array")
    env.reset(options={"agent": [2.9, -0.4], "sheep_x": 2.0, "wall": 0.5, "velocity": 0.025})
    for t in range(32):
        env.step(np.array([-1.0, -0.15, 1.0] if t < 10 else [-0.9, 0.1, -1.0]))
    return env.render()


def arm_scene() -> Any:
    """Fetch Pick&Place with the object in its gripper."""
    import numpy as np

    from gatel0rd.worlds.fetch_pick_and_place.data import Play, sample_expert
    from gatel0rd.worlds.fetch_pick_and_place.drawing import draw_arm
    from gatel0rd.worlds.fetch_pick_and_place.simulation import Arm, sample_object

    arm, generator = Arm(), np.random.default_rng(3)
    expert = sample_expert("grasp", generator, lifts=True)
    arm.reset(sample_object(generator))
    course = Play(expert, generator)
    for _ in range(22):
        arm.step(course.act(arm.observe(), arm.touching()).astype(np.float32))
    return draw_arm(arm.data, 300, goal=expert.goal)


def grid_scene(name: str) -> Any:
    """A MiniGrid environment at its start."""
    import gymnasium
    import minigrid  # noqa: F401  # registers its environments

    env = gymnasium.make(f"MiniGrid-{name}-v0", render_mode="rgb_array")
    env.reset(seed=1)
    picture = env.render()
    env.close()
    return picture


def scenarios() -> Figure:
    """Fig. 2."""
    scenes = {
        "Robot Remote Control": rooms_scene(),
        "Shepherd": meadow_scene(),
        "Billiard Ball": table_scene(),
        "Fetch Pick&Place": arm_scene(),
        "MiniGrid": grid_scene(MINIGRID[0]),
    }
    return figures.gallery(scenes, columns=3)


def shepherd() -> Figure:
    """Fig. 8."""
    return figures.gallery({"Shepherd: agent, cage, lever, gate, and the wall that hides the sheep": meadow_scene()})


def minigrid_environments() -> Figure:
    """Fig. 10."""
    return figures.gallery({name: grid_scene(name) for name in (*MINIGRID, MEMORY)}, columns=3)


ILLUSTRATIONS = {
    illustration.id: illustration
    for illustration in (
        Illustration(
            id="figures/world-model",
            title="World model",
            artefact="Fig. 1",
            caption="From observation and action to the next observation; red: GateL0RD's cell (sizes: RRC)",
            draw=world_model,
        ),
        Illustration(
            id="figures/worlds",
            title="The worlds",
            artefact="Fig. 2",
            caption="All worlds, drawn by this package's environments",
            draw=scenarios,
        ),
        Illustration(
            id="figures/shepherd",
            title="Shepherd",
            artefact="Fig. 8",
            caption="Shepherd, in the middle of an episode",
            draw=shepherd,
        ),
        Illustration(
            id="figures/agent", title="Agent", artefact="Fig. 9", caption="Actor-critic on a memory", draw=agent
        ),
        Illustration(
            id="figures/minigrid",
            title="MiniGrid",
            artefact="Fig. 10",
            caption="The six environments of Fig. 6 (seed 1)",
            draw=minigrid_environments,
        ),
    )
}
