"""The worlds that can be driven live, and how."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from gatel0rd.worlds.steering import Shot, Steering, Toggle

PICTURE_HEIGHT = 360


@dataclass(frozen=True)
class LiveWorld:
    """A world's title, its environment's module and class, and its steering."""

    title: str
    module: str
    environment: str
    steering: Steering
    has_presets: bool = False


WORLDS = {
    "rrc": LiveWorld(
        "Robot Remote Control",
        "robot_remote_control",
        "RobotRemoteControl",
        Steering(
            help="The arrow keys move the agent; reach the computer, then drive the robot to the goal.",
            waiting="The agent waits.",
            keys={"ArrowLeft": (-1, 0), "ArrowUp": (0, 1), "ArrowDown": (0, -1), "ArrowRight": (1, 0)},
            messages={"controlled": ("the agent is at the computer: from now on the robot moves along", None)},
            ended="the robot reached its goal",
        ),
    ),
    "shepherd": LiveWorld(
        "Shepherd",
        "shepherd",
        "Shepherd",
        Steering(
            help="The arrow keys move the agent, space takes or puts down the cage, and a full stop waits one step.",
            waiting="The agent waits.",
            keys={"ArrowLeft": (-1, 0, 0), "ArrowUp": (0, 1, 0), "ArrowDown": (0, -1, 0), "ArrowRight": (1, 0, 0)},
            toggles={" ": Toggle(index=2, status="carried", on="holding the cage", off="hands free")},
            wait_key=".",
            may_run=True,
            messages={
                "hidden": ("the sheep is hidden behind the wall", "the sheep came out"),
                "gate_open": ("the agent is at the lever: the gate is open", None),
                "carried": ("the agent took the cage", "the agent put the cage down"),
                "caught": ("the sheep is caught", None),
            },
        ),
        has_presets=True,
    ),
    "billiard": LiveWorld(
        "Billiard Ball",
        "billiard_ball",
        "BilliardBall",
        Steering(
            help="Click to place the ball; drag to shoot it in that direction.",
            waiting="The ball waits.",
            may_run=True,
            shot=Shot(
                place="position",
                velocity="velocity",
                half_picture=(1.09, 1.18),
                reach=(0.96, 0.93),
                speed=(2.0, 1.0),
                fastest=2.0,
                stopped="pocketed",
            ),
            messages={
                "cushion": ("the ball hit a cushion", None),
                "pocketed": ("the ball fell into a pocket", None),
            },
        ),
    ),
}


def title_of(scenario: str) -> str:
    """What a scenario is called."""
    return WORLDS[scenario].title


def steering_of(scenario: str | None) -> Steering | None:
    """How a scenario is driven; None if it cannot be."""
    return WORLDS[scenario].steering if scenario in WORLDS else None


def make_environment(scenario: str, preset: str) -> Any:
    """The environment of a scenario, which renders to arrays."""
    world = WORLDS[scenario]
    module = importlib.import_module(f"gatel0rd.worlds.{world.module}.env")
    arguments = {"preset": preset} if world.has_presets else {}
    return getattr(module, world.environment)(render_mode="rgb_array", render_size=PICTURE_HEIGHT, **arguments)
