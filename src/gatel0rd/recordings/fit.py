"""Fit models of recordings: the number of transitions first, then one model, or several that vote on its events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gatel0rd.engine import EngineName
from gatel0rd.files import exclusive
from gatel0rd.models.fitted import FittedModel
from gatel0rd.models.io import load_fitted
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fitter import Fitter
from gatel0rd.recordings.pilots import choose_transitions
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.training.loop import OnMetrics, ignore_metrics

VOTERS = "voters"
"""Folder, below a model's, of the fits with other seeds."""


def fit(
    recordings: Recordings,
    config: FitConfig,
    directory: Path,
    *,
    engine: EngineName = "auto",
    on_round: OnMetrics = ignore_metrics,
    seeds: int = 1,
) -> FittedModel:
    """Fit a model to recordings, and write it to ``directory``; an interrupted fit resumes there.

    One that has ended continues if it is given more rounds. The learning rate then rises once more, so that it ends
    otherwise than a fit that was given all of them at once. Another process that uses the directory is an error.

    Args:
        seeds: how many models are fitted, each from another seed and with another validation part. The first one is
            returned; the others vote on its boundaries, and :func:`load_voters` finds them.
    """
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}; expected at least 1")
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; expected the name of a directory for the model")
    with exclusive(directory):
        config = choose_transitions(recordings, config, directory, engine=engine)
        fitted = Fitter(recordings, config, directory, engine=engine).run(on_round)
        for number in range(1, seeds):
            own = replace(config, seed=config.seed + number)
            Fitter(recordings, own, directory / VOTERS / str(number), engine=engine).run(on_round)
    return fitted


def load_voters(directory: Path) -> list[FittedModel]:
    """The fits with other seeds that were made together with the one in a directory."""
    places = sorted((directory / VOTERS).glob("*/model.json"), key=lambda path: int(path.parent.name))
    return [load_fitted(path.parent) for path in places]
