"""Recordings for models that were fitted before, with the columns that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.recordings.reading import Layout, MissingColumnError, RecordingError, Recordings, read_recordings

if TYPE_CHECKING:
    from gatel0rd.models.fitted import FittedModel

Named = tuple[str, "FittedModel"]


def read_for_models(
    models: Sequence[Named], source: str, *, sequence: str | None = None, time: str | None = None
) -> Recordings:
    """Read recordings with all columns that any of the models needs, as those were read that they were fitted to.

    Args:
        models: names, for messages, and models; their columns may differ.
        source: as for :func:`~gatel0rd.recordings.reading.read_recordings`.
        sequence, time: columns with these roles, where they are not called as they were in the fit.
    """
    observed = tuple(dict.fromkeys(name for _, model in models for name in model.observation_names))
    every = dict.fromkeys(name for _, model in models for name in model.action_names)
    acted = tuple(name for name in every if name not in observed)
    is_table = not source.startswith("minari:") and not source.endswith(".npz")
    is_wide = any(model.info.get("layout", {}).get("wide") for _, model in models)
    layout = Layout(
        sequence=sequence or (_shared_column(models, "sequence") if is_table else None),
        time=time or (_shared_column(models, "time") if is_table else None),
        # the columns of a wide table are not called as the models', but level_0, level_1, ... for level
        observations=() if is_wide else observed,
        actions=() if is_wide else acted,
    )
    try:
        recordings = read_recordings(source, layout, keep_constant=True)
    except MissingColumnError as error:
        raise RecordingError(f"{error}{_explain(models, error.column)}") from error
    for name, model in models:  # where the layout does not name them
        recordings.aligned(model.observation_names, model.action_names, f"model {name}")
    return recordings.aligned(observed, acted, "the models")


def _shared_column(models: Sequence[Named], role: str) -> str | None:
    """The column that the models' own data had in a role; those that name none take that of the others."""
    columns = {name: model.info.get("layout", {}).get(role) for name, model in models}
    named = {name: column for name, column in columns.items() if column is not None}
    if len(set(named.values())) > 1:
        found = ", ".join(f"{column} for {name}" for name, column in named.items())
        raise RecordingError(f"the models name different columns for the {role} ({found}); choose one with --{role}")
    return next(iter(named.values()), None)


def _explain(models: Sequence[Named], column: str) -> str:
    """Which models need a column."""
    needing = [(name, [*model.observation_names, *model.action_names]) for name, model in models]
    return "".join(
        f"; model {name} was trained on {', '.join(columns)}" for name, columns in needing if column in columns
    )
