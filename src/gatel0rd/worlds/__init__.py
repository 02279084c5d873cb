"""The paper's worlds, and how worlds of your own join them. ``import gatel0rd.worlds`` registers the environments."""

from gatel0rd.worlds.base import EnvironmentSpec, Thing, World
from gatel0rd.worlds.billiard_ball import BilliardBallWorld
from gatel0rd.worlds.fetch_pick_and_place import FetchDiverseWorld, FetchWorld
from gatel0rd.worlds.memory import MemoryWorld, register_environments
from gatel0rd.worlds.minigrid import MiniGridWorld
from gatel0rd.worlds.registry import all_worlds, get, names, register, register_environment, unregister
from gatel0rd.worlds.robot_remote_control import RobotRemoteControlWorld
from gatel0rd.worlds.shepherd import ShepherdWorld

__all__ = ["EnvironmentSpec", "Thing", "World", "all_worlds", "get", "names", "register", "unregister"]

register(BilliardBallWorld())
register(RobotRemoteControlWorld())
register(ShepherdWorld())
register(FetchWorld())
register(FetchDiverseWorld())
register(MiniGridWorld())
# no worlds of the paper: how long memories last, and a test of whether an agent has a memory
register(MemoryWorld())
register_environments()
register_environment(
    EnvironmentSpec(id="gatel0rd/Recall-v0", entry_point="gatel0rd.worlds.recall:Recall", time_limit=100)
)
