"""How large a run is: from seconds for tests to the paper's scale. The sampling schedule shrinks in proportion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A share of the paper's epochs and data, so that a run takes about as long in every world.

    Attributes:
        epoch_share: epochs as a share of the paper's.
        scenario_shares: other shares for some scenarios, by name.
        most_epochs: upper limit on epochs.
        sequences: upper limit on the size of every data set.
        scenario_sequences: other limits for some scenarios, by name.
        evaluations: how many points the curves have; None: one every 100 epochs, as in the paper.
        episodes, course_episodes: how many episodes are planned with the trained model, and with each one from the
            course of training, where there is planning; ``episodes`` is also how often an agent is tried out.
        frame_share, most_frames: frames of agents, as a share of the whole and at most.
        trial_points: how often an agent is tried out in the course of training.
    """

    name: str
    description: str
    epoch_share: float = 1.0
    scenario_shares: Mapping[str, float] = field(default_factory=dict)
    most_epochs: int | None = None
    sequences: int | None = None
    scenario_sequences: Mapping[str, int] = field(default_factory=dict)
    evaluations: int | None = None
    episodes: int = 100
    course_episodes: int = 100
    frame_share: float = 1.0
    most_frames: int | None = None
    trial_points: int = 10

    def scale_epochs(self, paper_epochs: int, scenario: str) -> int:
        """Epochs to train in a scenario when the paper trains ``paper_epochs``."""
        epochs = max(1, round(self.scenario_shares.get(scenario, self.epoch_share) * paper_epochs))
        return epochs if self.most_epochs is None else min(epochs, self.most_epochs)

    def limit_sequences(self, sequences: int, scenario: str) -> int:
        """The size of a data set that has ``sequences`` in the paper."""
        limit = self.scenario_sequences.get(scenario, self.sequences)
        return sequences if limit is None else min(sequences, limit)

    def scale_frames(self, frames: int) -> int:
        """Frames of an agent that is trained on ``frames`` at full length."""
        scaled = max(1, round(self.frame_share * frames))
        return scaled if self.most_frames is None else min(scaled, self.most_frames)

    def evaluate_every(self, epochs: int) -> int:
        """Epochs between evaluations of a run of ``epochs``."""
        return 100 if self.evaluations is None else max(1, epochs // self.evaluations)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="smoke",
            description="seconds, for tests",
            most_epochs=4,
            sequences=256,
            scenario_sequences={"fetch": 32, "fetch-diverse": 32},
            evaluations=4,
            episodes=2,
            course_episodes=1,
            most_frames=2048,
            trial_points=1,
        ),
        Profile(
            name="demo",
            description="a minute or two per run",
            epoch_share=0.2,
            scenario_shares={"billiard": 0.03, "shepherd": 0.015},
            scenario_sequences={"fetch-diverse": 640},
            evaluations=25,
            episodes=20,
            course_episodes=10,
            frame_share=0.1,
            trial_points=4,
        ),
        Profile(
            name="quick",
            description="four to eight minutes per run, a quarter of an hour for some agents",
            epoch_share=0.5,
            scenario_shares={"billiard": 0.1, "shepherd": 0.05, "fetch-diverse": 0.1},
            scenario_sequences={"fetch-diverse": 3200},
            evaluations=25,
            course_episodes=30,
            frame_share=0.3,
            trial_points=5,
        ),
        Profile(name="paper", description="the paper's scale"),
    )
}


def compressed_decay(decay: float, epochs: int, paper_epochs: int) -> float:
    """The decay with which sampling probabilities fall over ``epochs`` as they do over ``paper_epochs``."""
    return float(decay ** (paper_epochs / epochs))
