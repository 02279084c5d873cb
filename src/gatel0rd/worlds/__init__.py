"""Gymnasium environments. ``import gatel0rd.worlds`` registers them."""

from __future__ import annotations

import contextlib

__all__ = ["STEPS", "register"]

STEPS = {
    "robot_remote_control.env:RobotRemoteControl": 50,
    "billiard_ball.env:BilliardBall": 150,
    "shepherd.env:Shepherd": 60,
    "fetch_pick_and_place.env:FetchPickAndPlace": 50,
}
"""Module and class -> time limit of an episode; the class's name is the environment's."""
TESTS = {"recall:Recall": 100}
"""Not of the paper: what shows whether an agent has a memory."""


def register() -> None:
    """Make the environments known to ``gymnasium.make``; does nothing the second time."""
    import gymnasium

    for place, steps in {**STEPS, **TESTS}.items():
        name = f"gatel0rd/{place.partition(':')[2]}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"gatel0rd.worlds.{place}", max_episode_steps=steps)


with contextlib.suppress(ModuleNotFoundError):  # data and experiments need no Gymnasium
    register()
