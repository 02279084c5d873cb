"""How large a run is: from seconds for tests to the paper's scale. The sampling schedule shrinks in proportion."""

from __future__ import annotations

from dataclasses import dataclass

from gatel0rd.worlds.experiments import Scenario


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A share of the paper's epochs and data. Worlds set other shares, so that a run takes about as long in each.

    Attributes:
        epoch_share: epochs as a share of the paper's.
        most_epochs: upper limit on epochs.
        sequences: upper limit on the size of every data set.
        evaluations: how many points the curves have; None: one every 100 epochs, as in the paper.
        episodes, course_episodes: how many episodes are planned with the trained model, and with each one from the
            course of training, where there is planning; ``episodes`` is also how often an agent is tried out.
        frame_share, most_frames: frames of agents, as a share of the whole and at most.
        trial_points: how often an agent is tried out in the course of training.
    """

    name: str
    description: str
    epoch_share: float = 1.0
    most_epochs: int | None = None
    sequences: int | None = None
    evaluations: int | None = None
    episodes: int = 100
    course_episodes: int = 100
    frame_share: float = 1.0
    most_frames: int | None = None
    trial_points: int = 10

    def scale_epochs(self, paper_epochs: int, scenario: Scenario) -> int:
        """Epochs to train in a scenario when the paper trains ``paper_epochs``."""
        epochs = max(1, round(scenario.epoch_shares.get(self.name, self.epoch_share) * paper_epochs))
        return epochs if self.most_epochs is None else min(epochs, self.most_epochs)

    def limit_sequences(self, split: str, scenario: Scenario) -> int:
        """The size of a split of a scenario's data."""
        sequences, limit = scenario.splits[split], scenario.sequence_limits.get(self.name, self.sequences)
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
