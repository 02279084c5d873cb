"""What every training run offers, whatever it trains: an identity, a title, an estimate, and the training itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from gatel0rd.config import content_hash, to_json
from gatel0rd.files import FileError
from gatel0rd.training.presets import AgentPreset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.experiments import LengthUnit

if TYPE_CHECKING:
    from gatel0rd.paper.profiles import Profile
    from gatel0rd.training.vector_env import BackendName

SCHEMA = 3
"""Version of runs and records. Raise it when a field of a run is added, renamed or removed, and say in
:mod:`gatel0rd.paper.migrate` how older records become those of this version."""
RunKind = Literal["world model", "agent", "memory"]
Metrics = dict[str, Any]
OnMetrics = Callable[[Metrics], None]
OnStep = Callable[[int, int], None]
CELL_TITLES = {"gatel0rd": "GateL0RD", "elman": "Elman RNN", "clockwork": "Clockwork RNN"}


def title_network(name: str) -> str:
    """The name of a cell for people; without Greek letters, which Pillow's own font does not have."""
    return CELL_TITLES.get(name, name.upper())


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large runs are, and by which rules.

    Attributes:
        profile: its name.
        length: epochs or frames that replace the profile's.
    """

    profile: str
    length: int | None
    unit: LengthUnit
    preset: AgentPreset

    @property
    def words(self) -> str:
        """The profile, and what replaced its length."""
        return self.profile if self.length is None else f"{self.profile}, {self.length} {self.unit}"

    @property
    def slug(self) -> str:
        """The same with the preset, for file names and links."""
        length = "" if self.length is None else f"-{self.length}-{self.unit}"
        return f"{self.profile}{length}-{self.preset}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run leaves in addition to its files.

    Attributes:
        parameters: how many the trained network has.
        seconds: of training, attempts that were interrupted included.
        curves: columns over epochs or frames.
        final: what was measured after training: data set or environment -> measure -> value.
        measures: what else was measured, if anything.
        machine: what else there is to say about it.
    """

    parameters: int
    seconds: float
    curves: dict[str, list[Any]]
    final: dict[str, Any]
    measures: dict[str, Any] | None = None
    machine: dict[str, str] | None = None


class Follower(Protocol):
    """Reads the metrics of one run as they come in."""

    def read(self, metrics: Metrics) -> Reading: ...


@dataclass(frozen=True)
class Reading:
    """How far a run is.

    Attributes:
        done: in what the run's length is counted in.
        words: how it is doing.
        line: a line for a log file, if this moment is worth one.
    """

    done: int
    words: str
    line: str | None = None


@dataclass(frozen=True, kw_only=True)
class Run(ABC):
    """One training run, completely: equal configurations are the same run, whichever experiment asks for it.

    Attributes:
        profile, length_override: the scale at which it was planned, see :class:`Scale`; no part of what makes runs
            equal.
    """

    kind: ClassVar[RunKind]
    unit: ClassVar[LengthUnit]
    scenario: str
    preset: AgentPreset
    profile: str
    length_override: int | None = None
    seed: int

    @property
    def group(self) -> str:
        """What runs that differ in their seed only have in common."""
        same = to_json(replace(self, seed=0, profile="", length_override=None))
        return content_hash({"schema": SCHEMA, "kind": self.kind, **same})

    @property
    def directory_name(self) -> str:
        return f"{self.scenario}/{self.network}-seed{self.seed}-{self.group}"

    @property
    def scale(self) -> Scale:
        return Scale(profile=self.profile, length=self.length_override, unit=self.unit, preset=self.preset)

    @property
    @abstractmethod
    def network(self) -> str:
        """The name of the cell that is trained, or ``none``."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What tells a run from its neighbours, in a few words."""

    @property
    def network_title(self) -> str:
        """What is trained, for people."""
        return title_network(self.network)

    @property
    @abstractmethod
    def length(self) -> int:
        """How long the run is, in what its progress is counted in."""

    @property
    def share(self) -> float | None:
        """Gradient steps as a share of the paper's; None where the paper does not state them."""
        return None

    @property
    def recipes(self) -> tuple[DataRecipe, ...]:
        """The data sets that it needs."""
        return ()

    @abstractmethod
    def estimate_seconds(self) -> float:
        """About how long it is trained on one core."""

    def estimate_planning_seconds(self, profile: Profile) -> float:
        """About how long its models are planned with on one core."""
        return 0.0

    def is_finished(self, out: Path) -> bool:
        """Whether its record is there, undamaged."""
        from gatel0rd.paper.records import read_record

        path = out / self.directory_name / "record.json"
        if not path.exists():
            return False
        try:
            record = read_record(path)
        except FileError:  # executing it says what is wrong
            return False
        return record.group == self.group and record.seed == self.seed

    def is_planned(self, out: Path, profile: Profile) -> bool:
        """Whether its models were planned with as often as the profile asks for; so is what cannot be planned with."""
        return True

    def execute(
        self,
        out: Path,
        *,
        directory: Path | None = None,
        resume: bool = False,
        again: bool = False,
        backend: BackendName = "auto",
        on_metrics: OnMetrics = lambda metrics: None,
    ) -> Path:
        """Train, evaluate and write ``record.json``; a finished run is left as it is. Returns the run's directory.

        Args:
            out: where runs and data go.
            directory: the run's own; in ``out`` if not given.
            resume: continue a run that was interrupted.
            again: train a finished run once more; its record stays until there is a new one.
        """
        from gatel0rd.paper.execute import execute

        directory = out / self.directory_name if directory is None else directory
        return execute(
            self, directory, data=out / "data", resume=resume, again=again, backend=backend, on_metrics=on_metrics
        )

    @abstractmethod
    def train_network(self, directory: Path, *, data: Path, backend: BackendName, on_metrics: OnMetrics) -> Outcome:
        """Train and evaluate, or resume that, and leave the trained network in the directory.

        Args:
            data: where data sets are, or are put.
            backend: which software runs environments, where there are any.
            on_metrics: sees the metrics of every epoch or update.
        """

    def plan_episodes(self, directory: Path, profile: Profile, on_step: OnStep) -> None:
        """Plan with its models, where that is possible; the outcome goes into the record."""
        return

    @abstractmethod
    def follow(self) -> Follower:
        """Something that reads its metrics for people."""
