"""Recordings for models that were fitted before, with the columns that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gatel0rd.config import from_json
from gatel0rd.recordings.layout import Categories, Layout, MissingColumnError, RecordingError, list_names
from gatel0rd.recordings.reading import MINARI, TABLES, Source, read_recordings
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.tables import SEQUENCE_NAMES, TIME_NAMES

if TYPE_CHECKING:
    from gatel0rd.models.fitted import FittedModel

NamedModel = tuple[str, "FittedModel"]


def read_for_model(
    model: FittedModel, source: Source, *, sequence: str | None = None, time: str | None = None
) -> Recordings:
    """Recordings with the columns that a model needs; see :func:`read_for_models`.

    Example:
        >>> import numpy as np
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.models.fitted import wrap_model
        >>> from gatel0rd.recordings import read_for_model
        >>> model = wrap_model(WorldModel(WorldModelConfig(observation_size=2, action_size=1)))
        >>> np.savez("recordings.npz", observations=np.random.rand(5, 20, 2), actions=np.random.rand(5, 20, 1))
        >>> len(read_for_model(model, "recordings.npz"))
        5
    """
    return read_for_models([("of this fit", model)], source, sequence=sequence, time=time)


def read_for_models(
    models: Sequence[NamedModel], source: Source, *, sequence: str | None = None, time: str | None = None
) -> Recordings:
    """Read recordings with all columns that any of the models needs, laid out as those that they were fitted to.

    Args:
        models: names, for messages, and models; their columns may differ.
        source: as for :func:`~gatel0rd.recordings.reading.read_recordings`.
        sequence, time: columns with these roles, where they are called otherwise than in the data of the fit.

    Example:
        >>> import numpy as np
        >>> from gatel0rd import CellConfig, WorldModel, WorldModelConfig
        >>> from gatel0rd.models.fitted import wrap_model
        >>> from gatel0rd.recordings import read_for_models
        >>> config = WorldModelConfig(observation_size=2, action_size=1)
        >>> models = [("first", wrap_model(WorldModel(config))), ("second", wrap_model(WorldModel(config)))]
        >>> np.savez("recordings.npz", observations=np.random.rand(5, 20, 2), actions=np.random.rand(5, 20, 1))
        >>> read_for_models(models, "recordings.npz").observation_names
        ('x0', 'x1')
    """
    observed = tuple(dict.fromkeys(name for _, model in models for name in model.observation_names))
    every = dict.fromkeys(name for _, model in models for name in model.action_names)
    acted = tuple(name for name in every if name not in observed)
    layouts = {name: keep_what_fits(from_json(Layout, model.info.get("layout", {})), source) for name, model in models}
    categories = share_categories({name: layout.categories for name, layout in layouts.items()})
    if len({layout.same_row for layout in layouts.values()}) > 1:
        moved = list_names([name for name, layout in layouts.items() if layout.same_row])
        raise RecordingError(f"actions were moved up by one row for {moved} only (--same-row); look at others apart")
    columns = {encoded: entry.column for entry in categories for encoded in entry.names}
    is_wide = any(layout.wide for layout in layouts.values())
    sequence = sequence or share_column(layouts, "sequence")
    time = time or share_column(layouts, "time")
    needed = {*name_columns((*observed, *acted), columns), sequence, time}
    check_ignored(layouts, needed)
    layout = Layout(
        sequence=sequence,
        time=time,
        # or else a column of time would be found by its name once more, and the rows be resampled
        left_out=tuple(name for name in find_ignored(layouts) if name not in needed),
        # the columns of a wide table have other names than the models', such as level_0 for level
        observations=() if is_wide else name_columns(observed, columns),
        actions=() if is_wide else name_columns(acted, columns),
        categories=tuple(entry for entry in categories if {*entry.names} & {*observed, *acted}),
        same_row=any(layout.same_row for layout in layouts.values()),
    )
    try:
        recordings = read_recordings(source, layout, keep_constant=True)
    except MissingColumnError as error:
        raise RecordingError(f"{error}{explain_need(models, error.column)}") from error
    for name, model in models:  # where the layout does not name them
        recordings.select_columns(model.observation_names, model.action_names, f"model {name}")
    return recordings.select_columns(observed, acted, "the models")


def name_columns(names: Sequence[str], columns: dict[str, str]) -> tuple[str, ...]:
    """The columns of a table that a model's columns are made of, each once."""
    return tuple(dict.fromkeys(columns.get(name, name) for name in names))


def keep_what_fits(layout: Layout, source: Source) -> Layout:
    """What the layout of one file says about another: arrays have no columns that order or name rows."""
    first = source if isinstance(source, (str, Path)) else next(iter(source), "")
    is_table = not str(first).startswith(MINARI) and Path(first).suffix.lower() in TABLES
    if is_table or (layout.wide is None and not str(first).startswith(MINARI)):
        return layout
    return Layout(same_row=layout.same_row)


def share_categories(found: dict[str, tuple[Categories, ...]]) -> list[Categories]:
    """The categories of the models' columns, which have to be the same."""
    shared: dict[str, tuple[str, Categories]] = {}
    for name, entries in found.items():
        for entry in entries:
            other, known = shared.setdefault(entry.column, (name, entry))
            if known != entry:
                raise RecordingError(
                    f"models {other} and {name} know different categories of column {entry.column!r} "
                    f"({list_names(known.values)}; {list_names(entry.values)}); look at one of them at a time"
                )
    return [entry for _, entry in shared.values()]


def share_column(layouts: dict[str, Layout], role: Literal["sequence", "time"]) -> str | None:
    """The column that the models' own data had in a role; models that name none take that of the others."""
    columns = {name: layout.sequence if role == "sequence" else layout.time for name, layout in layouts.items()}
    named = {name: column for name, column in columns.items() if column is not None}
    if len(set(named.values())) > 1:
        found = ", ".join(f"{column} for {name}" for name, column in named.items())
        raise RecordingError(f"the models name different columns for the {role} ({found}); choose one with --{role}")
    shared = next(iter(named.values()), None)
    if shared in (ignored := find_ignored(layouts)):
        without = list_names(ignored[shared])
        raise RecordingError(
            f"column {shared!r} is the {role} for {list_names(list(named))} and was left out for {without}; "
            f"look at one of them at a time, or say --{role} {shared}"
        )
    return shared


def check_ignored(layouts: dict[str, Layout], needed: Iterable[str | None]) -> None:
    """A column that orders or names rows by its name is left out for all models, or for none."""
    for column, models in find_ignored(layouts).items():
        role = "sequence" if column.lower() in SEQUENCE_NAMES else "time" if column.lower() in TIME_NAMES else None
        others = [name for name in layouts if name not in models]
        if role and others and column not in needed:
            raise RecordingError(
                f"column {column!r} was left out for {list_names(models)}, but is the {role} for {list_names(others)}; "
                f"look at one of them at a time, or say --{role} {column}"
            )


def find_ignored(layouts: dict[str, Layout]) -> dict[str, list[str]]:
    """The columns that were left out of the models' own data, and for which models."""
    found: dict[str, list[str]] = {}
    for name, layout in layouts.items():
        for column in dict.fromkeys((*layout.ignored, *layout.left_out)):
            found.setdefault(column, []).append(name)
    return found


def explain_need(models: Sequence[NamedModel], column: str) -> str:
    """Which models need a column."""
    needing = [(name, [*model.observation_names, *model.action_names]) for name, model in models]
    return "".join(
        f"; model {name} was trained on {list_names(columns)}" for name, columns in needing if column in columns
    )
