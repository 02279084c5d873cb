"""Gymnasium environments. ``import gatel0rd.envs`` registers them."""

from __future__ import annotations

import gymnasium

__all__ = ["register"]


def register() -> None:
    """Make the environments known to ``gymnasium.make``; does nothing the second time."""
    name = "gatel0rd/RobotRemoteControl-v0"
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point="gatel0rd.envs.robot_remote_control:RobotRemoteControl",
            max_episode_steps=50,
        )


register()
