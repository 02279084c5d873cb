"""What is planned in which world."""

from __future__ import annotations

from gatel0rd.planning import World
from gatel0rd.worlds.fetch_pick_and_place.task import Placing
from gatel0rd.worlds.robot_remote_control.task import RemoteControl
from gatel0rd.worlds.shepherd.task import Herding

WORLDS: dict[str, type[World]] = {"rrc": RemoteControl, "shepherd": Herding, "fetch": Placing, "fetch-diverse": Placing}
"""Scenario name -> what is planned in it."""
