"""What the ways of executing runs have in common: the work on a run, what is told of it, and a small interface."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from gatel0rd.errors import is_out_of_memory
from gatel0rd.paper.profiles import Profile
from gatel0rd.paper.run import Run
from gatel0rd.training.recipe import DataRecipe

RETRIES = 3
"""How often a run is started again whose process or node died."""
TELL_SECONDS = 1.0
"""How often a run on a cluster says how far it is."""
POLL_SECONDS = 0.5
"""How often a cluster is asked what is new."""
CLUSTER_PATIENCE = 180.0
"""How long a retried run waits until the lock of its dead predecessor is given up, which takes file servers a while."""

Topic = Literal["progressed", "planned"]
"""What a run tells about itself: an epoch or update, or steps of planning."""
Tell = Callable[[Topic, tuple[Any, ...]], None]


class Display(Protocol):
    """Shows how runs are doing."""

    def generated(self, recipe: DataRecipe, done: int, total: int) -> None: ...

    def started(self, index: int, run: Run) -> None: ...

    def progressed(self, index: int, metrics: dict[str, Any]) -> None: ...

    def planned(self, index: int, done: int, total: int) -> None: ...

    def retried(self, index: int, reason: str) -> None: ...

    def ended(self, index: int, error: str | None) -> None: ...


@dataclass(frozen=True)
class Failure:
    """A run that did not finish, and why."""

    run: Run
    error: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is done with every run.

    Attributes:
        out: where runs and data go.
        resume: continue runs that were interrupted.
        planning: after training, plan as many episodes as this profile says with the run's models.
        planned: names of the runs whose models are planned with; all if not given.
        patience: seconds to wait for a predecessor that died a moment ago and may still hold a run's directory.
    """

    out: Path
    resume: bool = False
    planning: Profile | None = None
    planned: frozenset[str] | None = None
    patience: float = 10.0

    def planning_of(self, run: Run) -> Profile | None:
        """How much is planned with this run's models."""
        return self.planning if self.planned is None or run.directory_name in self.planned else None

    def do(self, run: Run, tell: Tell) -> None:
        """Train and plan."""
        from gatel0rd.files import exclusive

        with exclusive(self.out / run.directory_name, self.patience):
            pass
        planning = self.planning_of(run)
        directory = run.execute(
            self.out,
            resume=self.resume,
            again=self.lost_models(run),
            on_metrics=lambda metrics: tell("progressed", (metrics,)),
        )
        if planning is not None and self._has_models(run):  # or all is planned already
            run.plan_episodes(directory, planning, lambda done, total: tell("planned", (done, total)))

    def remaining_seconds(self, run: Run) -> float:
        """About how long one core is busy with a run; 0 if all is done."""
        planning, trains = self.planning_of(run), self.must_train(run)
        seconds = run.estimate_seconds() if trains else 0.0
        if planning is None or (not trains and run.is_planned(self.out, planning)):
            return seconds
        return seconds + run.estimate_planning_seconds(planning)

    def must_train(self, run: Run) -> bool:
        """Whether a run is not finished, or has to be trained again to plan with it."""
        return not run.is_finished(self.out) or self.lost_models(run)

    def lost_models(self, run: Run) -> bool:
        """Whether a run is finished, but has no models any more to plan with, as on another machine."""
        planning = self.planning_of(run)
        if planning is None or not run.is_finished(self.out) or run.is_planned(self.out, planning):
            return False
        return not self._has_models(run)

    def _has_models(self, run: Run) -> bool:
        from gatel0rd.models.io import MODEL_FILE

        return (self.out / run.directory_name / MODEL_FILE).exists()


@dataclass(frozen=True)
class Started:
    """A run is being worked on."""

    index: int


@dataclass(frozen=True)
class Told:
    """A run says something about itself."""

    index: int
    topic: Topic
    content: Sequence[Any]


@dataclass(frozen=True)
class Ended:
    """A run is finished, or failed with an error."""

    index: int
    error: str | None


@dataclass(frozen=True)
class Died:
    """The process or node that worked on a run is gone; the run can be started again."""

    index: int
    reason: str


Event = Started | Told | Ended | Died


class Busy(Exception):
    """No run can be submitted at the moment; the message says why."""


class Executor(ABC):
    """Does the work on runs somewhere. Runs are known by their number in the plan.

    It is entered before the first call and left after the last one.

    Attributes:
        capacity: how many runs it takes at once.
    """

    capacity: int

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def recover(self) -> Iterable[int]:
        """Runs that a predecessor submitted, and that are still being worked on."""
        return ()

    @abstractmethod
    def submit(self, index: int, *, again: bool) -> None:
        """Begin with a run, or begin ``again`` after it died; raises :class:`Busy` if that is not possible now."""

    @abstractmethod
    def wait(self, tell: Callable[[Event], None]) -> None:
        """Wait a while for something to happen, and tell it."""


class Throttle:
    """Passes on what a run tells, but only the latest and not all the time."""

    def __init__(self, send: Tell) -> None:
        self.send, self.last = send, 0.0

    def __call__(self, topic: Topic, content: tuple[Any, ...]) -> None:
        if time.monotonic() - self.last >= TELL_SECONDS:
            self.last = time.monotonic()
            self.send(topic, content)


def describe_error(exception: Exception) -> str:
    """The message of an error that was foreseen, the whole traceback of one that was not."""
    if is_out_of_memory(exception):
        return f"there is not enough memory for this; let fewer runs share it, as with --workers 1 ({exception})"
    foreseen = isinstance(exception, (ValueError, RuntimeError, OSError)) and str(exception)
    return str(exception) if foreseen else "".join(traceback.format_exception(exception))
