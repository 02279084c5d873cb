"""How large a run is: from seconds for tests to the paper's scale. The sampling schedule shrinks in proportion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A share of the paper's epochs and data.

    Attributes:
        epochs: absolute number of epochs, or a share of the paper's if it is below 1 (or exactly 1.0: all of them).
        sequences: cap on the size of every data set (None: the paper's).
        evaluations: how many points the curves have.
    """

    name: str
    description: str
    epochs: float
    sequences: int | None
    evaluations: int

    def scale_epochs(self, paper_epochs: int) -> int:
        """Epochs to train when the paper trains ``paper_epochs``."""
        return max(1, round(self.epochs * paper_epochs)) if self.epochs <= 1 else int(self.epochs)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(name="smoke", description="seconds, for tests", epochs=4, sequences=256, evaluations=4),
        Profile(name="demo", description="some minutes on two cores", epochs=0.01, sequences=None, evaluations=25),
        Profile(name="quick", description="minutes per run", epochs=0.02, sequences=None, evaluations=25),
        Profile(name="paper", description="the paper's scale", epochs=1.0, sequences=None, evaluations=50),
    )
}


def compressed_decay(decay: float, epochs: int, paper_epochs: int) -> float:
    """The decay with which sampling probabilities fall over ``epochs`` as they do over ``paper_epochs``."""
    return float(decay ** (paper_epochs / epochs))
